"""Computing every token again: sources to leaves, leaves to nodes, nodes to the outputs' roots."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from whence.archive import merkle, tokens
from whence.archive.expected import Expected
from whence.archive.verify import Verification
from whence.errors import WhenceError
from whence.trace.prove import Recomputed, output_leaves
from whence.trace.ptable import PTable, arranged
from whence.trace.tables import Tables


def check(tables: Tables, table: PTable, expected: Expected, report: Verification) -> None:
    """Add what does not fit to a report."""
    known = _leaves(tables, table, report)
    _derived(tables, table, known, report)
    _uses(tables, table, report)
    for seal in expected.runs.values():
        for output in seal.sections["output"]:
            _output(tables, table, output, report)


def _leaves(tables: Tables, table: PTable, report: Verification) -> dict[int, bytes]:
    """The token of every source row; stored ones are held against the sources."""
    rows = tables.run(f"SELECT id, digest FROM {table.nodes} AS n WHERE label = 0")
    stored = {row[0]: bytes(row[1]) for row in rows}
    used = tables.run(
        f"SELECT input FROM {table.edges} AS e UNION SELECT node FROM {table.roots} AS r"
    )
    leaves = {i for (i,) in used if i is not None and table.located(i) is not None}
    try:
        again = Recomputed(tables, table, checked=report.sources > 0).of(leaves | set(stored))
    except WhenceError as error:
        report.add("sources", f"tokens of their rows cannot be computed again: {error}")
        return stored
    wrong = [i for i, token in stored.items() if again.get(i) != token]
    for node in wrong[:5]:
        report.add(f"node {node}", "its token is not that of the source row it stands for")
    if len(wrong) > 5:
        report.add("nodes", f"{len(wrong) - 5} more tokens are not those of their source rows")
    return again


def _derived(tables: Tables, table: PTable, known: dict[int, bytes], report: Verification) -> None:
    """Nodes in the order of their ids: inputs come before what is derived from them."""
    edges = _grouped(tables, table)
    current: tuple[int, list[Any]] | None = next(edges, None)
    rows = tables.run(
        f"SELECT id, label, digest FROM {table.nodes} AS n WHERE label <> 0 ORDER BY id"
    )
    for node, number, digest in rows:
        while current is not None and current[0] < node:
            report.add(f"node {current[0]}", "it has inputs but is not stored")
            current = next(edges, None)
        own = current[1] if current is not None and current[0] == node else []
        if own:
            current = next(edges, None)
        try:
            full = _full(table, number, own, known)
        except (LookupError, TypeError) as error:
            report.add(f"node {node}", f"its inputs do not fit its label: {error}")
            continue
        known[node] = tokens.shortened(full, table.settings.bits)
        if known[node] != bytes(digest):
            report.add(f"node {node}", "its token is not the hash of its label and inputs")
    while current is not None:
        report.add(f"node {current[0]}", "it has inputs but is not stored")
        current = next(edges, None)


def _uses(tables: Tables, table: PTable, report: Verification) -> None:
    """The index of edges by input says what the edges say."""
    pairs = [f"SELECT input, derived FROM {part} AS e" for part in (table.edges, table.index)]
    for one, other in (pairs, reversed(pairs)):
        (count,) = tables.one(f"SELECT count(*) FROM ({one} EXCEPT {other}) AS d")
        if count:
            report.add("uses", f"{count} edges are not the same in the index by input")
            return


def _grouped(tables: Tables, table: PTable) -> Iterator[tuple[int, list[Any]]]:
    rows = tables.run(
        f"SELECT derived, index, input, contributes, times FROM {table.edges} AS e "
        "ORDER BY derived, index, input"
    )
    for derived, found in groupby(rows, key=lambda row: row[0]):
        yield derived, [row[1:] for row in found]


def _full(table: PTable, number: int, edges: list[Any], known: dict[int, bytes]) -> bytes:
    label = table.labels[number]
    parts = arranged(label, edges)

    def found(node: int) -> tokens.Input:
        return tokens.Input(known[node], table.located(node) is not None)

    match label.form:
        case "joint":
            return tokens.joint(label.digest, [None if i is None else found(i) for i in parts])
        case "one":
            return tokens.one(label.digest, parts[0], found(parts[1]))
        case _:
            members = [(found(node), role, times) for node, role, times in parts]
            return tokens.bag(label.digest, members)


def _output(tables: Tables, table: PTable, sealed: Any, report: Verification) -> None:
    """The Merkle root over an output, from its rows and the tokens of their nodes."""
    output = tables.archive.dataset(sealed["dataset"])
    by_slot: dict[int, list[bytes]] = {}
    for slot, _, _, _, leaf in output_leaves(tables, table, output):
        by_slot.setdefault(slot, []).append(leaf)
    chunks = [
        chunk for file in output.files for chunk in merkle.chunked(by_slot.get(file.slot, []))
    ]
    count = sum(len(leaves) for leaves in by_slot.values())
    if (merkle.root(chunks).hex(), count) != (sealed["root"], sealed["rows"]):
        report.add(f"output {output.id}", "its rows and tokens do not lead to the sealed root")
