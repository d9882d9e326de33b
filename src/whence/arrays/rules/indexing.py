"""Reading cells: `a[key]`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.forms import AxisMap, Form, Run, fixed, runs, separable
from whence.arrays.graph import Edge, Node
from whence.arrays.memory import owner
from whence.arrays.rules.arguments import given, own
from whence.arrays.rules.base import finish, key_edge, shape_of
from whence.arrays.rules.linear import contract
from whence.arrays.rules.records import field, is_field, named_field, object_item, picks_item
from whence.arrays.rules.replay import Slot, replay, template
from whence.arrays.session import Reach, Session
from whence.arrays.tracked import TrackedArray, raw, tracked_in


def get(array: TrackedArray, key: Any) -> Any:
    """`array[key]`: the cells move; arrays in the key only steer."""
    key = named_field(array, key)
    plain = raw(key)
    result = array.data_[plain]
    session = array.session_
    if array.data_.dtype == object and picks_item(plain, array.data_.shape):
        return object_item(array, key, result)
    in_shape, shape = array.data_.shape, shape_of(result)
    note_bounds(session, plain, in_shape)
    steers = tracked_in(key)
    rule: partial[Form]
    if is_field(key):
        rule = partial(field, shape, in_shape)
    elif _is_basic(plain):
        rule = partial(sliced, own(plain) if steers else plain, shape, in_shape)
    else:
        arrays: list[Any] = []
        args = (Slot(0, in_shape), template(key, arrays))
        held = session.hold(*map(given, arrays))
        rule = partial(replay, operator.getitem, args, {}, held, 0, in_shape, None)
    edges = [Edge(array.node_, rule, by_values=bool(steers))]
    edges += [_steering(k, plain, shape, len(in_shape)) for k in steers]
    found = result[()] if array.scalar_ and is_field(key) and not shape else result
    record = isinstance(found, np.void) and found.dtype.names is not None
    if not record:
        result = found
    elif found is result:  # no number: it lies in the memory of its array, and can be written to
        result = array.data_[(*plain, ...) if type(plain) is tuple else (plain, ...)]
    sized_by = _sizing(key, result, array) if steers else ()
    made = finish(session, result, edges, "index", (array, key), sized_by)
    if record:
        made.scalar_ = True
    return made


def _steering(key: TrackedArray, whole: Any, shape: Shape, ndim: int) -> Edge:
    """Influence of an index array, of each of its cells on what it says the place of."""
    place = _place_of_arrays(whole, ndim) if key.data_.ndim and key.data_.dtype != bool else None
    if place is None:
        return key_edge(key, shape)
    at, count = place
    axes = range(at + count - key.data_.ndim, at + count)
    rule = partial(contract, shape, key.data_.shape, tuple(axes))
    return Edge(key.node_, rule, contributing=False)


def _place_of_arrays(key: Any, ndim: int) -> tuple[int, int] | None:
    """Where in the result the axes of index arrays are, and how many; None with masks."""
    items = key if type(key) is tuple else (key,)
    kinds = [_kind(item) for item in items]
    if "mask" in kinds:
        return None
    arrays = [i for i, kind in enumerate(kinds) if kind == "array"]
    count = max(np.ndim(items[i]) for i in arrays)
    if arrays[-1] - arrays[0] >= len(arrays):  # others in between: they come first
        return 0, count
    before = kinds[: arrays[0]]
    rest = ndim - sum(kind in ("array", "slice") for kind in kinds)
    return sum(rest if kind == "rest" else 1 for kind in before), count


def _kind(item: Any) -> str:
    if item is None or type(item) is slice:
        return "none" if item is None else "slice"
    if item is Ellipsis:
        return "rest"
    return "mask" if np.asarray(item).dtype == bool else "array"


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


def note_bounds(session: Session, key: Any, shape: Shape) -> None:
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
