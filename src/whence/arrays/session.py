"""What the arrays of one tracked call share: held values, aliases, values that left, branches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from whence.arrays.cells import Ints
from whence.arrays.forms import Form, Gather, everything, identity
from whence.arrays.graph import Edge, Held, Node, influence
from whence.arrays.memory import FOREIGN, Array, Layout, Shared, block_of, layout, owner
from whence.arrays.writes import Written

_VIEWS_NOTED = 256
NONE: Any = ()  # of most there is nothing in most calls: it is made by who puts something in
NO_KEYS: Any = MappingProxyType({})
_OF_TYPES = (TypeError, AttributeError)  # errors that the same types give, whatever the values
Cover = Callable[[], Ints]  # gives the flat cells of a target that a write changed

if TYPE_CHECKING:
    from whence.arrays.tracked import TrackedArray


class Reach(IntEnum):
    """How far the relations of a call tell about other sizes."""

    FAR = 0  # cells are taken in proportion to sizes
    BETWEEN = 1  # sizes were looked at, or rounded: what is done may change beyond sizes seen
    HERE = 2  # positions were bent into the array: each size has its own
    NOWHERE = 3  # code asked how arrays lie in memory, which is no part of a signature


class Session:
    """One tracked call, or interactive use (`lasting`: held values are copied at once).

    `frames` says that the arrays are columns of pandas frames, `counted` that their rows were
    counted, `changed` that an input was written to, `numbers` that there are numbers of Python,
    `over` that the call has ended, `reach` how far what was done tells about other sizes,
    `deciding` which arrays were given as options of the function that runs.
    """

    lasting = frames = counted = changed = numbers = over = False
    reach = Reach.FAR
    deciding: tuple[Node, ...] = ()
    held: dict[int, list[Held]] = NO_KEYS
    aliases: dict[int, dict[int, ref[TrackedArray]]] = NO_KEYS
    views: list[tuple[ref[TrackedArray], ref[TrackedArray]]] = NONE
    left: list[tuple[Node, str]] = NONE
    steering: list[Node] = NONE
    _pool: Node | None = None
    _pooled = 0

    def __init__(
        self, lasting: bool = False, packages: frozenset[str] = frozenset(), frames: bool = False
    ) -> None:
        if lasting or frames:
            self.lasting, self.frames = lasting, frames
        self.packages = packages

    def hold(self, *arrays: Any) -> Held:
        """Keep values of tracked arrays for a rule; they are copied before they change."""
        held = Held(*arrays)
        if self.lasting:
            held.keep(lambda array: True)
        else:
            self.held = self.held or {}
            for block in {block_of(a) for a in arrays if isinstance(a, np.ndarray)}:
                self.held.setdefault(block, []).append(held)
        return held

    def release(self, caller_owns: Iterable[Any]) -> None:
        """At the end of a call: copy what the caller can change, and stop watching."""
        if not self.held:
            return
        owners = {id(owner(a)) for a in caller_owns if isinstance(a, np.ndarray)}
        for held in chain.from_iterable(self.held.values()):
            held.keep(lambda array: id(owner(array)) in owners)
        self.held = NO_KEYS

    def narrow(self, reach: Reach) -> None:
        """Note that what is done tells less far about other sizes."""
        if reach > self.reach:
            self.reach = reach

    def branch_on(self, node: Node) -> None:
        """A branch on the values of an array, and on how many there are."""
        self.steer(node)
        self.look_at_shape(node)

    def steer(self, node: Node) -> None:
        """Values that all which is made from now on depends on."""
        self.steering = self.steering or []
        self.steering.append(node)

    def look_at_shape(self, node: Node) -> None:
        """A shape was asked for: a branch, if values decided it."""
        if node.loose is not None:
            self.steer(node.loose)

    def raised(self, error: Exception, operands: Iterable[TrackedArray], *sized: Node) -> None:
        """An error is a branch for who catches it: on what operands hold, and on sizes."""
        self.narrow(Reach.BETWEEN)
        for node in sized:
            self.look_at_shape(node)
        for operand in operands:
            if isinstance(error, _OF_TYPES) and operand.data_.dtype != object:
                self.look_at_shape(operand.node_)
            else:
                self.branch_on(operand.node_)

    def escape(self, node: Node, operation: str) -> None:
        """A value left NumPy: what is made of untracked values from now on may hold it."""
        self.left = self.left or []
        self.left.append((node, operation))
        self.look_at_shape(node)

    def pool(self) -> Node | None:
        """One node for all values that left until now; it stands on the one before it."""
        new = dict.fromkeys(self.left[self._pooled :])
        if new:
            edges = [
                Edge(node, partial(everything, (), node.shape), doubt=f"a value left through {op}")
                for node, op in new
            ]
            if self._pool is not None:
                edges.append(Edge(self._pool, partial(identity, ())))
            self._pool, self._pooled = Node((), edges, "values that left"), len(self.left)
        return self._pool

    def tainted(self, shape: tuple[int, ...], contributing: bool = True) -> list[Edge]:
        """The edge for a result that used untracked values after some had left, if any had."""
        pool = self.pool()
        return [] if pool is None else [Edge(pool, partial(everything, shape, ()), contributing)]

    def forget(self) -> None:
        """Begin anew with branches and values that left."""
        self.steering, self.left = NONE, NONE
        self._pool, self._pooled = None, 0

    def decided(self, shape: tuple[int, ...]) -> list[Edge]:
        """Edges from the options of the function that runs: their values said how."""
        return [
            Edge(node, partial(everything, shape, node.shape), False, by_values=True)
            for node in self.deciding
        ]

    def link(self, one: TrackedArray, two: TrackedArray) -> None:
        """Note that two tracked arrays share memory; what that means is found out by a write."""
        self.views = self.views or []
        self.views.append((ref(one), ref(two)))
        if len(self.views) > _VIEWS_NOTED:
            self._gather_views()

    def _gather_views(self) -> None:
        """Put the arrays that share memory and are still there into families, by its owner."""
        if not self.views:
            return
        self.aliases = self.aliases or {}
        for pair in self.views:
            living = [array for array in (noted() for noted in pair) if array is not None]
            if not living or not _share_memory(living[0].data_, living[-1].data_):
                continue
            family = self.aliases.setdefault(id(owner(living[0].data_)), {})
            for array in living:
                key = id(array)
                if key not in family:
                    family[key] = ref(array, partial(family.pop, key))
        self.views = NONE

    def sharing(self, data: Array) -> list[TrackedArray]:
        """The tracked arrays in the memory of some data, where two or more share it."""
        self._gather_views()
        found = [noted() for noted in self.aliases.get(id(owner(data)), {}).values()]
        return [array for array in found if array is not None]

    def standing_for(self, data: Array) -> list[TrackedArray]:
        """The tracked arrays of some data, among those that share memory."""
        return [array for array in self.sharing(data) if array.data_ is data]

    def overwrite(
        self, target: TrackedArray, node: Node, written: Cover | None, keys: Sequence[Node] = ()
    ) -> None:
        """Give `target` a new node after a write, and pass the change on to its aliases.

        Without `written`, all cells are from the new node; `keys` steered which cells were written,
        and so did what decided which part of an alias `target` is.
        """
        self.changed = self.changed or target.node_.label is not None
        node.loose = target.node_.loose
        target.node_ = node
        if target.data_.base is not None and not (place := layout(target.data_)).distinct:
            target.node_ = _overlapping(node, place, written)
        self._gather_views()
        for noted in list(self.aliases.get(id(owner(target.data_)), {}).values()):
            alias = noted()
            if alias is not None and alias is not target:
                self.changed = self.changed or alias.node_.label is not None
                alias.node_ = _seen_through(alias, target, written, keys)

    def before_write(self, target: Array) -> None:
        """Copy held values that a write to `target` could change."""
        if not self.held:
            return
        mine = block_of(target)
        for block in [mine, FOREIGN] if mine != FOREIGN else list(self.held):
            listed = self.held.get(block, [])
            copied = [
                held.keep(lambda array: np.may_share_memory(array, target)) for held in listed
            ]
            if any(copied):  # copies are nobody else's, and need no more watching
                self.held[block] = [held for held in listed if _lies_in(held, block)]


def _share_memory(one: Array, two: Array) -> bool:
    """Whether two arrays are of one piece of memory, also where one of them has no cells."""
    return owner(one) is owner(two) or np.may_share_memory(one, two)


def _lies_in(held: Held, block: int) -> bool:
    return any(isinstance(a, np.ndarray) and block_of(a) == block for a in held.arrays)


def _overlapping(node: Node, place: Layout, written: Cover | None) -> Node:
    """The node of an array after a write, where cells of it share their places in memory."""
    shape = place.shape
    cells = place.every() if written is None else written()

    def moved() -> Form:
        index = _positions(place, place, cells)
        return Gather(shape, shape, np.where(index < 0, place.every().reshape(shape), index))

    edge = Edge(node, moved)
    if len(np.unique(place.address(cells))) < len(cells):  # NumPy does not say which is last
        doubt = "a write to cells that overlap"
        edge = Edge(node, partial(everything, shape, shape), doubt=doubt)
    return Node(shape, [edge], "write", None, node.loose)


def _seen_through(
    alias: TrackedArray, target: TrackedArray, written: Cover | None, keys: Sequence[Node]
) -> Node:
    """The node of an alias after a write to `target` (all of it, or the cells of `written`)."""
    there, here = layout(target.data_), layout(alias.data_)
    shape, loose, part = alias.data_.shape, alias.node_.loose, target.node_.loose
    chosen = [] if part is None else [influence(part, shape)]
    if alias.data_.itemsize != target.data_.itemsize:
        doubt = "a write through a view of another item size"
        new = Edge(target.node_, partial(everything, shape, target.data_.shape), doubt=doubt)
        old = Edge(alias.node_, partial(identity, shape), doubt=doubt)
        return Node(shape, (old, new, *chosen), "write", None, loose)
    if here.distinct:
        place = partial(_shared_cells, here, there, written)
        if part is not None:
            return Written(alias.node_, target.node_, place, "write", [*keys, part])
        within = Shared(here, there) if there.distinct else None
        return Written(alias.node_, target.node_, place, "write", keys, within)

    def positions() -> Ints:
        # what keys left alone has their influence there
        cells = there.every() if written is None or keys else written()
        return _positions(here, there, cells)

    def fresh() -> Form:
        return Gather(shape, there.shape, positions())

    def kept() -> Form:
        every = here.every().reshape(shape)
        return Gather(shape, shape, np.where(positions() < 0, every, -1))

    edges = (Edge(alias.node_, kept), Edge(target.node_, fresh), *chosen)
    return Node(shape, edges, "write", None, loose)


def _shared_cells(
    here: Layout, there: Layout, written: Cover | None, grid: Ints
) -> tuple[Ints, Ints]:
    """The cells of an alias that lie where cells of the target were written, and these."""
    source = there.every() if written is None else written()
    cells = here.cells_at(there.address(source))
    return cells[cells >= 0], source[cells >= 0]


def _positions(here: Layout, there: Layout, written: Ints) -> Ints:
    """For each cell of `here` the cell of `there` that was written to the same address, or −1."""
    wanted = here.addresses()
    if not len(written):
        return np.full(wanted.shape, -1, dtype=np.int64)
    target = there.address(written)
    order = np.argsort(target, kind="stable")
    at = np.maximum(np.searchsorted(target[order], wanted, side="right") - 1, 0)
    found = order[at]
    return np.where(target[found] == wanted, written[found], -1)
