"""Tracked columns: a pandas column whose cells know where they come from.

pandas moves such a column through its own methods for extension arrays (take, slice, concat, copy),
so a frame that is put together from tracked columns and tracked arrays still knows its cells. Every
other way to the values goes through `__array__`, where it is seen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray, ExtensionDtype, no_default

from whence.arrays.frames import spans
from whence.arrays.frames.dtype import TrackedDtype
from whence.arrays.graph import Node
from whence.arrays.rules.arguments import stacked
from whence.arrays.rules.creation import current
from whence.arrays.tracked import TrackedArray, tracked_in

REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (np.sum, np.nansum),
    "prod": (np.prod, np.nanprod),
    "mean": (np.mean, np.nanmean),
    "min": (np.min, np.nanmin),
    "max": (np.max, np.nanmax),
    "std": (np.std, np.nanstd),
    "var": (np.var, np.nanvar),
    "median": (np.median, np.nanmedian),
    "any": (np.any, np.any),
    "all": (np.all, np.all),
}
_MOMENTS = frozenset({"sem", "skew", "kurt"})
_SCANS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "cumsum": (np.cumsum, np.nancumsum),
    "cumprod": (np.cumprod, np.nancumprod),
    "cummax": (np.maximum.accumulate, np.fmax.accumulate),
    "cummin": (np.minimum.accumulate, np.fmin.accumulate),
}
# Where pandas looks at values only to choose or order rows: that is a branch on them.
_CHOOSING = frozenset(
    {"pandas.core.algorithms", "pandas.core.groupby.groupby"}
    | {"pandas.core.indexers.utils", "pandas.core.sorting"}
)
# What stands between a text of values and who asked for it.
_SHOWING = frozenset({"pandas.core.frame", "pandas.core.generic", "pandas.core.series"}) | {
    "whence.arrays.rules.creation"
}


class TrackedColumn(np.lib.mixins.NDArrayOperatorsMixin, ExtensionArray):
    """A one-dimensional tracked array in a pandas frame."""

    __array_priority__ = 2000

    def __init__(self, tracked: TrackedArray) -> None:
        self.tracked_ = tracked
        tracked.session_.look_at_shape(tracked.node_)  # pandas asks for the length

    # what pandas asks of an extension array

    @property
    def dtype(self) -> TrackedDtype:
        """The type of the values."""
        return TrackedDtype(self.tracked_.data_.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return self.tracked_.data_.nbytes

    def __len__(self) -> int:
        return len(self.tracked_.data_)

    @classmethod
    def _from_sequence(
        cls, scalars: Any, *, dtype: Any = None, copy: bool = False
    ) -> TrackedColumn:
        wanted = dtype.numpy_dtype if isinstance(dtype, TrackedDtype) else dtype
        if isinstance(scalars, np.ndarray) and scalars.dtype == object:
            scalars = list(scalars)
        if isinstance(scalars, TrackedColumn):
            array = scalars.tracked_
        elif isinstance(scalars, list | tuple) and tracked_in(scalars):
            array = stacked(scalars)
        else:
            session = current.get()
            if session is None:
                raise TypeError("a tracked column is made inside a followed call only")
            data = np.array(scalars, dtype=wanted)
            array = TrackedArray(data, Node(data.shape, session.tainted(data.shape)), session)
        return cls(array if wanted is None else array.astype(wanted))

    def __getitem__(self, key: Any) -> Any:
        return in_column(self.tracked_[_plain_key(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.tracked_[_plain_key(key)] = unwrapped(value)

    def take(
        self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None
    ) -> TrackedColumn:
        """The cells at some positions; with `allow_fill`, −1 stands for a missing one."""
        wanted = np.asarray(indices, dtype=np.intp)
        if not allow_fill:
            return TrackedColumn(self.tracked_[wanted])
        missing = wanted < 0
        if not missing.any():
            return TrackedColumn(self.tracked_[wanted])
        kind = self.dtype.kind
        source = self.tracked_
        if kind in "iu" and not isinstance(fill_value, int | np.integer):
            source = source.astype(np.float64)
        elif kind == "b":
            source = source.astype(object)
        if not len(source.data_):
            raise IndexError("cannot take cells of an empty column")
        taken = source[np.where(missing, 0, wanted)]
        taken[missing] = self.dtype.na_value if fill_value is None else fill_value
        return TrackedColumn(taken)

    def shift(self, periods: int = 1, fill_value: Any = None) -> TrackedColumn:
        """The cells so many rows further on; before them, missing ones."""
        if not len(self) or not periods:
            return self.copy()
        places = np.arange(len(self)) - periods
        inside = (places >= 0) & (places < len(self))
        fill = None if fill_value is None or pd.isna(fill_value) else fill_value
        return self.take(np.where(inside, places, -1), allow_fill=True, fill_value=fill)

    def copy(self) -> TrackedColumn:
        """The same cells in memory of their own."""
        return TrackedColumn(self.tracked_.copy())

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[TrackedColumn]) -> TrackedColumn:
        return cls(np.concatenate([column.tracked_ for column in to_concat]))  # type: ignore[arg-type]

    def isna(self) -> Any:
        """Where values are missing; looking at that is followed."""
        kind = self.dtype.kind
        if _choosing_rows():
            self.look()
            return pd.isna(self.tracked_.data_)
        if kind in "fc":
            return TrackedColumn(np.isnan(self.tracked_))  # type: ignore[arg-type]
        if kind in "mM":
            return TrackedColumn(np.isnat(self.tracked_))  # type: ignore[arg-type]
        if kind in "iub":
            return np.zeros(len(self), dtype=bool)
        return TrackedColumn(spans.cell_by_cell(self.tracked_, pd.isna(self.tracked_.data_)))

    def equals(self, other: object) -> bool:
        """Whether another column has the same values."""
        if not isinstance(other, TrackedColumn) or self.dtype != other.dtype:
            return False
        self.look()
        other.look()
        return self._plain().equals(other._plain())

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """The same cells in another type."""
        wanted = dtype.numpy_dtype if isinstance(dtype, TrackedDtype) else dtype
        if isinstance(wanted, ExtensionDtype):
            return super().astype(dtype, copy=copy)
        return TrackedColumn(self.tracked_.astype(np.dtype(wanted)))

    def to_numpy(self, dtype: Any = None, copy: bool = False, na_value: Any = no_default) -> Any:
        """The tracked array; a mask that pandas selects rows by is a branch on its cells."""
        array = self.tracked_
        if self.dtype.kind == "b" and _choosing_rows():
            self.look()
            return array.data_.copy()
        if na_value is not no_default and self.dtype.kind not in "iub":
            return super().to_numpy(dtype, copy, na_value)
        if dtype is not None and np.dtype(dtype) != array.data_.dtype:
            return array.astype(dtype)
        return array.copy() if copy else array.view()

    def argsort(
        self,
        *,
        ascending: bool = True,
        kind: Any = "quicksort",
        na_position: str = "last",
        **kwargs: Any,
    ) -> Any:
        """Positions in order; where pandas orders rows by them, a branch on the cells."""
        if not _choosing_rows():
            return np.argsort(self.tracked_, kind=kind)
        self.look()
        plain = pd.Series(self.tracked_.data_).array
        return plain.argsort(ascending=ascending, kind=kind, na_position=na_position)

    def searchsorted(self, value: Any, side: Any = "left", sorter: Any = None) -> Any:
        """Where values would stand among those of the column."""
        return np.searchsorted(self.tracked_, unwrapped(value), side=side, sorter=unwrapped(sorter))

    def look(self) -> None:
        """Note a branch on the values: all that is made from now on is influenced."""
        session, node = self.tracked_.session_, self.tracked_.node_
        if not session.steering or session.steering[-1] is not node:
            session.steer(node)

    def _reduce(
        self, name: str, *, skipna: bool = True, keepdims: bool = False, **kwargs: Any
    ) -> Any:
        result = self._reduced(name, skipna, kwargs)
        return TrackedColumn(result.reshape(1)) if keepdims else result

    def _reduced(self, name: str, skipna: bool, kwargs: dict[str, Any]) -> Any:
        kind = self.dtype.kind
        options = {key: kwargs[key] for key in ("ddof",) if key in kwargs}
        if name in _MOMENTS and kind in "iuf":
            plain = pd.Series(self.tracked_.data_)
            return spans.of_all(getattr(plain, name)(skipna=skipna, **options), self.tracked_)
        if kind in "mM" and name in ("min", "max") and skipna:
            return (np.fmin if name == "min" else np.fmax).reduce(self.tracked_)
        if name not in REDUCTIONS or kind not in "iufcb":
            raise TypeError(f"{name} of a tracked column is not followed")
        whole, present = REDUCTIONS[name]
        return (present if skipna and kind in "fc" else whole)(self.tracked_, **options)

    def _accumulate(self, name: str, *, skipna: bool = True, **kwargs: Any) -> TrackedColumn:
        if name not in _SCANS:
            raise NotImplementedError(f"{name} of a tracked column is not followed")
        whole, present = _SCANS[name]
        data = self.tracked_.data_
        if data.dtype.kind not in "fc" or not np.isnan(data).any() or not skipna:
            return TrackedColumn(whole(self.tracked_))
        # Missing values are passed over, and stay missing.
        passed = np.where(np.isnan(self.tracked_), np.nan, present(self.tracked_))
        return TrackedColumn(passed)  # type: ignore[arg-type]

    def _rank(self, *, axis: Any = 0, **options: Any) -> Any:
        values = self._plain().rank(**options).to_numpy()
        return TrackedColumn(spans.ranked(self.tracked_, values))

    def _quantile(self, qs: Any, interpolation: str) -> Any:
        function = np.nanquantile if self.dtype.kind == "f" else np.quantile
        found = function(self.tracked_, np.asarray(qs), method=interpolation)  # type: ignore[call-overload]
        return TrackedColumn(found)

    def _pad_or_backfill(
        self, *, method: str, limit: Any = None, limit_area: Any = None, copy: bool = True
    ) -> Any:
        if self.dtype.kind in "iub":  # nothing is missing
            return self.copy()
        if limit is not None or limit_area is not None:
            raise NotImplementedError("a fill with limits is not followed")
        data, forward = self.tracked_.data_, method in ("pad", "ffill")
        values = (self._plain().ffill() if forward else self._plain().bfill()).to_numpy()
        return TrackedColumn(spans.filled(self.tracked_, values, pd.isna(data), forward))

    def interpolate(
        self, *, method: str, limit: Any, limit_direction: Any, limit_area: Any, **_: Any
    ) -> Any:
        """Missing values between two others, one step after another."""
        told = (limit, limit_area) != (None, None) or limit_direction not in (None, "forward")
        if method != "linear" or told or self.dtype.kind != "f":
            raise NotImplementedError("only linear interpolation without limits is followed")
        values = self._plain().interpolate().to_numpy()
        missing = np.isnan(self.tracked_.data_)
        return TrackedColumn(spans.interpolated(self.tracked_, values, missing))

    def _groupby_op(
        self, *, how: str, has_dropped_na: bool, min_count: int, ngroups: int, ids: Any,
        **options: Any,
    ) -> Any:  # fmt: skip
        from pandas.core.groupby.ops import WrappedCythonOp  # type: ignore[attr-defined]

        if how in ("ohlc", "nth"):
            raise TypeError(f"{how} of a tracked column is not followed")
        kind = WrappedCythonOp.get_kind_from_how(how)
        operation = WrappedCythonOp(kind=kind, how=how, has_dropped_na=has_dropped_na)
        values = operation.cython_operation(
            values=plain_values(self._plain()), axis=0, min_count=min_count,
            comp_ids=ids, ngroups=ngroups, **options,
        )  # fmt: skip
        made = np.asarray(values)
        if how in ("idxmin", "idxmax"):  # pandas takes rows by these
            self.look()
            return made
        return TrackedColumn(spans.grouped(self.tracked_, how, ids, ngroups, made))

    # which rows are alike: looked at by pandas in order to choose, group or join rows

    def factorize(self, use_na_sentinel: bool = True) -> tuple[Any, Any]:
        """A number for each distinct value, and these values as they come."""
        self.look()
        codes, _ = pd.factorize(self.tracked_.data_, use_na_sentinel=use_na_sentinel)
        there = np.flatnonzero(codes >= 0)
        _, first = np.unique(codes[there], return_index=True)
        return codes, TrackedColumn(self.tracked_[there[first]])

    def _values_for_factorize(self) -> tuple[Any, Any]:
        self.look()
        return self.tracked_.data_, self.dtype.na_value

    def unique(self) -> TrackedColumn:
        """The distinct values, each that of the first row which has it."""
        return TrackedColumn(self.tracked_[np.flatnonzero(~self.duplicated())])

    def duplicated(self, keep: Any = "first") -> Any:
        """Which rows have the value of another one."""
        self.look()
        return self._plain().duplicated(keep=keep).to_numpy()

    def value_counts(self, dropna: bool = True) -> Any:
        """How many rows have each value."""
        self.look()
        return self._plain().value_counts(dropna=dropna)

    def argmax(self, skipna: bool = True) -> int:
        """The place of the largest value."""
        self.look()
        return int(self._plain().argmax(skipna=skipna))

    def argmin(self, skipna: bool = True) -> int:
        """The place of the smallest value."""
        self.look()
        return int(self._plain().argmin(skipna=skipna))

    # one value after another

    def isin(self, values: Any) -> Any:
        """Which values are among others."""
        others = unwrapped(values)
        if type(others) is TrackedArray:
            return TrackedColumn(np.isin(self.tracked_, others))  # type: ignore[arg-type]
        return TrackedColumn(spans.cell_by_cell(self.tracked_, self._plain().isin(others)))

    def round(self, decimals: int = 0, *_: Any, **__: Any) -> Any:
        """The values with so many decimals."""
        return TrackedColumn(np.round(self.tracked_, decimals))  # type: ignore[arg-type]

    def map(self, mapper: Any, na_action: Any = None) -> Any:
        """What a table or a function has for each value."""
        if isinstance(mapper, dict) and tracked_in(list(mapper.values())):
            mapper = pd.Series(TrackedColumn(stacked(list(mapper.values()))), index=list(mapper))
        if isinstance(mapper, pd.Series) and isinstance(mapper.array, TrackedColumn):
            self.look()
            rows = mapper.index.get_indexer(pd.Index(self.tracked_.data_))
            return mapper.array.take(rows, allow_fill=True)
        if isinstance(mapper, dict | pd.Series):
            found = self._plain().map(mapper, na_action=na_action)
            return TrackedColumn(spans.cell_by_cell(self.tracked_, found))
        missing = pd.isna(self.tracked_.data_) & (na_action == "ignore")
        items = [item if gone else mapper(item) for item, gone in zip(self, missing, strict=True)]
        return TrackedColumn(stacked(items)) if tracked_in(items) else np.array(items)

    def _plain(self) -> pd.Series[Any]:
        return pd.Series(self.tracked_.data_)

    def _formatter(self, boxed: bool = False) -> Callable[[Any], str]:
        return str

    # what people ask of an array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if _in_a_message():
            return self.tracked_.data_.astype(dtype or self.tracked_.data_.dtype)
        return self.tracked_.__array__(dtype, copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, pd.Series | pd.DataFrame | pd.Index) for x in inputs):
            return NotImplemented
        plain = [unwrapped(x) for x in inputs]
        if any(getattr(x, "dtype", None) is not None and x.dtype.kind in "mM" for x in plain):
            plain = [in_numpy(x, plain) for x in plain]
        options = {key: unwrapped(value) for key, value in kwargs.items()}
        result = getattr(ufunc, method)(*plain, **options)
        if isinstance(result, tuple):
            return tuple(in_column(part) for part in result)
        return in_column(result)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func(*unwrapped(args), **unwrapped(kwargs))

    def __hash__(self) -> int:
        raise TypeError("unhashable type: 'numpy.ndarray'")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "tracked_":
            raise AttributeError(name)
        return getattr(self.tracked_, name)


def plain_values(series: pd.Series[Any]) -> Any:
    """What pandas computes on: a NumPy array, or its own for times."""
    return series.to_numpy() if series.dtype.kind not in "mM" else series.array


def in_column(value: Any) -> Any:
    """A tracked array of one dimension as a column; anything else as it is."""
    if type(value) is TrackedArray and value.data_.ndim == 1:
        return TrackedColumn(value)
    return value


def unwrapped(value: Any) -> Any:
    """Tracked arrays in place of tracked columns, also in Series, tuples, lists and dicts."""
    if isinstance(value, TrackedColumn):
        return value.tracked_
    kind = type(value)
    if kind is tuple or kind is list:
        return kind(unwrapped(item) for item in value)
    if kind is dict:
        return {key: unwrapped(item) for key, item in value.items()}
    if isinstance(value, pd.Series | pd.Index) and isinstance(value.array, TrackedColumn):
        return value.array.tracked_
    return value


def in_numpy(value: Any, beside: list[Any]) -> Any:
    """A time as NumPy has it; text is one where it stands beside times."""
    if isinstance(value, str):
        lengths = not any(getattr(x, "dtype", np.dtype(bool)).kind == "M" for x in beside)
        value = pd.Timedelta(value) if lengths else pd.Timestamp(value)
    if isinstance(value, datetime) and value.tzinfo is None:
        return pd.Timestamp(value).to_datetime64()
    if isinstance(value, timedelta):
        return pd.Timedelta(value).to_timedelta64()
    return value


def _choosing_rows() -> bool:
    """Whether pandas itself asks, in order to choose or order rows."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name in _CHOOSING:
            return True
        if not name.startswith("pandas."):
            return False
        frame = frame.f_back
    return False


def _in_a_message() -> bool:
    """Whether pandas puts values into the text of an error of its own, which nobody reads."""
    frame: Any = sys._getframe(2)
    formatted = False
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("pandas.io.formats"):
            formatted = True
        elif name not in _SHOWING:
            return formatted and name.startswith("pandas.")
        frame = frame.f_back
    return False


def _plain_key(key: Any) -> Any:
    """An index without columns in it; a list of positions as an array."""
    key = unwrapped(key)
    return np.asarray(key) if isinstance(key, list) and not tracked_in(key) else key
