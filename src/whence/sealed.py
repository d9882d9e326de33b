"""The sealed side of an archive, as `archive.sealed`: no JVM is started here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from whence.archive import Archive, Dataset, Run, forget, ledger
from whence.archive.seal import Seal, from_row
from whence.archive.sealer import Sealer
from whence.archive.signing import load_key
from whence.archive.verify import Verification
from whence.errors import SelectionError, SourceError, UnknownNameError
from whence.trace import usage
from whence.trace.closure import Direction, closure, compare
from whence.trace.prove import Prover
from whence.trace.ptable import Node, PTable, Sql, no_seals
from whence.trace.rehome import rehomed
from whence.trace.rewrite import kept_nodes, rewritten
from whence.trace.steps import sources_by_name
from whence.trace.tables import Tables, check_source
from whence.verifying import verify_archive


@dataclass(frozen=True, slots=True)
class Divergence:
    """Two derivations held against each other, for people."""

    common: tuple[Node, ...]
    left: tuple[Node, ...]
    right: tuple[Node, ...]
    parted: tuple[Node, ...]
    """The earliest nodes that only one side has: where the two part."""
    unseen: tuple[str, ...] = ()
    """Why some source rows could not be compared by their values; in words."""

    @property
    def same(self) -> bool:
        """Whether both were derived in the same way."""
        return not (self.left or self.right)


@dataclass(frozen=True, slots=True)
class Use:
    """Stored results that use a record: rows of a run's output."""

    run: str
    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class Uses:
    """The stored results that use some records, and what could not be looked at."""

    results: tuple[Use, ...]
    unseen: tuple[str, ...] = ()
    """Sources that have changed or lack a column, and runs without a seal; in words."""

    def __iter__(self) -> Iterator[Use]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


