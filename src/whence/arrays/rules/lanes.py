"""`np.apply_along_axis` and `np.piecewise`, which run functions of Python on parts of an array."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from whence.arrays.rules.arguments import as_array, decided_by, own
from whence.arrays.rules.base import bind, lifted
from whence.arrays.rules.fallback import unknown
from whence.arrays.session import Session
from whence.arrays.tracked import raw, tracked_in


def apply_along_axis(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.apply_along_axis`: the function runs on each tracked lane, as NumPy runs it."""
    bound = bind(func, args, kwargs)
    options = {k: v for k, v in kwargs.items() if k not in ("func1d", "axis", "arr")}
    axis = bound["axis"]

    def run(lane: Any) -> Any:
        return bound["func1d"](lane, *args[3:], **options)

    with decided_by(session, [t.node_ for t in tracked_in(axis)]):
        return _applied(run, own(axis), bound["arr"])


def _applied(function: Any, axis: int, array: Any) -> Any:
    shape = array.data_.shape
    axis = normalize_axis_index(axis, len(shape))
    array.session_.look_at_shape(array.node_)
    lanes = np.moveaxis(array, axis, -1)
    outer = shape[:axis] + shape[axis + 1 :]
    if 0 in outer:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    made = (as_array(function(lanes[i])) for i in np.ndindex(*outer))
    first = next(made)
    blank = np.asanyarray(raw(first))  # what the others are put into, whatever they are
    inner = blank.shape
    table = lifted(array.session_, np.zeros(outer + inner, blank.dtype))
    for i, value in zip(np.ndindex(*outer), itertools.chain([first], made), strict=True):
        table[i] = value
    for step in range(len(inner)):  # results stand where the lane stood
        table = np.moveaxis(table, len(outer) + step, axis + step)  # type: ignore[type-var]
    return table


def piecewise(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.piecewise`: each function runs on the tracked cells that its condition takes."""
    bound = bind(func, args, kwargs)
    options = {k: v for k, v in kwargs.items() if k not in ("x", "condlist", "funclist")}
    array, pieces = lifted(session, as_array(bound["x"])), bound["funclist"]
    masks = _masks(session, array, bound["condlist"])
    otherwise = len(masks) == len(pieces) - 1
    if not array.data_.ndim or not masks or not (otherwise or len(masks) == len(pieces)):
        return unknown(session, func, args, kwargs)
    if otherwise:
        masks.append(~np.any(np.stack(masks), axis=0))
    made = np.zeros_like(array)
    for mask, piece in zip(masks, pieces, strict=True):
        if not callable(piece):
            made[mask] = piece
        elif raw(mask).any():
            made[mask] = piece(array[mask], *bound.get("args", ()), **options)
    return made


def _masks(session: Session, array: Any, conditions: Any) -> list[Any]:
    """The conditions of `np.piecewise`, of which a single one need not be in a list."""
    plain = np.asarray(raw(conditions))
    if plain.ndim == array.data_.ndim:
        conditions = [conditions]
    if any(np.shape(raw(condition)) != array.data_.shape for condition in conditions):
        return []
    return [lifted(session, condition).astype(bool) for condition in conditions]
