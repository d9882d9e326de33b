"""Leaves: the source rows that a run uses, hashed, and the node that each of them is.

A row's own id follows from its file and its place in it. Rows that the scheme names alike are one
node: the first one's, or that of the row which is stored already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whence.archive import Dataset
from whence.trace.seal.formulas import ROW, START, placed, shortened
from whence.trace.seal.settings import FileRange
from whence.trace.seal.work import Work, union
from whence.trace.tables import LOCATOR, RECORD

_FEW = 400_000


class Leaves:
    """The leaf tables of one sealing, by dataset: locator, f (full hash), s (token), i (id)."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.tables: dict[str, str] = {}
        self.new: str | None = None
        """SQL that gives the nodes that are new."""
        self.few: set[str] = set()
        """Datasets of which few rows are used: they are handed to every task."""

    def add(self, datasets: Mapping[str, Dataset], used: Mapping[str, Sequence[str]]) -> None:
        """Make the tables of some datasets from the locators that are used, given as SQL."""
        if not datasets:
            return
        parts = []
        for number, (dataset, found) in enumerate(datasets.items()):
            ranges = self._work.ledger.ranges(dataset)
            hashed = self._hashed(found, ranges, union(used[dataset]))
            parts.append(f"SELECT {number} AS d, h.* FROM ({hashed}) AS h")
        table = self._work.engine.table("leaves", " UNION ALL ".join(parts))
        counts = self._work.engine.run(f"SELECT d, count(*) FROM {table} AS h GROUP BY d")
        names = list(datasets)
        self.few = {names[d] for d, rows in counts if rows <= _FEW} | (
            set(names) - {names[d] for d, _ in counts}
        )
        table = self._merged(table)
        columns = ", ".join((LOCATOR, *self._work.hashes, "true AS l", "i"))
        for number, dataset in enumerate(names):
            self.tables[dataset] = f"(SELECT {columns} FROM {table} AS h WHERE d = {number})"

    def _hashed(self, dataset: Dataset, ranges: Sequence[FileRange], used: str | None) -> str:
        """SQL: locator, full hash, token and id of a dataset's rows, or of those that are used."""
        work = self._work
        rows = work.engine.rows(dataset)
        if used is not None:
            rows = (
                f"(SELECT x.* FROM {rows} AS x {work.formulas.semi_join} {used} AS u "
                f"ON x.{LOCATOR} = u.locator)"
            )
        by_value = work.settings.scheme == "value" or dataset.kind == "range"
        full = work.formulas.source_row(work.engine.columns(dataset) if by_value else None)
        rows = placed(rows, ranges, work.settings.scheme)
        hashed = f"SELECT {LOCATOR}, {full} AS f, {START} + {ROW} AS i FROM ({rows}) AS {RECORD}"
        if work.settings.bits == 256:
            return hashed
        short = shortened("f", work.settings.bits)
        return f"SELECT {LOCATOR}, f, {short} AS s, i FROM ({hashed}) AS r"

    def _merged(self, table: str) -> str:
        """The table with equal rows as one node, and the nodes that are new noted."""
        work = self._work
        token = work.token
        found = self._moved(table)
        if found is None or work.engine.run(f"SELECT count(*) FROM {found} AS m") == [(0,)]:
            self._note(f"SELECT i AS id, 0 AS label, {token} AS digest FROM {table} AS h")
            return table
        columns = ", ".join(f"h.{name}" for name in ("d", LOCATOR, *work.hashes))
        table = work.engine.table(
            "leaves",
            f"SELECT {columns}, coalesce(m.i, h.i) AS i, coalesce(m.old, false) AS old "
            f"FROM {table} AS h LEFT JOIN {found} AS m ON h.f = m.f",
        )
        self._note(
            f"SELECT i AS id, 0 AS label, any_value({token}) AS digest FROM {table} AS h "
            "WHERE NOT old GROUP BY i"
        )
        return table

    def _moved(self, table: str) -> str | None:
        """A table of the hashes that rows share with others or with stored nodes: which node."""
        work = self._work
        parts = []
        if work.engine.alike(table, "f"):
            short = work.formulas.short("f")  # groups of numbers are made in half the time
            twice = f"SELECT {short} FROM {table} AS h GROUP BY 1 HAVING count(*) > 1"
            parts.append(
                f"SELECT f, min(i) AS i, false AS old FROM {table} AS h WHERE {short} IN ({twice}) "
                "GROUP BY f HAVING count(*) > 1"
            )
        if work.settings.leaf_digests and work.ledger.parts("nodes"):
            parts.append(f"SELECT f, i, true AS old FROM ({self._known(table)}) AS k")
        if not parts:
            return None
        return work.engine.table(
            "moved",
            f"SELECT f, CASE WHEN bool_or(old) THEN min(CASE WHEN old THEN i END) "
            f"ELSE min(i) END AS i, bool_or(old) AS old FROM {union(parts)} AS m GROUP BY f",
        )

    def _note(self, fresh: str) -> None:
        if self._work.settings.leaf_digests:
            self.new = fresh

    def _known(self, table: str) -> str:
        """SQL: full hash and node id of the rows that are stored already."""
        work = self._work
        nodes = work.engine.stored("nodes", work.ledger.parts("nodes"))
        token = work.token
        joined = (
            f"SELECT DISTINCT h.f, h.i AS own, n.id AS i FROM {table} AS h "
            f"JOIN {nodes} AS n ON n.label = 0 AND n.digest = h.{token}"
        )
        if work.settings.bits == 256:
            return f"SELECT f, min(i) AS i FROM ({joined}) AS k GROUP BY f"
        pairs = work.engine.table("pairs", joined)
        same = [f"SELECT f, i FROM {pairs} AS p WHERE own = i"]
        others = work.engine.run(f"SELECT DISTINCT i FROM {pairs} AS p WHERE own <> i")
        ids = [row[0] for row in others]
        for found, ranges in work.ledger.locate(ids) if ids else ():
            equal = self.recomputed(found, ranges, ids)
            same.append(
                f"SELECT p.f, p.i FROM {pairs} AS p JOIN ({equal}) AS e ON p.f = e.f AND p.i = e.i"
            )
        return f"SELECT f, min(i) AS i FROM {union(same)} AS k GROUP BY f"

    def recomputed(self, dataset: Dataset, ranges: Sequence[FileRange], ids: Sequence[int]) -> str:
        """SQL: hashes and id of stored rows, read again: short tokens alone do not tell."""
        listed = ", ".join(f"({i})" for i in ids)
        return (
            f"SELECT h.* FROM ({self._hashed(dataset, ranges, None)}) AS h "
            f"{self._work.formulas.semi_join} (VALUES {listed}) AS w(id) ON h.i = w.id"
        )
