"""Nodes and edges without what only forgotten runs used."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

from whence.archive import Dataset, layout
from whence.archive.sealer import Sealer
from whence.errors import ArchiveError
from whence.trace.closure import closure
from whence.trace.ptable import PTable
from whence.trace.tables import Tables, local, text

_ORDER = {"nodes": "id", "edges": "derived, index, input", "uses": "input, derived", "roots": "row"}
_LEAF = {"nodes": "id", "edges": "input", "uses": "input", "roots": "node"}
"""The column that may have the id of a source row."""
_KEPT = {"nodes": "id", "edges": "derived", "uses": "derived"}
"""The column whose node a row is kept for."""


def kept_nodes(table: PTable, going: set[str]) -> str:
    """A table with the ids of all nodes that the runs which stay are made of."""
    listed = ", ".join(text(run) for run in sorted(going)) or "''"
    start = table.engine.table(
        "start",
        f"SELECT DISTINCT node AS id FROM {table.roots} AS r "
        f"WHERE run NOT IN ({listed}) AND node IS NOT NULL",
    )
    return closure(table, start)


def rewritten(
    tables: Tables, table: PTable, kept: str, sealer: Sealer, going: Set[str], moved: str | None
) -> tuple[dict[str, Dataset | None], list[int]]:
    """What stands for each segment that changes, and the id ranges that no node is left of.

    Nodes that nobody needs go, and those in `moved` (a table `old`, `new`) get another id; `going`
    are the datasets that go.
    """
    archive = tables.archive
    replaced: dict[str, Dataset | None] = {}
    for dataset in archive.datasets():
        if dataset.kind not in _ORDER or not dataset.files or dataset.id in going:
            continue
        scan = tables.scan([local(path) for path in archive.file_paths(dataset)])
        column = _KEPT.get(dataset.kind)
        keep = f"{column} IN (SELECT id FROM {kept})" if column else "true"
        leaf = _LEAF[dataset.kind]
        other = f"{leaf} IN (SELECT old FROM {moved})" if moved else "false"
        total, left, changed = tables.one(
            f"SELECT count(*), count(*) FILTER ({keep}), count(*) FILTER ({other}) FROM {scan}"
        )
        if left == total and not changed:
            continue
        replaced[dataset.id] = None
        if left:
            query = f"SELECT * FROM {scan} WHERE {keep}"
            if moved:
                query = (
                    f"SELECT k.* REPLACE (coalesce(m.new, k.{leaf}) AS {leaf}) FROM ({query}) AS k "
                    f"LEFT JOIN {moved} AS m ON m.old = k.{leaf}"
                )
            query = f"{query} ORDER BY {_ORDER[dataset.kind]}"
            replaced[dataset.id] = _written(tables, sealer, dataset, query)
    return replaced, _empty(tables, table, kept, going)


def _empty(tables: Tables, table: PTable, kept: str, going: Set[str]) -> list[int]:
    """The starts of the id ranges of what goes, and of those that no node is left of.

    A range whose source stays may be where equal rows are found again some day.
    """
    used = {i for run in table.archive.runs() for step in run.steps for i in step.inputs}
    empty = []
    for row in table.ranges:
        if row.dataset in going:
            empty.append(row.start)
        elif row.dataset not in used:
            last = row.start + max(row.count, 1) - 1
            found = tables.run(
                f"SELECT 1 FROM {kept} WHERE id BETWEEN {row.start} AND {last} LIMIT 1"
            )
            if not found:
                empty.append(row.start)
    return empty


def _written(tables: Tables, sealer: Sealer, dataset: Dataset, query: str) -> Dataset:
    new, folder = sealer.folder()
    if not layout.is_local(folder):
        raise ArchiveError(
            "runs of an archive at a URL cannot be forgotten yet: its files are written by Spark"
        )
    Path(folder).mkdir(parents=True)
    path = f"{folder}/part-0.parquet"
    tables.run(
        f"COPY ({query}) TO {text(path)} (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION V2)"
    )
    return sealer.written(new, dataset.kind, dataset.properties)  # type: ignore[arg-type]
