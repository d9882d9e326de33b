"""Methods of a DataFrame of tracked columns, by NumPy functions or column by column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import no_default

from whence.arrays.frames.column import REDUCTIONS, TrackedColumn, unwrapped
from whence.arrays.frames.dtype import TrackedDtype

Method = Callable[..., Any]


def all_tracked(frame: pd.DataFrame) -> bool:
    """Whether all columns of a frame are tracked, and there are any."""
    kinds = list(frame.dtypes)
    return bool(kinds) and all(isinstance(kind, TrackedDtype) for kind in kinds)


def places(frame: pd.DataFrame) -> range:
    """The places of a frame's columns."""
    return range(frame.shape[1])


def to_numpy(frame: pd.DataFrame, dtype: Any = None, copy: Any = False, **options: Any) -> Any:
    """The columns as a tracked array of two dimensions."""
    if any(value is not no_default for value in options.values()):
        return NotImplemented
    made = _table(frame)
    return made if dtype is None else made.astype(dtype)


def _table(frame: pd.DataFrame) -> Any:
    """The columns side by side in a tracked array of two dimensions."""
    return np.column_stack([unwrapped(frame.iloc[:, i]) for i in places(frame)])


def _along_rows(name: str) -> Method:
    whole, present = REDUCTIONS[name]

    def reduce(frame: pd.DataFrame, axis: Any = 0, skipna: bool = True, **options: Any) -> Any:
        options.pop("bool_only", None)
        if axis not in (1, "columns") or any(options.values()):
            return NotImplemented
        kinds = {column.dtype.kind for _, column in frame.items()}
        if not kinds <= set("iufb"):
            return NotImplemented
        table = _table(frame)
        made = (present if skipna and table.dtype.kind == "f" else whole)(table, axis=1)
        return pd.Series(TrackedColumn(made), index=frame.index)

    return reduce


def _by_column(name: str) -> Method:
    def each(frame: pd.DataFrame, *args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        if any(isinstance(value, pd.DataFrame | dict | list | tuple) for value in given):
            return NotImplemented
        if kwargs.get("axis") not in (None, 0, "index") or kwargs.get("inplace"):
            return NotImplemented
        made = [getattr(frame.iloc[:, i], name)(*args, **kwargs) for i in places(frame)]
        if not all(isinstance(column, pd.Series) for column in made):
            return NotImplemented
        return beside_each_other(frame, made)

    return each


def _frame_windows(name: str) -> Method:
    def open_windows(frame: pd.DataFrame, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("on") is not None or kwargs.get("axis", no_default) is not no_default:
            return NotImplemented
        return _EachColumn(frame, lambda column: getattr(column, name)(*args, **kwargs))

    return open_windows


class _EachColumn:
    """What windows over a frame have: that of the windows over each column."""

    def __init__(self, frame: pd.DataFrame, windows: Method) -> None:
        self._frame = frame
        self._windows = [windows(frame.iloc[:, i]) for i in places(frame)]

    def __getattr__(self, name: str) -> Any:
        methods = [getattr(windows, name) for windows in self._windows]
        return lambda *args, **kwargs: beside_each_other(
            self._frame, [method(*args, **kwargs) for method in methods]
        )


def beside_each_other(frame: pd.DataFrame, columns: list[Any]) -> pd.DataFrame:
    """Columns in place of those of a frame."""
    result = pd.DataFrame(dict(enumerate(columns)), index=frame.index)
    result.columns = frame.columns
    return result


def _ordered_first(ascending: bool) -> Method:
    def first(frame: pd.DataFrame, n: int, columns: Any, keep: str = "first") -> Any:
        if keep != "first":
            return NotImplemented
        return frame.sort_values(columns, ascending=ascending, kind="stable").head(n)

    return first


METHODS: dict[str, Method] = {
    "to_numpy": to_numpy,
    "nlargest": _ordered_first(False),
    "nsmallest": _ordered_first(True),
    **{name: _along_rows(name) for name in REDUCTIONS if name not in ("std", "var")},
    **{name: _by_column(name) for name in ("where", "mask", "clip", "rank")},
    **{name: _frame_windows(name) for name in ("rolling", "expanding", "ewm")},
}
"""Methods of a frame all of whose columns are tracked."""
