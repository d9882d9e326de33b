"""The shape of a value: which parts of it come from where.

An expression is evaluated over shapes instead of values. `struct(a, b.c)` has the shape of a
struct whose parts are copies of two paths; `transform(xs, x -> x.y)` has the shape of an array
whose items are copies of `xs[].y`. Taking a field of a struct that was just made finds the part it
was made of, so that paths stay exact through restructuring.

An array or map may name the position of its items by an *index*, a number: what its items are made
of at the same position has the step `At` with that index.

    transform(xs, x -> x.y + 1)     Array(Made(xs[At(0)].y), index=0)
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias

from whence.plan.paths import WITNESS, Field, Item, Key, Path, Positions, Step, Value, named

_FRESH = count()


def fresh() -> int:
    """An index that nothing has yet."""
    return next(_FRESH)


@dataclass(frozen=True, slots=True)
class At(Item):
    """A step to the item, or to the value of a map, at the position that an index stands for.

    `by_key` says that the value has the same key there, and maybe another position.
    """

    index: int = WITNESS
    of_map: bool = False
    by_key: bool = False


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
    positions: Positions = "same"


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct made of parts."""

    parts: "tuple[tuple[str, Shape], ...]"


@dataclass(frozen=True, slots=True)
class Array:
    """An array whose items all have one shape; or, if `listed`, one shape each."""

    items: "tuple[Shape, ...]"
    listed: bool = False
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Map:
    """A map made of keys and values; `listed` are the values under keys that are known."""

    key: "Shape"
    value: "Shape"
    listed: "tuple[tuple[str, Shape], ...]" = ()
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several values, chosen by looking at `by`.

    `open` says that only the data tells which; a single value may still be one of several rows'.
    It is there only if the values at `beside` are, whatever they are: `transform(xs, x -> 1)`.
    """

    options: "tuple[Shape, ...]"
    by: tuple[Path, ...] = ()
    open: bool = False
    beside: tuple[Path, ...] = ()


Shape: TypeAlias = Copy | Made | Struct | Array | Map | Choice
NOTHING = Made()


def unique(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Each path once, in order."""
    return tuple(dict.fromkeys(paths))


def paths_in(shape: Shape, beside: bool = True) -> Iterator[Path]:
    """All input paths that a value is made of or was chosen by, or that only have to be there.

    Of a list these say how many items it has.
    """
    match shape:
        case Copy(path):
            yield path
        case Made(inputs):
            yield from inputs
        case Struct(parts):
            for _, part in parts:
                yield from paths_in(part, beside)
        case Array(items, _, index):
            for each in items:
                yield from (_out_of(path, index) for path in paths_in(each))
        case Map(key, value, _, index):
            yield from paths_in(key)
            yield from (_out_of(path, index) for path in paths_in(value))
        case Choice(options, by, _, others):
            yield from by
            for option in options:
                yield from paths_in(option, beside)
            yield from others if beside else ()


def _out_of(path: Path, index: int | None) -> Path:
    """A path out of a list whose items had an index, if they had one: now it is any of them."""
    return path if index is None else opened(path, index)


def opened(path: Path, index: int | None = None) -> Path:
    """The path with any position where it has that of an index; without one, of all of them."""
    if not any(isinstance(step, At) for step in path.steps):
        return path
    steps = (
        open_step(step) if isinstance(step, At) and index in (None, step.index) else step
        for step in path.steps
    )
    return replace(path, steps=tuple(steps))


def open_step(step: At) -> Step:
    """The step to any item or value."""
    return Value() if step.of_map else Item()


def made(shapes: Iterable[Shape], *, opaque: bool = False) -> Shape:
    """A value computed from others."""
    each = tuple(shapes)
    inner = [part for shape in each for part in _parts(shape)]
    members = {part for shape in each for part in _of_members(shape)}
    found = Made(
        unique(path for shape in each for path in paths_in(shape, beside=False)),
        opaque or any(isinstance(part, Made) and part.opaque for part in inner),
        any(_is_open(part) for part in inner) or len(members) > 1 or "any" in members,
        "witness" if members == {"witness"} else "same",
    )
    return beside(found, (path for shape in each for path in paths_in(shape)))