class Sealed:
    """Seals of an archive, and questions about what they cover.

    `engine` runs the questions' SQL: DuckDB, or Spark where it is given one.
    """

    def __init__(
        self, store: Archive, tables: Callable[[], Tables], engine: Sql | None = None
    ) -> None:
        self._store, self._tables = store, tables
        self._engine = engine
        self._ptable: PTable | None = None

    @property
    def table(self) -> PTable:
        """Nodes and edges."""
        if self._ptable is None:
            self._ptable = PTable(self._store, self._engine or self._tables())
        return self._ptable

    def seals(self) -> list[Seal]:
        """The chain, oldest first."""

        def load(connection: Connection) -> list[ledger.SealRow]:
            return ledger.load_seals(connection) if ledger.is_sealed(connection) else []

        return [from_row(row) for row in self._store.catalog.read(load)]

    def seal_of(self, run: Run) -> Seal:
        """The seal of a run."""
        found = {seal.run: seal for seal in self.seals() if seal.run is not None}
        if not found:
            raise no_seals(self._store)
        if run.id not in found:
            sealed = [r.name for r in self._store.runs() if r.id in found]
            raise UnknownNameError("sealed run", run.name, sealed)
        return found[run.id]

    # --- Verifying and proving --------------------------------------------------------------

    def verify(
        self,
        *,
        public_key: str | None = None,
        expect: str | None = None,
        sources: bool = True,
        tokens: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Verification:
        """Whether every byte that seals cover is what it was; with `tokens` all are recomputed."""
        return verify_archive(
            self._store.location,
            catalog=self._store.catalog.url,
            public_key=public_key,
            expect=expect,
            sources=sources,
            tokens=tokens,
            progress=progress,
        )

    def prove(self, run: Run, output: Dataset, chosen: str, hide: bool) -> dict[str, Any]:
        """A proof of the only chosen row of an output."""
        return Prover(self._tables(), self.table, self.seal_of(run)).prove(output, chosen, hide)

    # --- Asking -----------------------------------------------------------------------------

    def find(self, **attributes: Any) -> list[Node]:
        """Nodes by attributes: `token`, `label`, `form`, `source`, and a `limit`."""
        return self.table.find(**attributes)

    def nodes(self, ids: Sequence[int]) -> tuple[Node, ...]:
        """Nodes by their ids, in order of them."""
        return self._described(self._start(ids))

    def closure(
        self, nodes: Sequence[int], direction: Direction = "inputs", depth: int | None = None
    ) -> Sequence[tuple[Node, int]]:
        """All nodes behind some nodes (or, `derived`, made from them), with their distance."""
        found = closure(self.table, self._start(nodes), direction, depth)
        return self.table.describe(found, "depth")

    def compare(self, left: Sequence[int], right: Sequence[int]) -> Divergence:
        """Common and divergent derivations of two sets of nodes."""
        table, starts = self.table, (self._start(left), self._start(right))
        found = compare(table, *starts)
        unseen: tuple[str, ...] = ()
        if table.settings.scheme == "value" and not table.settings.leaf_digests:
            found, unseen = usage.compared_by_value(self._tables(), table, found, starts)
        return Divergence(
            self._described(found.common),
            self._described(found.left),
            self._described(found.right),
            self._described(found.parted),
            unseen,
        )

    def _described(self, table: str) -> tuple[Node, ...]:
        return tuple(node for node, _ in self.table.describe(table))

    def _start(self, nodes: Sequence[int]) -> str:
        if not nodes:
            return self.table.engine.table("start", "SELECT CAST(0 AS BIGINT) AS id WHERE false")
        rows = ", ".join(f"({int(node)})" for node in nodes)
        sql = f"SELECT CAST(id AS BIGINT) AS id FROM (VALUES {rows}) AS v(id)"
        return self.table.engine.table("start", sql)

    def nodes_of(self, output: Dataset, rows: Sequence[int] | None = None) -> list[int]:
        """The nodes of an output's rows, by locator; without, of all of them."""
        listed = "" if rows is None else f"AND row IN ({', '.join(map(str, rows)) or 'NULL'})"
        found = self.table.engine.run(
            f"SELECT DISTINCT node FROM {self.table.roots} AS r "
            f"WHERE dataset = '{output.id}' AND node IS NOT NULL {listed} ORDER BY node"
        )
        return [row[0] for row in found]

    def uses(self, source: str, chosen: Callable[[Run, Dataset], Sequence[int]]) -> Uses:
        """Which stored results use some records of the sources of a name, in all their versions.

        `chosen` gives the locators of the records in a version that a run has read. Results are
        those of any run: records are told by what names them.
        """
        readers = self._readers(source)
        records, failed, unseen = [], [], []
        for dataset in self._store.datasets(readers):
            runs = readers[dataset.id]
            try:
                check_source(dataset)
                records.append((dataset, chosen(runs[0], dataset)))
            except (SelectionError, SourceError) as error:
                failed.append(error)
                unseen.append(f"{source}, as read by {', '.join(r.name for r in runs)}: {error}")
        if not records:
            raise failed[0]
        table = self.table
        found = [usage.nodes_of_records(self._tables(), table, *part) for part in records]
        nodes = sorted({node for part in found for node in part.nodes})
        unseen += [text for part in found for text in part.unseen]
        unseen += self._unsealed(readers, source)
        below = closure(table, self._start(nodes), "derived")
        rows = table.engine.run(
            f"SELECT run, name, count(DISTINCT row) FROM {table.roots} AS r "
            f"WHERE last AND node IN (SELECT id FROM {below}) GROUP BY run, name ORDER BY name, run"
        )
        return Uses(tuple(Use(*row) for row in rows), tuple(dict.fromkeys(unseen)))

    def _readers(self, source: str) -> dict[str, list[Run]]:
        """The runs that read each dataset of a name, the newest first."""
        known = sources_by_name(self._store)
        named = known.get(source, set())
        readers: dict[str, list[Run]] = {}
        for run in reversed(self._store.runs()):
            for dataset in dict.fromkeys(i for step in run.steps for i in step.inputs):
                if dataset in named:
                    readers.setdefault(dataset, []).append(run)
        if not readers:
            raise UnknownNameError("source", source, sorted(known))
        return readers

    def _unsealed(self, readers: Mapping[str, Sequence[Run]], source: str) -> list[str]:
        """What is to be said of runs that read a source and are not sealed."""
        sealed = {seal.run for seal in self.seals()}
        runs = {run.id: run.name for listed in readers.values() for run in listed}
        return [
            f"run {name} reads {source} and is not sealed"
            for run, name in runs.items()
            if run not in sealed
        ]

    # --- Space ------------------------------------------------------------------------------

    def usage(self) -> list[usage.Usage]:
        """Bytes by run: its own, and what it shares with others."""
        has_seals = bool(self.seals())
        return usage.usage(self._store, self.table if has_seals else None)

    def forget(
        self, runs: Sequence[Run], *, key: str | os.PathLike[str] | None = None
    ) -> forget.Plan:
        """Remove runs and what only they used; a seal says so, and the chain stays verifiable."""
        private = None if key is None else load_key(key)
        forget.plan(self._store, runs)  # what is refused need not wait for a sealer
        with Sealer(self._store) as sealer:
            going = forget.plan(self._store, runs)  # others may have sealed or forgotten meanwhile
            tables = Tables(self._store)
            table = PTable(self._store, tables)
            kept = kept_nodes(table, {run.id for run in runs})
            homes = rehomed(tables, table, kept, sealer, (*going.datasets, *going.sources))
            going = forget.keeping(self._store, going, homes.staying)
            gone = {dataset.id for dataset in (*going.datasets, *going.sources)}
            replaced, ranges = rewritten(tables, table, kept, sealer, gone, homes.moved)
            forget.commit(sealer, going, replaced, ranges, private)
        self._ptable = None
        return going
