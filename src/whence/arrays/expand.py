"""Expanding a relation into pairs, and counting them first."""

from __future__ import annotations

import math
from typing import assert_never

import numpy as np

from whence.arrays.cells import Ints, expand_limit, strides_of
from whence.arrays.forms import Boxes, Form, Gather, Pairs, Reshape, pairs
from whence.errors import ArrayError


def expand(form: Form) -> Pairs:
    """Every pair of output and input cell, once."""
    match form:
        case Pairs():
            return form
        case Gather():
            flat = form.index.reshape(-1)
            out = np.flatnonzero(flat >= 0)
            return Pairs(form.out_shape, form.in_shape, out, flat[out])
        case Reshape():
            every = np.arange(math.prod(form.out_shape), dtype=np.int64)
            return Pairs(form.out_shape, form.in_shape, every, every)
        case Boxes():
            return _expand_boxes(form)
        case _:
            assert_never(form)


def count_pairs(form: Form) -> int:
    """How many pairs an expansion would list (pairs that two rows share count twice)."""
    match form:
        case Pairs():
            return len(form.out)
        case Gather():
            return int((form.index >= 0).sum())
        case Reshape():
            return math.prod(form.out_shape)
        case Boxes():
            even = (form.lo_k == form.hi_k).all(axis=1)
            widths = np.concatenate([form.out_hi - form.out_lo, form.hi - form.lo], axis=1) + 1
            regular = int(np.prod(widths[even], axis=1, dtype=np.float64).sum())
            return regular + sum(_row_volume(form, int(r)) for r in np.flatnonzero(~even))
        case _:
            assert_never(form)


def _row_volume(form: Boxes, row: int) -> int:
    """Pairs of one row: sums of products of widths that are linear in the output position."""
    per_axis = [
        np.ones(high - low + 1, dtype=np.int64)
        for low, high in zip(form.out_lo[row].tolist(), form.out_hi[row].tolist(), strict=True)
    ]
    total = 1
    for i in range(len(form.in_shape)):
        ref = int(form.ref[row, i])
        width, slope = (
            int(form.hi[row, i] - form.lo[row, i] + 1),
            int(form.hi_k[row, i] - form.lo_k[row, i]),
        )
        if ref < 0 or slope == 0:
            total *= width
        else:
            at = np.arange(int(form.out_lo[row, ref]), int(form.out_hi[row, ref]) + 1)
            per_axis[ref] = per_axis[ref] * (width + slope * at)
    return total * math.prod(int(widths.sum()) for widths in per_axis)


def _expand_boxes(form: Boxes) -> Pairs:
    total = count_pairs(form)
    if total > expand_limit.get():
        raise ArrayError(
            f"the relation between shapes {form.out_shape} and {form.in_shape} has {total} pairs, "
            "too many to list; ask for cells with backward() or forward(), or use .rows()"
        )
    even = (form.lo_k == form.hi_k).all(axis=1)
    parts = [_expand_even(form.take(np.flatnonzero(even)))]
    parts += [_expand_row(form, int(row)) for row in np.flatnonzero(~even)]
    out = np.concatenate([o for o, _ in parts])
    inp = np.concatenate([a for _, a in parts])
    return pairs(form.out_shape, form.in_shape, out, inp)


def _expand_even(form: Boxes) -> tuple[Ints, Ints]:
    """All pairs of rows whose intervals keep their width, all rows at once."""
    widths = np.concatenate([form.out_hi - form.out_lo, form.hi - form.lo], axis=1) + 1
    counts = np.prod(widths, axis=1, dtype=np.int64)
    owner = np.repeat(np.arange(len(form)), counts)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    outs = len(form.out_shape)
    out_strides, in_strides = strides_of(form.out_shape), strides_of(form.in_shape)
    # one flat step for an output position moves the output, and each input axis that follows it
    pull = np.zeros((len(form), outs), dtype=np.int64)
    for i, stride in enumerate(in_strides.tolist()):
        for j in range(outs):
            pull[:, j] += np.where(form.ref[:, i] == j, form.lo_k[:, i] * stride, 0)
    out = (form.out_lo @ out_strides)[owner]
    inp = (form.lo @ in_strides + (pull * form.out_lo).sum(axis=1))[owner]
    for axis in range(widths.shape[1] - 1, -1, -1):
        if bool((widths[:, axis] == 1).all()):
            continue
        width = widths[owner, axis]
        step = within % width
        within //= width
        if axis >= outs:
            inp += step * in_strides[axis - outs]
        else:
            out += step * out_strides[axis]
            inp += step * pull[owner, axis]
    return out, inp


def _expand_row(form: Boxes, row: int) -> tuple[Ints, Ints]:
    low, high = form.out_lo[row], form.out_hi[row]
    sizes = (high - low + 1).tolist()
    grid = np.indices(sizes, dtype=np.int64).reshape(len(sizes), math.prod(sizes))
    coords = grid + low[:, None]
    out = strides_of(form.out_shape) @ coords if sizes else np.zeros(1, dtype=np.int64)
    inp = np.zeros(len(out), dtype=np.int64)
    owner: Ints | None = None
    for i, stride in enumerate(strides_of(form.in_shape).tolist()):
        ref = int(form.ref[row, i])
        at = coords[ref] if ref >= 0 else np.zeros(1, dtype=np.int64)
        start = np.broadcast_to(form.lo[row, i] + form.lo_k[row, i] * at, grid.shape[1:])
        stop = np.broadcast_to(form.hi[row, i] + form.hi_k[row, i] * at, grid.shape[1:])
        if owner is not None:
            start, stop = start[owner], stop[owner]
        width = stop - start + 1
        spread = np.repeat(np.arange(len(width)), width)
        step = np.arange(len(spread)) - np.repeat(np.cumsum(width) - width, width)
        inp = inp[spread] + (start[spread] + step) * stride
        owner = spread if owner is None else owner[spread]
    return (out if owner is None else out[owner]), inp
