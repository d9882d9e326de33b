"""Where pandas and NumPy take values out of tracked columns: replaced while a followed call runs.

NumPy sees a plain array in a Series, and some methods of pandas hand values to code in C. While at
least one followed call runs, these names of pandas's classes do the same with NumPy functions on
tracked arrays. Frames without tracked columns, and options that nothing is known about, get the
original.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import no_default
from pandas.core.reshape import merge as merging

from whence.arrays.frames import spans
from whence.arrays.frames.column import TrackedColumn, in_numpy, plain_values, unwrapped
from whence.arrays.frames.dtype import TrackedDtype
from whence.arrays.frames.windows import Windows
from whence.arrays.rules import creation
from whence.arrays.tracked import TrackedArray, tracked_in

Method = Callable[..., Any]
_factorize_keys: Method = vars(merging)["_factorize_keys"]
_REDUCTIONS: dict[str, tuple[Method, Method]] = {
    "sum": (np.sum, np.nansum),
    "prod": (np.prod, np.nanprod),
    "mean": (np.mean, np.nanmean),
    "min": (np.min, np.nanmin),
    "max": (np.max, np.nanmax),
    "median": (np.median, np.nanmedian),
    "any": (np.any, np.any),
    "all": (np.all, np.all),
}
# What NumPy leaves to a method of the same name, if its argument has one.
_BY_METHOD = frozenset(
    {"all", "any", "argmax", "argmin", "argsort", "around", "clip", "cumprod", "cumsum", "max"}
    | {"mean", "min", "prod", "ravel", "repeat", "round", "searchsorted", "std", "sum", "take"}
    | {"var"}
)
_LIBRARIES = frozenset({"numpy", "pandas", "whence"})
# What these make of a column depends on more than one row of it.
_NOT_BY_ROW = frozenset({"cat", "get_dummies"})


def is_tracked(value: Any) -> bool:
    """Whether a Series has a tracked column."""
    return isinstance(value, pd.Series) and isinstance(value.dtype, TrackedDtype)


def _all_tracked(frame: pd.DataFrame) -> bool:
    """Whether all columns of a frame are tracked, and there are any."""
    kinds = list(frame.dtypes)
    return bool(kinds) and all(isinstance(kind, TrackedDtype) for kind in kinds)


def _places(frame: pd.DataFrame) -> range:
    return range(frame.shape[1])


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


# --- NumPy functions --------------------------------------------------------------------------


def _array_function(self: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """`__array_function__` of a Series or a DataFrame: on the tracked arrays in them."""
    if func.__name__ in _BY_METHOD and args and isinstance(args[0], pd.Series | pd.DataFrame):
        return func._implementation(*args, **kwargs)
    plain, options = _arrays_in(args), _arrays_in(kwargs)
    if tracked_in([plain, options]):
        return func(*plain, **options)
    return func._implementation(*args, **kwargs)


def _arrays_in(value: Any) -> Any:
    """A tracked array in place of each Series or frame, or a plain one."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind(_arrays_in(item) for item in value)
    if kind is dict:
        return {key: _arrays_in(item) for key, item in value.items()}
    if isinstance(value, pd.Series | pd.DataFrame | pd.Index):
        found = unwrapped(value)
        return value.to_numpy() if found is value else found
    return unwrapped(value)


# --- Series -----------------------------------------------------------------------------------


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
        if _is_tracked_index(series.index) or tracked_in([list(args), kwargs]):
            return NotImplemented
        array = series.array.tracked_
        plain = pd.Series(array.data_, index=series.index)
        return Windows(series, getattr(plain, name)(*args, **kwargs))

    return open_windows


class _Accessor:
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
            columns = [self._again(result.iloc[:, i]) for i in _places(result)]
            return _beside_each_other(result, columns)
        plain = isinstance(result, pd.Series) and len(result) == len(self._array.data_)
        if not plain or not isinstance(result.dtype, np.dtype):
            self._leave("values of another kind")
            return result
        column = TrackedColumn(spans.cell_by_cell(self._array, result.to_numpy()))
        return pd.Series(column, index=self._series.index, name=self._series.name)

    def _leave(self, what: str) -> None:
        self._array.session_.escape(self._array.node_, f".{self._name}: {what}")


# --- DataFrame --------------------------------------------------------------------------------


def _to_numpy(frame: pd.DataFrame, dtype: Any = None, copy: Any = False, **options: Any) -> Any:
    if any(value is not no_default for value in options.values()):
        return NotImplemented
    made = _table(frame)
    return made if dtype is None else made.astype(dtype)


def _table(frame: pd.DataFrame) -> Any:
    """The columns side by side in a tracked array of two dimensions."""
    return np.column_stack([unwrapped(frame.iloc[:, i]) for i in _places(frame)])


def _along_rows(name: str) -> Method:
    whole, present = _REDUCTIONS[name]

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
        made = [getattr(frame.iloc[:, i], name)(*args, **kwargs) for i in _places(frame)]
        if not all(isinstance(column, pd.Series) for column in made):
            return NotImplemented
        return _beside_each_other(frame, made)

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
        self._windows = [windows(frame.iloc[:, i]) for i in _places(frame)]

    def __getattr__(self, name: str) -> Any:
        methods = [getattr(windows, name) for windows in self._windows]
        return lambda *args, **kwargs: _beside_each_other(
            self._frame, [method(*args, **kwargs) for method in methods]
        )


def _beside_each_other(frame: pd.DataFrame, columns: list[Any]) -> pd.DataFrame:
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


