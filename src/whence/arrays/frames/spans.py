"""Values made of runs of cells: windows over a column, groups of its rows, fills from neighbours.

The values are those that pandas computes on plain ones; what is added here is which cells are
behind each of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from whence.arrays.cells import Ints
from whence.arrays.forms import Form, Gather, spans
from whence.arrays.graph import Edge
from whence.arrays.memory import Array
from whence.arrays.rules.base import all_cells, finish, same_cells, through
from whence.arrays.tracked import TrackedArray

_PICKING = frozenset({"min", "max", "first", "last"})
_SCANS = frozenset({"cumsum", "cumprod", "cummin", "cummax"})


def cell_by_cell(array: TrackedArray, values: Any) -> Any:
    """Values each of which is made of the cell at its place."""
    made = np.asarray(values)
    return finish(array.session_, made, [same_cells(array, made.shape)], "pandas")


def of_all(value: Any, *arrays: TrackedArray) -> Any:
    """A value that is made of all cells of some columns."""
    made = np.asarray(value)[()]
    edges = [all_cells(array, np.shape(made)) for array in arrays]
    return finish(arrays[0].session_, made, edges, "pandas")


def ranked(array: TrackedArray, values: Array) -> Any:
    """Ranks: each is that of one cell among all of them."""
    edges = [same_cells(array, values.shape), all_cells(array, values.shape, False)]
    return finish(array.session_, values, edges, "pandas.rank")


def over(array: TrackedArray, values: Array, lo: Ints, hi: Ints, source: Ints | None = None) -> Any:
    """Values made of the cells `lo … hi`; of one of them, `source`, after a look at the others."""
    size, shape = array.data_.shape, values.shape
    run = through(array, partial(spans, shape, size, lo, hi), contributing=source is None)
    edges = [run] if source is None else [_taken(array, shape, source), run]
    return finish(array.session_, values, edges, "pandas")


def _taken(array: TrackedArray, shape: tuple[int, ...], source: Ints) -> Edge:
    def form() -> Form:
        return Gather(shape, array.data_.shape, source.astype(np.int64))

    return through(array, form)


def first_equal(data: Array, values: Array, lo: Ints, hi: Ints) -> Ints:
    """The first cell in each run that has its value; −1 if none has."""
    if not len(data) or not len(values):
        return np.full(len(values), -1)
    _, codes = np.unique(np.concatenate([data, values.astype(data.dtype)]), return_inverse=True)
    own, wanted = codes[: len(data)], codes[len(data) :]
    order = np.lexsort((np.arange(len(data)), own))
    keys = own[order].astype(np.int64) * (len(data) + 1) + order
    at = np.searchsorted(keys, wanted.astype(np.int64) * (len(data) + 1) + np.maximum(lo, 0))
    found = order[np.minimum(at, len(data) - 1)]
    there = (at < len(data)) & (own[found] == wanted) & (found >= lo) & (found <= hi)
    return np.where(there, found, -1)


def filled(array: TrackedArray, values: Array, missing: Array, forward: bool) -> Any:
    """Missing values that are taken from the next one before them, or after them."""
    size, every = len(missing), np.arange(len(missing))
    if forward:
        source = np.maximum.accumulate(np.where(missing, -1, every))
        lo, hi = np.maximum(source, 0), every
    else:
        source = np.minimum.accumulate(np.where(missing, size, every)[::-1])[::-1]
        lo, hi = every, np.minimum(source, size - 1)
    gone = np.isnan(values) if values.dtype.kind == "f" else np.zeros(size, dtype=bool)
    return over(array, values, lo, hi, np.where(gone | (source == size), -1, source))


def interpolated(array: TrackedArray, values: Array, missing: Array) -> Any:
    """Missing values between two, in equal steps."""
    size, every = len(missing), np.arange(len(missing))
    before = np.maximum.accumulate(np.where(missing, -1, every))
    after = np.minimum.accumulate(np.where(missing, size, every)[::-1])[::-1]
    one = _taken(array, values.shape, np.where(np.isnan(values), -1, before))
    two = _taken(array, values.shape, np.where(np.isnan(values) | (after == size), -1, after))
    lo, hi = np.maximum(before, 0), np.minimum(after, size - 1)
    looked = through(array, partial(spans, values.shape, (size,), lo, hi), contributing=False)
    return finish(array.session_, values, [one, two, looked], "pandas.interpolate")


def grouped(array: TrackedArray, how: str, ids: Ints, groups: int, values: Array) -> Any:
    """What pandas made of groups of rows: a value for each group, or for each row."""
    order = np.argsort(ids, kind="stable")
    order = order[np.searchsorted(ids[order], 0) :]  # rows of no group are first
    rows: Any = array[order]
    own = ids[order]
    first = np.searchsorted(own, np.arange(groups))
    last = np.searchsorted(own, np.arange(groups), side="right") - 1
    if how == "rank":
        return _back(_ranked_within(rows, values[order], first[own], last[own]), order, values)
    if how in _SCANS:
        scanned = over(rows, values[order], first[own], np.arange(len(own)))
        return _back(scanned, order, values)
    source = _picked(rows.data_, how, values, first, last) if how in _PICKING else None
    return over(rows, values, first, last, source)


def _ranked_within(rows: TrackedArray, values: Array, lo: Ints, hi: Ints) -> Any:
    looked = through(
        rows, partial(spans, values.shape, rows.data_.shape, lo, hi), contributing=False
    )
    edges = [same_cells(rows, values.shape), looked]
    return finish(rows.session_, values, edges, "pandas.rank")


def _back(made: TrackedArray, order: Ints, values: Array) -> Any:
    """The values of ordered rows, each in its row's own place."""
    places = np.full(len(values), -1)
    places[order] = np.arange(len(order))
    return finish(made.session_, values, [_taken(made, values.shape, places)], "pandas")


def _picked(data: Array, how: str, values: Array, lo: Ints, hi: Ints) -> Ints:
    """The row of each group whose value the group has."""
    if how in ("min", "max"):
        return first_equal(data, values, lo, hi)
    there = np.flatnonzero(~pd.isna(data))
    if not len(there):
        return np.full(len(values), -1)
    at = np.searchsorted(there, lo)
    if how == "last":
        at = np.searchsorted(there, hi, side="right") - 1
    found = there[np.clip(at, 0, len(there) - 1)]
    return np.where((found >= lo) & (found <= hi), found, -1)
