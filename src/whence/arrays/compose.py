"""Joining two relations, and uniting several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import (
    Cells,
    Shape,
    distinct_rows,
    expand_limit,
    from_flat,
    strides_of,
)
from whence.arrays.expand import count_pairs, expand
from whence.arrays.forms import (
    COLUMNS,
    ROW_LIMIT,
    Bound,
    Boxes,
    Form,
    Gather,
    Pairs,
    Reshape,
    boxes,
    empty,
    pairs,
)
from whence.arrays.query import backward, uneven
from whence.errors import ArrayError

_WIDE = 1 << 20  # pairs from which boxes are not listed to be united with listed ones
_LOOKED_AT = 1 << 27  # so many times a pair is held against a row of boxes


def union(forms: Sequence[Form], out_shape: Shape, in_shape: Shape) -> Form:
    """The pairs of all forms."""
    some = [f for f in forms if not (isinstance(f, Boxes) and not len(f))]
    if not some:
        return empty(out_shape, in_shape)
    if len(some) == 1:
        return some[0]
    symbolic = [f for f in some if isinstance(f, Boxes)]
    if len(symbolic) == len(some):
        joined = {name: np.concatenate([getattr(f, name) for f in symbolic]) for name in COLUMNS}
        table = np.concatenate([joined[name] for name in COLUMNS], axis=1)
        whole = Boxes(out_shape, in_shape, *(joined[name] for name in COLUMNS))
        every = np.flatnonzero(_all_from_all(whole))
        if len(every):  # holds all other rows
            return whole.take(every[:1])
        return merge_neighbours(whole.take(distinct_rows(table)))
    if sum(count_pairs(f) for f in symbolic) > _WIDE:
        wide = union(symbolic, out_shape, in_shape)
        assert isinstance(wide, Boxes)
        listed = [_outside(expand(f), wide) for f in some if not isinstance(f, Boxes)]
        return union([wide, *map(_cell_boxes, listed)], out_shape, in_shape)
    listed = [expand(f) for f in some]
    out = np.concatenate([p.out for p in listed])
    inp = np.concatenate([p.inp for p in listed])
    return pairs(out_shape, in_shape, out, inp)


def _all_from_all(form: Boxes) -> NDArray[np.bool_]:
    """The rows that pair every output cell with every input cell."""
    outputs = (form.out_lo == 0) & (form.out_hi == np.array(form.out_shape, dtype=np.int64) - 1)
    inputs = (form.ref < 0) & (form.lo == 0)
    inputs &= form.hi == np.array(form.in_shape, dtype=np.int64) - 1
    found: NDArray[np.bool_] = outputs.all(axis=1) & inputs.all(axis=1)
    return found


def _outside(listed: Pairs, form: Boxes) -> Pairs:
    """The pairs that boxes do not hold, if that can be told in good time."""
    if len(form) * len(listed.out) > _LOOKED_AT:
        return listed
    out = np.unravel_index(listed.out, form.out_shape) if form.out_shape else ()
    inp = np.unravel_index(listed.inp, form.in_shape) if form.in_shape else ()
    outside = np.ones(len(listed.out), dtype=bool)
    for row in range(len(form)):
        held = np.ones(len(outside), dtype=bool)
        for at, low, high in zip(out, form.out_lo[row], form.out_hi[row], strict=True):
            held &= (at >= low) & (at <= high)
        for axis, at in enumerate(inp):
            ref = int(form.ref[row, axis])
            place = out[ref] if ref >= 0 else 0
            held &= at >= form.lo[row, axis] + form.lo_k[row, axis] * place
            held &= at <= form.hi[row, axis] + form.hi_k[row, axis] * place
        outside &= ~held
    return Pairs(form.out_shape, form.in_shape, listed.out[outside], listed.inp[outside])


def _cell_boxes(listed: Pairs) -> Boxes:
    """A box of one cell for each pair."""
    shapes = listed.out_shape, listed.in_shape
    out = np.stack(np.unravel_index(listed.out, shapes[0] or (1,)), axis=1)[:, : len(shapes[0])]
    inp = np.stack(np.unravel_index(listed.inp, shapes[1] or (1,)), axis=1)[:, : len(shapes[1])]
    zero = np.zeros_like(inp)
    return Boxes(*shapes, out, out, zero - 1, inp, zero, inp, zero)


def merge_neighbours(form: Boxes) -> Boxes:
    """Unite rows of one output box whose intervals touch or overlap on one input axis.

    A row whose pairs are all in another one goes.
    """
    if not 1 < len(form) <= 256:
        return form
    rows = _as_rows(form)
    changed = True
    while changed:
        changed = False
        for one in range(len(rows)):
            for two in range(one + 1, len(rows)):
                united = _unite(rows[one], rows[two])
                if united is not None:
                    rows[one] = united
                    del rows[two]
                    changed = True
                    break
            if changed:
                break
    return boxes(form.out_shape, form.in_shape, rows)


Row = tuple[list[tuple[int, int]], list[Bound]]


def _as_rows(form: Boxes) -> list[Row]:
    out = np.stack([form.out_lo, form.out_hi], axis=2).tolist()
    inner = np.stack([form.lo, form.hi, form.ref, form.lo_k, form.hi_k], axis=2).tolist()
    return [
        ([(a, b) for a, b in box], [Bound(*bound) for bound in bounds])
        for box, bounds in zip(out, inner, strict=True)
    ]


def _unite(one: Row, two: Row) -> Row | None:
    for row, other in ((one, two), (two, one)):
        if _holds(row, other):
            return row
    if one[0] != two[0]:
        return None
    differing = [i for i, (p, q) in enumerate(zip(one[1], two[1], strict=True)) if p != q]
    if len(differing) != 1:
        return None
    p, q = one[1][differing[0]], two[1][differing[0]]
    if (p.ref, p.lo_k, p.hi_k) != (q.ref, q.lo_k, q.hi_k) or p.lo_k != p.hi_k:
        return None
    if p.lo > q.hi + 1 or q.lo > p.hi + 1:
        return None
    merged = list(one[1])
    merged[differing[0]] = p._replace(lo=min(p.lo, q.lo), hi=max(p.hi, q.hi))
    return one[0], merged


def _holds(one: Row, two: Row) -> bool:
    """Whether every pair of one row is a pair of another; an answer of no may be too cautious."""
    for (low, high), (start, stop) in zip(one[0], two[0], strict=True):
        if low > start or high < stop:
            return False
    for p, q in zip(one[1], two[1], strict=True):
        if _greatest((p.lo, p.lo_k, p.ref), (q.lo, q.lo_k, q.ref), two[0]) > 0:
            return False
        if _greatest((q.hi, q.hi_k, q.ref), (p.hi, p.hi_k, p.ref), two[0]) > 0:
            return False
    return True


def _greatest(
    end: tuple[int, int, int], other: tuple[int, int, int], box: list[tuple[int, int]]
) -> int:
    """The most by which one end, linear in an output axis, lies beyond another one."""
    (base, factor, ref), (other_base, other_factor, other_ref) = end, other
    if ref == other_ref:
        factor, other_factor = factor - other_factor, 0
    most = base - other_base
    for slope, axis in ((factor, ref), (-other_factor, other_ref)):
        if slope:
            most += max(slope * position for position in box[axis])
    return most


def compose(first: Form, second: Form) -> Form:
    """Output to input through the middle: `first` is output→middle, `second` middle→input."""
    match first, second:
        case Reshape(out_shape=shape), _ if shape == first.in_shape:
            return second
        case _, Reshape(in_shape=shape) if shape == second.out_shape:
            return first
        case Reshape(), Reshape():
            return Reshape(first.out_shape, second.in_shape)
        case Reshape(), Gather():
            index = second.index.reshape(first.out_shape)
            return Gather(first.out_shape, second.in_shape, index)
        case Gather(), Reshape():
            return Gather(first.out_shape, second.in_shape, first.index)
        case Gather(), Gather():
            return _through(first, second)
        case Boxes(), Boxes():
            joined = _join_boxes(first, second)
            if joined is not None:
                return joined
        case Boxes(), Gather() | Pairs() if not (first.ref >= 0).any():
            image = _images(first, second)
            if image is not None:
                return image
        case Gather() | Pairs(), Boxes() if _is_whole(second):
            return _behind_all(first, second)
        case _:
            pass
    one, two = to_gather(first), to_gather(second)
    if one is not None and two is not None:
        return _through(one, two)
    return _join_pairs(expand(first), expand(second))


def _images(first: Boxes, second: Form) -> Boxes | None:
    """Boxes whose middle cells are the same for all their outputs: these have one image."""
    parts: list[Boxes] = []
    for row in range(len(first)):
        middle = Cells(second.out_shape, lo=first.lo[[row]], hi=first.hi[[row]])
        lo, hi = backward(second, middle).boxes()
        count = len(lo)
        if count * len(first) > ROW_LIMIT:
            return None
        out_lo, out_hi = (np.repeat(a[[row]], count, axis=0) for a in (first.out_lo, first.out_hi))
        zero = np.zeros_like(lo)
        shapes = first.out_shape, second.in_shape
        parts.append(Boxes(*shapes, out_lo, out_hi, zero - 1, lo, zero, hi, zero))
    joined = union(parts, first.out_shape, second.in_shape)
    return joined if isinstance(joined, Boxes) else None


def _is_whole(form: Boxes) -> bool:
    """Whether each output cell comes from the same box of inputs."""
    return (
        len(form) == 1
        and not (form.ref >= 0).any()
        and not form.out_lo.any()
        and bool((form.out_hi[0] + 1 == form.out_shape).all())
    )


def _behind_all(first: Gather | Pairs, second: Boxes) -> Boxes:
    """The one box of `second`, for all outputs that have a middle cell at all."""
    out = first.out if isinstance(first, Pairs) else np.flatnonzero(first.index.reshape(-1) >= 0)
    lo, hi = from_flat(first.out_shape, out).boxes()
    inner = [np.repeat(getattr(second, name), len(lo), axis=0) for name in COLUMNS[2:]]
    return Boxes(first.out_shape, second.in_shape, lo, hi, *inner)


def _through(first: Gather, second: Gather) -> Gather:
    flat = second.index.reshape(-1)
    index = np.where(first.index >= 0, flat[np.maximum(first.index, 0)] if len(flat) else -1, -1)
    return Gather(first.out_shape, second.in_shape, index)


def to_gather(form: Form) -> Gather | None:
    """The same relation as a `Gather`, if each output cell has at most one input cell."""
    match form:
        case Gather():
            return form
        case Reshape():
            every = np.arange(math.prod(form.out_shape), dtype=np.int64)
            return Gather(form.out_shape, form.in_shape, every.reshape(form.out_shape))
        case Boxes() if form.single_valued():
            return _fill(form)
        case Boxes():
            return None
        case Pairs():
            if len(form.out) > 1 and not bool((np.diff(form.out) > 0).all()):
                return None
            index = np.full(math.prod(form.out_shape), -1, dtype=np.int64)
            index[form.out] = form.inp
            return Gather(form.out_shape, form.in_shape, index.reshape(form.out_shape))
        case _:
            assert_never(form)


def _fill(form: Boxes) -> Gather | None:
    index = np.full(form.out_shape, -1, dtype=np.int64)
    strides = strides_of(form.in_shape).tolist()
    for box, bounds in _as_rows(form):
        inside: Any = (..., *(slice(low, high + 1) for low, high in box))
        part = index[inside]
        if bool((part >= 0).any()):
            return None
        part[...] = 0
        for bound, stride in zip(bounds, strides, strict=True):
            part += bound.lo * stride
            if bound.ref >= 0:
                low, high = box[bound.ref]
                along = [-1 if j == bound.ref else 1 for j in range(len(box))]
                part += np.arange(low, high + 1).reshape(along) * (bound.lo_k * stride)
    return Gather(form.out_shape, form.in_shape, index)


def _join_pairs(first: Pairs, second: Pairs) -> Pairs:
    start = np.searchsorted(second.out, first.inp, side="left")
    count = np.searchsorted(second.out, first.inp, side="right") - start
    total = int(count.sum())
    if total > expand_limit.get():
        raise ArrayError(
            f"joining the two relations would list {total} pairs; ask for cells with backward()"
        )
    out = np.repeat(first.out, count)
    at = np.repeat(start - (np.cumsum(count) - count), count) + np.arange(total)
    return pairs(first.out_shape, second.in_shape, out, second.inp[at])


class _Ends(NamedTuple):
    """A middle interval whose ends are linear in output axis `ref`."""

    lo: int
    lo_k: int
    hi: int
    hi_k: int
    ref: int


def _join_boxes(first: Boxes, second: Boxes) -> Boxes | None:
    if len(first) * len(second) > ROW_LIMIT:
        return None
    gaps = np.stack(
        [uneven(second, axis) for axis in range(len(second.out_shape))]
        or [np.zeros(len(second), dtype=bool)],
        axis=1,
    ).tolist()
    ones, twos = _as_rows(first), _as_rows(second)
    rows: list[Row] = []
    for one in ones:
        for two, gap in zip(twos, gaps, strict=True):
            joined = _join_row(one, two, gap)
            if joined is None:
                return None
            rows.extend(joined)
    return merge_neighbours(boxes(first.out_shape, second.in_shape, rows))


def _join_row(one: Row, two: Row, gaps: list[bool]) -> list[Row] | None:
    """All rows that two rows give, or nothing if an image would have gaps."""
    pieces: list[tuple[list[tuple[int, int]], list[_Ends]]] = [(list(one[0]), [])]
    for bound, (low, high) in zip(one[1], two[0], strict=True):
        pieces = [
            (box, [*ends, end])
            for before, ends in pieces
            for box, end in _clip(before, bound, low, high)
        ]
    rows: list[Row] = []
    for box, ends in pieces:
        for axis, end in enumerate(ends):
            single = end.lo == end.hi and end.lo_k == end.hi_k
            if gaps[axis] and not single:
                return None
        rows.append((box, [_pull(bound, ends) for bound in two[1]]))
    return rows


def _pull(bound: Bound, ends: list[_Ends]) -> Bound:
    if bound.ref < 0:
        return bound
    end = ends[bound.ref]
    low = (end.lo, end.lo_k) if bound.lo_k >= 0 else (end.hi, end.hi_k)
    high = (end.hi, end.hi_k) if bound.hi_k >= 0 else (end.lo, end.lo_k)
    lo_k, hi_k = bound.lo_k * low[1], bound.hi_k * high[1]
    ref = end.ref if lo_k or hi_k else -1
    return Bound(bound.lo + bound.lo_k * low[0], bound.hi + bound.hi_k * high[0], ref, lo_k, hi_k)


def _clip(
    box: list[tuple[int, int]], bound: Bound, low: int, high: int
) -> list[tuple[list[tuple[int, int]], _Ends]]:
    """Cut a middle interval at `low … high`; the output axis is cut so that ends stay linear."""
    if bound.ref < 0:
        lo, hi = max(bound.lo, low), min(bound.hi, high)
        return [(box, _Ends(lo, 0, hi, 0, -1))] if lo <= hi else []
    start, stop = box[bound.ref]
    cuts = {start, stop + 1}
    for constant, factor, limit in (
        (bound.lo, bound.lo_k, low),
        (bound.hi, bound.hi_k, high),
        (bound.hi, bound.hi_k, low),
        (bound.lo, bound.lo_k, high),
    ):
        if factor:
            crossing = math.floor((limit - constant) / factor)
            cuts.update(c for c in (crossing, crossing + 1, crossing + 2) if start < c <= stop)
    edges = sorted(cuts)
    out = []
    for begin, end in pairwise(edges):
        made = _clip_piece(bound, low, high, begin, end - 1)
        if made is not None:
            narrowed = list(box)
            narrowed[bound.ref] = (begin, end - 1)
            out.append((narrowed, made))
    return _rejoin(out, bound.ref)


def _clip_piece(bound: Bound, low: int, high: int, begin: int, end: int) -> _Ends | None:
    lo_ends = [bound.lo + bound.lo_k * b for b in (begin, end)]
    hi_ends = [bound.hi + bound.hi_k * b for b in (begin, end)]
    lo = (bound.lo, bound.lo_k) if min(lo_ends) >= low else (low, 0)
    hi = (bound.hi, bound.hi_k) if max(hi_ends) <= high else (high, 0)
    if max(lo[0] + lo[1] * begin, low) > min(hi[0] + hi[1] * begin, high):
        return None
    return _Ends(*lo, *hi, bound.ref)


def _rejoin(
    pieces: list[tuple[list[tuple[int, int]], _Ends]], ref: int
) -> list[tuple[list[tuple[int, int]], _Ends]]:
    """Unite neighbouring pieces that ended up with the same ends."""
    out: list[tuple[list[tuple[int, int]], _Ends]] = []
    for box, ends in pieces:
        if out and out[-1][1] == ends and out[-1][0][ref][1] + 1 == box[ref][0]:
            out[-1][0][ref] = (out[-1][0][ref][0], box[ref][1])
        else:
            out.append((box, ends))
    return out
