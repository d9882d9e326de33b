"""The provenance table: nodes, ordered labelled edges, and which node each output row is.

`PTable` gives them to an SQL engine as relations: `nodes` (id, label, digest), `edges` (input,
label, index, derived, times, contributes), which are in the order of `derived`, `uses` (input,
derived), the same in the order of `input`, and `roots` (run, name, step, last, dataset, row, node).
The engine is DuckDB, or Spark for archives that are too big for one machine; the SQL is the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, overload

from whence.archive import Archive, Dataset, ledger
from whence.archive.ledger import LabelRow, RangeRow, SealSettings
from whence.errors import ArchiveError, SelectionError, UnknownNameError
from whence.plan.labels import words
from whence.trace.steps import sources_by_name
from whence.trace.tables import local, text

_HELD = 16 << 20


class Sql(Protocol):
    """An SQL engine."""

    def run(self, sql: str) -> list[Any]:
        """All rows that SQL gives."""
        ...

    def table(self, stem: str, sql: str) -> str:
        """A temporary table with the answer to a query; its name."""
        ...

    def scan(self, paths: Sequence[str]) -> str:
        """SQL that reads Parquet files, as what stands behind FROM."""
        ...


@dataclass(frozen=True, slots=True)
class Node:
    """A node, for people: a source row, or what an operator derived."""

    id: int
    token: str
    form: str
    text: str
    source: str | None = None
    path: str | None = None
    row: int | None = None


class Described(Sequence[tuple[Node, int]]):
    """Nodes with their depths, each made when it is looked at: a closure may have many."""

    def __init__(self, rows: Sequence[Any], node: Callable[[int, int, str], Node]) -> None:
        self._rows, self._node = rows, node

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> tuple[Node, int]: ...
    @overload
    def __getitem__(self, place: slice) -> Described: ...
    def __getitem__(self, place: int | slice) -> tuple[Node, int] | Described:
        if isinstance(place, slice):
            return Described(self._rows[place], self._node)
        node, label, token, depth = self._rows[place]
        return self._node(node, label, token), int(depth)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))


Edge = Sequence[Any]
"""Index, input, whether it contributes, and how often, of one edge."""


def arranged(label: LabelRow, edges: Sequence[Edge]) -> list[Any]:
    """What the formula of a label takes, from the edges of a node; they must be just those.

    `joint`: the inputs in order, None where there is none. `one`: index and input. A group: input,
    role and number of each member.
    """
    if label.form == "joint":
        places = [edge[0] for edge in edges]
        if len(set(places)) < len(places) or any(not 0 <= i < label.parts for i in places):
            raise LookupError(f"edges {places} for {label.parts} inputs")
        by_place = {edge[0]: edge[1] for edge in edges}
        return [by_place.get(i) for i in range(label.parts)]
    if label.form == "one":
        if len(edges) != 1:
            raise LookupError(f"{len(edges)} edges for one input")
        return [edges[0][0], edges[0][1]]
    return [tuple(edge[1:]) for edge in edges]


def no_seals(archive: Archive) -> ArchiveError:
    """What is said of an archive of which no run is sealed."""
    return ArchiveError(
        f"the archive at {archive.location} has no seals; seal a run first: whence seal"
    )


class PTable:
    """Nodes and edges of a sealed archive."""

    def __init__(self, archive: Archive, engine: Sql) -> None:
        self.archive, self.engine = archive, engine
        found = archive.catalog.read(
            lambda c: (
                ledger.is_sealed(c)
                and (ledger.load_settings(c), ledger.load_labels(c), ledger.load_ranges(c))
            )
        )
        if not found or found[0] is None:
            raise no_seals(archive)
        self.settings: SealSettings = found[0]
        labels, self.ranges = found[1], found[2]
        self.labels: dict[int, LabelRow] = {row.number: row for row in labels}
        self._starts = [row.start for row in self.ranges]
        self._datasets = {dataset.id: dataset for dataset in archive.datasets()}
        self.nodes = self._relation("nodes", "CAST(0 AS BIGINT) AS id, 0 AS label, NULL AS digest")
        self.roots = self._all_roots()

    @cached_property
    def edges(self) -> str:
        """All edges; held in memory if they are few, since every step of a walk looks at them."""
        found = self._relation(
            "edges",
            "CAST(0 AS BIGINT) AS input, 0 AS label, 0 AS index, CAST(0 AS BIGINT) AS derived, "
            "CAST(0 AS BIGINT) AS times, true AS contributes",
        )
        if not self._are_few_edges:
            return found
        return self.engine.table("edges", f"SELECT * FROM {found} AS e")

    @cached_property
    def uses(self) -> str:
        """Input and derived of all edges, to be looked up by input."""
        return self.edges if self._are_few_edges else self.index

    @property
    def index(self) -> str:
        """The index of edges by input, as it is stored."""
        return self._relation("uses", "CAST(0 AS BIGINT) AS input, CAST(0 AS BIGINT) AS derived")

    @property
    def _are_few_edges(self) -> bool:
        return sum(dataset.bytes for dataset in self._kind("edges")) <= _HELD

    def _kind(self, kind: str) -> list[Dataset]:
        return [dataset for dataset in self._datasets.values() if dataset.kind == kind]

    def _relation(self, kind: str, empty: str) -> str:
        paths = [local(p) for d in self._kind(kind) for p in self.archive.file_paths(d)]
        if not paths:
            return f"(SELECT * FROM (SELECT {empty}) AS e WHERE false)"
        return self.engine.scan(paths)

    def _all_roots(self) -> str:
        parts = []
        steps = {
            step.output: (run, step.number) for run in self.archive.runs() for step in run.steps
        }
        for dataset in self._kind("roots"):
            output = dataset.properties["output"]
            paths = [local(p) for p in self.archive.file_paths(dataset)]
            if output not in steps or not paths:
                continue
            run, number = steps[output]
            last = str(number == len(run.steps) - 1).lower()
            parts.append(
                f"SELECT {text(run.id)} AS run, {text(run.name)} AS name, {number} AS step, "
                f"{last} AS last, {text(output)} AS dataset, row, node "
                f"FROM {self.engine.scan(paths)}"
            )
        if not parts:
            return (
                "(SELECT '' AS run, '' AS name, 0 AS step, true AS last, '' AS dataset, "
                "CAST(0 AS BIGINT) AS row, CAST(0 AS BIGINT) AS node WHERE false)"
            )
        return f"({' UNION ALL '.join(parts)})"

    def count(self, table: str) -> int:
        """How many rows a table has."""
        return int(self.engine.run(f"SELECT count(*) FROM {table} AS t")[0][0])

    # --- Nodes ------------------------------------------------------------------------------

    def located(self, node: int) -> tuple[RangeRow, int] | None:
        """The file range and row index of a source row; None for a derived node."""
        position = bisect_right(self._starts, node) - 1
        if position < 0:
            return None
        row = self.ranges[position]
        return (row, node - row.start) if node < row.start + max(row.count, 1) else None

    def describe(self, table: str, depth: str = "0") -> Described:
        """The nodes that a table has the `id` of, by depth and id; what their depth is, as SQL."""
        rows = self.engine.run(
            f"SELECT t.id, coalesce(n.label, 0), coalesce(lower(hex(n.digest)), ''), t.depth "
            f"FROM (SELECT id, {depth} AS depth FROM {table} AS t) AS t "
            f"LEFT JOIN {self.nodes} AS n ON n.id = t.id ORDER BY t.depth, t.id"
        )
        return Described(rows, self._node)

    @cached_property
    def _texts(self) -> dict[int, str]:
        """What labels say, for people."""
        return {number: words(row.text) for number, row in self.labels.items()}

    def _node(self, node: int, label: int, token: str) -> Node:
        if label:
            return Node(node, token, self.labels[label].form, self._texts[label])
        place = self.located(node)
        if place is None:
            return Node(node, token, "unknown", "")
        found, index = place
        dataset = self._datasets.get(found.dataset)
        name = dataset.name if dataset else found.path.rsplit("/", 1)[-1]
        return Node(node, token, "source", f"{name}[{index}]", name, found.path, index)

    @property
    def _every(self) -> str:
        """All nodes, also source rows of which no digest is stored."""
        if self.settings.leaf_digests:
            return self.nodes
        used = (
            f"SELECT input AS id FROM {self.uses} AS u UNION "
            f"SELECT node AS id FROM {self.roots} AS r WHERE node IS NOT NULL"
        )
        return (
            f"(SELECT id, label, digest FROM {self.nodes} AS n UNION ALL "
            f"SELECT id, 0 AS label, NULL AS digest FROM ({used}) AS l "
            f"WHERE id NOT IN (SELECT id FROM {self.nodes} AS n))"
        )

    def find(
        self,
        *,
        token: str | None = None,
        label: str | None = None,
        form: str | None = None,
        source: str | None = None,
        limit: int = 100,
    ) -> list[Node]:
        """Nodes by attributes: the start of their token, a part of their label, form, source.

        Where digests of source rows are not stored, those are found that something is made of.
        """
        tests = ["true"]
        of_sources = source is not None or form == "source"
        if token is not None:
            if of_sources and not self.settings.leaf_digests:
                raise SelectionError(
                    "this archive stores no digests of source rows (leaf_digests=False), so they "
                    "cannot be found by token"
                )
            if not token or any(c not in "0123456789abcdef" for c in token.lower()):
                raise SelectionError(f"{token!r} is not the start of a token: hexadecimal digits")
            tests.append(f"lower(hex(digest)) LIKE {text(token.lower() + '%')}")
        if label is not None or form not in (None, "source"):
            numbers = [
                row.number
                for row in self.labels.values()
                if (label is None or label.lower() in self._texts[row.number].lower())
                and (form is None or row.form == form)
            ]
            tests.append(f"label IN ({', '.join(map(str, numbers)) or 'NULL'})")
        if form == "source":
            tests.append("label = 0")
        if source is not None:
            known = sources_by_name(self.archive)
            if source not in known:
                raise UnknownNameError("source", source, sorted(known))
            spans = [
                f"id BETWEEN {row.start} AND {row.start + max(row.count, 1) - 1}"
                for row in self.ranges
                if row.dataset in known[source]
            ]
            tests.append(f"({' OR '.join(spans) or 'false'})")
        rows = self.engine.run(
            f"SELECT id, label, coalesce(lower(hex(digest)), '') FROM {self._every} AS n "
            f"WHERE {' AND '.join(tests)} ORDER BY id LIMIT {int(limit)}"
        )
        return [self._node(*row) for row in rows]