def _of_members(shape: Shape) -> Iterator[Positions]:
    """How a value, not counting lists of them, goes with the members of a group."""
    match shape:
        case Copy(path, positions):
            inside = any(step in (Item(), Value()) for step in path.steps)
            yield "same" if inside and positions == "any" else positions
        case Made(inputs, positions=positions):
            if inputs:
                yield positions
        case Struct(parts):
            for _, part in parts:
                yield from _of_members(part)
        case Choice(options):
            for option in options:
                yield from _of_members(option)
        case Array() | Map():
            yield "same"


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
        case Map(key, value, listed):
            inner = (key, value, *(part for _, part in listed))
        case Copy() | Made():
            inner = ()
    for part in inner:
        yield from _parts(part)


def choice(options: Iterable[Shape], by: Iterable[Path] = (), beside: Iterable[Path] = ()) -> Shape:
    """One of the options; a single one that nothing chose is itself."""
    flat: dict[Shape, None] = {}
    looked, others = list(by), list(beside)
    several = False
    for option in options:
        if isinstance(option, Choice):
            looked += option.by
            others += option.beside
            several = several or option.open
            flat.update(dict.fromkeys(option.options))
        else:
            flat[option] = None
    if len(flat) > 1:
        several = True
        flat.pop(NOTHING, None)
    if len(flat) == 1 and not looked and not several and not others:
        return next(iter(flat))
    return Choice(tuple(flat), unique(looked), several, unique(others))


def names(shape: Shape) -> list[str]:
    """The names of a struct's fields, if it was made of parts; else none."""
    match shape:
        case Struct(parts):
            return [name for name, _ in parts]
        case Choice(options):
            return next(filter(None, map(names, options)), [])
        case _:
            return []


def field(shape: Shape, name: str) -> Shape:
    """A field of a struct; of one whose parts have other names, whatever it is made of."""
    match shape:
        case Struct(parts):
            found = named([n for n, _ in parts], name)
            return made((shape,)) if found is None else dict(reversed(parts))[found]
        case _:
            return _into(shape, Field(name), lambda inner: field(inner, name))


def item(shape: Shape, position: int | None = None, index: int | None = None) -> Shape:
    """An item of an array: any, the one at a position, or the one at that of an index."""
    match shape:
        case Array(items, listed, own):
            if listed and position is not None:
                return items[position] if 0 <= position < len(items) else NOTHING
            found = _bound(choice(items), own, None if position is None else Item(position), index)
            return _picked(found) if position is not None else found
        case _:
            step = Item(position) if index is None else At(index=index)
            return _into(shape, step, lambda inner: item(inner, position, index))


def _picked(shape: Shape) -> Shape:
    """One of values like this: of which member of a group, only the data tells, if of one."""
    inner = [part for part in _parts(shape) if isinstance(part, Copy | Made)]
    known = {"same"}.issuperset(_of_members(shape)) and not any(map(_is_of_one, inner))
    return shape if known else one_of(shape, ())


def _is_of_one(part: Copy | Made) -> bool:
    """Whether something in a value is of one member of a group."""
    paths = tuple(paths_in(part))
    steps = (step for path in paths for step in path.steps)
    inside = not paths or any(isinstance(s, At) or s in (Item(), Value()) for s in steps)
    return part.positions == "witness" or (part.positions == "any" and not inside)


def key(shape: Shape) -> Shape:
    """Any key of a map."""
    match shape:
        case Map(found):
            return found
        case _:
            return _into(shape, Key(), key)


def value(
    shape: Shape, of: str | None = None, index: int | None = None, by_key: bool = False
) -> Shape:
    """A value of a map: any, the one under a key, or the one at the position of an index.

    With `by_key` it is the one that has the same key as what is at the position of the index.
    """
    match shape:
        case Map(_, found, listed, own):
            if listed and of is not None:
                return next((part for name, part in listed if name == of), NOTHING)
            found = _bound(found, own, None if of is None else Value(of), index, by_key)
            return _picked(found) if of is not None else found
        case _:
            step = Value(of) if index is None else At(index=index, of_map=True, by_key=by_key)
            return _into(shape, step, lambda inner: value(inner, of, index, by_key))


def entry(shape: Shape, index: int) -> Shape:
    """The value in the entry of a map at the position of an index: any, if only its key tells."""

    def change(path: Path) -> Path:
        return replace(path, steps=tuple(map(again, path.steps)))

    def again(step: Step) -> Step:
        keyed = isinstance(step, At) and step.by_key and step.index == index
        return Value() if keyed else step

    found = value(shape, index=index)
    lost = any(path != change(path) for path in paths_in(found))
    return _changed(unordered(found), change) if lost else found


