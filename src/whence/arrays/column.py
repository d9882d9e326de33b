"""Tracked columns: a pandas column whose cells know where they come from.

pandas moves such a column through its own methods for extension arrays (take, slice, concat, copy),
so a frame that is put together from tracked columns and tracked arrays still knows its cells. Every
other way to the values goes through `__array__`, where it is seen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray, ExtensionDtype, no_default

from whence.arrays.graph import Node
from whence.arrays.rules.creation import current, stacked
from whence.arrays.tracked import TrackedArray, tracked_in

_REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
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
_SCANS: dict[str, Callable[..., Any]] = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
}
# Where pandas looks at values only to choose or order rows: that is a branch on them.
_CHOOSING = frozenset({"pandas.core.indexers.utils", "pandas.core.sorting"})


class TrackedDtype(ExtensionDtype):
    """The type of a tracked column: that of its values."""

    _metadata = ("numpy_dtype",)

    def __init__(self, numpy_dtype: Any) -> None:
        self.numpy_dtype: np.dtype[Any] = np.dtype(numpy_dtype)

    @property
    def name(self) -> str:  # type: ignore[override]
        """As pandas shows it."""
        return f"tracked[{self.numpy_dtype}]"

    @property
    def type(self) -> Any:  # type: ignore[override]
        """The type of one value."""
        return self.numpy_dtype.type

    @property
    def kind(self) -> Any:
        """NumPy's letter for the type."""
        return self.numpy_dtype.kind

    @property
    def na_value(self) -> Any:
        """What stands for a missing value."""
        return np.datetime64("NaT") if self.kind in "mM" else np.nan

    @property
    def _is_numeric(self) -> bool:
        return self.kind in "iufcb"

    @property
    def _is_boolean(self) -> bool:
        return bool(self.kind == "b")

    @classmethod
    def construct_array_type(cls) -> Any:
        """The column's class."""
        return TrackedColumn

    @classmethod
    def construct_from_string(cls, string: str) -> TrackedDtype:
        """Nobody asks for it by name."""
        raise TypeError(f"cannot make a tracked type of {string!r}")

    def _get_common_dtype(self, dtypes: list[Any]) -> Any:
        plain = [d.numpy_dtype if isinstance(d, TrackedDtype) else d for d in dtypes]
        if not all(isinstance(d, np.dtype) for d in plain):
            return None
        return TrackedDtype(np.result_type(*plain))


class TrackedColumn(np.lib.mixins.NDArrayOperatorsMixin, ExtensionArray):
    """A one-dimensional tracked array in a pandas frame."""

    __array_priority__ = 2000

    def __init__(self, tracked: TrackedArray) -> None:
        self.tracked_ = tracked
        if tracked.node_.loose:  # pandas asks for the length, which values decided
            tracked.session_.steering.append(tracked.node_)

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
            self._look()
            return pd.isna(self.tracked_.data_)
        if kind in "fc":
            return TrackedColumn(np.isnan(self.tracked_))  # type: ignore[arg-type]
        if kind in "mM":
            return TrackedColumn(np.isnat(self.tracked_))  # type: ignore[arg-type]
        if kind in "iub":
            return np.zeros(len(self), dtype=bool)
        return pd.isna(np.asarray(self))

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
            self._look()
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
        self._look()
        plain = pd.Series(self.tracked_.data_).array
        return plain.argsort(ascending=ascending, kind=kind, na_position=na_position)

    def _look(self) -> None:
        self.tracked_.session_.steering.append(self.tracked_.node_)

    def _reduce(
        self, name: str, *, skipna: bool = True, keepdims: bool = False, **kwargs: Any
    ) -> Any:
        if name not in _REDUCTIONS or self.dtype.kind not in "iufcb":
            raise TypeError(f"{name} of a tracked column is not followed")
        whole, present = _REDUCTIONS[name]
        options = {key: kwargs[key] for key in ("ddof",) if key in kwargs}
        function = present if skipna and self.dtype.kind in "fc" else whole
        result = function(self.tracked_, **options)
        return TrackedColumn(result.reshape(1)) if keepdims else result

    def _accumulate(self, name: str, *, skipna: bool = True, **kwargs: Any) -> TrackedColumn:
        data = self.tracked_.data_
        if name not in _SCANS:
            raise NotImplementedError(f"{name} of a tracked column is not followed")
        if data.dtype.kind in "fc" and skipna and np.isnan(data).any():
            raise NotImplementedError(f"{name} of missing values is not followed")
        return TrackedColumn(_SCANS[name](self.tracked_))

    def _formatter(self, boxed: bool = False) -> Callable[[Any], str]:
        return str

    # what people ask of an array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.tracked_.__array__(dtype, copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, pd.Series | pd.DataFrame | pd.Index) for x in inputs):
            return NotImplemented
        plain = [unwrapped(x) for x in inputs]
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


def _plain_key(key: Any) -> Any:
    """An index without columns in it; a list of positions as an array."""
    key = unwrapped(key)
    return np.asarray(key) if isinstance(key, list) and not tracked_in(key) else key
