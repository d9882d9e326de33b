"""Labels of rows, keys of joins and groups: where pandas looks at tracked values to find rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from pandas.core.reshape import merge as merging

from whence.arrays.frames.column import TrackedColumn, plain_values
from whence.arrays.frames.dtype import TrackedDtype
from whence.arrays.tracked import TrackedArray

_factorize_keys: Callable[..., Any] = vars(merging)["_factorize_keys"]


def is_tracked_index(index: pd.Index[Any]) -> bool:
    """Whether labels are tracked values."""
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


def join_keys(left: Any, right: Any, *args: Any, **kwargs: Any) -> Any:
    """Numbers for the keys that rows of two frames are joined by: pandas looks at them."""
    return _factorize_keys(_keys(left), _keys(right), *args, **kwargs)


def _keys(keys: Any) -> Any:
    if not isinstance(keys, TrackedColumn):
        return keys
    keys.look()
    return plain_values(pd.Series(keys.tracked_.data_))


def filtered(groups: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
    """Groups that a function says yes to, which may be a tracked one."""

    def decide(*given: Any, **options: Any) -> Any:
        told = func(*given, **options)
        return bool(told) if type(told) is TrackedArray and not told.data_.ndim else told

    original = type(groups).filter.__wrapped__
    return original(groups, decide, *args, **kwargs) if callable(func) else NotImplemented


METHODS: dict[str, Callable[..., Any]] = {
    "_get_engine_target": _labels,
    "__iter__": _each_label,
    "__getitem__": _label,
}
"""Methods of an Index whose labels are tracked."""
