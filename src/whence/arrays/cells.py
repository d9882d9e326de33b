"""Sets of cells of one array: as boxes, or as sorted flat positions."""

from __future__ import annotations

import math
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.errors import ArrayError

Ints = NDArray[np.int64]
Shape = tuple[int, ...]

EXPAND_LIMIT = 1 << 28
expand_limit: ContextVar[int] = ContextVar("whence_arrays_expand_limit", default=EXPAND_LIMIT)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Cells of an array of `shape`, held as boxes (`lo`, `hi` inclusive) or as `flat` positions."""

    shape: Shape
    lo: Ints | None = None
    hi: Ints | None = None
    flat: Ints | None = None

    @property
    def is_flat(self) -> bool:
        """Whether the set is held as flat positions."""
        return self.flat is not None

    def boxes(self) -> tuple[Ints, Ints]:
        """Boxes that cover exactly these cells; they may overlap."""
        if self.lo is not None and self.hi is not None:
            return self.lo, self.hi
        return _runs(self.positions(), self.shape)

    def positions(self) -> Ints:
        """Sorted, distinct flat positions (C order)."""
        if self.flat is not None:
            return self.flat
        assert self.lo is not None and self.hi is not None
        return _distinct(_expand(self.lo, self.hi, self.shape), math.prod(self.shape))

    def indices(self) -> tuple[Ints, ...]:
        """One index array per axis, as `np.nonzero` gives them."""
        flat = self.positions()
        if not self.shape:
            return ()
        return tuple(np.asarray(i, dtype=np.int64) for i in np.unravel_index(flat, self.shape))

    def mask(self) -> NDArray[np.bool_]:
        """A boolean array of the array's shape, true at these cells."""
        out = np.zeros(self.shape, dtype=bool)
        if self.flat is not None:
            out.reshape(-1)[self.flat] = True
            return out
        lo, hi = self.boxes()
        for low, high in zip(lo.tolist(), hi.tolist(), strict=True):
            out[tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))] = True
        return out

    def __len__(self) -> int:
        if self.lo is not None and self.hi is not None and len(self.lo) == 1:
            return int(np.prod(self.hi[0] - self.lo[0] + 1))
        return len(self.positions())

    def is_empty(self) -> bool:
        """Whether there are no cells."""
        return len(self.flat if self.flat is not None else self.boxes()[0]) == 0

    def reshaped(self, shape: Shape) -> Cells:
        """The same cells in C order of another shape of equal size."""
        return Cells(shape, flat=self.positions())

    def minus(self, other: Cells) -> Cells:
        """These cells without those of `other`."""
        if self.is_empty() or other.is_empty():
            return self
        keep = np.setdiff1d(self.positions(), other.positions(), assume_unique=True)
        return Cells(self.shape, flat=keep)


def no_cells(shape: Shape) -> Cells:
    """The empty set."""
    return Cells(shape, flat=np.empty(0, dtype=np.int64))


def all_cells(shape: Shape) -> Cells:
    """Every cell, as one box."""
    if 0 in shape:
        return no_cells(shape)
    lo = np.zeros((1, len(shape)), dtype=np.int64)
    hi = np.array([shape], dtype=np.int64).reshape(1, len(shape)) - 1
    return Cells(shape, lo=lo, hi=hi)


def from_flat(shape: Shape, flat: Any) -> Cells:
    """Cells at flat positions, in any order, with repetitions."""
    positions = np.asarray(flat, dtype=np.int64).reshape(-1)
    return Cells(shape, flat=_distinct(positions, math.prod(shape)))


def from_boxes(shape: Shape, lo: Ints, hi: Ints) -> Cells:
    """Cells covered by boxes; many small boxes are turned into flat positions."""
    if len(lo) > 1:
        volume = int(np.prod(hi - lo + 1, axis=1).sum())
        if volume <= 4 * len(lo) or (len(lo) > 64 and volume <= EXPAND_LIMIT):
            return from_flat(shape, _expand(lo, hi, shape))
    return Cells(shape, lo=lo, hi=hi)


def union(parts: list[Cells], shape: Shape) -> Cells:
    """All cells of the parts."""
    full = [part for part in parts if not part.is_empty()]
    if not full:
        return no_cells(shape)
    if len(full) == 1:
        return full[0]
    if any(part.is_flat for part in full):
        return from_flat(shape, np.concatenate([part.positions() for part in full]))
    boxes = [part.boxes() for part in full]
    lo = np.concatenate([low for low, _ in boxes])
    hi = np.concatenate([high for _, high in boxes])
    both = np.concatenate([lo, hi], axis=1)
    both = both[distinct_rows(both)]
    d = lo.shape[1]
    return from_boxes(shape, both[:, :d], both[:, d:])


