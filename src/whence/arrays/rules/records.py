"""Cells that are no plain numbers: fields of records, and items of arrays of objects."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.forms import Form, Gather, follow, pairs, separable
from whence.arrays.graph import Edge
from whence.arrays.rules.base import finish, key_edge, positions, python
from whence.arrays.tracked import TrackedArray, raw, tracked_in


def is_field(key: Any) -> bool:
    """Whether a key names fields of records."""
    return isinstance(key, str) or (isinstance(key, list) and bool(key) and type(key[0]) is str)


def named_field(array: TrackedArray, key: Any) -> Any:
    """A key, with a record's number of a field as its name."""
    names = array.data_.dtype.names
    if names is None or not array.scalar_ or not isinstance(key, int | np.integer):
        return key
    return names[key]


def field(shape: Shape, in_shape: Shape) -> Form:
    """A field of records; one that holds arrays adds axes at the end."""
    return separable(shape, in_shape, [follow(i, n) for i, n in enumerate(in_shape)])


def picks_item(key: Any, shape: Shape) -> bool:
    """Whether a key names one cell: an array of objects then gives and takes the object itself."""
    return not isinstance(np.broadcast_to(np.False_, shape)[key], np.ndarray)


def object_item(array: TrackedArray, key: Any, item: Any) -> Any:
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


def is_whole(array: TrackedArray, key: Any, source: Any) -> bool:
    """Whether an array becomes an item of an array of objects."""
    if array.data_.dtype != object or type(source) is not TrackedArray or source.scalar_:
        return False
    return picks_item(key, array.data_.shape)


def into_cell(key: Any, shape: Shape, in_shape: Shape) -> Form:
    """An array that became an item: all its cells go to that one."""
    source = positions(in_shape).reshape(-1)
    return pairs(shape, in_shape, np.full(source.shape, positions(shape)[key]), source)
