"""Reading and writing cells: `a[key]`, `a[key] = value`, and the functions that do the same."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from whence.arrays.cells import Ints, Shape
from whence.arrays.forms import (
    AxisMap,
    Form,
    Gather,
    Run,
    fixed,
    follow,
    gathered,
    pairs,
    runs,
    separable,
)
from whence.arrays.graph import Edge, Held, Node
from whence.arrays.memory import owner, reads_back
from whence.arrays.rules.arguments import as_array, decided_by, given, own
from whence.arrays.rules.base import (
    all_cells,
    bind,
    detached,
    finish,
    has_untracked,
    lifted,
    name_of,
    plain_call,
    positions,
    python,
    same_cells,
    shape_of,
    with_shapes,
)
from whence.arrays.rules.replay import Slot, fill, index_of, replay, template
from whence.arrays.session import Reach, Session
from whence.arrays.tracked import TrackedArray, bare, raw, tracked_in
from whence.arrays.writes import Written


def get(array: TrackedArray, key: Any) -> Any:
    """`array[key]`: the cells move; arrays in the key only steer."""
    key = _named_field(array, key)
    plain = raw(key)
    result = array.data_[plain]
    session = array.session_
    if array.data_.dtype == object and picks_item(plain, array.data_.shape):
        return _item(array, key, result)
    in_shape, shape = array.data_.shape, shape_of(result)
    _note_bounds(session, plain, in_shape)
    steers = tracked_in(key)
    rule: partial[Form]
    if _is_field(key):
        rule = partial(_field, shape, in_shape)
    elif _is_basic(plain):
        rule = partial(sliced, own(plain) if steers else plain, shape, in_shape)
    else:
        arrays: list[Any] = []
        args = (Slot(0, in_shape), template(key, arrays))
        held = session.hold(*map(given, arrays))
        rule = partial(replay, operator.getitem, args, {}, held, 0, in_shape, None)
    edges = [Edge(array.node_, rule, by_values=bool(steers))]
    edges += [key_edge(k, shape) for k in steers]
    found = result[()] if array.scalar_ and _is_field(key) and not shape else result
    record = isinstance(found, np.void) and found.dtype.names is not None
    if not record:
        result = found
    elif found is result:  # no number: it lies in the memory of its array, and can be written to
        result = array.data_[(*plain, ...) if type(plain) is tuple else (plain, ...)]
    sized_by = _sizing(key, result, array) if steers else ()
    made = finish(session, result, edges, "index", (array, key), sized_by)
    made.scalar_ = made.scalar_ or record
    return made


def _is_field(key: Any) -> bool:
    """Whether a key names fields of records."""
    return isinstance(key, str) or (isinstance(key, list) and bool(key) and type(key[0]) is str)


def _named_field(array: TrackedArray, key: Any) -> Any:
    """A key, with a record's number of a field as its name."""
    names = array.data_.dtype.names
    if names is None or not array.scalar_ or not isinstance(key, int | np.integer):
        return key
    return names[key]


def _sizing(key: Any, result: Any, array: TrackedArray) -> list[Node]:
    """The arrays in a key whose values say how many cells it takes: masks and ends of slices.

    All of them, if it gives a view: they say what a write to the view changes.
    """
    view = isinstance(result, np.ndarray) and owner(result) is owner(array.data_)
    items = key if type(key) is tuple else (key,)
    return [
        found.node_
        for item in items
        for found in tracked_in(item)
        if view or type(item) is slice or found.data_.dtype == bool
    ]


def _field(shape: Shape, in_shape: Shape) -> Form:
    """A field of records; one that holds arrays adds axes at the end."""
    return separable(shape, in_shape, [follow(i, n) for i, n in enumerate(in_shape)])


def picks_item(key: Any, shape: Shape) -> bool:
    """Whether a key names one cell: an array of objects then gives and takes the object itself."""
    return not isinstance(np.broadcast_to(np.False_, shape)[key], np.ndarray)


def _item(array: TrackedArray, key: Any, item: Any) -> Any:
    """An object out of an array of objects; if it is an array, all of it is from that cell."""
    session, in_shape = array.session_, array.data_.shape
    doubt = "an array taken out of an array of objects" if isinstance(item, np.ndarray) else ""
    shape = item.shape if isinstance(item, np.ndarray) else ()
    edges = [Edge(array.node_, partial(_from_cell, raw(key), shape, in_shape), doubt=doubt)]
    edges += [key_edge(k, shape) for k in tracked_in(key)]
    made = finish if isinstance(item, np.ndarray | np.generic) else python
    return made(session, item, edges, "index", (array, key))


def _from_cell(key: Any, shape: Shape, in_shape: Shape) -> Form:
    return Gather(shape, in_shape, np.full(shape, positions(in_shape)[key], dtype=np.int64))


