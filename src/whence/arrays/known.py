"""Which arrays were handed out, and where their cells come from."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import numpy as np

from whence.arrays.memory import Array
from whence.arrays.provenance import Provenance

_arrays: dict[int, Kept] = {}
_scalars: OrderedDict[int, tuple[Any, Provenance]] = OrderedDict()
_SCALARS_KEPT = 4096


class Kept(weakref.ref[Array]):
    """An array that was handed out, and its answer."""

    __slots__ = ("found", "key")
    found: Provenance
    key: int


def _forget(kept: Kept, arrays: dict[int, Kept] = _arrays) -> None:
    arrays.pop(kept.key, None)  # the default is there also when Python ends


def remember(result: Any, found: Provenance) -> None:
    """Let `provenance(result)` find its answer as long as the array lives."""
    if isinstance(result, np.ndarray):
        kept = Kept(result, _forget)
        kept.found, kept.key = found, id(result)
        _arrays[kept.key] = kept
    elif isinstance(result, np.generic) and not isinstance(result, np.bool_):
        _scalars[id(result)] = (result, found)
        if len(_scalars) > _SCALARS_KEPT:
            _scalars.popitem(last=False)


def known(result: Any) -> Provenance | None:
    """The answer for an array, or a number of NumPy, that was handed out."""
    if isinstance(result, np.ndarray):
        array = _arrays.get(id(result))
        return array.found if array is not None and array() is result else None
    number = _scalars.get(id(result))
    return number[1] if number is not None and number[0] is result else None


def only(answers: Iterable[Provenance]) -> Provenance | tuple[Provenance, ...]:
    """The answer, if there is one; else all of them."""
    listed = tuple(answers)
    return listed[0] if len(listed) == 1 else listed
