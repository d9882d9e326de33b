"""Questions over nodes and edges: closures, common and divergent derivations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from whence.trace.ptable import PTable

Direction = Literal["inputs", "derived"]


def closure(
    table: PTable, start: str, direction: Direction = "inputs", depth: int | None = None
) -> str:
    """A table with `id` and `depth` of all that the nodes in `start` (column id) lead to.

    `inputs` goes backward to the sources, `derived` forward; `depth` says how far, if not all the
    way. The start has depth 0.
    """
    engine = table.engine
    if direction == "inputs":
        edges, here, there = table.edges, "derived", "input"
    else:
        edges, here, there = table.uses, "input", "derived"
    found = engine.table("closure", f"SELECT DISTINCT id, 0 AS depth FROM {start} AS s")
    hop = 0
    while depth is None or hop < depth:
        hop += 1
        step = engine.table(
            "hop",
            f"SELECT DISTINCT e.{there} AS id FROM {edges} AS e "
            f"JOIN {found} AS f ON e.{here} = f.id AND f.depth = {hop - 1} "
            f"WHERE e.{there} IS NOT NULL AND e.{there} NOT IN (SELECT id FROM {found})",
        )
        if not table.count(step):
            break
        found = engine.table(
            "closure",
            f"SELECT id, depth FROM {found} AS f UNION ALL SELECT id, {hop} AS depth FROM {step}",
        )
    return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two derivations held against each other: tables with a column `id`.

    `common` are the largest derivations that both share, `left` and `right` the nodes that only
    one of them has, and `parted` those among them whose inputs are all common, or that have none:
    the earliest points at which the two part.
    """

    common: str
    left: str
    right: str
    parted: str


def compare(table: PTable, left: str, right: str) -> Comparison:
    """Common and divergent derivations of two sets of nodes, by walking both frontiers inward.

    A node that both sides reach is common and is not traced further. All others are traced to
    their inputs; each of them is divergent.
    """
    engine = table.engine
    frontier = [engine.table("front", f"SELECT DISTINCT id FROM {s} AS s") for s in (left, right)]
    visited = list(frontier)
    common = engine.table("common", f"SELECT id FROM {left} AS s WHERE false")
    while table.count(frontier[0]) or table.count(frontier[1]):
        shared = engine.table(
            "shared",
            f"SELECT id FROM {visited[0]} AS a WHERE id IN (SELECT id FROM {visited[1]})",
        )
        common = engine.table(
            "common", f"SELECT id FROM {common} AS c UNION SELECT id FROM {shared} AS s"
        )
        for side in (0, 1):
            steps = engine.table(
                "front",
                f"SELECT DISTINCT e.input AS id FROM {table.edges} AS e "
                f"JOIN {frontier[side]} AS f ON e.derived = f.id "
                f"WHERE f.id NOT IN (SELECT id FROM {common}) AND e.input IS NOT NULL "
                f"AND e.input NOT IN (SELECT id FROM {visited[side]})",
            )
            frontier[side] = steps
            visited[side] = engine.table(
                "visited", f"SELECT id FROM {visited[side]} AS v UNION ALL SELECT id FROM {steps}"
            )
    # What common nodes are made of is common too, though it may have been met on one side only.
    below = closure(table, common)
    only = [
        engine.table("only", f"SELECT id FROM {side} AS v WHERE id NOT IN (SELECT id FROM {below})")
        for side in visited
    ]
    left, right = only
    inside = (
        f"SELECT e.input FROM {table.edges} AS e JOIN {below} AS b ON e.derived = b.id "
        "WHERE e.input IS NOT NULL"
    )
    largest = engine.table("common", f"SELECT id FROM {common} AS c WHERE id NOT IN ({inside})")
    return Comparison(largest, left, right, _parted(table, left, right))


def _parted(table: PTable, left: str, right: str) -> str:
    both = f"(SELECT id FROM {left} AS a UNION SELECT id FROM {right} AS b)"
    return table.engine.table(
        "parted",
        f"SELECT id FROM {both} AS o WHERE NOT EXISTS (SELECT 1 FROM {table.edges} AS e "
        f"JOIN {both} AS i ON e.input = i.id WHERE e.derived = o.id)",
    )


def in_common(table: PTable, found: Comparison, nodes: Mapping[int, int]) -> Comparison:
    """A comparison in which some nodes of either side are the same ones: which each of them is."""
    if not nodes:
        return found
    rows = ", ".join(f"({node}, {same})" for node, same in nodes.items())
    equal = table.engine.table(
        "equal",
        "SELECT CAST(id AS BIGINT) AS id, CAST(same AS BIGINT) AS same "
        f"FROM (VALUES {rows}) AS v(id, same)",
    )
    below = closure(table, found.common)
    common = table.engine.table(
        "common",
        f"SELECT id FROM {found.common} AS c UNION SELECT same AS id FROM {equal} AS s "
        f"WHERE same NOT IN (SELECT id FROM {below})",
    )
    only = [
        table.engine.table(
            "only", f"SELECT id FROM {side} AS v WHERE id NOT IN (SELECT id FROM {equal})"
        )
        for side in (found.left, found.right)
    ]
    left, right = only
    return Comparison(common, left, right, _parted(table, left, right))
