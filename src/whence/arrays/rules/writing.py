"""Functions that write cells: `np.copyto`, `np.put` and their kin."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from whence.arrays.rules.assignment import write
from whence.arrays.rules.base import bind, plain_call
from whence.arrays.session import Session
from whence.arrays.tracked import raw


def copyto(session: Session, func: Any, args: Any, kwargs: Any) -> None:
    """`np.copyto(dst, src, where=…)`."""
    bound = bind(func, args, kwargs, ("dst", "src", "casting", "where"))
    if not isinstance(raw(bound["dst"]), np.ndarray):
        plain_call(func, args, kwargs)  # refuses it
    mask, source = bound.get("where", True), raw(bound["src"])
    none = source.reshape(-1)[:0] if isinstance(source, np.ndarray) else source
    np.copyto(np.empty(0, raw(bound["dst"]).dtype), none, bound.get("casting", "same_kind"))

    def setter(target: Any, key: Any, value: Any) -> None:
        np.copyto(target, value, where=key, casting="unsafe")

    write(session, bound["dst"], mask, bound["src"], setter, "numpy.copyto")


def putmask(session: Session, func: Any, args: Any, kwargs: Any) -> None:
    """`np.putmask(a, mask, values)`."""
    bound = bind(func, args, kwargs, ("a", "mask", "values"))
    write(session, bound["a"], bound["mask"], bound["values"], np.putmask, "numpy.putmask")


def place(session: Session, func: Any, args: Any, kwargs: Any) -> None:
    """`np.place(arr, mask, vals)`."""
    bound = bind(func, args, kwargs, ("arr", "mask", "vals"))
    write(session, bound["arr"], bound["mask"], bound["vals"], np.place, "numpy.place")


def put_function(session: Session, func: Any, args: Any, kwargs: Any) -> None:
    """`np.put(a, ind, v)`."""
    bound = bind(func, args, kwargs, ("a", "ind", "v", "mode"))
    setter = partial(_put_with, bound.get("mode", "raise"))
    write(session, bound["a"], bound["ind"], bound["v"], setter, "numpy.put")


def _put_with(mode: str, target: Any, key: Any, value: Any) -> None:
    np.put(target, key, value, mode=mode)  # type: ignore[arg-type]


def put_along_axis(session: Session, func: Any, args: Any, kwargs: Any) -> None:
    """`np.put_along_axis(arr, indices, values, axis)`."""
    bound = bind(func, args, kwargs)
    setter = partial(_along_with, bound["axis"])
    key, value = bound["indices"], bound["values"]
    write(session, bound["arr"], key, value, setter, "numpy.put_along_axis")


def _along_with(axis: int, target: Any, key: Any, value: Any) -> None:
    np.put_along_axis(target, key, value, axis)


def fill_diagonal(session: Session, func: Any, args: Any, kwargs: Any) -> None:
    """`np.fill_diagonal(a, val, wrap)`."""
    bound = bind(func, args, kwargs)

    def setter(target: Any, key: Any, value: Any) -> None:
        np.fill_diagonal(target, value, wrap=bound["wrap"])

    write(session, bound["a"], None, bound["val"], setter, "numpy.fill_diagonal")
