"""What the arrays of one tracked call share: held values, aliases, values that left, branches."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.arrays.cells import Ints
from whence.arrays.forms import Form, Gather, everything, identity
from whence.arrays.graph import Edge, Held, Node

if TYPE_CHECKING:
    from whence.arrays.tracked import TrackedArray

Array = np.ndarray[Any, Any]


def owner(array: Array) -> Any:
    """The object that owns an array's memory."""
    found: Any = array
    while isinstance(found, np.ndarray) and found.base is not None:
        found = found.base
    return found


class Session:
    """One tracked call, or interactive use (`lasting`: held values are copied at once).

    `frames` says that the arrays are columns of pandas frames.
    """

    __slots__ = (
        "__weakref__",
        "aliases",
        "frames",
        "held",
        "lasting",
        "left",
        "packages",
        "steering",
    )

    def __init__(
        self, lasting: bool = False, packages: frozenset[str] = frozenset(), frames: bool = False
    ) -> None:
        self.lasting, self.packages, self.frames = lasting, packages, frames
        self.held: list[Held] = []
        self.aliases: dict[int, list[weakref.ref[TrackedArray]]] = {}
        self.left: list[tuple[Node, str]] = []
        self.steering: list[Node] = []

    def hold(self, *arrays: Any) -> Held:
        """Keep values for a rule; they are copied before they change."""
        held = Held(*arrays)
        if self.lasting:
            held.keep(lambda array: True)
        else:
            self.held.append(held)
        return held

    def release(self, caller_owns: Iterable[Any]) -> None:
        """At the end of a call: copy what the caller can change, and stop watching."""
        if not self.held:
            return
        owners = {id(owner(a)) for a in caller_owns if isinstance(a, np.ndarray)}
        for held in self.held:
            held.keep(lambda array: id(owner(array)) in owners)
        self.held.clear()

    def escape(self, node: Node, operation: str) -> None:
        """A value left NumPy: what is made of untracked values from now on may hold it."""
        self.left.append((node, operation))

    def tainted(self, shape: tuple[int, ...]) -> list[Edge]:
        """Edges for a result that used untracked values after some had left."""
        return [
            Edge(node, partial(everything, shape, node.shape), doubt=f"a value left through {op}")
            for node, op in self.left
        ]

    def link(self, one: TrackedArray, two: TrackedArray) -> None:
        """Note that two tracked arrays share memory."""
        family = self.aliases.setdefault(id(owner(one.data_)), [])
        known = {id(ref()) for ref in family}
        for array in (one, two):
            if id(array) not in known:
                family.append(weakref.ref(array))

    def overwrite(self, target: TrackedArray, node: Node, written: Held | None) -> None:
        """Give `target` a new node after a write, and pass the change on to its aliases."""
        target.node_ = node
        for ref in self.aliases.get(id(owner(target.data_)), ()):
            alias = ref()
            if alias is not None and alias is not target:
                alias.node_ = _seen_through(alias, target, written)

    def before_write(self, target: Array) -> None:
        """Copy held values that a write to `target` could change."""
        for held in self.held:
            held.keep(lambda array: np.may_share_memory(array, target))


def _seen_through(alias: TrackedArray, target: TrackedArray, written: Held | None) -> Node:
    """The node of an alias after a write to `target` (all of it, or where `written` is true)."""
    there, here = _layout(target.data_), _layout(alias.data_)
    shape = alias.data_.shape
    if alias.data_.itemsize != target.data_.itemsize:
        doubt = "a write through a view of another item size"
        new = Edge(target.node_, partial(everything, shape, target.data_.shape), doubt=doubt)
        old = Edge(alias.node_, partial(identity, shape), doubt=doubt)
        return Node(shape, (old, new), "write")

    def fresh() -> Form:
        mask = written.arrays[0] if written is not None else None
        return Gather(shape, target.data_.shape, _positions(here, there, mask))

    def kept() -> Form:
        mask = written.arrays[0] if written is not None else None
        every = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
        untouched = _positions(here, there, mask) < 0
        return Gather(shape, shape, np.where(untouched, every, -1))

    return Node(shape, (Edge(alias.node_, kept), Edge(target.node_, fresh)), "write")


def _layout(array: Array) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    return array.__array_interface__["data"][0], array.shape, array.strides


def _addresses(layout: tuple[int, tuple[int, ...], tuple[int, ...]]) -> Ints:
    start, shape, strides = layout
    out = np.full(shape, start, dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        along = [-1 if i == axis else 1 for i in range(len(shape))]
        out += (np.arange(size, dtype=np.int64) * stride).reshape(along)
    return out


def _positions(here: Any, there: Any, mask: Array | None) -> Ints:
    """For each cell of `here` the flat cell of `there` at the same address, if it was written."""
    target = _addresses(there).reshape(-1)
    order = np.argsort(target, kind="stable")
    wanted = _addresses(here)
    at = np.searchsorted(target[order], wanted)
    at = np.minimum(at, max(len(target) - 1, 0))
    found = order[at] if len(order) else np.full(wanted.shape, -1)
    hit = (target[found] == wanted) if len(order) else np.zeros(wanted.shape, dtype=bool)
    if mask is not None:
        hit &= mask.reshape(-1)[found] if len(order) else False
    return np.where(hit, found, -1).astype(np.int64)
