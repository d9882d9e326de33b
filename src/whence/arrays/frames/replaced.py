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

import pandas as pd
from pandas.api.extensions import no_default
from pandas.core.reshape import merge as merging

from whence.arrays.frames import dataframe, labels, series
from whence.arrays.frames.accessors import Accessor
from whence.arrays.frames.column import unwrapped
from whence.arrays.rules import creation
from whence.arrays.tracked import tracked_in

Method = Callable[..., Any]
# What NumPy leaves to a method of the same name, if its argument has one.
_BY_METHOD = frozenset(
    {"all", "any", "argmax", "argmin", "argsort", "around", "clip", "cumprod", "cumsum", "max"}
    | {"mean", "min", "prod", "ravel", "repeat", "round", "searchsorted", "std", "sum", "take"}
    | {"var"}
)
_LIBRARIES = frozenset({"numpy", "pandas", "whence"})


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
    for name, ours in series.METHODS.items():
        made.append((pd.Series, name, _instead(getattr(pd.Series, name), ours, series.is_tracked)))
    for name, ours in dataframe.METHODS.items():
        made.append(
            (pd.DataFrame, name, _instead(getattr(pd.DataFrame, name), ours, dataframe.all_tracked))
        )
    values = pd.DataFrame.__dict__["values"]
    made.append(
        (
            pd.DataFrame,
            "values",
            property(_instead(values.fget, dataframe.to_numpy, dataframe.all_tracked)),
        )
    )
    for name in ("str", "dt"):
        made.append((pd.Series, name, Accessor(name, pd.Series.__dict__[name])))
    for name, ours in labels.METHODS.items():
        made.append(
            (pd.Index, name, _instead(getattr(pd.Index, name), ours, labels.is_tracked_index))
        )
    for kind in (pd.api.typing.DataFrameGroupBy, pd.api.typing.SeriesGroupBy):
        made.append((kind, "filter", _instead(kind.filter, labels.filtered, lambda _: True)))
    made.append((merging, "_factorize_keys", labels.join_keys))
    made.append((pd, "cut", _instead(pd.cut, series.cut, series.is_tracked)))
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