def _note_bounds(session: Session, key: Any, shape: Shape) -> None:
    """Slices with steps take a size that was rounded; past the ends, or empty, what there is."""
    items = key if type(key) is tuple else (key,)
    if session.reach is Reach.FAR and slice in map(type, items) and _is_basic(key):
        for item, size in zip(_by_axis(items, shape), shape, strict=True):
            if type(item) is slice:
                ends = [abs(end) for end in (item.start, item.stop) if end is not None]
                cut = max(ends, default=0) > size or not range(*item.indices(size))
                if cut or (item.step or 1) not in (1, -1):
                    session.narrow(Reach.BETWEEN)


def _by_axis(items: Sequence[Any], shape: Shape) -> list[Any]:
    """The items of a basic key, one for each axis."""
    listed = [item for item in items if item is not None]
    at = listed.index(Ellipsis) if Ellipsis in listed else len(listed)
    rest = len(shape) - (len(listed) - (at < len(listed)))
    return [*listed[:at], *[slice(None)] * rest, *listed[at + 1 :]]


_WHOLE = frozenset({int, *(np.dtype(kind).type for kind in np.typecodes["AllInteger"])})


def _is_basic(key: Any) -> bool:
    """Whether a key holds only numbers, slices, `...` and None."""
    items = key if type(key) is tuple else (key,)
    return all(
        item is None or item is Ellipsis or type(item) in _WHOLE or type(item) is slice
        for item in items
    )


def sliced(key: Any, shape: Shape, in_shape: Shape) -> Form:
    """Basic indexing, axis by axis: nothing is run."""
    items = list(key) if type(key) is tuple else [key]
    used = sum(item is not None and item is not Ellipsis for item in items)
    if Ellipsis not in items:
        items.append(Ellipsis)
    at = items.index(Ellipsis)
    items[at : at + 1] = [slice(None)] * (len(in_shape) - used)
    maps: list[AxisMap] = []
    out = 0
    for item in items:
        if item is None:
            out += 1
            continue
        size = in_shape[len(maps)]
        if isinstance(item, slice):
            start, stop, step = item.indices(size)
            count = len(range(start, stop, step))
            maps.append(runs(out, [Run(0, count - 1, start, step, start, step)] if count else []))
            out += 1
        else:
            maps.append(fixed(item % size))
    return separable(shape, in_shape, maps)


def key_edge(key: TrackedArray, shape: Shape) -> Edge:
    """Influence of an index array: its own cell if laid over the result, else all its cells."""
    if key.data_.dtype != bool and key.data_.shape == shape:
        return same_cells(key, shape, contributing=False)
    return all_cells(key, shape, contributing=False)


def put(array: TrackedArray, key: Any, value: Any) -> None:
    """`array[key] = value`: written cells come from the value, the others stay."""
    session = array.session_
    write(session, array, _named_field(array, key), value, operator.setitem, "assignment")


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
        _note_bounds(session, raw(key), shape if setter is operator.setitem else (array.size,))
    whole = _is_whole(array, raw(key), source) and setter is operator.setitem
    if setter is operator.setitem and not whole and _is_simple(key, source, shape):
        kept_key = raw(fill(shaped, lambda slot: None, held.arrays))
        node = source.node_ if type(source) is TrackedArray else session.pool()
        in_shape = source.data_.shape if type(source) is TrackedArray else ()
        keys = [*_steering(key), *session.deciding]
        made = Written(array.node_, node, partial(_places, kept_key, in_shape), op, keys)
        session.overwrite(array, made, partial(_cells, kept_key, shape), keys)
        return
    if _is_field(key):
        doubt = "assignment to a field"
        edges = [Edge(array.node_, partial(_same, shape)), *_values(source, shape, doubt)]
        if session.left and type(source) is not TrackedArray:
            edges += session.tainted(shape)
        session.overwrite(array, Node(shape, edges, op), None)
        return
    none = np.zeros(np.shape(raw(source)), bool) if not _count(source) else None
    kept = partial(_untouched, setter, shaped, held, shape, none)
    by_values = bool(tracked_in(key))
    edges = [Edge(array.node_, kept, by_values=by_values)]
    if whole:
        rule = partial(_into_cell, raw(key), shape, source.data_.shape)
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


def _is_whole(array: TrackedArray, key: Any, source: Any) -> bool:
    """Whether an array becomes an item of an array of objects."""
    if array.data_.dtype != object or type(source) is not TrackedArray or source.scalar_:
        return False
    return picks_item(key, array.data_.shape)


def _into_cell(key: Any, shape: Shape, in_shape: Shape) -> Form:
    source = positions(in_shape).reshape(-1)
    return pairs(shape, in_shape, np.full(source.shape, positions(shape)[key]), source)


def _is_simple(key: Any, source: Any, shape: Shape) -> bool:
    """Whether a write can go to the log: written cells come from the source, and keys steer all.

    What left has a say in all results, so that it need not be noted as a key.
    """
    if _is_field(key) or any(_is_mask(k, shape) for k in tracked_in(key)):
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


def _same(shape: Shape) -> Form:
    from whence.arrays.forms import identity

    return identity(shape)


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


# functions


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
