"""Ranges of rows: a relation over rows as `first … last` input rows for each output row."""

from __future__ import annotations

from typing import NamedTuple, assert_never

import numpy as np

from whence.arrays.cells import Ints
from whence.arrays.forms import Boxes, Form, Gather, Pairs, Reshape


class Ranges(NamedTuple):
    """Parallel arrays: input rows `lo … hi` (inclusive) are behind output row `out`."""

    out: Ints
    lo: Ints
    hi: Ints

    def shifted(self, by: int) -> Ranges:
        """With input rows counted from elsewhere."""
        return Ranges(self.out, self.lo + by, self.hi + by)


def no_ranges() -> Ranges:
    """Nothing behind any row."""
    none = np.empty(0, dtype=np.int64)
    return Ranges(none, none, none)


def everywhere(rows: int, lo: int, hi: int) -> Ranges:
    """The same range behind every row; none if it is empty."""
    if hi < lo:
        return no_ranges()
    out = np.arange(rows, dtype=np.int64)
    return Ranges(out, np.full(rows, lo, dtype=np.int64), np.full(rows, hi, dtype=np.int64))


def ranges_of(form: Form) -> Ranges:
    """A relation between two columns (or a number and a column) as ranges, in no order."""
    match form:
        case Gather():
            flat = form.index.reshape(-1)
            out = np.flatnonzero(flat >= 0)
            return Ranges(out, flat[out], flat[out])
        case Reshape():
            every = np.arange(int(np.prod(form.out_shape)), dtype=np.int64)
            return Ranges(every, every, every)
        case Pairs():
            first = np.ones(len(form.out), dtype=bool)
            first[1:] = (np.diff(form.out) != 0) | (np.diff(form.inp) != 1)
            last = np.append(first[1:], True)[: len(first)]
            return Ranges(form.out[first], form.inp[first], form.inp[last])
        case Boxes():
            return _of_boxes(form)
        case _:
            assert_never(form)


def _of_boxes(form: Boxes) -> Ranges:
    if not form.in_shape:  # a number is one cell
        zeros = np.zeros((len(form), 1), dtype=np.int64)
        form = Boxes(
            form.out_shape, (1,), form.out_lo, form.out_hi, zeros - 1, zeros, zeros, zeros, zeros
        )
    if not form.out_shape:
        return Ranges(np.zeros(len(form), dtype=np.int64), form.lo[:, 0], form.hi[:, 0])
    width = form.out_hi[:, 0] - form.out_lo[:, 0] + 1
    row = np.repeat(np.arange(len(form)), width)
    out = np.arange(len(row)) - np.repeat(np.cumsum(width) - width, width) + form.out_lo[row, 0]
    along = np.where(form.ref[row, 0] >= 0, out, 0)
    lo = form.lo[row, 0] + form.lo_k[row, 0] * along
    hi = form.hi[row, 0] + form.hi_k[row, 0] * along
    return Ranges(out, lo, hi)


def united(parts: list[Ranges]) -> Ranges:
    """All ranges, sorted; those of one row that touch are joined."""
    out, lo, hi = (np.concatenate(column) for column in zip(no_ranges(), *parts, strict=True))
    if not len(out):
        return no_ranges()
    reach = int(hi.max()) + 2  # rows of different outputs are laid out apart
    start, stop = out * reach + lo, out * reach + hi
    order = np.argsort(start, kind="stable")
    start, stop = start[order], np.maximum.accumulate(stop[order])
    first = np.append(True, start[1:] > stop[:-1] + 1)
    last = np.append(first[1:], True)
    start, stop = start[first], stop[last]
    return Ranges(start // reach, start % reach, stop % reach)


def for_every(rows: int, shared: Ranges) -> Ranges:
    """The same ranges behind each of so many rows."""
    out = np.repeat(np.arange(rows, dtype=np.int64), len(shared.lo))
    return Ranges(out, np.tile(shared.lo, rows), np.tile(shared.hi, rows))


def enclosing(ranges: Ranges) -> Ranges:
    """One range for each row, from its first to its last; takes what `united` gives."""
    if not len(ranges.out):
        return ranges
    first = np.append(True, np.diff(ranges.out) != 0)
    last = np.append(first[1:], True)
    return Ranges(ranges.out[first], ranges.lo[first], ranges.hi[last])
