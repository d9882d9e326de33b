"""`.str` and `.dt` of a Series, cell by cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from whence.arrays.frames import spans
from whence.arrays.frames.column import TrackedColumn
from whence.arrays.frames.dataframe import beside_each_other, places
from whence.arrays.frames.series import is_tracked
from whence.arrays.tracked import TrackedArray

# What these make of a column depends on more than one row of it.
_NOT_BY_ROW = frozenset({"cat", "get_dummies"})


class Accessor:
    """`.str` and `.dt` of a Series; those of a tracked column go cell by cell."""

    def __init__(self, name: str, original: Any) -> None:
        self._name, self._original = name, original

    def __get__(self, series: Any, owner: Any) -> Any:
        if series is None or not is_tracked(series):
            return self._original.__get__(series, owner)
        return _CellByCell(series, self._name)


class _CellByCell:
    """What an accessor has, for the values of a tracked column."""

    def __init__(self, series: pd.Series[Any], name: str) -> None:
        self._series, self._name = series, name
        self._array: TrackedArray = series.array.tracked_
        self._plain = getattr(pd.Series(self._array.data_, index=series.index), name)

    def __getitem__(self, key: Any) -> Any:
        return self._again(self._plain[key])

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._plain, name)
        if name in _NOT_BY_ROW:
            self._leave(name)
            return found
        if not callable(found):
            return self._again(found)
        return lambda *args, **kwargs: self._again(found(*args, **kwargs))

    def _again(self, result: Any) -> Any:
        if isinstance(result, pd.DataFrame):
            columns = [self._again(result.iloc[:, i]) for i in places(result)]
            return beside_each_other(result, columns)
        plain = isinstance(result, pd.Series) and len(result) == len(self._array.data_)
        if not plain or not isinstance(result.dtype, np.dtype):
            self._leave("values of another kind")
            return result
        column = TrackedColumn(spans.cell_by_cell(self._array, result.to_numpy()))
        return pd.Series(column, index=self._series.index, name=self._series.name)

    def _leave(self, what: str) -> None:
        self._array.session_.escape(self._array.node_, f".{self._name}: {what}")
