"""Backward and forward questions, answered on the form itself without expanding it."""

from __future__ import annotations

import math
from typing import assert_never

import numpy as np

from whence.arrays.cells import Cells, Ints, from_boxes, from_flat, no_cells
from whence.arrays.forms import Boxes, Form, Gather, Pairs, Reshape


def backward(form: Form, cells: Cells) -> Cells:
    """The input cells of some output cells."""
    if cells.is_empty():
        return no_cells(form.in_shape)
    match form:
        case Boxes():
            return _backward_boxes(form, cells)
        case Gather():
            found = form.index.reshape(-1)[cells.positions()]
            return from_flat(form.in_shape, found[found >= 0])
        case Pairs():
            return from_flat(form.in_shape, form.inp[_members(form.out, cells.positions())])
        case Reshape():
            return cells.reshaped(form.in_shape)
        case _:
            assert_never(form)


def forward(form: Form, cells: Cells) -> Cells:
    """The output cells that some input cells go to."""
    if cells.is_empty():
        return no_cells(form.out_shape)
    match form:
        case Boxes():
            return _forward_boxes(form, cells)
        case Gather():
            return from_flat(form.out_shape, np.flatnonzero(_hits(form.index, cells)))
        case Pairs():
            return from_flat(form.out_shape, form.out[_hits(form.inp, cells)])
        case Reshape():
            return cells.reshaped(form.out_shape)
        case _:
            assert_never(form)


def _members(keys: Ints, wanted: Ints) -> Ints:
    start = np.searchsorted(keys, wanted, side="left")
    count = np.searchsorted(keys, wanted, side="right") - start
    offset = np.repeat(start - (np.cumsum(count) - count), count)
    found: Ints = offset + np.arange(int(count.sum()), dtype=np.int64)
    return found


def _hits(index: Ints, cells: Cells) -> Ints:
    flat = index.reshape(-1)
    wanted = cells.positions()
    if len(wanted) == 1:
        one: Ints = flat == wanted[0]
        return one
    mask = np.zeros(math.prod(cells.shape) + 1, dtype=bool)
    mask[wanted] = True
    found: Ints = mask[flat]  # −1 reads the last entry, which stays false
    return found


def _backward_boxes(form: Boxes, cells: Cells) -> Cells:
    if not len(form):
        return no_cells(form.in_shape)
    q_lo, q_hi = cells.boxes()
    rows, queries = _overlaps(form.out_lo, form.out_hi, q_lo, q_hi)
    b_lo = np.maximum(form.out_lo[rows], q_lo[queries])
    b_hi = np.minimum(form.out_hi[rows], q_hi[queries])
    rows, b_lo, b_hi = _split_uneven(form, rows, b_lo, b_hi)
    lo, hi = bounds_over(form, rows, b_lo, b_hi)
    return from_boxes(form.in_shape, lo, hi)


def bounds_over(form: Boxes, rows: Ints, b_lo: Ints, b_hi: Ints) -> tuple[Ints, Ints]:
    """Smallest and largest input position per axis while the output stays in a box of its row."""
    ref = form.ref[rows]
    if not form.out_shape:
        return form.lo[rows], form.hi[rows]
    axis = np.maximum(ref, 0)
    low, high = np.take_along_axis(b_lo, axis, 1), np.take_along_axis(b_hi, axis, 1)
    lo_k, hi_k = form.lo_k[rows], form.hi_k[rows]
    lo = form.lo[rows] + np.minimum(lo_k * low, lo_k * high)
    hi = form.hi[rows] + np.maximum(hi_k * low, hi_k * high)
    return lo, hi


def _overlaps(r_lo: Ints, r_hi: Ints, q_lo: Ints, q_hi: Ints) -> tuple[Ints, Ints]:
    """Pairs (row, query) of boxes that meet, looping over the shorter side."""
    few, many = (len(r_lo), len(q_lo)) if len(r_lo) <= len(q_lo) else (len(q_lo), len(r_lo))
    if few * many <= 1 << 16:
        meet = ((r_lo[:, None] <= q_hi[None]) & (q_lo[None] <= r_hi[:, None])).all(axis=2)
        rows, queries = np.nonzero(meet)
        return rows, queries
    swap = len(q_lo) < len(r_lo)
    a_lo, a_hi, b_lo, b_hi = (q_lo, q_hi, r_lo, r_hi) if swap else (r_lo, r_hi, q_lo, q_hi)
    first, second = [], []
    for i in range(len(a_lo)):
        hit = np.flatnonzero(((b_lo <= a_hi[i]) & (a_lo[i] <= b_hi)).all(axis=1))
        first.append(np.full(len(hit), i))
        second.append(hit)
    one, two = np.concatenate(first), np.concatenate(second)
    return (two, one) if swap else (one, two)


