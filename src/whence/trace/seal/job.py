"""The sealing job: steps in order, nodes and edges written once, the output's Merkle chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from whence.algebra.witness import Choice, Group, Members, Row, Witness, children, slots
from whence.archive import Dataset
from whence.errors import EngineError
from whence.trace.seal.derivation import Nesting
from whence.trace.seal.evaluate import Evaluator
from whence.trace.seal.formulas import binary, optional
from whence.trace.seal.leaves import Leaves
from whence.trace.seal.resolve import Resolver
from whence.trace.seal.settings import ROW_ID, SealedStep, SealStep
from whence.trace.seal.work import Work, has_lists, union
from whence.trace.tables import LOCATOR, RECORD


@dataclass(frozen=True, slots=True)
class Sealed:
    """What was written: folders, None where there was nothing to write."""

    nodes: str | None
    edges: str | None
    uses: str | None
    steps: tuple[SealedStep, ...]


class SealJob:
    """Seals the steps of one run."""

    def __init__(self, work: Work, progress: Callable[[str], None]) -> None:
        self._work, self._progress = work, progress
        self._leaves = Leaves(work)
        self._tables: dict[str, str] = {}
        self._levels: dict[str, int] = {}
        self._by_key = False

    def run(self, steps: Sequence[SealStep]) -> Sealed:
        """Hash, compare with what is stored, and write what is new."""
        self._progress("hashing source rows")
        prepared = [self._prepared(step) for step in steps]
        self._add_leaves(steps, prepared)
        self._progress("hashing derivations")
        outputs = [self._step(step, *found) for step, found in zip(steps, prepared, strict=True)]
        self._progress("comparing with what is stored")
        resolver = Resolver(self._work)
        resolver.resolve()
        self._progress("writing nodes and edges")
        nodes = edges = uses = table = None
        if resolver.edges is not None:
            table = self._work.engine.table("edges", resolver.edges)
        leaves = self._referred(table, outputs)
        if parts := [found for found in (leaves, resolver.nodes) if found is not None]:
            nodes = self._write(f"SELECT * FROM {union(parts)} AS n", "nodes", "id")
        if table is not None:
            edges = self._write(f"SELECT * FROM {table} AS e", "edges", "derived", "index", "input")
            pairs = f"SELECT input, derived FROM {table} AS e"
            uses = self._write(pairs, "uses", "input", "derived")
        done = [
            self._sealed(step, table, resolver) for step, table in zip(steps, outputs, strict=True)
        ]
        return Sealed(nodes, edges, uses, tuple(done))

    def _referred(self, edges: str | None, outputs: Sequence[str]) -> str | None:
        """SQL that gives the source rows to store.

        Of groups that are found by key, members are hashed that are in none of those asked for.
        """
        fresh, semi = self._leaves.new, self._work.formulas.semi_join
        if fresh is None or not self._by_key:
            return fresh
        used = [f"SELECT i AS id FROM {table} AS x WHERE l" for table in outputs]
        if edges is not None:
            used.append(f"SELECT input AS id FROM {edges} AS e")
        return f"SELECT n.* FROM ({fresh}) AS n {semi} {union(used)} AS u ON n.id = u.id"

    def _write(self, sql: str, kind: str, *order: str) -> str:
        folder = self._work.ledger.folder(kind)
        self._work.engine.write(sql, folder, order)
        return folder

    # --- A step -----------------------------------------------------------------------------

    def _prepared(self, step: SealStep) -> tuple[Witness, str]:
        """The shape of a step's witnesses, and the rows that hold them."""
        name = self._work.formulas.name
        if step.lazy is not None:
            shape, rows = step.lazy.shape.element, self._work.engine.members(step.lazy.members)
            wanted = [ROW_ID, "kid", *map(name, slots(shape))]
        else:
            shape, rows = step.shape, self._work.engine.rows(step.output)
            wanted = [f"{LOCATOR} AS {ROW_ID}", *map(name, slots(shape))]
        rows = f"(SELECT {', '.join(dict.fromkeys(wanted))} FROM {rows} AS x)"
        return shape, self._work.keep("rows", rows) if has_lists(shape) else rows

    def _step(self, step: SealStep, shape: Witness, rows: str) -> str:
        """What stands behind FROM: the output rows with their node."""
        nesting = Nesting(step.plan, step.inputs, step.code)
        known = {**self._leaves.tables, **self._tables}
        evaluator = Evaluator(self._work, step, nesting, known, self._leaves.few, self._levels)
        frame, part, level = evaluator.scope(rows, nesting.whole(shape))
        frame = self._work.keep("step", frame)
        if step.lazy is not None:
            frame = self._paired(step, frame, part)
        columns = ", ".join(f"{part}{x} AS {x}" for x in self._work.suffixes)
        table = f"(SELECT {ROW_ID} AS {LOCATOR}, {columns} FROM {frame} AS x)"
        self._tables[step.output.id] = table
        self._levels[step.output.id] = level
        return table

    def _add_leaves(
        self, steps: Sequence[SealStep], prepared: Sequence[tuple[Witness, str]]
    ) -> None:
        """Hash the source rows that any step uses: once, and equal ones together."""
        used: dict[str, list[str]] = {}
        known: dict[str, Dataset] = {}
        made = {step.output.id for step in steps}
        for step, (shape, rows) in zip(steps, prepared, strict=True):
            known.update(step.datasets)
            for dataset, locators in self._collected(step, shape, rows, "true", set()):
                used.setdefault(dataset, []).append(locators)
        sources: dict[str, Dataset] = {}
        for dataset in used:
            if dataset in made:
                continue
            found = known[dataset]
            stored = self._work.ledger.roots(dataset) if found.kind == "output" else None
            if stored is not None:
                self._tables[dataset] = self._earlier(stored)
            else:
                sources[dataset] = found
        self._leaves.add(sources, used)

    def _earlier(self, roots: Sequence[str]) -> str:
        """What stands behind FROM: the rows of a sealed output with their nodes, as stored."""
        work = self._work
        nodes = work.engine.stored("nodes", work.ledger.parts("nodes"))
        found = work.engine.stored("roots", roots)
        joined = (
            f"(SELECT r.row, r.node, n.label, n.digest FROM {found} AS r "
            f"LEFT JOIN {nodes} AS n ON r.node = n.id)"
        )
        if not work.settings.leaf_digests:
            joined = self._with_leaf_digests(joined)
        hashes = ["digest AS f"]
        if work.settings.bits != 256:
            full = work.formulas.sha_text("CAST(node AS STRING)")
            hashes = [f"CASE WHEN node IS NOT NULL THEN {full} END AS f", "digest AS s"]
        leaf = "coalesce(label, 0) = 0 AS l"  # of leaves there may be none among the nodes
        columns = ", ".join([f"row AS {LOCATOR}", *hashes, leaf, "node AS i"])
        return work.keep("earlier", f"(SELECT {columns} FROM {joined} AS x)")

    def _with_leaf_digests(self, rows: str) -> str:
        """Rows of an output that are source rows have no stored token: it is computed again."""
        work = self._work
        rows = work.keep("rows", rows)
        bare = f"SELECT DISTINCT node FROM {rows} AS r WHERE node IS NOT NULL AND digest IS NULL"
        ids = [row[0] for row in work.engine.run(bare)]
        if not ids:
            return rows
        found = [
            f"SELECT i, {work.token} AS again FROM ({self._leaves.recomputed(*place, ids)}) AS r"
            for place in work.ledger.locate(ids)
        ]
        again = work.engine.table("again", " UNION ALL ".join(found)) if found else None
        count = f"SELECT count(*) FROM {again} AS a"
        if again is None or work.engine.run(count)[0][0] < len(ids):
            raise EngineError(
                "source rows behind an earlier run are changed or gone, and this archive stores no "
                "digests of them (leaf_digests=False), so what builds on it cannot be sealed"
            )
        return (
            f"(SELECT r.row, r.node, r.label, coalesce(r.digest, a.again) AS digest "
            f"FROM {rows} AS r LEFT JOIN {again} AS a ON r.node = a.i)"
        )

    def _collected(
        self, step: SealStep, shape: Witness, rows: str, where: str, seen: set[str]
    ) -> Iterator[tuple[str, str]]:
        """The datasets that a shape reads, with SQL of the locators in them."""
        work = self._work
        match shape:
            case Row(slot, source):
                name = work.formulas.name(slot)
                there = f"FROM {rows} AS x WHERE {name} IS NOT NULL AND {where}"
                yield step.inputs[source], f"SELECT {name} AS locator {there}"
            case Members(element=element):
                if slots(element):
                    listed = work.listed(rows, shape, where)
                    yield from self._collected(step, element, listed, "true", seen)
            case Group(_, operator):
                self._by_key = True
                if operator not in seen:
                    seen.add(operator)
                    files, group = step.groups(operator)
                    members = work.engine.members(files)
                    yield from self._collected(step, group.element, members, "true", seen)
            case Choice(slot, branches):  # branches share slots
                for number, branch in enumerate(branches):
                    there = work.formulas.branch(where, slot, number)
                    yield from self._collected(step, branch, rows, there, seen)
            case _:
                for child in children(shape):
                    yield from self._collected(step, child, rows, where, seen)

    # --- Runs without witnesses -------------------------------------------------------------

    def _paired(self, step: SealStep, frame: str, part: str) -> str:
        """Output rows with a witness each; equal rows take those that were found in any order."""
        assert step.lazy is not None
        rows = self._work.engine.members([step.lazy.rows])
        columns = ", ".join(f"x.{part}{x}" for x in self._work.suffixes)
        number = "row_number() OVER (PARTITION BY kid ORDER BY"
        paired = self._work.keep(
            "paired",
            f"(SELECT r.locator AS {ROW_ID}, x.n, {columns} FROM "
            f"(SELECT locator, kid, {number} locator) AS n FROM {rows} AS y) AS r LEFT JOIN "
            f"(SELECT y.*, {number} {part}f NULLS FIRST, {ROW_ID}) AS n FROM {frame} AS y) AS x "
            "ON r.kid = x.kid AND r.n = x.n)",
        )
        lost = f"SELECT count(*) FROM {paired} AS x WHERE n IS NULL"
        ((count,),) = self._work.engine.run(lost)
        if count and slots(step.lazy.shape.element):
            raise EngineError(
                f"{count} rows of the output did not come out again when the pipeline was run "
                "to find their inputs, so this run cannot be sealed; capture it with mode='eager'"
            )
        return paired

    # --- The output -------------------------------------------------------------------------

    def _sealed(self, step: SealStep, table: str, resolver: Resolver) -> SealedStep:
        """Which node each row is, written; and the Merkle chunks of rows and tokens."""
        work, token = self._work, self._work.token
        found, inner = "x.i", ""
        if resolver.ids is not None:
            found = "coalesce(x.i, j.id)"
            inner = f" LEFT JOIN {resolver.ids} AS j ON x.i IS NULL AND x.f = j.f"
        listed = f"SELECT x.{LOCATOR} AS row, {found} AS node FROM {table} AS x{inner}"
        folder = self._write(listed, "roots", "row")
        record = work.formulas.record(work.engine.columns(step.output))
        leaf = work.formulas.sha(f"{binary(bytes(1))} || r.h || {optional(f'x.{token}', 'x.l')}")
        found_rows = work.engine.rows(step.output)
        rows = f"SELECT {LOCATOR}, {record} AS h FROM {found_rows} AS {RECORD}"
        chunks = work.engine.chunks(
            f"SELECT r.{LOCATOR}, {leaf} AS leaf FROM ({rows}) AS r "
            f"LEFT JOIN {table} AS x ON r.{LOCATOR} = x.{LOCATOR}"
        )
        position = {file.slot: number for number, file in enumerate(step.output.files)}
        chunks.sort(key=lambda chunk: (position[chunk[0]], chunk[1]))
        return SealedStep(folder, sum(chunk[2] for chunk in chunks), [c[3] for c in chunks])
