"""The shape of a value: which parts of it come from where.

An expression is evaluated over shapes instead of values. `struct(a, b.c)` has the shape of a
struct whose parts are copies of two paths; `transform(xs, x -> x.y)` has the shape of an array
whose items are copies of `xs[].y`. Taking a field of a struct that was just made finds the part it
was made of, so that paths stay exact through restructuring.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from whence.plan.paths import Field, Item, Key, Path, Positions, Step, Value


@dataclass(frozen=True, slots=True)
class Copy:
    """The value at a path, with all that is inside it."""

    path: Path
    positions: Positions = "same"


@dataclass(frozen=True, slots=True)
class Made:
    """A value computed from paths; none makes a constant. `opaque` is the seed's ⊥.

    `chosen` says that some of the paths may not have been taken, as in `1 + CASE … END`.
    """

    inputs: tuple[Path, ...] = ()
    opaque: bool = False
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct made of parts."""

    parts: "tuple[tuple[str, Shape], ...]"


@dataclass(frozen=True, slots=True)
class Array:
    """An array whose items all have one shape; or, if `listed`, one shape each."""

    items: "tuple[Shape, ...]"
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Map:
    """A map made of keys and values."""

    key: "Shape"
    value: "Shape"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several values, chosen by looking at `by`.

    `open` says that only the data tells which; a single value may still be one of several rows'.
    """

    options: "tuple[Shape, ...]"
    by: tuple[Path, ...] = ()
    open: bool = False


Shape: TypeAlias = Copy | Made | Struct | Array | Map | Choice
NOTHING = Made()


def unique(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Each path once, in order."""
    return tuple(dict.fromkeys(paths))


def paths_in(shape: Shape) -> Iterator[Path]:
    """All input paths that a value is made of or was chosen by."""
    match shape:
        case Copy(path):
            yield path
        case Made(inputs):
            yield from inputs
        case Struct(parts):
            for _, part in parts:
                yield from paths_in(part)
        case Array(items):
            for each in items:
                yield from paths_in(each)
        case Map(key, value):
            yield from paths_in(key)
            yield from paths_in(value)
        case Choice(options, by):
            yield from by
            for option in options:
                yield from paths_in(option)


def made(shapes: Iterable[Shape], *, opaque: bool = False) -> Made:
    """A value computed from others."""
    each = tuple(shapes)
    inner = [part for shape in each for part in _parts(shape)]
    return Made(
        unique(path for shape in each for path in paths_in(shape)),
        opaque or any(isinstance(part, Made) and part.opaque for part in inner),
        any(_is_open(part) for part in inner),
    )


def _is_open(shape: Shape) -> bool:
    match shape:
        case Choice(open=several):
            return several
        case Made(chosen=several):
            return several
        case _:
            return False


def _parts(shape: Shape) -> Iterator[Shape]:
    """A shape and all that are inside it."""
    yield shape
    match shape:
        case Struct(parts):
            inner = tuple(part for _, part in parts)
        case Array(items) | Choice(items):
            inner = items
        case Map(key, value):
            inner = (key, value)
        case Copy() | Made():
            inner = ()
    for part in inner:
        yield from _parts(part)


def choice(options: Iterable[Shape], by: Iterable[Path] = ()) -> Shape:
    """One of the options; a single one that nothing chose is itself."""
    flat: dict[Shape, None] = {}
    looked = list(by)
    several = False
    for option in options:
        if isinstance(option, Choice):
            looked += option.by
            several = several or option.open
            flat.update(dict.fromkeys(option.options))
        else:
            flat[option] = None
    if len(flat) > 1:
        several = True
        flat.pop(NOTHING, None)
    if len(flat) == 1 and not looked and not several:
        return next(iter(flat))
    return Choice(tuple(flat), unique(looked), several)


def field(shape: Shape, name: str) -> Shape:
    """A field of a struct."""
    match shape:
        case Struct(parts):
            return next((part for n, part in parts if n.lower() == name.lower()), NOTHING)
        case _:
            return _into(shape, Field(name), lambda inner: field(inner, name))


def item(shape: Shape, position: int | None = None) -> Shape:
    """An item of an array: any, or the one at a position."""
    match shape:
        case Array(items, listed):
            if listed and position is not None:
                return items[position] if 0 <= position < len(items) else NOTHING
            return choice(items)
        case _:
            return _into(shape, Item(position), lambda inner: item(inner, position))


def key(shape: Shape) -> Shape:
    """Any key of a map."""
    match shape:
        case Map(found, _):
            return found
        case _:
            return _into(shape, Key(), key)


def value(shape: Shape, of: str | None = None) -> Shape:
    """A value of a map: any, or the one under a key."""
    match shape:
        case Map(_, found):
            return found
        case _:
            return _into(shape, Value(of), lambda inner: value(inner, of))


def _into(shape: Shape, step: Step, again: Callable[[Shape], Shape]) -> Shape:
    match shape:
        case Copy(path, positions):
            return Copy(path.then(step), positions)
        case Choice(options, by):
            return choice((again(option) for option in options), by)
        case _:
            return made((shape,))


def unordered(shape: Shape) -> Shape:
    """The same value where positions on the way are no longer known."""
    match shape:
        case Copy():
            return replace(shape, positions="any")
        case Struct(parts):
            return Struct(tuple((name, unordered(part)) for name, part in parts))
        case Array(items):
            return Array(tuple(unordered(each) for each in items))
        case Map(found, under):
            return Map(unordered(found), unordered(under))
        case Choice(options, by, several):
            return Choice(tuple(unordered(option) for option in options), by, several)
        case Made():
            return shape


def from_witness(shape: Shape) -> Shape:
    """The same value where positions come from the witness (a generator, a group)."""
    match shape:
        case Copy(_, "same"):
            return replace(shape, positions="witness")
        case Struct(parts):
            return Struct(tuple((name, from_witness(part)) for name, part in parts))
        case Array(items, listed):
            return Array(tuple(from_witness(each) for each in items), listed)
        case Map(found, under):
            return Map(from_witness(found), from_witness(under))
        case Choice(options, by, several):
            return Choice(tuple(from_witness(option) for option in options), by, several)
        case _:
            return shape


def choose(shape: Shape, by: Iterable[Path]) -> Shape:
    """The same value, with more that was looked at to choose it."""
    looked = unique(by)
    return choice((shape,), looked) if looked else shape
