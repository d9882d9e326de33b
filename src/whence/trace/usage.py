"""Who uses what: records across runs, and bytes by run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from whence.algebra.locators import ROW_BITS, ROW_MASK
from whence.archive import Archive, Dataset, tokens
from whence.archive.model import SEGMENT_KINDS
from whence.errors import SourceError
from whence.trace.closure import Comparison, closure, in_common
from whence.trace.prove import Recomputed
from whence.trace.ptable import PTable
from whence.trace.records import SOURCE_HASH, record_names, record_texts
from whence.trace.tables import LOCATOR, Tables, check_source, local, text


@dataclass(frozen=True, slots=True)
class Records:
    """Nodes that stand for records, and what could not be looked at when they were sought."""

    nodes: tuple[int, ...]
    unseen: tuple[str, ...] = ()


def nodes_of_records(
    tables: Tables, table: PTable, source: Dataset, locators: Sequence[int]
) -> Records:
    """The nodes that stand for some rows of a source: by value, or by where they are."""
    found = set(_by_place(table, source, locators))
    if table.settings.scheme != "value" or not locators:
        return Records(tuple(sorted(found)))
    check_source(source)
    wanted = ", ".join(str(int(i)) for i in locators)
    rows = tables.run(
        f"SELECT DISTINCT {SOURCE_HASH} FROM ({record_texts(tables, source)}) AS r "
        f"WHERE {LOCATOR} IN ({wanted})",
        source,
    )
    digests = [row[0] for row in rows]
    unseen: list[str] = []
    if table.settings.leaf_digests:
        full = {bytes.fromhex(digest) for digest in digests}
        found |= _by_token(table, full) - _others(tables, table, full, unseen)
    else:
        for dataset in _like(table, source):
            try:
                equal = _equal(tables, dataset, digests)
            except SourceError as error:
                unseen.append(str(error))
                continue
            found |= set(_by_place(table, dataset, equal))
    return Records(tuple(sorted(found)), tuple(unseen))


def compared_by_value(
    tables: Tables, table: PTable, found: Comparison, starts: Iterable[str]
) -> tuple[Comparison, tuple[str, ...]]:
    """A comparison of what two starts come from, in which equal source rows are common.

    Where no digests are stored, equal rows of several files are one node within a run alone, so
    they are read again; why some cannot be is told.
    """
    alone = _rows_in(table, found.left) | _rows_in(table, found.right)
    if not alone:
        return found, ()
    sides = [_rows_in(table, closure(table, start)) for start in starts]
    known, unseen = Recomputed(tables, table).readable(set().union(*sides))
    first: dict[bytes, int] = {}
    for node in sorted(known):
        first.setdefault(known[node], node)
    left, right = ({known[node] for node in side if node in known} for side in sides)
    both = left & right
    equal = {node: first[known[node]] for node in alone if known.get(node) in both}
    return in_common(table, found, equal), tuple(unseen)


def _rows_in(table: PTable, nodes: str) -> set[int]:
    """The source rows among some nodes."""
    rows = table.engine.run(f"SELECT id FROM {nodes} AS n")
    return {node for (node,) in rows if table.located(node) is not None}


def _by_token(table: PTable, full: Set[bytes]) -> set[int]:
    short = [tokens.shortened(token, table.settings.bits).hex().upper() for token in full]
    listed = ", ".join(map(text, short)) or "''"
    rows = table.engine.run(
        f"SELECT id FROM {table.nodes} AS n WHERE label = 0 AND hex(digest) IN ({listed})"
    )
    return {row[0] for row in rows}


def _others(tables: Tables, table: PTable, full: Set[bytes], unseen: list[str]) -> set[int]:
    """Nodes whose short token is that of another record: told by reading their rows again."""
    if table.settings.bits == 256:
        return set()
    known, errors = Recomputed(tables, table).readable(_by_token(table, full))
    unseen += errors
    return {node for node, token in known.items() if token not in full}


def _like(table: PTable, source: Dataset) -> list[Dataset]:
    """The datasets under seal whose records have the same columns."""
    names = record_names(source)
    ids = dict.fromkeys(row.dataset for row in table.ranges)
    datasets = table.archive.datasets(ids)
    return [d for d in datasets if record_names(d) == names]


def _equal(tables: Tables, dataset: Dataset, digests: Sequence[str]) -> list[int]:
    """The locators of a dataset's rows that have these digests, looked for in all of them."""
    check_source(dataset)
    listed = ", ".join(map(text, digests))
    rows = tables.run(
        f"SELECT {LOCATOR} FROM ({record_texts(tables, dataset)}) AS r "
        f"WHERE {SOURCE_HASH} IN ({listed})",
        dataset,
    )
    return [int(row[0]) for row in rows]


