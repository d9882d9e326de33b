"""Functions that put arrays side by side: each operand takes a box of the result."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.compose import compose
from whence.arrays.forms import (
    Form,
    Run,
    follow,
    reshaped,
    runs,
    separable,
)
from whence.arrays.graph import Edge
from whence.arrays.rules.base import (
    bind,
    finish,
    is_among,
    name_of,
    out_among,
    plain_call,
    store,
)
from whence.arrays.session import Session
from whence.arrays.tracked import TrackedArray, raw, tracked_in


def joined(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """concatenate, stack and their kin: each operand takes a box of the result."""
    bound = bind(func, args, kwargs, ("arrays", "axis", "out"))
    if func is np.append:
        bound["arrays"] = (bound["arr"], bound["values"])
    arrays: Any = bound.get("arrays", bound.get("tup"))
    if type(arrays) is TrackedArray:
        arrays = list(arrays)
    out = bound.get("out")
    if is_among(out, tracked_in(list(arrays))):
        return out_among(session, func, args, kwargs, out)
    if out is not None:
        session.before_write(raw(out))
    result = plain_call(func, args, kwargs)
    shapes = [np.shape(raw(a)) for a in arrays]
    axis = _join_axis(func, bound, shapes, result.ndim)
    edges = []
    at = 0
    for array, shape in zip(arrays, shapes, strict=True):
        width = _joined_width(func, shape, axis, result.ndim)
        if type(array) is TrackedArray:
            rule = partial(_placed, result.shape, shape, axis, at, width)
            edges.append(Edge(array.node_, rule))
        at += width
    if out is not None:
        return store(session, out, result, edges, name_of(func), list(arrays))
    return finish(session, result, edges, name_of(func), list(arrays))


def _join_axis(func: Any, bound: dict[str, Any], shapes: list[Shape], ndim: int) -> int:
    match func.__name__:
        case "vstack":
            return 0
        case "hstack":
            return 0 if all(len(s) <= 1 for s in shapes) else 1
        case "column_stack":
            return 1
        case "dstack":
            return 2
        case _:
            axis = bound.get("axis", 0)
            return 0 if axis is None else int(axis) % ndim


def _joined_width(func: Any, shape: Shape, axis: int, ndim: int) -> int:
    if func.__name__ == "stack":
        return 1
    if len(shape) == ndim:
        return shape[axis]
    if ndim == 1:
        return int(np.prod(shape, dtype=np.int64))
    return 1 if axis >= len(shape) or func.__name__ == "vstack" else shape[axis]


def _placed(out_shape: Shape, in_shape: Shape, axis: int, at: int, width: int) -> Form:
    """An operand that fills `at … at+width-1` of one axis of the result."""
    from whence.arrays.forms import empty

    box = tuple(width if i == axis else n for i, n in enumerate(out_shape))
    if 0 in box:
        return empty(out_shape, in_shape)
    maps = []
    for i, n in enumerate(box):
        start = at if i == axis else 0
        maps.append(runs(i, [Run(start, start + n - 1, -start, 1, -start, 1)]))
    into_box = separable(out_shape, box, maps)
    if box == in_shape:
        return into_box
    shape_only = _column(box, in_shape) or reshaped(box, in_shape)
    return compose(into_box, shape_only)


def _column(box: Shape, in_shape: Shape) -> Form | None:
    """A vector that stands as a column (column_stack) or as depth (dstack)."""
    long = [i for i, n in enumerate(box) if n > 1]
    if len(in_shape) == 1 and len(long) == 1:
        return separable(box, in_shape, [follow(long[0], in_shape[0])])
    return None
