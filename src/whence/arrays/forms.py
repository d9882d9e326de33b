"""The forms a relation between output and input cells can take, and how they are built.

`Boxes` is symbolic: its size depends on how regular the relation is, not on the arrays. `Gather`
says for each output cell the one input cell it came from, `Pairs` lists pairs, and `Reshape` keeps
the flat position. All are zero-based; all bounds are inclusive.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from whence.arrays.cells import Ints, Shape

ROW_LIMIT = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """Rows of output boxes; input axis i is `lo + lo_k*b[ref] … hi + hi_k*b[ref]` (ref −1: none).

    Every interval is non-empty and inside the input for every b of its row's box.
    """

    out_shape: Shape
    in_shape: Shape
    out_lo: Ints
    out_hi: Ints
    ref: Ints
    lo: Ints
    lo_k: Ints
    hi: Ints
    hi_k: Ints

    def __len__(self) -> int:
        return len(self.out_lo)

    def take(self, rows: Ints) -> Boxes:
        """Some of the rows, in the given order."""
        columns = (getattr(self, name) for name in COLUMNS)
        return Boxes(self.out_shape, self.in_shape, *(column[rows] for column in columns))

    def single_valued(self) -> bool:
        """Whether each row gives one input cell per output cell."""
        return bool((self.lo == self.hi).all() and (self.lo_k == self.hi_k).all())


COLUMNS = ("out_lo", "out_hi", "ref", "lo", "lo_k", "hi", "hi_k")


@dataclass(frozen=True, slots=True, eq=False)
class Gather:
    """`index` has the output's shape and holds flat input positions; −1 means no cell."""

    out_shape: Shape
    in_shape: Shape
    index: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Distinct pairs of flat positions, sorted by output, then input."""

    out_shape: Shape
    in_shape: Shape
    out: Ints
    inp: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Reshape:
    """The same flat position in two shapes of equal size."""

    out_shape: Shape
    in_shape: Shape


Form = Boxes | Gather | Pairs | Reshape


class Bound(NamedTuple):
    """An input interval; its ends follow output axis `ref` (−1: whatever the output)."""

    lo: int
    hi: int
    ref: int = -1
    lo_k: int = 0
    hi_k: int = 0


class Run(NamedTuple):
    """Output positions `b_lo … b_hi` of one axis, and the interval they come from."""

    b_lo: int
    b_hi: int
    lo: int
    lo_k: int
    hi: int
    hi_k: int


@dataclass(frozen=True, slots=True, eq=False)
class AxisMap:
    """How one input axis follows output axis `ref`: an array of runs, one row per `Run`."""

    ref: int
    runs: Ints


def follow(ref: int, size: int, offset: int = 0) -> AxisMap:
    """Input position = output position of axis `ref` + offset, over all `size` outputs."""
    return AxisMap(ref, _runs([Run(0, size - 1, offset, 1, offset, 1)] if size else []))


def whole(size: int) -> AxisMap:
    """All positions of the input axis, whatever the output."""
    return AxisMap(-1, _runs([Run(0, 0, 0, 0, size - 1, 0)] if size else []))


def fixed(lo: int, hi: int | None = None) -> AxisMap:
    """The same positions of the input axis, whatever the output."""
    return AxisMap(-1, _runs([Run(0, 0, lo, 0, lo if hi is None else hi, 0)]))


def runs(ref: int, items: Iterable[Run]) -> AxisMap:
    """A map along output axis `ref` given run by run."""
    return AxisMap(ref, _runs(items))


def window(ref: int, out_size: int, in_size: int, below: int, above: int) -> AxisMap:
    """Input positions `b+below … b+above`, cut at the ends of the input axis; no empty ones."""
    first, last = max(0, -above), min(out_size - 1, in_size - 1 - below)
    if first > last:
        return AxisMap(ref, _runs([]))
    cuts = {first, last + 1}
    cuts.update(c for c in (-below, in_size - above) if first < c <= last)
    edges = sorted(cuts)
    out = []
    for start, stop in pairwise(edges):
        low = (0, 0) if start + below < 0 else (below, 1)
        high = (in_size - 1, 0) if stop - 1 + above > in_size - 1 else (above, 1)
        out.append(Run(start, stop - 1, *low, *high))
    return AxisMap(ref, _runs(out))


def from_index(ref: int, index: Ints) -> AxisMap:
    """Runs of a one-dimensional movement; `index` is 1-based and 0 means no cell."""
    if not len(index):
        return AxisMap(ref, _runs([]))
    step = np.diff(index)
    present = index > 0
    linked = present[1:] & present[:-1]
    best: Ints | None = None
    factor = 1
    for k in (1, 0, -1):
        first = np.append(True, ~((step == k) & linked))
        if best is None or first.sum() < len(best):
            best, factor = np.flatnonzero(first), k
    assert best is not None
    stop = np.append(best[1:], len(index)) - 1
    keep = present[best]
    start, stop = best[keep], stop[keep]
    base = index[start] - 1 - factor * start
    k_column = np.full(len(start), factor)
    rows = np.stack([start, stop, base, k_column, base, k_column], axis=1)
    return AxisMap(ref, rows.astype(np.int64))


def _runs(items: Iterable[Run]) -> Ints:
    return np.array(list(items), dtype=np.int64).reshape(-1, 6)


def separable(
    out_shape: Shape,
    in_shape: Shape,
    maps: Sequence[AxisMap],
    within: dict[int, tuple[int, int]] | None = None,
) -> Form:
    """The product of one map per input axis; `within` narrows output axes."""
    counts = [len(m.runs) for m in maps]
    total = math.prod(counts)
    if total > ROW_LIMIT and all(bool((m.runs[:, 2:4] == m.runs[:, 4:6]).all()) for m in maps):
        return _dense(out_shape, in_shape, maps, within)
    if 0 in out_shape or 0 in in_shape:
        total = 0
    picks = np.unravel_index(np.arange(total), counts) if counts else ()
    lows = np.zeros((total, len(out_shape)), dtype=np.int64)
    highs = np.broadcast_to(np.array(out_shape, dtype=np.int64) - 1, lows.shape).copy()
    for axis, (low, high) in (within or {}).items():
        lows[:, axis], highs[:, axis] = low, high
    ref = np.empty((total, len(maps)), dtype=np.int64)
    values = np.empty((4, total, len(maps)), dtype=np.int64)
    for i, m in enumerate(maps):
        chosen = m.runs[picks[i]]
        absolute = (chosen[:, 3] == 0) & (chosen[:, 5] == 0)
        ref[:, i] = np.where(absolute, -1, m.ref)
        values[:, :, i] = chosen[:, 2:].T
        if m.ref >= 0:
            lows[:, m.ref] = np.maximum(lows[:, m.ref], chosen[:, 0])
            highs[:, m.ref] = np.minimum(highs[:, m.ref], chosen[:, 1])
    keep = (lows <= highs).all(axis=1)
    lo, lo_k, hi, hi_k = (v[keep] for v in values)
    return Boxes(out_shape, in_shape, lows[keep], highs[keep], ref[keep], lo, lo_k, hi, hi_k)


def _dense(
    out_shape: Shape,
    in_shape: Shape,
    maps: Sequence[AxisMap],
    within: dict[int, tuple[int, int]] | None,
) -> Gather:
    index = np.zeros(out_shape, dtype=np.int64)
    stride = 1
    missing = np.zeros(out_shape, dtype=bool)
    for axis in range(len(maps) - 1, -1, -1):
        m = maps[axis]
        if m.ref < 0:
            index += stride * int(m.runs[0, 2])
        else:
            lookup = np.full(out_shape[m.ref], -1, dtype=np.int64)
            for b_lo, b_hi, base, k, _, _ in _spread(m.runs):
                lookup[b_lo : b_hi + 1] = base + k * np.arange(b_lo, b_hi + 1)
            shaped = lookup.reshape([-1 if j == m.ref else 1 for j in range(len(out_shape))])
            index += stride * shaped
            missing |= shaped < 0
        stride *= in_shape[axis]
    for axis, (low, high) in (within or {}).items():
        outside = np.ones(out_shape[axis], dtype=bool)
        outside[low : high + 1] = False
        missing |= outside.reshape([-1 if j == axis else 1 for j in range(len(out_shape))])
    index[missing] = -1
    return Gather(out_shape, in_shape, index)


def _spread(rows: Ints) -> list[list[int]]:
    found: list[list[int]] = rows.tolist()
    return found


def boxes(
    out_shape: Shape,
    in_shape: Shape,
    rows: Iterable[tuple[Sequence[tuple[int, int]], Sequence[Bound]]],
) -> Boxes:
    """`Boxes` from a few rows of (output ranges, input bounds)."""
    listed = list(rows)
    n, outs, ins = len(listed), len(out_shape), len(in_shape)
    ranges = np.array([r for r, _ in listed], dtype=np.int64).reshape(n, outs, 2)
    bounds = np.array([[tuple(b) for b in bs] for _, bs in listed], dtype=np.int64)
    bounds = bounds.reshape(n, ins, 5)
    lo, hi, ref, lo_k, hi_k = (bounds[:, :, i] for i in range(5))
    return Boxes(out_shape, in_shape, ranges[:, :, 0], ranges[:, :, 1], ref, lo, lo_k, hi, hi_k)


def empty(out_shape: Shape, in_shape: Shape) -> Boxes:
    """No pairs at all."""
    return boxes(out_shape, in_shape, [])


def identity(shape: Shape) -> Form:
    """Each cell from the same cell."""
    return separable(shape, shape, [follow(i, n) for i, n in enumerate(shape)])


def broadcast(out_shape: Shape, in_shape: Shape) -> Form:
    """Each cell from the cell that broadcasting puts there."""
    skip = len(out_shape) - len(in_shape)
    maps = [
        follow(i + skip, out_shape[i + skip]) if n == out_shape[i + skip] else fixed(0)
        for i, n in enumerate(in_shape)
    ]
    return separable(out_shape, in_shape, maps)


def reshaped(out_shape: Shape, in_shape: Shape) -> Form:
    """The same flat position; symbolic where only axes of size 1 come or go."""
    if out_shape == in_shape:
        return identity(out_shape)
    long_out = [i for i, n in enumerate(out_shape) if n != 1]
    if [out_shape[i] for i in long_out] != [n for n in in_shape if n != 1]:
        return Reshape(out_shape, in_shape)
    positions = iter(long_out)
    maps = [follow(next(positions), n) if n != 1 else fixed(0) for n in in_shape]
    return separable(out_shape, in_shape, maps)


def everything(out_shape: Shape, in_shape: Shape) -> Form:
    """Each cell from every cell."""
    return separable(out_shape, in_shape, [whole(n) for n in in_shape])


def spans(out_shape: Shape, in_shape: Shape, lo: Ints, hi: Ints) -> Boxes:
    """Of two arrays of one dimension: output cell i from the cells `lo[i] … hi[i]`, if any."""
    rows = np.flatnonzero(lo <= hi)
    out, one, two = (part.astype(np.int64)[:, None] for part in (rows, lo[rows], hi[rows]))
    none = np.zeros_like(out)
    return Boxes(out_shape, in_shape, out, out, none - 1, one, none, two, none)


def gathered(out_shape: Shape, in_shape: Shape, index: Ints) -> Gather:
    """A `Gather` from 1-based positions in which 0 means no cell."""
    flat = np.asarray(index, dtype=np.int64) - 1
    return Gather(out_shape, in_shape, flat.reshape(out_shape))


def pairs(out_shape: Shape, in_shape: Shape, out: Ints, inp: Ints) -> Pairs:
    """`Pairs` from flat positions in any order."""
    if len(out) > 1:
        step = np.diff(out)
        ordered = bool(((step > 0) | ((step == 0) & (np.diff(inp) > 0))).all())
        if not ordered:
            order = np.lexsort((inp, out))
            out, inp = out[order], inp[order]
            keep = np.append(True, (np.diff(out) != 0) | (np.diff(inp) != 0))
            out, inp = out[keep], inp[keep]
    return Pairs(out_shape, in_shape, out.astype(np.int64), inp.astype(np.int64))
