"""What a tracked call records: nodes for arrays, edges that say where their cells come from.

An edge holds a rule; the rule becomes a relation the first time it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from whence.arrays.cells import Cells, Shape
from whence.arrays.compose import compose
from whence.arrays.forms import Form, broadcast, everything, identity
from whence.arrays.query import backward

Role = Literal["contributing", "influencing"]
Grade = Literal["exact", "superset", "unknown"]
Rule = Callable[[], Form]
Found = TypeVar("Found")
KEPT = "a tracked array kept from another call"


class Step(NamedTuple, Generic[Found]):
    """What was found in a parent: cells, or a relation with its cells."""

    parent: Node
    found: Found
    contributing: bool = True


class Held:
    """Values that a rule will need; they are copied before anybody can change them."""

    __slots__ = ("arrays",)

    def __init__(self, *arrays: Any) -> None:
        self.arrays: list[Any] = list(arrays)

    def keep(self, shared: Callable[[np.ndarray[Any, Any]], bool]) -> bool:
        """Copy the arrays that `shared` says may be changed by others; tells whether any was."""
        copied = False
        for i, array in enumerate(self.arrays):
            if isinstance(array, np.ndarray) and shared(array):
                self.arrays[i] = array.copy()
                copied = True
        return copied


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

    `loose` stands for its shape, and for which part of another array it is a view of, if values
    decided that: asking for the shape is looking at them.
    """

    __slots__ = ("__weakref__", "_edges", "label", "loose", "op", "shape")
    _edges: tuple[Edge, ...]

    def __init__(
        self,
        shape: Shape,
        edges: Iterable[Edge] = (),
        op: str = "",
        label: str | None = None,
        loose: Node | None = None,
    ) -> None:
        self.shape, self.op, self.label, self.loose = shape, op, label, loose
        self._edges = tuple(edges)

    @property
    def edges(self) -> tuple[Edge, ...]:
        """One for each array that the cells come from, and role."""
        return self._edges

    def back(self, cells: Cells) -> Iterator[Step[Cells]]:
        """The cells behind some cells of this array, edge by edge."""
        for edge in self.edges:
            yield Step(edge.parent, backward(edge.form(), cells), edge.contributing)

    def behind(self, form: Form | None, useful: Set[int], role: Role) -> Iterator[Step[Form]]:
        """Relations of what `form` relates to this array (None: its own cells) with its parents.

        Only with `useful` ones (by id), and for contributing cells only along contributing edges.
        """
        for edge in self.edges:
            if id(edge.parent) in useful and (edge.contributing or role == "influencing"):
                found = edge.form() if form is None else compose(form, edge.form())
                yield Step(edge.parent, found, edge.contributing)


class Input(Node):
    """An array that was given, by its name; there is nothing behind it."""

    __slots__ = ()
    _edges, op, loose = (), "input", None

    def __init__(self, shape: Shape, label: str) -> None:
        self.shape, self.label = shape, label

    def __reduce__(self) -> tuple[type[Input], tuple[Shape, str | None]]:
        return Input, (self.shape, self.label)


class EachCell(Node):
    """An array each of whose cells comes from the cells of `operands` that line up with it.

    The most common kind, so it takes as little as can be; its edges are made when asked for.
    """

    __slots__ = ("operands",)

    def __init__(self, shape: Shape, operands: Sequence[Node], op: str, loose: Node | None) -> None:
        self.shape, self.op, self.label, self.loose = shape, op, None, loose
        self.operands = operands

    @property
    def edges(self) -> tuple[Edge, ...]:
        """One for each operand."""
        try:
            return self._edges
        except AttributeError:
            shape = self.shape
            self._edges = tuple(Edge(n, lined_up(shape, n.shape)) for n in self.operands)
            return self._edges


def lined_up(shape: Shape, in_shape: Shape) -> Rule:
    """Each cell from the cell of an operand that lines up with it."""
    return partial(identity, shape) if shape == in_shape else partial(broadcast, shape, in_shape)


def influence(node: Node, shape: Shape) -> Edge:
    """Every cell of an array has a say in every cell of another."""
    return Edge(node, partial(everything, shape, node.shape), False, by_values=True)


def shape_from(nodes: Iterable[Node]) -> Node:
    """A shape that the values of some arrays decided: one cell, also where the array has none."""
    every = [known for node in nodes for known in (node, node.loose) if known is not None]
    return Node((), [influence(node, ()) for node in every], "shape")


def joint(one: Node | None, two: Node | None) -> Node | None:
    """A shape that follows from two."""
    if one is None or two is None or one is two:
        return two if one is None else one
    return shape_from((one, two))


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


def leading_to(node: Node, label: str | None) -> set[int]:
    """The ids of the nodes from which one input, or any, can be reached."""
    found: set[int] = set()
    for current in ordered(node)[::-1]:
        wanted = current.label is not None if label is None else current.label == label
        if wanted or any(id(e.parent) in found for e in current.edges):
            found.add(id(current))
    return found


def doubts(node: Node, label: str | None = None) -> tuple[str, ...]:
    """The operations that make an answer a superset, on paths to one input or to any."""
    useful = leading_to(node, label)
    found = [
        edge.doubt
        for current in ordered(node)
        for edge in current.edges
        if edge.doubt and id(edge.parent) in useful
    ]
    labels = [n.label for n in ordered(node) if n.label is not None and label in (None, n.label)]
    if len(set(labels)) < len(labels):
        found.append(KEPT)
    return tuple(dict.fromkeys(found))


def leaves(node: Node) -> dict[str, Node]:
    """Every input that can be reached, by name."""
    return {n.label: n for n in ordered(node) if n.label is not None}
