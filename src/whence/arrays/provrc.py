"""ProvRC, algorithm 1 of the seed, on whole columns: ranges over inputs, relative indices, ranges
over outputs.

A scan that merges a row into the one before it becomes: compare each row with its neighbour, find
where a run must break, keep one row per run. While output axis j is merged an input axis either
stays or moves along with b_j; a run may use one of the two per axis, and where it would need both
in turn the greedy choice of the scan is found by pointer doubling.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from whence.arrays.cells import Ints, Shape
from whence.arrays.expand import count_pairs, expand
from whence.arrays.forms import Boxes, Form, Gather, Pairs, Reshape

RANK_LIMIT = 64
EXACT_LIMIT = 1 << 22


class _Rows:
    """Columns while they are merged: one array per axis."""

    __slots__ = ("a_hi", "a_lo", "b_hi", "b_lo", "ref")

    def __init__(
        self, b_lo: list[Ints], b_hi: list[Ints], a_lo: list[Ints], a_hi: list[Ints],
        ref: list[Ints],
    ) -> None:  # fmt: skip
        self.b_lo, self.b_hi, self.a_lo, self.a_hi, self.ref = b_lo, b_hi, a_lo, a_hi, ref

    def columns(self) -> tuple[list[Ints], ...]:
        return self.b_lo, self.b_hi, self.a_lo, self.a_hi, self.ref

    def take(self, rows: Ints) -> _Rows:
        return _Rows(*([c[rows] for c in columns] for columns in self.columns()))

    def __len__(self) -> int:
        for columns in self.columns():
            if columns:
                return len(columns[0])
        return 0


def compress(form: Form) -> Boxes:
    """The ProvRC table of a relation: rows of ranges, input axes absolute or relative to one b."""
    match form:
        case Boxes() if is_table(form) and len(form) == 1:
            return absolute_where_single(form)
        case Boxes() if count_pairs(form) > EXACT_LIMIT:
            rows = _from_boxes(form)
        case Boxes() | Gather() | Pairs() | Reshape():
            rows = _merge_inputs_flat(expand(form))
    if len(rows):
        rows = _merge_outputs(rows, len(form.out_shape))
    return _to_boxes(rows, form.out_shape, form.in_shape)


def is_table(form: Boxes) -> bool:
    """Whether every input axis is absolute or relative with one offset range."""
    return bool(((form.lo_k == form.hi_k) & ((form.lo_k == 0) | (form.lo_k == 1))).all())


def absolute_where_single(form: Boxes) -> Boxes:
    """Write relative bounds as absolute where the output axis has one position in that row."""
    if not form.out_shape:
        return form
    axis = np.maximum(form.ref, 0)
    low = np.take_along_axis(form.out_lo, axis, 1)
    one = (form.ref >= 0) & (low == np.take_along_axis(form.out_hi, axis, 1))
    if not one.any():
        return form
    lo = np.where(one, form.lo + form.lo_k * low, form.lo)
    hi = np.where(one, form.hi + form.hi_k * low, form.hi)
    ref = np.where(one, -1, form.ref)
    lo_k, hi_k = np.where(one, 0, form.lo_k), np.where(one, 0, form.hi_k)
    shapes = form.out_shape, form.in_shape
    return Boxes(*shapes, form.out_lo, form.out_hi, ref, lo, lo_k, hi, hi_k)


def _merge_inputs_flat(listed: Pairs) -> _Rows:
    """Step 1. The last input axis is merged on flat positions, before anything is unravelled."""
    out, inp = listed.out, listed.inp
    axes = [i for i, n in enumerate(listed.in_shape) if n > 1] or [0]  # the last one that is long
    size = listed.in_shape[axes[-1]] if listed.in_shape else 1
    stop = inp
    if len(out) > 1 and not bool((out[1:] > out[:-1]).all()):
        first = np.append(
            True, (out[1:] != out[:-1]) | (inp[1:] - inp[:-1] != 1) | (inp[1:] % size == 0)
        )
        start = np.flatnonzero(first)
        last = np.append(start[1:], len(out)) - 1
        out, inp, stop = out[start], inp[start], inp[last]
    b = _unravel(out, listed.out_shape)
    a_lo = _unravel(inp, listed.in_shape)
    a_hi = list(a_lo)
    if a_hi and stop is not inp:
        a_hi[axes[-1]] = a_lo[axes[-1]] + (stop - inp).astype(a_lo[axes[-1]].dtype)
    rows = _Rows(b, list(b), a_lo, a_hi, [np.full(len(out), -1, dtype=np.int8)] * len(a_lo))
    for axis in axes[-2::-1]:
        rows = _merge_input(rows, axis)
    return rows


def _unravel(flat: Ints, shape: Shape) -> list[Ints]:
    out: list[Ints] = []
    kind: Any = np.int32 if math.prod(shape) < 2**31 - 1 else np.int64
    rest: Any = flat.astype(kind)
    for axis in range(len(shape) - 1, 0, -1):
        if shape[axis] == 1:
            out.append(np.zeros(len(flat), dtype=kind))
            continue
        above = rest // kind(shape[axis])
        out.append(rest - above * kind(shape[axis]))
        rest = above
    if shape:
        out.append(rest)
    return out[::-1]


def _merge_input(rows: _Rows, axis: int) -> _Rows:
    n = len(rows)
    if n < 2 or not _any_shared_output(rows):
        return rows
    joined = rows.a_lo[axis][1:] == rows.a_hi[axis][:-1] + 1
    for column in (*rows.b_lo, *_but(rows.a_lo, axis), *_but(rows.a_hi, axis)):
        joined &= column[1:] == column[:-1]
    start = np.flatnonzero(np.append(True, ~joined))
    last = np.append(start[1:], n) - 1
    merged = rows.take(start)
    merged.a_hi[axis] = rows.a_hi[axis][last]
    return merged


def _any_shared_output(rows: _Rows) -> bool:
    same = np.ones(len(rows) - 1, dtype=bool)
    for column in rows.b_lo:
        same &= column[1:] == column[:-1]
    return bool(same.any())


def _but(columns: list[Ints], axis: int) -> list[Ints]:
    return [c for i, c in enumerate(columns) if i != axis]


def _merge_outputs(rows: _Rows, axes: int) -> _Rows:
    """Steps 2 and 3: relative indices, and ranges over outputs from the last axis to the first."""
    for axis in range(axes - 1, -1, -1):
        if len(rows) < 2:
            break
        order = _order_by_rank(rows, axis)
        if order is not None:
            rows = rows.take(order)
        rows = _merge_output(rows, axis)
    keys = [c for pair in zip(rows.b_lo, rows.b_hi, strict=True) for c in pair] + rows.a_lo
    if len(rows) > 1 and not _sorted(keys):
        rows = rows.take(np.lexsort(keys[::-1]))
    return rows


def _sorted(keys: list[Ints]) -> bool:
    tied = np.ones(len(keys[0]) - 1, dtype=bool)
    for key in keys:
        if bool((tied & (key[1:] < key[:-1])).any()):
            return False
        tied &= key[1:] == key[:-1]
        if not tied.any():
            return True
    return True


def _order_by_rank(rows: _Rows, axis: int) -> Ints | None:
    """Bring rows that may merge along `axis` together: by other outputs, then rank in the cell."""
    others = [c for i in range(len(rows.b_lo)) if i != axis for c in (rows.b_lo[i], rows.b_hi[i])]
    outputs = [*others, rows.b_lo[axis]]
    same = np.ones(len(rows) - 1, dtype=bool)
    for column in outputs:
        same &= column[1:] == column[:-1]
    if not _sorted(outputs):
        base = np.lexsort(outputs[::-1])
    elif not same.any():
        return None
    else:
        base = np.arange(len(rows))
    same = np.ones(len(rows) - 1, dtype=bool)
    for column in outputs:
        arranged = column[base]
        same &= arranged[1:] == arranged[:-1]
    start = np.maximum.accumulate(np.where(np.append(False, same), 0, np.arange(len(rows))))
    rank = np.arange(len(rows)) - start
    if int(rank.max()) >= RANK_LIMIT:
        return base
    keys = [rows.b_lo[axis][base], rank, *(c[base] for c in others[::-1])]
    return base[np.lexsort(keys)]


def _merge_output(rows: _Rows, axis: int) -> _Rows:
    n = len(rows)
    joinable = rows.b_lo[axis][1:] == rows.b_hi[axis][:-1] + 1
    for i in range(len(rows.b_lo)):
        if i != axis:
            joinable &= rows.b_lo[i][1:] == rows.b_lo[i][:-1]
            joinable &= rows.b_hi[i][1:] == rows.b_hi[i][:-1]
    unit = rows.b_lo[axis] == rows.b_hi[axis]
    single = unit[1:] & unit[:-1]
    stays, moves = [], []
    for lo, hi, ref in zip(rows.a_lo, rows.a_hi, rows.ref, strict=True):
        step = lo[1:] - lo[:-1]
        alike = (hi[1:] - hi[:-1] == step) & (ref[1:] == ref[:-1])
        stays.append(alike & (step == 0))
        moves.append(alike & (step == 1) & single & (ref[1:] == -1))
    for stay, move in zip(stays, moves, strict=True):
        joinable &= stay | move
    start = _run_starts(joinable, stays, moves)
    if len(start) == n:
        return rows
    last = np.append(start[1:], n) - 1
    merged = rows.take(start)
    merged.b_hi[axis] = rows.b_hi[axis][last]
    longer = last > start
    for i, move in enumerate(moves):
        relative = longer & np.append(move, False)[start]
        if relative.any():
            offset = np.where(relative, merged.b_lo[axis], 0)
            merged.a_lo[i] = merged.a_lo[i] - offset
            merged.a_hi[i] = merged.a_hi[i] - offset
            merged.ref[i] = np.where(relative, axis, merged.ref[i])
    return merged


def _run_starts(joinable: Ints, stays: list[Ints], moves: list[Ints]) -> Ints:
    """First row of each run: it ends where no neighbour joins, or an axis changes its way."""
    n = len(joinable) + 1
    changes = np.zeros(n - 1, dtype=bool)
    for stay in stays:
        changes[1:] |= (stay[1:] != stay[:-1]) & joinable[1:] & joinable[:-1]
    hard = np.append(True, ~joinable)
    if not changes.any():
        return np.flatnonzero(hard)
    # jump[s]: first row that cannot join a run starting at s; pair p joins rows p and p + 1
    ends = _next_true(np.append(hard[1:], True)) + 1
    turns = np.append(_next_true(changes)[1:], [n - 1, n - 1]) + 1
    return _reachable(np.flatnonzero(hard), np.minimum(ends, turns), n)


def _next_true(flags: Ints) -> Ints:
    at = np.where(flags, np.arange(len(flags)), len(flags))
    found: Ints = np.minimum.accumulate(at[::-1])[::-1]
    return found


def _reachable(starts: Ints, jump: Ints, n: int) -> Ints:
    """Every row reached from the starts by jumping on and on, in about log2(n) rounds."""
    reached = np.zeros(n + 1, dtype=bool)
    reached[starts] = True
    hop = np.append(jump, n)
    while True:
        found = hop[np.flatnonzero(reached)]
        fresh = found[~reached[found]]
        if not len(fresh):
            break
        reached[fresh] = True
        hop = hop[hop]
    return np.flatnonzero(reached[:n])


def _from_boxes(form: Boxes) -> _Rows:
    """Rows of a big regular relation; rows the table cannot say are cut along their output axis."""
    form = absolute_where_single(form)
    for axis in range(len(form.out_shape)):
        odd = ((form.ref == axis) & ((form.lo_k != form.hi_k) | (form.lo_k != 1))).any(axis=1)
        width = np.where(odd, form.out_hi[:, axis] - form.out_lo[:, axis] + 1, 1)
        owner = np.repeat(np.arange(len(form)), width)
        step = np.arange(len(owner)) - np.repeat(np.cumsum(width) - width, width)
        form = _cut(form.take(owner), axis, odd[owner], step)
    columns = [list(c.T) for c in (form.out_lo, form.out_hi, form.lo, form.hi, form.ref)]
    return _Rows(*columns)


def _cut(form: Boxes, axis: int, odd: Ints, step: Ints) -> Boxes:
    low = form.out_lo.copy()
    low[odd, axis] += step[odd]
    high = form.out_hi.copy()
    high[odd, axis] = low[odd, axis]
    absolute = odd[:, None] & (form.ref == axis)
    at = low[:, [axis]]
    lo = np.where(absolute, form.lo + form.lo_k * at, form.lo)
    hi = np.where(absolute, form.hi + form.hi_k * at, form.hi)
    ref = np.where(absolute, -1, form.ref)
    lo_k, hi_k = np.where(absolute, 0, form.lo_k), np.where(absolute, 0, form.hi_k)
    return Boxes(form.out_shape, form.in_shape, low, high, ref, lo, lo_k, hi, hi_k)


def _to_boxes(rows: _Rows, out_shape: Shape, in_shape: Shape) -> Boxes:
    n = len(rows)

    def stack(columns: list[Ints]) -> Ints:
        if not columns:
            return np.empty((n, 0), dtype=np.int64)
        return np.stack(columns, axis=1).astype(np.int64)

    ref = stack(rows.ref)
    factor = (ref >= 0).astype(np.int64)
    return Boxes(
        out_shape, in_shape, stack(rows.b_lo), stack(rows.b_hi), ref,
        stack(rows.a_lo), factor, stack(rows.a_hi), factor,
    )  # fmt: skip
