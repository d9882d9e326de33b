"""Sources and pipelines of every witness shape, sealed, for the tests of sealing."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import whence
from whence import Archive

REF = [("1", "aat"), ("2", "ccg")]
INPUT = [("ccg",), ("aat",)]
SALES = [
    (1, "n", 5, [1, 2]),
    (2, "n", 7, []),
    (3, "s", 7, [3]),
    (4, "s", 1, None),
    (5, None, 2, [4]),
]

JOIN = "SELECT * FROM ref NATURAL JOIN input WHERE sequence = 'aat'"
SHAPES = {
    "join": JOIN,
    "left": "SELECT * FROM ref LEFT JOIN (SELECT * FROM input WHERE sequence = 'ccg') "
    "USING (sequence)",
    "union": "SELECT sequence FROM ref UNION ALL SELECT sequence FROM input",
    "group": "SELECT area, count(*) AS n, max(amount) AS top FROM sales GROUP BY area",
    "groups": "SELECT max(n) FROM (SELECT area, count(*) AS n FROM sales GROUP BY area)",
    "window": "SELECT id, sum(amount) OVER (PARTITION BY area ORDER BY amount) AS run FROM sales",
    "semi": "SELECT * FROM ref WHERE sequence IN (SELECT sequence FROM input)",
    "items": "SELECT id, item FROM sales LATERAL VIEW explode(items) AS item",
    "scalar": "SELECT id, amount - (SELECT min(amount) FROM sales) AS more FROM sales",
    "empty": "SELECT count(*) AS n FROM sales WHERE id > 100",
}


@dataclass(frozen=True)
class Vault:
    """A folder with sources and a sealed archive."""

    folder: Path

    @property
    def location(self) -> Path:
        return self.folder / "archive"

    @property
    def archive(self) -> Archive:
        return whence.open(self.location)

    def copy(self, target: Path) -> Path:
        """A copy of the archive, to be tampered with."""
        shutil.copytree(self.location, target)
        return target

    def files(self) -> list[Path]:
        return sorted(path for path in self.location.rglob("*") if path.is_file())


def write_sources(spark: Any, folder: Path) -> None:
    frames = {
        "ref": spark.createDataFrame(REF, "seqid string, sequence string"),
        "input": spark.createDataFrame(INPUT, "sequence string"),
        "sales": spark.createDataFrame(SALES, "id int, area string, amount int, items array<int>"),
    }
    for name, frame in frames.items():
        frame.coalesce(1).write.parquet(str(folder / name))
    use_sources(spark, folder)


def use_sources(spark: Any, folder: Path) -> None:
    for name in ("ref", "input", "sales"):
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)


def tokens(archive: Archive, *, form: str | None = None) -> list[str]:
    """The tokens of all nodes, or of those of one form."""
    return [node.token for node in archive.sealed.find(form=form, limit=10**9)]


def edges(archive: Archive) -> list[tuple[int, str, int | None, int, int, bool]]:
    """All edges: input, label in words, index, derived, times, contributes."""
    from whence.plan.labels import words

    table = archive.sealed.table
    rows = table.engine.run(
        f"SELECT input, label, index, derived, times, contributes FROM {table.edges} AS e "
        "ORDER BY derived, index, input"
    )
    return [(i, words(table.labels[n].text), x, d, t, c) for i, n, x, d, t, c in rows]
