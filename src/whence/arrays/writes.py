"""Writes to some cells of an array, kept as a log: a version of the array is a length of it.

Code that fills an array cell by cell makes as many versions as it has cells. Each is one entry
here, and a question about a version looks up which write a cell comes from instead of walking
through all versions in between.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from itertools import pairwise

import numpy as np

from whence.arrays.cells import Cells, Ints, Shape, all_cells, expand_limit, from_flat, no_cells
from whence.arrays.compose import compose
from whence.arrays.expand import count_pairs, expand
from whence.arrays.forms import Form, Gather, everything, identity, pairs
from whence.arrays.graph import Edge, Node, Role, Step
from whence.arrays.memory import Shared
from whence.arrays.query import forward

# From the array's flat positions: the cells written, in order, and the source's cell of each.
Place = Callable[[Ints], tuple[Ints, Ints]]
_FEW = 32  # writes that are joined one after the other, as symbols, when a relation is asked for


class Log:
    """The writes to an array, in order; a later version holds the earlier ones alive."""

    __slots__ = ("_index", "_written", "grid", "places", "shape", "steered", "versions")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.places: list[Place] = []
        self.versions: list[weakref.ref[Written]] = []
        self.steered: list[int] = []
        self.grid: Ints | None = None
        self._written: list[tuple[Ints, Ints]] = []
        self._index: tuple[Ints, Ints] | None = None

    def written(self, turn: int) -> tuple[Ints, Ints]:
        """The cells that one write changed, and the cells of its source."""
        if self.grid is None:
            size = int(np.prod(self.shape, dtype=np.int64))
            self.grid = np.arange(size, dtype=np.int64).reshape(self.shape)
        while len(self._written) <= turn:
            self._written.append(self.places[len(self._written)](self.grid))
        return self._written[turn]

    def last(self, cells: Ints, turn: int) -> tuple[Ints, Ints]:
        """For each cell the write it has at `turn` (−1: none), and the cell of that source."""
        keys, sources = self._sorted()
        if not len(keys):
            return np.full(len(cells), -1), np.zeros(len(cells), dtype=np.int64)
        count = len(self._written)
        at = np.maximum(np.searchsorted(keys, cells * count + turn, side="right") - 1, 0)
        cell, when = np.divmod(keys[at], count)
        return np.where((cell == cells) & (when <= turn), when, -1), sources[at]

    def _sorted(self) -> tuple[Ints, Ints]:
        """Cell and turn as one number, ascending, with the source's cell beside it."""
        count = len(self.places)
        if self._index is None or len(self._written) < count:
            self.written(count - 1)
            turns = np.repeat(np.arange(count), [len(cells) for cells, _ in self._written])
            cells = np.concatenate([cells for cells, _ in self._written])
            order = np.argsort(cells, kind="stable")
            sources = np.concatenate([found for _, found in self._written])
            self._index = (cells * count + turns)[order], sources[order]
        return self._index

    def untouched(self, turn: int) -> Form:
        """Each cell from itself, but for those that a write changed."""
        changed, _ = self.written(turn)
        assert self.grid is not None
        index = self.grid.copy()
        index.reshape(-1)[changed] = -1
        return Gather(self.shape, self.shape, index)

    def taken(self, turn: int, in_shape: Shape) -> Form:
        """The changed cells from those of the source; of two values for a cell the last stays."""
        cells, sources = self.written(turn)
        order = np.argsort(cells, kind="stable")
        cells, sources = cells[order], sources[order]
        last = np.append(cells[1:] != cells[:-1], True)[: len(cells)]
        return pairs(self.shape, in_shape, cells[last], sources[last])


class _Kept(Edge):
    """The cells that a write left alone: a relation of the array's size, so it is not kept."""

    __slots__ = ()

    def form(self) -> Form:
        return self.rule()


