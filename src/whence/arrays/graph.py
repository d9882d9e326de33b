"""What a tracked call records: nodes for arrays, edges that say where their cells come from.

An edge holds a rule; the rule becomes a relation the first time it is needed. Walks carry sets of
cells along edges, so a chain is never composed unless a table is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from whence.arrays import cells as cellset
from whence.arrays.cells import Cells, Shape
from whence.arrays.compose import compose, union
from whence.arrays.forms import Form, identity
from whence.arrays.query import backward, forward

Role = Literal["contributing", "influencing"]
Grade = Literal["exact", "superset", "unknown"]
Rule = Callable[[], Form]


class Held:
    """Values that a rule will need; they are copied before anybody can change them."""

    __slots__ = ("arrays",)

    def __init__(self, *arrays: Any) -> None:
        self.arrays: list[Any] = list(arrays)

    def keep(self, shared: Callable[[np.ndarray[Any, Any]], bool]) -> None:
        """Copy the arrays that `shared` says may be changed by others."""
        for i, array in enumerate(self.arrays):
            if isinstance(array, np.ndarray) and shared(array):
                self.arrays[i] = array.copy()


class Edge:
    """Cells of one array that cells of another come from.

    `by_values` says that the rule looks at values; `recipe` tells how to repeat it on others.
    """

    __slots__ = ("_form", "by_values", "contributing", "doubt", "parent", "recipe", "rule")

    def __init__(
        self,
        parent: Node,
        rule: Rule,
        contributing: bool = True,
        by_values: bool = False,
        doubt: str = "",
        recipe: tuple[Any, ...] | None = None,
    ) -> None:
        self.parent, self.rule, self.contributing = parent, rule, contributing
        self.by_values, self.doubt, self.recipe = by_values, doubt, recipe
        self._form: Form | None = None

    def form(self) -> Form:
        """The relation, computed once."""
        if self._form is None:
            self._form = self.rule()
        return self._form


class Node:
    """One version of an array: its shape, the operation that made it, and its edges.

    `loose` says that values decided its shape, so that asking for the shape is looking at them.
    """

    __slots__ = ("__weakref__", "edges", "label", "loose", "op", "shape")

    def __init__(
        self,
        shape: Shape,
        edges: Iterable[Edge] = (),
        op: str = "",
        label: str | None = None,
        loose: bool = False,
    ) -> None:
        self.shape, self.op, self.label, self.loose = shape, op, label, loose
        self.edges: tuple[Edge, ...] = tuple(edges)


@dataclass(frozen=True, slots=True)
class Reached:
    """Cells of one input, by role; a cell that contributes is not listed as influencing."""

    contributing: Cells
    influencing: Cells


def ordered(node: Node) -> list[Node]:
    """Every node reachable from `node`, each after all nodes that lead to it."""
    done: set[int] = set()
    out: list[Node] = []
    stack: list[tuple[Node, bool]] = [(node, False)]
    while stack:
        current, finished = stack.pop()
        if finished:
            out.append(current)
        elif id(current) not in done:
            done.add(id(current))
            stack.append((current, True))
            stack.extend((e.parent, False) for e in current.edges if id(e.parent) not in done)
    return out[::-1]


def walk_backward(node: Node, cells: Cells) -> dict[str, Reached]:
    """The cells of every input that the chosen cells come from."""
    direct: dict[int, list[Cells]] = {id(node): [cells]}
    steering: dict[int, list[Cells]] = {}
    out: dict[str, Reached] = {}
    for current in ordered(node):
        mine = cellset.union(direct.pop(id(current), []), current.shape)
        other = cellset.union(steering.pop(id(current), []), current.shape)
        if current.label is not None:
            out[current.label] = Reached(mine, other.minus(mine))
        for edge in current.edges:
            if not mine.is_empty():
                target = direct if edge.contributing else steering
                target.setdefault(id(edge.parent), []).append(backward(edge.form(), mine))
            if not other.is_empty():
                steering.setdefault(id(edge.parent), []).append(backward(edge.form(), other))
    return out


def walk_forward(node: Node, label: str, cells: Cells) -> Reached:
    """The cells of `node` that the chosen cells of one input go to."""
    direct: dict[int, Cells] = {}
    steered: dict[int, Cells] = {}
    for current in ordered(node)[::-1]:
        if current.label == label:
            direct[id(current)], steered[id(current)] = cells, cellset.no_cells(current.shape)
            continue
        mine: list[Cells] = []
        other: list[Cells] = []
        for edge in current.edges:
            found = forward(edge.form(), direct[id(edge.parent)])
            (mine if edge.contributing else other).append(found)
            other.append(forward(edge.form(), steered[id(edge.parent)]))
        direct[id(current)] = cellset.union(mine, current.shape)
        steered[id(current)] = cellset.union(other, current.shape)
    mine_all = direct[id(node)]
    return Reached(mine_all, steered[id(node)].minus(mine_all))


def relate(node: Node, label: str, role: Role) -> Form | None:
    """The relation of `node` and one input, over all paths of a role; None if there is none."""
    direct: dict[int, list[Form]] = {}
    steering: dict[int, list[Form]] = {}
    useful = _leading_to(node, label)
    for current in ordered(node):
        if id(current) not in useful:
            continue
        here = current is node
        mine = _joined(direct.pop(id(current), []), node.shape, current.shape)
        other = _joined(steering.pop(id(current), []), node.shape, current.shape)
        if current.label == label:
            if here:
                return identity(node.shape) if role == "contributing" else None
            return mine if role == "contributing" else other
        for edge in current.edges:
            if id(edge.parent) not in useful:
                continue
            if here or mine is not None:
                step = edge.form() if mine is None else compose(mine, edge.form())
                if edge.contributing:
                    direct.setdefault(id(edge.parent), []).append(step)
                elif role == "influencing":
                    steering.setdefault(id(edge.parent), []).append(step)
            if other is not None and role == "influencing":
                steering.setdefault(id(edge.parent), []).append(compose(other, edge.form()))
    return None


def _joined(forms: list[Form], out_shape: Shape, in_shape: Shape) -> Form | None:
    return union(forms, out_shape, in_shape) if forms else None


def _leading_to(node: Node, label: str | None) -> set[int]:
    found: set[int] = set()
    for current in ordered(node)[::-1]:
        wanted = current.label is not None if label is None else current.label == label
        if wanted or any(id(e.parent) in found for e in current.edges):
            found.add(id(current))
    return found


def doubts(node: Node, label: str | None = None) -> tuple[str, ...]:
    """The operations that make an answer a superset, on paths to one input or to any."""
    useful = _leading_to(node, label)
    found = [
        edge.doubt
        for current in ordered(node)
        for edge in current.edges
        if edge.doubt and id(edge.parent) in useful
    ]
    return tuple(dict.fromkeys(found))


def leaves(node: Node) -> dict[str, Node]:
    """Every input that can be reached, by name."""
    return {n.label: n for n in ordered(node) if n.label is not None}
