"""`np.r_` and `np.c_`, which join what stands in their brackets."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from whence.arrays.graph import Edge
from whence.arrays.rules.arguments import as_array
from whence.arrays.rules.base import finish
from whence.arrays.rules.replay import Slot, replay
from whence.arrays.tracked import TrackedArray, raw, tracked_in


class Brackets:
    """One of them, for tracked arrays too; all else is left to the original."""

    def __init__(self, original: Any, name: str) -> None:
        self._original, self._name = original, name

    def __getitem__(self, key: Any) -> Any:
        items = tuple(as_array(item) for item in (key if type(key) is tuple else (key,)))
        found = [item for item in items if type(item) is TrackedArray]
        in_slices = any(type(item) is slice and tracked_in(item) for item in items)
        if not found or in_slices or _makes_a_matrix(items):
            return self._original[key]
        session = found[0].session_
        try:
            result = self._original[raw(items)]
        except Exception as error:
            session.raised(error, found)
            raise
        shown, join = _shown(items), partial(_join, self._original)
        edges = [
            Edge(t.node_, partial(replay, join, shown, {}, None, i, t.data_.shape, None))
            for i, t in enumerate(found)
        ]
        return finish(session, result, edges, self._name, (items,))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __len__(self) -> int:
        return len(self._original)


def _makes_a_matrix(items: tuple[Any, ...]) -> bool:
    return type(items[0]) is str and items[0] in ("r", "c")


def _shown(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Places for arrays, in order; ranges are made before, as arrays that come from nowhere."""
    shown: list[Any] = []
    numbers = iter(range(len(items)))
    for item in items:
        if type(item) is TrackedArray:
            shown.append(Slot(next(numbers), item.data_.shape))
        elif type(item) is str:
            shown.append(item)
        else:
            shown.append(Slot(-1, np.shape(np.r_[item] if type(item) is slice else item)))
    return tuple(shown)


def _join(original: Any, *items: Any) -> Any:
    return original[items]
