"""Windows that slide along an axis: convolutions, differences, integrals, unwrapping."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from whence.arrays.cells import Ints, Shape
from whence.arrays.compose import compose, union
from whence.arrays.forms import (
    Boxes,
    Form,
    Run,
    broadcast,
    empty,
    follow,
    identity,
    reshaped,
    runs,
    separable,
    window,
)
from whence.arrays.graph import Edge
from whence.arrays.rules.base import (
    all_cells,
    axes_of,
    bind,
    finish,
    lifted,
    name_of,
    plain_call,
    shape_of,
)
from whence.arrays.rules.linear import contract
from whence.arrays.rules.reduce import reduced, scanned
from whence.arrays.session import Reach, Session
from whence.arrays.tracked import TrackedArray, raw, tracked_in

# a mode can be told by its first letter or by number
_MODES = {"0": "valid", "1": "same", "2": "full", "v": "valid", "s": "same", "f": "full"}


def convolve(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.convolve` and `np.correlate`: windows that are cut at the ends."""
    bound = bind(func, args, kwargs)
    one, two = bound["a"], bound["v"]
    result = plain_call(func, args, kwargs)
    mode = _MODES[str(bound["mode"])[0]]
    n, m = np.size(raw(one)), np.size(raw(two))
    small = min(n, m)
    correlating = func is np.correlate
    start = {"full": 0, "valid": small - 1, "same": (small - 1) // 2}[mode]
    if mode == "same":
        session.narrow(Reach.BETWEEN)  # half of a size is rounded
    if correlating and mode == "same" and n < m:
        start = small // 2
    edges = []
    for which, operand in enumerate((one, two)):
        if type(operand) is TrackedArray:
            size, other = (n, m) if which == 0 else (m, n)
            flip = correlating and which == 1
            rule = partial(_conv_form, result.shape, operand.data_.shape, size, other, start, flip)
            edges.append(Edge(operand.node_, rule))
    return finish(session, result, edges, name_of(func), args)


def _conv_form(
    shape: Shape, in_shape: Shape, size: int, other: int, start: int, flip: bool
) -> Form:
    # entry o of the full result uses positions o−other+1 … o, counted from the end if flipped
    along = window(0, shape[0], size, start - other + 1, start)
    if flip:
        top = size - 1
        rows = [
            Run(b_lo, b_hi, top - hi, -hi_k, top - lo, -lo_k)
            for b_lo, b_hi, lo, lo_k, hi, hi_k in along.runs.tolist()
        ]
        along = runs(0, rows)
    flat = separable(shape, (size,), [along])
    return flat if in_shape == (size,) else compose(flat, reshaped((size,), in_shape))


def windows(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`sliding_window_view`: each place in a window is the array, shifted."""
    bound = bind(func, args, kwargs)
    array, widths, axis = bound["x"], np.atleast_1d(bound["window_shape"]), bound["axis"]
    result = plain_call(func, args, kwargs)
    ndim = array.data_.ndim
    axes = np.arange(ndim) if axis is None else np.atleast_1d(axis) % ndim
    rule = partial(_windows_form, result.shape, array.data_.shape, widths, axes)
    return finish(session, result, [Edge(array.node_, rule)], name_of(func), (array,))


def _windows_form(shape: Shape, in_shape: Shape, widths: Ints, axes: Ints) -> Form:
    ndim = len(in_shape)
    places = np.indices(widths.tolist()).reshape(len(widths), -1).T
    if 0 in shape or 0 in in_shape:
        places = places[:0]
    shift = np.zeros((len(places), ndim), dtype=np.int64)
    for column, along in enumerate(axes):  # an axis may be taken more than once
        shift[:, along] += places[:, column]
    last = np.broadcast_to(np.array(shape[:ndim], dtype=np.int64) - 1, shift.shape)
    ones, ref = np.ones_like(shift), np.broadcast_to(np.arange(ndim), shift.shape)
    ranges = np.hstack([np.zeros_like(shift), places]), np.hstack([last, places])
    return Boxes(shape, in_shape, *ranges, ref, shift, ones, shift, ones)


def trapezoid(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.trapezoid`: the whole lane, and the places it is sampled at."""
    bound = bind(func, args, kwargs)
    y, x, axis = bound["y"], bound["x"], bound["axis"]
    result = plain_call(func, args, kwargs)
    shape = shape_of(result)
    edges = []
    size, ladder = np.shape(raw(y))[axis], np.shape(raw(x))
    for operand in (y, x):
        if type(operand) is not TrackedArray:
            continue
        data = operand.data_
        rule: partial[Form]
        if size < 2:
            session.narrow(Reach.BETWEEN)  # from two cells on there is something
            rule = partial(_nothing, shape, data.shape)
        elif data.ndim == 1 and np.ndim(raw(y)) > 1:
            rule = partial(contract, shape, data.shape, (None,))
        elif len(ladder) > 1 and ladder != np.shape(raw(y)):
            rule = partial(
                _strips, shape, data.shape, _both((ladder, np.shape(raw(y))), axis), axis
            )
        else:
            rule = partial(reduced, shape, data.shape, axes_of(axis, data.ndim), False)
        edges.append(Edge(operand.node_, rule))
    edges += [all_cells(t, shape) for t in tracked_in(bound["dx"])]
    return finish(session, result, edges, name_of(func), args)


def _both(shapes: Sequence[Shape], axis: int) -> Shape:
    """The shape of the strips between neighbours, of arrays that are broadcast."""
    return np.broadcast_shapes(*(_between(shape, axis) for shape in shapes))


def _between(shape: Shape, axis: int) -> Shape:
    axis %= len(shape)
    return (*shape[:axis], shape[axis] - 1, *shape[axis + 1 :])


def _strips(shape: Shape, in_shape: Shape, strips: Shape, axis: int) -> Form:
    """The sum of strips, each from two neighbours of an array that is broadcast to them."""
    own = _between(in_shape, axis)
    spread = broadcast(strips, own)
    summed = compose(reduced(shape, strips, axes_of(axis, len(strips)), False), spread)
    return compose(summed, _diff_form(own, in_shape, axis % len(in_shape), 1))


def _nothing(shape: Shape, in_shape: Shape) -> Form:
    return empty(shape, in_shape)


def diff(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.diff`: a window of n+1 cells."""
    bound = bind(func, args, kwargs)
    array, n, axis = bound["a"], bound["n"], bound["axis"]
    ends = {k: bound[k] for k in ("prepend", "append")}
    given = {k: v for k, v in ends.items() if v is not np._NoValue}
    if given and n != 0:  # else NumPy gives back what it got
        return diff(session, func, (_extended(array, given, axis), n, axis), {})
    result = plain_call(func, args, kwargs)
    shape = array.data_.shape
    rule = partial(_diff_form, result.shape, shape, axis % len(shape), int(n))
    return finish(session, result, [Edge(array.node_, rule)], name_of(func), args)


def _extended(array: Any, given: dict[str, Any], axis: int) -> Any:
    parts = [array]
    for side, value in given.items():
        if np.ndim(raw(value)) == 0:
            shape = list(np.shape(raw(array)))
            shape[axis] = 1
            value = np.broadcast_to(value, tuple(shape))
        parts.insert(0 if side == "prepend" else len(parts), value)
    return np.concatenate(parts, axis=axis)


def _diff_form(shape: Shape, in_shape: Shape, axis: int, n: int) -> Form:
    maps = [
        runs(i, [Run(0, shape[i] - 1, 0, 1, n, 1)] if shape[i] else [])
        if i == axis
        else follow(i, s)
        for i, s in enumerate(in_shape)
    ]
    return separable(shape, in_shape, maps)


def ediff1d(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.ediff1d`: differences of neighbours in flat order, between what is put at the ends."""
    bound = bind(func, args, kwargs)
    array = bound["ary"]
    result = plain_call(func, args, kwargs)
    begin = np.size(raw(bound["to_begin"])) if bound["to_begin"] is not None else 0
    total = result.shape[0]
    edges = []
    if type(array) is TrackedArray:
        middle = max(array.data_.size - 1, 0)
        rule = partial(_ediff_form, total, array.data_.shape, begin, middle)
        edges.append(Edge(array.node_, rule))
    for key in ("to_begin", "to_end"):
        operand = bound[key]
        if type(operand) is TrackedArray:
            at = 0 if key == "to_begin" else total - operand.data_.size
            edges.append(Edge(operand.node_, partial(_flat_part, total, operand.data_.shape, at)))
    return finish(session, result, edges, name_of(func), args)


def _ediff_form(total: int, in_shape: Shape, begin: int, middle: int) -> Form:
    size = int(np.prod(in_shape, dtype=np.int64))
    listed = [Run(begin, begin + middle - 1, -begin, 1, 1 - begin, 1)] if middle else []
    flat = separable((total,), (size,), [runs(0, listed)])
    return flat if in_shape == (size,) else compose(flat, reshaped((size,), in_shape))


def _flat_part(total: int, in_shape: Shape, at: int) -> Form:
    size = int(np.prod(in_shape, dtype=np.int64))
    listed = [Run(at, at + size - 1, -at, 1, -at, 1)] if size else []
    flat = separable((total,), (size,), [runs(0, listed)])
    return flat if in_shape == (size,) else compose(flat, reshaped((size,), in_shape))


def unwrap(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.unwrap`: a cell plus whole turns; the cells before it only decide how many turns."""
    bound = bind(func, args, kwargs)
    array, axis = lifted(session, bound["p"]), bound["axis"]
    result = plain_call(func, args, kwargs)
    shape = result.shape
    edges = [
        Edge(array.node_, partial(identity, shape)),
        Edge(array.node_, partial(scanned, shape, axis), False),
    ]
    edges += [all_cells(t, shape) for t in tracked_in([bound["discont"], bound["period"]])]
    return finish(session, result, edges, name_of(func), args)


def gradient(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.gradient`, evenly spaced: the two neighbours; at the ends the cell and its neighbour."""
    bound = bind(func, args, kwargs)
    array, spacing = lifted(session, bound["f"]), bound.get("varargs", ())
    axis, order = bound["axis"], bound["edge_order"]
    if order != 1 or any(np.ndim(raw(s)) for s in spacing) or tracked_in(list(spacing)):
        from whence.arrays.rules.fallback import unknown

        return unknown(session, func, args, kwargs)
    result = plain_call(func, args, kwargs)
    shape = array.data_.shape
    axes = axis if isinstance(axis, tuple | list) else axes_of(axis, len(shape))
    parts = result if isinstance(result, tuple | list) else (result,)
    made = [
        finish(session, part, [Edge(array.node_, partial(_sloped, shape, along))], "gradient", args)
        for along, part in zip(axes, parts, strict=True)
    ]
    return type(result)(made) if isinstance(result, tuple | list) else made[0]


def _sloped(shape: Shape, axis: int) -> Form:
    axis, n = axis % len(shape), shape[axis]
    ends = [Run(0, 0, 0, 0, 1, 0), Run(n - 1, n - 1, n - 2, 0, n - 1, 0)]
    inner = [[Run(1, n - 2, d, 1, d, 1)] if n > 2 else [] for d in (-1, 1)]
    forms = []
    for listed in (ends, *inner):
        maps = [runs(i, listed) if i == axis else follow(i, s) for i, s in enumerate(shape)]
        forms.append(separable(shape, shape, maps))
    return union(forms, shape, shape)