def _split_uneven(form: Boxes, rows: Ints, b_lo: Ints, b_hi: Ints) -> tuple[Ints, Ints, Ints]:
    """Cut boxes into slices along an output axis whose image would not be one interval."""
    for axis in range(len(form.out_shape)):
        cut = uneven(form, axis)[rows] & (b_lo[:, axis] < b_hi[:, axis])
        if not cut.any():
            continue
        width = np.where(cut, b_hi[:, axis] - b_lo[:, axis] + 1, 1)
        owner = np.repeat(np.arange(len(rows)), width)
        step = np.arange(len(owner)) - np.repeat(np.cumsum(width) - width, width)
        rows, b_lo, b_hi = rows[owner], b_lo[owner].copy(), b_hi[owner].copy()
        sliced = cut[owner]
        b_lo[sliced, axis] += step[sliced]
        b_hi[sliced, axis] = b_lo[sliced, axis]
    return rows, b_lo, b_hi


def uneven(form: Boxes, axis: int) -> Ints:
    """Rows where moving along an output axis leaves gaps, or moves two input axes at once."""
    uses = form.ref == axis
    at = form.out_lo[:, [axis]]
    width = form.hi - form.lo + (form.hi_k - form.lo_k) * at + 1
    end = form.hi - form.lo + (form.hi_k - form.lo_k) * form.out_hi[:, [axis]] + 1
    reach = np.maximum(np.abs(form.lo_k), np.abs(form.hi_k))
    gaps = uses & (np.minimum(width, end) < reach)
    found: Ints = gaps.any(axis=1) | (uses.sum(axis=1) > 1)
    return found


def _forward_boxes(form: Boxes, cells: Cells) -> Cells:
    if not len(form):
        return no_cells(form.out_shape)
    q_lo, q_hi = cells.boxes()
    low, high = bounds_over(form, np.arange(len(form)), form.out_lo, form.out_hi)
    rows, queries = _overlaps(low, high, q_lo, q_hi)
    b_lo, b_hi = form.out_lo[rows].copy(), form.out_hi[rows].copy()
    keep = np.ones(len(rows), dtype=bool)
    for i in range(len(form.in_shape)):
        _narrow(form, rows, i, q_lo[queries, i], q_hi[queries, i], b_lo, b_hi)
    keep &= (b_lo <= b_hi).all(axis=1)
    return from_boxes(form.out_shape, b_lo[keep], b_hi[keep])


def _narrow(
    form: Boxes, rows: Ints, i: int, q_lo: Ints, q_hi: Ints, b_lo: Ints, b_hi: Ints
) -> None:
    """Keep the outputs whose interval on input axis i meets the query (changes b_lo and b_hi)."""
    if not form.out_shape:
        return
    ref = form.ref[rows, i]
    axis = np.maximum(ref, 0)
    at = np.arange(len(rows))
    # lo + lo_k*b <= q_hi, and hi + hi_k*b >= q_lo, that is −hi − hi_k*b <= −q_lo
    conditions = (
        (form.lo_k[rows, i], q_hi - form.lo[rows, i]),
        (-form.hi_k[rows, i], form.hi[rows, i] - q_lo),
    )
    for k, limit in conditions:
        rising, falling = (k > 0) & (ref >= 0), (k < 0) & (ref >= 0)
        safe = np.where(k == 0, 1, k)
        top, bottom = np.floor_divide(limit, safe), -np.floor_divide(limit, -safe)
        b_hi[at, axis] = np.where(rising, np.minimum(b_hi[at, axis], top), b_hi[at, axis])
        b_lo[at, axis] = np.where(falling, np.maximum(b_lo[at, axis], bottom), b_lo[at, axis])
