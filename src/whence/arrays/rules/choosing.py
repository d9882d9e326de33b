"""Functions that choose cells by what they hold: `np.where`, `np.nonzero`, `np.select`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.forms import Form, Gather
from whence.arrays.graph import Edge, Held
from whence.arrays.rules.arguments import given
from whence.arrays.rules.base import (
    all_cells,
    bind,
    finish,
    name_of,
    plain_call,
    positions,
    same_cells,
)
from whence.arrays.session import Session
from whence.arrays.tracked import TrackedArray, tracked_in


def where(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.where`: with one argument as nonzero, with three a choice that the mask steers."""
    if len(args) == 1:
        return nonzero(session, np.nonzero, args, kwargs)
    mask, one, two = args
    result = plain_call(func, args, kwargs)
    shape = result.shape
    held = session.hold(given(mask))
    edges = [same_cells(t, shape, False) for t in tracked_in(mask)]
    for operand, wanted in ((one, True), (two, False)):
        if type(operand) is TrackedArray:
            rule = partial(_picked, held, wanted, shape, operand.data_.shape)
            edges.append(Edge(operand.node_, rule, by_values=True))
    return finish(session, result, edges, name_of(func), args)


def _picked(held: Held, wanted: bool, shape: Shape, in_shape: Shape) -> Form:
    mask = np.broadcast_to(np.asarray(held.arrays[0]).astype(bool), shape)
    index = np.broadcast_to(positions(in_shape), shape)
    return Gather(shape, in_shape, np.where(mask == wanted, index, -1))


def nonzero(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """nonzero, argwhere, flatnonzero: each position found comes from the cell at it."""
    array = args[0]
    result = plain_call(func, args, kwargs)
    held = session.hold(array.data_)
    columns = array.data_.ndim if func is np.argwhere else None

    def wrap(part: Any) -> Any:
        rule = partial(_found, held, part.shape, columns)
        edges = [Edge(array.node_, rule, by_values=True), all_cells(array, part.shape, False)]
        return finish(session, part, edges, name_of(func), args, [array.node_])

    return tuple(wrap(part) for part in result) if isinstance(result, tuple) else wrap(result)


def _found(held: Held, shape: Shape, columns: int | None) -> Form:
    array = held.arrays[0]
    flat = np.flatnonzero(array)
    index = flat if columns is None else np.repeat(flat, columns)
    return Gather(shape, array.shape, index.reshape(shape))


def select(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.select`: for each cell the choice of the first condition that holds."""
    bound = bind(func, args, kwargs)
    result = plain_call(func, args, kwargs)
    chain = np.broadcast_to(bound["default"], result.shape)
    listed = list(zip(bound["condlist"], bound["choicelist"], strict=True))
    for condition, choice in reversed(listed):
        chain = where(session, np.where, (condition, choice, chain), {})
    edges = [same_cells(t, result.shape) for t in tracked_in(chain)]
    return finish(session, result, edges, name_of(func), args)
