"""A plan as JSON and back. Each class is written as its fields, a path as a list."""

import dataclasses
import types
import typing
from collections.abc import Callable
from functools import cache, partial
from typing import Any, get_args, get_origin

from whence.errors import FormatError
from whence.plan import operators, paths
from whence.plan.operators import Operator
from whence.plan.paths import Field, Item, Key, Path, Step, Value

_PLAIN = (str, int, bool, type(None))
_KINDS: dict[str, type[Any]] = {cls.kind: cls for cls in get_args(Operator)}


def to_json(operator: Operator) -> dict[str, Any]:
    """A plan as plain dicts, lists, strings and numbers."""
    written = _write(operator)
    assert isinstance(written, dict)
    return written


def from_json(value: dict[str, Any]) -> Operator:
    """The plan that `to_json` wrote."""
    try:
        kind = _KINDS[value["kind"]]
    except (KeyError, TypeError):
        found = value.get("kind") if isinstance(value, dict) else value
        raise FormatError(
            f"{found!r} is no kind of operator that this version knows; there are "
            + ", ".join(sorted(_KINDS))
        ) from None
    operator: Operator = _read_dataclass(kind, value)
    return operator


def _write(value: Any) -> Any:
    cls: type[Any] = type(value)
    if isinstance(value, tuple):
        return [_write(item) for item in value]
    if isinstance(value, Path):
        return [value.input, value.column, value.name, *map(_write_step, value.steps)]
    if cls not in _PLAIN and dataclasses.is_dataclass(cls):
        written = {"kind": value.kind} if hasattr(value, "kind") else {}
        for name, default in _defaults(cls):
            item = getattr(value, name)
            if item != default:
                written[name] = _write(item)
        return written
    return value


@cache
def _defaults(cls: type[Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.default) for field in dataclasses.fields(cls))


def _write_step(step: Step) -> Any:
    match step:
        case Field(name):
            return name
        case Item(position):
            return ["item"] if position is None else ["item", position]
        case Key():
            return ["key"]
        case Value(key):
            return ["value"] if key is None else ["value", key]


def _read_step(step: Any) -> Step:
    match step:
        case str():
            return Field(step)
        case ["item", *rest]:
            return Item(*rest)
        case ["key"]:
            return Key()
        case ["value", *rest]:
            return Value(*rest)
        case _:
            raise FormatError(f"{step!r} is no step of a path")


def _read_dataclass(cls: type[Any], value: dict[str, Any]) -> Any:
    readers = _readers(cls.__name__)
    found = {}
    for name, item in value.items():
        if name in readers:
            found[name] = None if item is None else readers[name](item)
        elif name != "kind":
            unknown = value.keys() - readers.keys() - {"kind"}
            raise FormatError(f"a {cls.__name__} has no {', '.join(sorted(unknown))}")
    try:
        return cls(**found)
    except TypeError as error:
        raise FormatError(f"a {cls.__name__} cannot be read: {error}") from None


@cache
def _readers(name: str) -> dict[str, Callable[[Any], Any]]:
    """What reads each field of the class of this name."""
    return {field: _reader(hint) for field, hint in _hints(name).items()}


@cache
def _hints(name: str) -> dict[str, Any]:
    known = {**vars(paths), **vars(operators)}
    cls = known[name]
    hints = typing.get_type_hints(cls, known)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _reader(hint: Any) -> Callable[[Any], Any]:
    """What reads a value of a type that is not null."""
    if hint is Path:
        return _read_path
    if get_origin(hint) is tuple:
        inner = _reader(get_args(hint)[0])
        return lambda items: tuple(None if item is None else inner(item) for item in items)
    if get_origin(hint) in (types.UnionType, typing.Union):
        options = [option for option in get_args(hint) if option is not type(None)]
        if any(option in _KINDS.values() for option in options):
            return from_json
        return _reader(options[0])
    if dataclasses.is_dataclass(hint):
        return partial(_read_dataclass, typing.cast(type[Any], hint))
    return lambda value: value


def _read_path(value: Any) -> Path:
    place, column, name, *steps = value
    return Path(column, name, tuple(map(_read_step, steps)), place)