def _bound(
    shape: Shape, own: int | None, step: Step | None, index: int | None, by_key: bool = False
) -> Shape:
    """An item's shape with a step, or another index, for the index of its array."""
    if own is None:
        return shape

    def change(path: Path) -> Path:
        steps = []
        for each in path.steps:
            if isinstance(each, At) and each.index == own:
                if step is not None:
                    each = step
                elif index is None:
                    each = open_step(each)
                else:
                    each = replace(each, index=index, by_key=each.by_key or by_key)
            steps.append(each)
        return replace(path, steps=tuple(steps))

    return _changed(shape, change)


def _changed(shape: Shape, change: Callable[[Path], Path]) -> Shape:
    """The same shape with other paths."""

    def again(inner: Shape) -> Shape:
        return _changed(inner, change)

    match shape:
        case Copy(path):
            return replace(shape, path=change(path))
        case Made(inputs):
            return replace(shape, inputs=unique(map(change, inputs)))
        case Struct(parts):
            return Struct(tuple((name, again(part)) for name, part in parts))
        case Array(items):
            return replace(shape, items=tuple(map(again, items)))
        case Map(key, value, listed):
            parts = tuple((name, again(part)) for name, part in listed)
            return replace(shape, key=again(key), value=again(value), listed=parts)
        case Choice(options, by, _, others):
            return replace(
                shape,
                options=tuple(map(again, options)),
                by=unique(map(change, by)),
                beside=unique(map(change, others)),
            )


def _into(shape: Shape, step: Step, again: Callable[[Shape], Shape]) -> Shape:
    match shape:
        case Copy(path, positions):
            return Copy(path.then(step), positions)
        case Choice(options, by, several, others):
            return _kept_open(choice((again(option) for option in options), by, others), several)
        case _:
            return made((shape,))


def _kept_open(shape: Shape, several: bool) -> Shape:
    """A part of a value that was one of several is one of several."""
    if not several:
        return shape
    return replace(shape, open=True) if isinstance(shape, Choice) else Choice((shape,), (), True)


def unordered(shape: Shape) -> Shape:
    """The same value where positions on the way are no longer known."""
    return _placed(shape, "any")


def from_witness(shape: Shape) -> Shape:
    """The same value, that of the member which the witness of a group has at a position."""
    return _placed(shape, "witness")


def _placed(shape: Shape, positions: Positions) -> Shape:
    match shape:
        case Copy() | Made():
            known = shape.positions if positions == "witness" else "same"
            return replace(shape, positions=positions if known == "same" else known)
        case Struct(parts):
            return Struct(tuple((name, _placed(part, positions)) for name, part in parts))
        case Array(items):
            return replace(shape, items=tuple(_placed(each, positions) for each in items))
        case Map(key, value, listed):
            parts = tuple((name, _placed(part, positions)) for name, part in listed)
            key, value = _placed(key, positions), _placed(value, positions)
            return replace(shape, key=key, value=value, listed=parts)
        case Choice(options):
            return replace(shape, options=tuple(_placed(each, positions) for each in options))


def choose(shape: Shape, by: Iterable[Path]) -> Shape:
    """The same value, with more that was looked at to choose it."""
    looked = unique(by)
    return choice((shape,), looked) if looked else shape


def beside(shape: Shape, others: Iterable[Path]) -> Shape:
    """The same value, which is there only if others are; those that it is made of say so anyway."""
    paths = unique(others)

    def again(part: Shape) -> Shape:
        return beside(part, paths)

    match shape:
        case Struct(parts) if parts:
            return Struct(tuple((name, again(part)) for name, part in parts))
        case Array(items) if items:
            return replace(shape, items=tuple(map(again, items)))
        case Map(key, value, listed):
            parts = tuple((name, again(part)) for name, part in listed)
            return replace(shape, key=again(key), value=again(value), listed=parts)
        case _:
            found = tuple(paths_in(shape, beside=False))
            left = [path for path in paths if not any(map(path.covers, found))]
            return choice((shape,), (), left) if left else shape


def one_of(shape: Shape, by: Iterable[Path]) -> Shape:
    """One of several values like this, of which only the data tells the one."""
    return Choice((shape,), unique(by), open=True)