# --- Labels and groups ------------------------------------------------------------------------


def _is_tracked_index(index: pd.Index[Any]) -> bool:
    return isinstance(index.dtype, TrackedDtype)


def _labels(index: pd.Index[Any]) -> Any:
    """The values that rows are found by: pandas looks at them."""
    column: Any = index.array
    column.look()
    return column.tracked_.data_.astype(object)


def _each_label(index: pd.Index[Any]) -> Any:
    return iter(_labels(index))


def _label(index: pd.Index[Any], key: Any) -> Any:
    if not isinstance(key, int | np.integer):
        return NotImplemented
    column: Any = index.array
    column.look()
    return column.tracked_.data_[key]


def _joined(left: Any, right: Any, *args: Any, **kwargs: Any) -> Any:
    """Numbers for the keys that rows of two frames are joined by: pandas looks at them."""
    return _factorize_keys(_keys(left), _keys(right), *args, **kwargs)


def _keys(keys: Any) -> Any:
    if not isinstance(keys, TrackedColumn):
        return keys
    keys.look()
    return plain_values(pd.Series(keys.tracked_.data_))


def _filter(groups: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
    """Groups that a function says yes to, which may be a tracked one."""

    def decide(*given: Any, **options: Any) -> Any:
        told = func(*given, **options)
        return bool(told) if type(told) is TrackedArray and not told.data_.ndim else told

    original = type(groups).filter.__wrapped__
    return original(groups, decide, *args, **kwargs) if callable(func) else NotImplemented


def _cut(series: Any, bins: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(bins, int) or tracked_in([bins, list(args), kwargs]):
        return NotImplemented
    array = unwrapped(series)
    made = pd.cut(pd.Series(array.data_), bins, *args, **kwargs)
    if not isinstance(made, pd.Series) or not isinstance(made.dtype, np.dtype):
        return NotImplemented
    return _like(series, spans.cell_by_cell(array, made))


# --- Putting them in place --------------------------------------------------------------------

_SERIES: dict[str, Method] = {
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
_FRAME: dict[str, Method] = {
    "to_numpy": _to_numpy,
    "nlargest": _ordered_first(False),
    "nsmallest": _ordered_first(True),
    **{name: _along_rows(name) for name in _REDUCTIONS},
    **{name: _by_column(name) for name in ("where", "mask", "clip", "rank")},
    **{name: _frame_windows(name) for name in ("rolling", "expanding", "ewm")},
}
_INDEX: dict[str, Method] = {
    "_get_engine_target": _labels,
    "__iter__": _each_label,
    "__getitem__": _label,
}


def _instead(original: Method, ours: Method, applies: Callable[[Any], bool]) -> Method:
    @wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = ours(self, *args, **kwargs) if applies(self) else NotImplemented
        return original(self, *args, **kwargs) if made is NotImplemented else made

    return call


def _counting(original: Method) -> Method:
    """The size of a frame or column; others than pandas itself can make a value of it."""

    @wraps(original)
    def count(self: Any) -> Any:
        session = creation.current.get()
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if session is not None and caller.partition(".")[0] not in _LIBRARIES:
            session.counted = True
        return original(self)

    return count


def _sizes() -> list[tuple[Any, str, Any]]:
    made: list[tuple[Any, str, Any]] = []
    for kind in (pd.DataFrame, pd.Series, pd.Index):
        made.append((kind, "__len__", _counting(kind.__len__)))
        for name in ("shape", "size"):
            made.append((kind, name, property(_counting(getattr(kind, name).fget))))
    return made


def _replacements() -> list[tuple[Any, str, Any]]:
    made: list[tuple[Any, str, Any]] = []
    for name, ours in _SERIES.items():
        made.append((pd.Series, name, _instead(getattr(pd.Series, name), ours, is_tracked)))
    for name, ours in _FRAME.items():
        made.append((pd.DataFrame, name, _instead(getattr(pd.DataFrame, name), ours, _all_tracked)))
    values = pd.DataFrame.__dict__["values"]
    made.append((pd.DataFrame, "values", property(_instead(values.fget, _to_numpy, _all_tracked))))
    for name in ("str", "dt"):
        made.append((pd.Series, name, _Accessor(name, pd.Series.__dict__[name])))
    for name, ours in _INDEX.items():
        made.append((pd.Index, name, _instead(getattr(pd.Index, name), ours, _is_tracked_index)))
    for kind in (pd.api.typing.DataFrameGroupBy, pd.api.typing.SeriesGroupBy):
        made.append((kind, "filter", _instead(kind.filter, _filter, lambda _: True)))
    made.append((merging, "_factorize_keys", _joined))
    made.append((pd, "cut", _instead(pd.cut, _cut, is_tracked)))
    made += _sizes()
    made += [(kind, "__array_function__", _array_function) for kind in (pd.Series, pd.DataFrame)]
    return made


_replaced = _replacements()
_original = [(kind, name, kind.__dict__.get(name, no_default)) for kind, name, _ in _replaced]
_lock = threading.Lock()
_running = 0


def enter() -> None:
    """Put the replacements in place for the first followed call."""
    global _running
    with _lock:
        _running += 1
        if _running == 1:
            for kind, name, ours in _replaced:
                setattr(kind, name, ours)


def leave() -> None:
    """Take the replacements away after the last followed call."""
    global _running
    with _lock:
        _running -= 1
        if _running == 0:
            for kind, name, original in _original:
                if original is no_default:
                    delattr(kind, name)
                else:
                    setattr(kind, name, original)