def select(shape: Shape, selector: Any) -> Cells:
    """The cells that indexing an array of `shape` with `selector` would read."""
    if isinstance(selector, Cells):
        return selector
    if selector is Ellipsis:
        return all_cells(shape)
    try:
        box = _as_box(shape, selector)
        if box is not None:
            return box
        _refuse_large(math.prod(shape))
        index = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)[selector]
    except (IndexError, TypeError, ValueError) as error:
        raise ArrayError(
            f"{selector!r} does not select cells of an array of shape {shape}: {error}"
        ) from error
    return from_flat(shape, index)


def _as_box(shape: Shape, selector: Any) -> Cells | None:
    items = selector if isinstance(selector, tuple) else (selector,)
    if any(not isinstance(i, int | np.integer | slice) or isinstance(i, bool) for i in items):
        return None
    if len(items) > len(shape):
        raise IndexError(f"{len(items)} indices for {len(shape)} axes")
    lo, hi = [], []
    for axis, size in enumerate(shape):
        item = items[axis] if axis < len(items) else slice(None)
        if isinstance(item, slice):
            start, stop, step = item.indices(size)
            if step != 1:
                return None
            low, high = start, stop - 1
        else:
            low = high = int(item) + (size if item < 0 else 0)
            if not 0 <= low < size:
                raise IndexError(f"index {item} is out of bounds for axis {axis} of size {size}")
        lo.append(low)
        hi.append(high)
    if any(a > b for a, b in zip(lo, hi, strict=True)):
        return no_cells(shape)
    d = len(shape)
    return Cells(
        shape,
        lo=np.array(lo, dtype=np.int64).reshape(1, d),
        hi=np.array(hi, dtype=np.int64).reshape(1, d),
    )


def _refuse_large(count: int) -> None:
    if count > expand_limit.get():
        raise ArrayError(
            f"{count} cells would have to be listed one by one; ask for fewer, or for a slice"
        )


def strides_of(shape: Shape) -> Ints:
    """C-order strides in cells."""
    out = np.ones(len(shape), dtype=np.int64)
    for axis in range(len(shape) - 2, -1, -1):
        out[axis] = out[axis + 1] * max(shape[axis + 1], 1)
    return out


def _expand(lo: Ints, hi: Ints, shape: Shape) -> Ints:
    widths = hi - lo + 1
    counts = np.prod(widths, axis=1, dtype=np.int64)
    total = int(counts.sum())
    _refuse_large(total)
    strides = strides_of(shape)
    if len(lo) == 1:
        return _expand_one(lo[0], widths[0], strides)
    owner = np.repeat(np.arange(len(lo)), counts)
    within = np.arange(total, dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    flat = np.repeat(lo @ strides, counts)
    for axis in range(len(shape) - 1, -1, -1):
        width = widths[owner, axis]
        flat += (within % width) * strides[axis]
        within //= width
    return flat


def _expand_one(lo: Ints, widths: Ints, strides: Ints) -> Ints:
    flat = np.array(int(lo @ strides), dtype=np.int64).reshape(1)
    for width, stride in zip(widths.tolist(), strides.tolist(), strict=True):
        flat = (flat[:, None] + np.arange(width, dtype=np.int64) * stride).reshape(-1)
    return flat


def _distinct(flat: Ints, size: int) -> Ints:
    if len(flat) < 2 or bool((flat[1:] > flat[:-1]).all()):
        return flat
    if len(flat) > size // 64 and size <= EXPAND_LIMIT:
        mask = np.zeros(size, dtype=bool)
        mask[flat] = True
        return np.flatnonzero(mask).astype(np.int64, copy=False)
    ordered = np.sort(flat)
    found: Ints = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found


def distinct_rows(table: Ints) -> Ints:
    """Positions of the first of each set of equal rows (np.unique would import numpy.ma)."""
    if len(table) < 2 or not table.shape[1]:
        return np.arange(min(len(table), 1))
    order = np.lexsort(table.T[::-1])
    arranged = table[order]
    first = np.append(True, (arranged[1:] != arranged[:-1]).any(axis=1))
    return np.sort(order[first])


def _runs(flat: Ints, shape: Shape) -> tuple[Ints, Ints]:
    d = len(shape)
    if not len(flat):
        return np.empty((0, d), dtype=np.int64), np.empty((0, d), dtype=np.int64)
    if d == 0:
        return np.zeros((1, 0), dtype=np.int64), np.zeros((1, 0), dtype=np.int64)
    first = np.ones(len(flat), dtype=bool)
    first[1:] = (np.diff(flat) != 1) | (flat[1:] % shape[-1] == 0)
    start = np.flatnonzero(first)
    stop = np.append(start[1:], len(flat)) - 1
    lo = np.stack(np.unravel_index(flat[start], shape), axis=1).astype(np.int64)
    hi = lo.copy()
    hi[:, -1] += stop - start
    return lo, hi
