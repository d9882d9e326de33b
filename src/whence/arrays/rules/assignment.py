"""Writing cells: `a[key] = value`, and what the functions that write go through."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np

from whence.arrays.cells import Ints, Shape
from whence.arrays.forms import Form, gathered, identity
from whence.arrays.graph import Edge, Held, Node
from whence.arrays.memory import reads_back
from whence.arrays.rules.arguments import as_array, own
from whence.arrays.rules.base import (
    all_cells,
    detached,
    has_untracked,
    positions,
    same_cells,
    with_shapes,
)
from whence.arrays.rules.indexing import note_bounds
from whence.arrays.rules.records import into_cell, is_field, is_whole, named_field
from whence.arrays.rules.replay import fill, index_of, template
from whence.arrays.session import Session
from whence.arrays.tracked import TrackedArray, bare, raw, tracked_in
from whence.arrays.writes import Written


def put(array: TrackedArray, key: Any, value: Any) -> None:
    """`array[key] = value`: written cells come from the value, the others stay."""
    session = array.session_
    write(session, array, named_field(array, key), value, operator.setitem, "assignment")


def write(session: Session, array: Any, key: Any, value: Any, setter: Any, op: str) -> None:
    """Write through `setter(target, key, value)` and record what each cell holds afterwards."""
    if type(value) in (list, tuple) and raw(array).dtype.kind not in "OV":  # there it is an item
        value = as_array(value)
    operands = [t for t in tracked_in([key, value]) if t is not array]
    if type(array) is not TrackedArray:
        setter(array, raw(key), raw(value))
        for operand in operands:
            session.escape(operand.node_, f"{op} into a plain array")
        return
    if array.scalar_ and array.data_.dtype.names is None:  # a number stays what it is
        setter(bare(array), raw(key), raw(value))
        return
    careless = op in _AS_IT_GOES and _is_shared(value, array)
    if careless and reads_back(setter, raw(key), array.data_, value.data_):
        _write_as_it_goes(session, array, [key, value], setter, op)
        return
    session.before_write(array.data_)
    source = _copy_if_shared(session, value, array)
    arrays: list[Any] = []
    shaped = template(key, arrays)
    held = Held(*map(own, arrays))
    setter(array.data_, raw(key), raw(source))
    shape = array.data_.shape
    if setter is operator.setitem or setter is put_flat:
        note_bounds(session, raw(key), shape if setter is operator.setitem else (array.size,))
    whole = is_whole(array, raw(key), source) and setter is operator.setitem
    if setter is operator.setitem and not whole and _is_simple(key, source, shape):
        kept_key = raw(fill(shaped, lambda slot: None, held.arrays))
        node = source.node_ if type(source) is TrackedArray else session.pool()
        in_shape = source.data_.shape if type(source) is TrackedArray else ()
        keys = [*_steering(key), *session.deciding]
        made = Written(array.node_, node, partial(_places, kept_key, in_shape), op, keys)
        session.overwrite(array, made, partial(_cells, kept_key, shape), keys)
        return
    if is_field(key):
        doubt = "assignment to a field"
        edges = [Edge(array.node_, partial(identity, shape)), *_values(source, shape, doubt)]
        if session.left and type(source) is not TrackedArray:
            edges += session.tainted(shape)
        session.overwrite(array, Node(shape, edges, op), None)
        return
    none = np.zeros(np.shape(raw(source)), bool) if not _count(source) else None
    kept = partial(_untouched, setter, shaped, held, shape, none)
    by_values = bool(tracked_in(key))
    edges = [Edge(array.node_, kept, by_values=by_values)]
    if whole:
        rule = partial(into_cell, raw(key), shape, source.data_.shape)
        edges.append(Edge(source.node_, rule, doubt="an array put into an array of objects"))
    elif type(source) is TrackedArray:
        rule = partial(_written, setter, shaped, held, shape, source.data_.shape)
        edges.append(Edge(source.node_, rule, by_values=by_values))
    elif isinstance(source, list | tuple):
        edges += [all_cells(t, shape, doubt=f"{op} of a list") for t in tracked_in(source)]
    if session.left and (type(source) is not TrackedArray or has_untracked(key)):
        edges += session.tainted(shape)
    edges += session.decided(shape)
    packed = setter is operator.setitem or setter is put_flat
    aligned = setter is not np.place and (not packed or _is_one(source))
    edges += [
        same_cells(k, shape, False)
        if aligned and _is_mask(k, shape)
        else all_cells(k, shape, False)
        for k in tracked_in(key)
    ]
    written = None if by_values else partial(_mask, setter, shaped, held, shape, none)
    session.overwrite(array, Node(shape, with_shapes(edges, shape), op), written)


def _steering(key: Any) -> list[Node]:
    """The arrays in a key, and what decided their shapes: a key may take no cell at all."""
    listed = [found.node_ for found in tracked_in(key)]
    return listed + [node.loose for node in listed if node.loose is not None]


def put_flat(target: Any, key: Any, value: Any) -> None:
    """`a.flat[key] = value`: the value goes round until all cells have one."""
    target.flat[key] = value


def _is_mask(key: TrackedArray, shape: Shape) -> bool:
    return bool(key.data_.dtype.kind == "b" and key.data_.shape == shape)


def _is_one(value: Any) -> bool:
    """Whether a value is the same for all cells: else a mask says which of its cells goes where."""
    return _count(value) == 1


def _count(value: Any) -> int:
    """How many cells or items a value has; the items of a list need not make an array."""
    return len(value) if isinstance(value, list | tuple) else int(np.size(raw(value)))


def _is_simple(key: Any, source: Any, shape: Shape) -> bool:
    """Whether a write can go to the log: written cells come from the source, and keys steer all.

    What left has a say in all results, so that it need not be noted as a key.
    """
    if is_field(key) or any(_is_mask(k, shape) for k in tracked_in(key)):
        return False
    return type(source) is TrackedArray or not tracked_in(source)


def _places(key: Any, in_shape: Shape, grid: Ints) -> tuple[Ints, Ints]:
    """The cells that `array[key] = source` writes, and the source's cells in the same order."""
    target = np.asarray(grid[key])
    source = positions(in_shape)
    if source.ndim > target.ndim:  # axes of size 1 in front
        source = source.reshape(in_shape[source.ndim - target.ndim :])
    return target.reshape(-1), np.broadcast_to(source, target.shape).reshape(-1)


