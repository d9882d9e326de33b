"""Containers of Python: their items one by one, and those that a caller lends to a function."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

from whence.arrays.tracked import raw, tracked_in

Change = Callable[[Any, str], Any]
_ATOMS = frozenset({bool, int, float, complex, str, bytes, type(None)})


class Lent(NamedTuple):
    """A container that a call was given, the one its function has got instead, and its name."""

    given: Any
    own: Any
    name: str


def mapped(value: Any, change: Change) -> Any:
    """A container with other items; itself, if they are the same.

    `change` gets each item and where it is: `[0]`, `['a']`, `.x`. Keys become plain. Anything
    that is no container gives NotImplemented.
    """
    if isinstance(value, tuple):
        return _mapped_tuple(value, change)
    if not is_filled(value):
        return NotImplemented
    old = items_of(value)
    if isinstance(old, list):
        made: Any = [change(item, f"[{i}]") for i, item in enumerate(old)]
    elif type(value) is SimpleNamespace:
        made = {name: change(item, f".{name}") for name, item in old.items()}
    else:
        made = {raw(key): change(item, f"[{raw(key)!r}]") for key, item in old.items()}
    return value if _same(old, made) else refilled(copy(value), made)


def _mapped_tuple(value: Any, change: Change) -> Any:
    if hasattr(value, "_fields"):
        fields = zip(value._fields, value, strict=True)
        return type(value)(*(change(item, f".{name}") for name, item in fields))
    return tuple.__new__(type(value), [change(item, f"[{i}]") for i, item in enumerate(value)])


def is_filled(value: Any) -> bool:
    """Whether a value is a container that can be filled."""
    return isinstance(value, list | dict | deque) or type(value) is SimpleNamespace


def is_of_atoms(value: Any) -> bool:
    """Whether a container has nothing but numbers and texts of Python in it."""
    if type(value) is dict:
        return _ATOMS.issuperset(map(type, value)) and _ATOMS.issuperset(map(type, value.values()))
    return type(value) in (list, tuple) and _ATOMS.issuperset(map(type, value))


def is_record(value: Any) -> bool:
    """Whether a value is an object of a dataclass."""
    return is_dataclass(value) and not isinstance(value, type)


def plain(value: Any) -> Any:
    """What can be in no relation, without tracked numbers: sets and slices."""
    if type(value) in (set, frozenset):
        return type(value)(map(raw, value)) if tracked_in(list(value)) else value
    return raw(value) if tracked_in(value) else value


def items_of(container: Any) -> Any:
    """What a container or a record holds, as a list or a dict."""
    if isinstance(container, dict):
        return dict(container.items())
    if is_record(container):
        names = (field.name for field in fields(container))
        return {name: getattr(container, name) for name in names if hasattr(container, name)}
    return dict(vars(container)) if type(container) is SimpleNamespace else list(container)


def refilled(container: Any, items: Any) -> Any:
    """A container, which holds other items now."""
    held = vars(container) if type(container) is SimpleNamespace else container
    held.clear()
    if isinstance(held, dict):
        held.update(items)
    else:
        held.extend(items)
    return container


def take_back(given: Any, made: Any) -> bool:
    """Let a container hold what another does; tells whether that is anything else."""
    items = items_of(made)
    if made is given or _same(items_of(given), items):
        return False
    refilled(given, items)
    return True


def _same(old: Any, new: Any) -> bool:
    """Whether these are the same items, under the same keys."""
    if isinstance(old, dict):
        return _are(old, new) and _are(old.values(), new.values())
    return _are(old, new)


def _are(old: Iterable[Any], new: Iterable[Any]) -> bool:
    one, two = list(old), list(new)
    return len(one) == len(two) and all(map(operator.is_, one, two))