def _by_place(table: PTable, source: Dataset, locators: Sequence[int]) -> list[int]:
    mask = ROW_MASK
    slots = {file.slot: file for file in source.files}
    starts: dict[tuple[str, int, int], list[int]] = {}  # several, if read with other columns
    for row in table.ranges:
        starts.setdefault((row.path, row.size, row.modified), []).append(row.start)
    answer: list[int] = []
    for locator in locators:
        if source.kind == "range":
            place = (source.location, 0, 0)
        else:
            file = slots[locator >> ROW_BITS]
            path = f"{source.location}/{file.path}" if source.is_own else file.path
            place = (path, file.size, file.modified)
        answer += [start + (locator & mask) for start in starts.get(place, ())]
    return answer


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run takes: bytes that only it uses, bytes that others use as well, and its nodes."""

    run: str
    name: str
    own: int
    shared: int
    nodes: int
    shared_nodes: int


@dataclass(frozen=True, slots=True)
class _Share:
    """Of a run: its nodes and what they take, all and those that no other run has."""

    nodes: int = 0
    own_nodes: int = 0
    bytes: int = 0
    own_bytes: int = 0


def usage(archive: Archive, table: PTable | None) -> list[Usage]:
    """Bytes by run. Nodes and edges count for the runs whose rows are made of them."""
    runs = archive.runs()
    datasets = {dataset.id: dataset for dataset in archive.datasets()}
    users: dict[str, set[str]] = {}
    for run in runs:
        for step in run.steps:
            for used in (*step.inputs, step.output, *step.groups):
                users.setdefault(used, set()).add(run.id)
    outputs = {step.output: run.id for run in runs for step in run.steps}
    for dataset in datasets.values():
        if dataset.kind == "roots" and dataset.properties["output"] in outputs:
            users[dataset.id] = {outputs[dataset.properties["output"]]}
    shares = _shares(table) if table is not None else {}
    answer = []
    for run in runs:
        own = sum(d.bytes for i, d in datasets.items() if users.get(i) == {run.id} and d.is_own)
        mine = [d for i, d in datasets.items() if run.id in users.get(i, ()) and d.is_own]
        shared = sum(d.bytes for d in mine) - own
        share = shares.get(run.id, _Share())
        answer.append(
            Usage(
                run.id,
                run.name,
                own + share.own_bytes,
                shared + share.bytes - share.own_bytes,
                share.nodes,
                share.nodes - share.own_nodes,
            )
        )
    return answer


def _shares(table: PTable) -> dict[str, _Share]:
    """What of nodes and edges is each sealed run's."""
    engine = table.engine
    runs = [row[0] for row in engine.run(f"SELECT DISTINCT run FROM {table.roots} AS r")]
    parts = []
    for run in runs:
        start = engine.table(
            "start",
            f"SELECT DISTINCT node AS id FROM {table.roots} AS r "
            f"WHERE run = {text(run)} AND node IS NOT NULL",
        )
        below = closure(table, start)
        parts.append(f"SELECT {text(run)} AS run, id FROM {below} AS b")
    if not parts:
        return {}
    every = engine.table("owned", " UNION ALL ".join(parts))
    rows = engine.run(
        "SELECT run, count(*), count(CASE WHEN n = 1 THEN 1 END), coalesce(sum(bytes), 0), "
        f"coalesce(sum(CASE WHEN n = 1 THEN bytes END), 0) FROM {every} AS o "
        f"JOIN (SELECT id, count(*) AS n FROM {every} AS i GROUP BY id) AS c ON c.id = o.id "
        f"LEFT JOIN {_weights(table)} AS w ON w.id = o.id GROUP BY run"
    )
    return {row[0]: _Share(*(round(number) for number in row[1:])) for row in rows}


def _weights(table: PTable) -> str:
    """The bytes of each node and of its edges; those of one segment all take the same."""
    parts = ["SELECT CAST(0 AS BIGINT) AS id, CAST(0 AS DOUBLE) AS bytes WHERE false"]
    for dataset in table.archive.datasets():
        paths = [local(path) for path in table.archive.file_paths(dataset)]
        if dataset.kind in SEGMENT_KINDS and paths:
            name = "id" if dataset.kind == "nodes" else "derived"
            parts.append(
                f"SELECT {name} AS id, CAST({dataset.bytes} AS DOUBLE) * count(*) / "
                f"sum(count(*)) OVER () AS bytes FROM {table.engine.scan(paths)} AS s "
                f"GROUP BY {name}"
            )
    every = " UNION ALL ".join(parts)
    return f"(SELECT id, sum(bytes) AS bytes FROM ({every}) AS s GROUP BY id)"
