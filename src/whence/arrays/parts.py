"""From a recorded graph to ranges of rows, one output column and one input column at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import partial

from whence.arrays.cells import Shape, expand_limit
from whence.arrays.forms import Form, boxes, everything, separable, whole
from whence.arrays.graph import Edge, Node, Role, leaves, ordered
from whence.arrays.rowranges import Ranges, no_ranges, ranges_of
from whence.arrays.walks import relate
from whence.errors import ArrayError

ROLES: tuple[Role, Role] = ("contributing", "influencing")
TOO_MANY = "too many rows are behind its rows to list them"
_PAIRS = 1 << 23  # pairs of rows that one column may be listed in


def cell_by_cell(nodes: list[Node]) -> Node:
    """A column put together from numbers, each with a node of its own."""
    shape = (len(nodes),)
    edges, start = [], 0
    for _, run in itertools.groupby(nodes, key=id):
        stop = start + len(list(run)) - 1
        rule = partial(boxes, shape, (), [(((start, stop),), ())])
        edges.append(Edge(nodes[start], rule))
        start = stop + 1
    return Node(shape, edges, "cells")


def one_for_each(nodes: Iterable[tuple[Node, str]]) -> Node:
    """A cell for each array, which comes from all of its cells; each may have a doubt."""
    listed = list(nodes)
    shape = (len(listed),)
    return Node(
        shape,
        [
            Edge(node, partial(_in_one, shape, node.shape, at), False, doubt=doubt)
            for at, (node, doubt) in enumerate(listed)
        ],
        "looked at",
    )


def _in_one(shape: Shape, in_shape: Shape, at: int) -> Form:
    return separable(shape, in_shape, [whole(size) for size in in_shape], {0: (at, at)})


def roles_in(node: Node) -> tuple[Role, ...]:
    """The roles that edges behind a column have: nothing influences if all contribute."""
    steered = any(not edge.contributing for found in ordered(node) for edge in found.edges)
    return ROLES if steered else ROLES[:1]


def ranges_between(node: Node, label: str, role: Role) -> tuple[Ranges, str]:
    """The input rows behind each row of a column, counted from 0, and why they are too many."""
    token = expand_limit.set(_PAIRS)
    try:
        form = relate(node, label, role)
        return (no_ranges() if form is None else ranges_of(form)), ""
    except ArrayError:
        return ranges_of(everything(node.shape, leaves(node)[label].shape)), TOO_MANY
    finally:
        expand_limit.reset(token)
