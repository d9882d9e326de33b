"""Methods of a tracked Series that pandas would compute in C, by NumPy functions or by ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import no_default

from whence.arrays.frames import spans
from whence.arrays.frames.column import TrackedColumn, in_numpy, unwrapped
from whence.arrays.frames.dtype import TrackedDtype
from whence.arrays.frames.labels import is_tracked_index
from whence.arrays.frames.windows import Windows
from whence.arrays.tracked import TrackedArray, tracked_in

Method = Callable[..., Any]


def is_tracked(value: Any) -> bool:
    """Whether a Series has a tracked column."""
    return isinstance(value, pd.Series) and isinstance(value.dtype, TrackedDtype)


def _beside(series: pd.Series[Any], value: Any) -> Any:
    """A value that goes with a column, row by row or as one; NotImplemented if it does not."""
    if isinstance(value, pd.DataFrame):
        return NotImplemented
    if isinstance(value, pd.Series):
        return unwrapped(value) if value.index.equals(series.index) else NotImplemented
    if callable(value):
        return _beside(series, value(series))
    if type(value) is TrackedArray:
        return value
    if pd.api.types.is_scalar(value):
        return in_numpy(value, [series])
    return np.asarray(value) if len(value) == len(series) else NotImplemented


def _like(series: pd.Series[Any], made: Any) -> Any:
    return pd.Series(TrackedColumn(made), index=series.index, name=series.name)


def _where(series: pd.Series[Any], cond: Any, other: Any = no_default, **options: Any) -> Any:
    return _chosen(series, cond, other, False, options)


def _mask(series: pd.Series[Any], cond: Any, other: Any = no_default, **options: Any) -> Any:
    return _chosen(series, cond, other, True, options)


def _chosen(
    series: pd.Series[Any], cond: Any, other: Any, negated: bool, options: dict[str, Any]
) -> Any:
    column: Any = series.array
    array, told = column.tracked_, _beside(series, cond)
    second = column.dtype.na_value if other is no_default else _beside(series, other)
    if any(options.values()) or told is NotImplemented or second is NotImplemented:
        return NotImplemented
    if getattr(told, "dtype", None) != np.dtype(bool):
        return NotImplemented
    return _like(series, np.where(told, *((second, array) if negated else (array, second))))


def _clip(
    series: pd.Series[Any], lower: Any = None, upper: Any = None, *, axis: Any = None,
    inplace: bool = False, **_: Any,
) -> Any:  # fmt: skip
    low, high = _beside(series, lower), _beside(series, upper)
    if inplace or low is NotImplemented or high is NotImplemented:
        return NotImplemented
    if any(bool(np.any(pd.isna(getattr(x, "data_", x)))) for x in (low, high) if x is not None):
        return NotImplemented
    array = series.array.tracked_
    if low is None and high is None:
        return series.copy()
    return _like(series, np.clip(array, low, high))


def _corr(series: pd.Series[Any], other: Any, *args: Any, **kwargs: Any) -> Any:
    return _of_both("corr", series, other, args, kwargs)


def _cov(series: pd.Series[Any], other: Any, *args: Any, **kwargs: Any) -> Any:
    return _of_both("cov", series, other, args, kwargs)


def _of_both(
    name: str, series: pd.Series[Any], other: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A number that is made of two columns whose rows go together."""
    if not is_tracked(other) or not other.index.equals(series.index):
        return NotImplemented
    pair = unwrapped(series), unwrapped(other)
    one, two = (pd.Series(array.data_) for array in pair)
    return spans.of_all(getattr(one, name)(two, *args, **kwargs), *pair)


def _replace(series: pd.Series[Any], *args: Any, **kwargs: Any) -> Any:
    alone = len(args) < 2 and "value" not in kwargs
    if (alone and not isinstance(args[0] if args else kwargs.get("to_replace"), dict)) or (
        kwargs.get("inplace") or kwargs.get("method") or tracked_in([list(args), kwargs])
    ):
        return NotImplemented
    array = series.array.tracked_
    made = pd.Series(array.data_).replace(*args, **kwargs)
    return _like(series, spans.cell_by_cell(array, made))


def _nlargest(series: pd.Series[Any], n: int = 5, keep: str = "first") -> Any:
    return _first_in_order(series, n, keep, False)


def _nsmallest(series: pd.Series[Any], n: int = 5, keep: str = "first") -> Any:
    return _first_in_order(series, n, keep, True)


def _first_in_order(series: pd.Series[Any], n: int, keep: str, ascending: bool) -> Any:
    if keep != "first":
        return NotImplemented
    return series.dropna().sort_values(ascending=ascending, kind="stable").head(n)


def _windows(name: str) -> Method:
    def open_windows(series: pd.Series[Any], *args: Any, **kwargs: Any) -> Any:
        if is_tracked_index(series.index) or tracked_in([list(args), kwargs]):
            return NotImplemented
        array = series.array.tracked_
        plain = pd.Series(array.data_, index=series.index)
        return Windows(series, getattr(plain, name)(*args, **kwargs))

    return open_windows


def cut(series: Any, bins: Any, *args: Any, **kwargs: Any) -> Any:
    """`pandas.cut` by bins that are given."""
    if isinstance(bins, int) or tracked_in([bins, list(args), kwargs]):
        return NotImplemented
    array = unwrapped(series)
    made = pd.cut(pd.Series(array.data_), bins, *args, **kwargs)
    if not isinstance(made, pd.Series) or not isinstance(made.dtype, np.dtype):
        return NotImplemented
    return _like(series, spans.cell_by_cell(array, made))


METHODS: dict[str, Method] = {
    "where": _where,
    "mask": _mask,
    "clip": _clip,
    "corr": _corr,
    "replace": _replace,
    "cov": _cov,
    "nlargest": _nlargest,
    "nsmallest": _nsmallest,
    **{name: _windows(name) for name in ("rolling", "expanding", "ewm")},
}
"""Methods of a tracked Series."""