class Written(Node):
    """A version of an array after a write of some cells, from `source` or from constants.

    All cells of `keys`, arrays that said where to write, steer which cells were written, of those
    `within` (None: of all).
    """

    __slots__ = ("log", "source", "steers", "turn", "within")
    log: Log
    turn: int

    def __init__(
        self,
        before: Node,
        source: Node | None,
        place: Place,
        op: str,
        keys: Sequence[Node] = (),
        within: Shared | None = None,
    ) -> None:
        newest = isinstance(before, Written) and before.turn + 1 == len(before.log.places)
        log = before.log if newest else Log(before.shape)  # type: ignore[attr-defined]
        turn, shape, chosen = len(log.places), before.shape, bool(keys)
        edges: list[Edge] = [_Kept(before, partial(log.untouched, turn), by_values=chosen)]
        self.source: Edge | None = None
        if source is not None:
            taken = partial(log.taken, turn, source.shape)
            self.source = Edge(source, taken, by_values=chosen)
            edges.append(self.source)
        self.within = within
        self.steers = [
            Edge(key, partial(_steered_in, within, shape, key.shape), False) for key in keys
        ]
        super().__init__(shape, [*edges, *self.steers], op, None, before.loose)
        log.places.append(place)
        log.versions.append(weakref.ref(self))
        if keys:
            log.steered.append(turn)
        self.log, self.turn = log, turn

    def back(self, cells: Cells) -> Iterator[Step[Cells]]:
        """Cells behind some cells, from the writes these have and from before all writes."""
        flat = cells.positions()
        turns, sources = self.log.last(flat, self.turn)
        for turn, members in _groups(turns):
            edge, found = self._edge(turn), flat if turn < 0 else sources
            if edge is not None:
                yield Step(edge.parent, from_flat(edge.parent.shape, found[members]))
        for key in self._keys_of(flat, turns):
            yield Step(key, all_cells(key.shape), False)

    def behind(self, form: Form | None, useful: Set[int], role: Role) -> Iterator[Step[Form]]:
        """Relations of what `form` relates to these cells with what they come from."""
        whole = identity(self.shape) if form is None else form
        steered = role == "influencing" and self._steered(0)
        if self.turn < _FEW or steered or count_pairs(whole) > expand_limit.get():
            yield from super().behind(form, useful, role)
            return
        listed = expand(whole)
        turns, sources = self.log.last(listed.inp, self.turn)
        for turn, members in _groups(turns):
            edge, found = self._edge(turn), listed.inp if turn < 0 else sources
            if edge is not None and id(edge.parent) in useful:
                shapes = whole.out_shape, edge.parent.shape
                yield Step(edge.parent, pairs(*shapes, listed.out[members], found[members]))

    def ahead(self, since: int, reached: Callable[[Node], Cells]) -> Cells:
        """The cells of this version that are reached, given those of `since` and of all sources."""
        before = self._version(since) if since >= 0 else self._version(0).edges[0].parent
        cells, turns = [reached(before).positions()], [since]
        for turn in range(since + 1, self.turn + 1):
            edge = self._edge(turn)
            found = reached(edge.parent) if edge is not None else None
            if edge is not None and found is not None and not found.is_empty():
                cells.append(forward(edge.form(), found).positions())
                turns.append(turn)
        flat = np.concatenate(cells)
        written = np.repeat(turns, [len(part) for part in cells])
        last, _ = self.log.last(flat, self.turn)
        stays = np.where(written == since, last <= since, last == written)
        return from_flat(self.shape, flat[stays])

    def steered(self, since: int, reached: Callable[[Node], bool]) -> Cells:
        """The cells of this version that keys after `since` steer, of those that are reached."""
        newest: dict[Shared | None, int] = {}  # which covers what older ones do
        for turn in self._steered(since + 1):
            version = self._version(turn)
            if any(reached(edge.parent) for edge in version.steers):
                newest[version.within] = turn
        if not newest:
            return no_cells(self.shape)
        every = np.arange(int(np.prod(self.shape, dtype=np.int64)), dtype=np.int64)
        last, _ = self.log.last(every, self.turn)
        found = np.zeros(len(every), dtype=bool)
        for within, turn in newest.items():
            found |= (last <= turn) & (within is None or within.holds(every))
        return Cells(self.shape, flat=every[found])

    def _steered(self, first: int) -> list[int]:
        """The writes that keys steered, from `first` up to this version."""
        listed = self.log.steered
        return listed[bisect_left(listed, first) : bisect_right(listed, self.turn)]

    def _keys_of(self, cells: Ints, turns: Ints) -> list[Node]:
        """The arrays that said where to write, and left some cells alone since their writes."""
        oldest: dict[Shared | None, int] = {}
        found: dict[int, Node] = {}
        for turn in self._steered(max(int(turns.min(initial=self.turn + 1)), 0)):
            version = self._version(turn)
            within = version.within
            if within not in oldest:
                mine = turns if within is None else turns[within.holds(cells)]
                oldest[within] = int(mine.min(initial=self.turn + 1))
            if turn >= oldest[within]:
                found |= {id(edge.parent): edge.parent for edge in version.steers}
        return list(found.values())

    def _version(self, turn: int) -> Written:
        found = self.log.versions[turn]()
        assert found is not None, "a version holds those before it"
        return found

    def _edge(self, turn: int) -> Edge | None:
        """The edge to what a write took its values from (−1: to the array before all writes)."""
        return self._version(0).edges[0] if turn < 0 else self._version(turn).source


def _steered_in(within: Shared | None, shape: Shape, key_shape: Shape) -> Form:
    """The cells that a key could have chosen from all cells of the key."""
    if within is None:
        return everything(shape, key_shape)
    every = within.here.every()
    index = np.where(within.holds(every), 0, -1).reshape(shape)
    return compose(Gather(shape, (1,), index), everything((1,), key_shape))


def _groups(turns: Ints) -> Iterator[tuple[int, Ints]]:
    """Each turn that occurs, with the places where it does, in order."""
    order = np.argsort(turns, kind="stable")
    arranged = turns[order]
    cuts = np.flatnonzero(np.diff(arranged)) + 1
    bounds = [0, *cuts.tolist(), len(order)]
    for start, stop in pairwise(bounds):
        if stop > start:
            yield int(arranged[start]), order[start:stop]