def _cells(key: Any, shape: Shape) -> Ints:
    return np.asarray(positions(shape)[key]).reshape(-1)


def _values(source: Any, shape: Shape, doubt: str) -> list[Edge]:
    return [all_cells(t, shape, doubt=doubt) for t in tracked_in(source)]


# writes that do not look whether the value lies in the same memory, and so changes on the way
_AS_IT_GOES = frozenset({"assignment to flat", "numpy.place", "numpy.fill_diagonal"})


def _is_shared(value: Any, array: TrackedArray) -> bool:
    return type(value) is TrackedArray and np.may_share_memory(value.data_, array.data_)


def _write_as_it_goes(
    session: Session, array: TrackedArray, given: list[Any], setter: Any, op: str
) -> None:
    """Write what is read from the same memory meanwhile: any cell may have come from any."""
    shape, doubt = array.data_.shape, f"{op}, which reads what it writes"
    edges = [all_cells(operand, shape, doubt=doubt) for operand in (array, *tracked_in(given))]
    session.before_write(array.data_)
    setter(array.data_, *raw(given))
    session.overwrite(array, Node(shape, with_shapes(edges, shape), op), None)


def _copy_if_shared(session: Session, value: Any, array: TrackedArray) -> Any:
    if _is_shared(value, array):
        return detached(value)
    return value


def _stamp(setter: Any, shaped: Any, held: Held, target: Any, value: Any) -> Any:
    key = fill(shaped, lambda slot: None, held.arrays)
    setter(target, key, value)
    return target


def _mask(setter: Any, shaped: Any, held: Held, shape: Shape, none: Any) -> Ints:
    """Which cells were written, by flat position; `none` is what was written, if it is empty."""
    value = True if none is None else none
    return np.flatnonzero(_stamp(setter, shaped, held, np.zeros(shape, dtype=bool), value))


def _untouched(setter: Any, shaped: Any, held: Held, shape: Shape, none: Any) -> Form:
    value = 0 if none is None else none
    return gathered(shape, shape, _stamp(setter, shaped, held, index_of(shape), value))


def _written(setter: Any, shaped: Any, held: Held, shape: Shape, in_shape: Shape) -> Form:
    blank = np.zeros(shape, dtype=np.int64)
    return gathered(shape, in_shape, _stamp(setter, shaped, held, blank, index_of(in_shape)))
