"""What one operator reads of its inputs, and how it moves their values into its output."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from whence.plan.catalyst import shapes, types
from whence.plan.catalyst.evaluate import Evaluator
from whence.plan.catalyst.nodes import Node
from whence.plan.catalyst.scope import Attributes
from whence.plan.catalyst.shapes import (
    NOTHING,
    Array,
    At,
    Choice,
    Copy,
    Made,
    Map,
    Shape,
    Struct,
    made,
    opened,
    paths_in,
    unique,
)
from whence.plan.operators import Column, Operator
from whence.plan.paths import (
    WITNESS,
    Field,
    How,
    Item,
    Key,
    Move,
    Path,
    Positions,
    Step,
    Value,
)


class Flow:
    """The paths of one operator's inputs, and how its expressions use them."""

    __slots__ = ("_attributes", "_evaluator")

    def __init__(
        self,
        attributes: Attributes,
        children: Sequence[Operator],
        plans: Sequence[Operator],
        positions: Mapping[int, int],
    ) -> None:
        self._attributes = attributes
        inputs: dict[int, Path] = {}
        for i, child in enumerate(children):
            for column in child.output:
                key = attributes.key(column.number)
                inputs.setdefault(key, Path(column.number, column.name, (), i))
        subqueries = {
            key: Path(plans[i].output[0].number, plans[i].output[0].name, (), len(children) + i)
            for key, i in positions.items()
        }
        self._evaluator = Evaluator(inputs, subqueries, attributes.types)

    def paths(self, expressions: Sequence[Node]) -> tuple[Path, ...]:
        """All input paths that the expressions' values are made of or chosen by."""
        every = (self._evaluator.shape(e) for e in _plain(expressions))
        return unique(opened(path) for shape in every for path in paths_in(shape))

    def looks(self, expressions: Sequence[Node]) -> tuple[Path, ...]:
        """The input paths that the expressions look at; a value only handed on is not looked at."""
        every = (self._evaluator.shape(e) for e in _plain(expressions))
        return unique(opened(path) for shape in every for path in _looked(shape))

    def moves(self, output: Sequence[Column], expressions: Sequence[Node]) -> tuple[Move, ...]:
        """How each expression makes its output column; none for a column handed on untouched."""
        pairs = zip(output, expressions, strict=True)
        return tuple(
            move
            for column, node in pairs
            if node.name != "AttributeReference"
            for move in _moves(_place(column), self._evaluator.shape(node))
        )

    def alternatives(
        self, output: Sequence[Column], lists: Sequence[Sequence[Node]]
    ) -> tuple[Move, ...]:
        """How the lists of an Expand make its output columns, each list for some rows.

        Where two lists make a column of different values, or one makes none, the number of the
        list tells.
        """
        found: list[Move] = []
        for i, column in enumerate(output):
            options = [self._evaluator.shape(listed[i]) for listed in lists]
            if len(set(options)) > 1:
                found += dict.fromkeys(
                    _numbered(at, move)
                    for at, shape in enumerate(options)
                    for move in _moves(_place(column), shape)
                )
                continue
            shape = shapes.choice(options or [NOTHING])
            handed_on = isinstance(shape, Copy) and shape.path.column == column.number
            if not handed_on:
                found += _moves(_place(column), shape)
        return tuple(found)

    def generated(self, output: Sequence[Column], generator: Node) -> tuple[Move, ...]:
        """How a generator makes its columns; positions come from the witness."""
        generator = _inner(generator)
        rows = self._written_out(generator, len(output))
        if rows:
            made = (
                _numbered(at, move)
                for at, row in enumerate(rows)
                for column, shape in zip(output, row, strict=True)
                for move in _moves(_place(column), shape)
            )
            return tuple(dict.fromkeys(made))
        made_of = self._generate(generator, len(output))
        return tuple(
            move
            for column, shape in zip(output, made_of, strict=True)
            for move in _moves(_place(column), shape)
        )

    def _written_out(self, generator: Node, width: int) -> list[list[Shape]]:
        """The rows of a generator over `array(a, b)` or `map('a', a)` or of `stack`, one by one."""
        if generator.name == "Stack":
            values = [self._evaluator.shape(child) for child in generator.children[1:]]
            return [
                (values[at : at + width] + [NOTHING] * width)[:width]
                for at in range(0, len(values), width)
            ]
        if generator.name not in ("Explode", "PosExplode"):
            return []
        match self._evaluator.shape(generator.children[0]):
            case Array(items, listed=True):
                rows: list[list[Shape]] = [[item] for item in items]
            case Map(key, _, listed) if len(dict(listed)) == len(listed):
                rows = [[key, value] for _, value in listed]
            case _:
                return []
        return [[NOTHING] * (width - len(row)) + row for row in rows]

    def unnested(self, output: Sequence[Column], generator: Node) -> tuple[Path, ...]:
        """What a generator looks at to make rows: that an item is there, of a map its keys."""
        generator = _inner(generator)
        if generator.name == "Stack":
            return ()
        if generator.name not in ("Explode", "PosExplode", "Inline"):
            return self.paths(generator.children)
        whole = self._evaluator.shape(generator.children[0])
        match whole:
            case Array(listed=True):
                return ()
            case Map(key, listed=listed) if listed:
                return unique(paths_in(key))
        if _of_map(generator, len(output)):
            return unique(paths_in(shapes.key(whole)))
        return unique(paths_in(shapes.item(whole)))

    def _generate(self, generator: Node, width: int) -> list[Shape]:
        whole = [self._evaluator.shape(child) for child in generator.children]
        match generator.name:
            case "Explode" | "PosExplode":
                found = _exploded(generator, whole[0], width)
            case "Inline":
                names = types.fields(types.item(self._evaluator.type(generator.children[0])))
                item = shapes.item(whole[0], index=WITNESS)
                if not names and isinstance(item, Struct):
                    names = tuple(name for name, _ in item.parts)
                found = [shapes.field(item, name) for name in names]
            case "JsonTuple":
                found = [made(whole[:1])] * width
            case name:
                found = [made(whole, opaque=name.startswith("Python"))] * width
        return found if len(found) == width else [made(whole)] * width


def _exploded(generator: Node, whole: Shape, width: int) -> list[Shape]:
    found = [shapes.item(whole, index=WITNESS)]
    if _of_map(generator, width):
        found = [shapes.key(whole), shapes.entry(whole, WITNESS)]
    return [NOTHING, *found] if len(found) < width else found


def _of_map(generator: Node, width: int) -> bool:
    """Whether a generator with so many columns unnests a map, of which it has the keys too."""
    return generator.name != "Inline" and width > (2 if generator.name == "PosExplode" else 1)


def _inner(generator: Node) -> Node:
    """The generator, without what keeps rows that it makes nothing of."""
    while generator.name == "GeneratorOuter":
        generator = generator.children[0]
    return generator


def _plain(expressions: Sequence[Node]) -> Iterator[Node]:
    for expression in expressions:
        yield expression.children[0] if expression.name == "SortOrder" else expression


def _place(column: Column) -> "_Place":
    return _Place(Path(column.number, column.name))


def _looked(shape: Shape) -> Iterator[Path]:
    """The paths in a shape that were looked at, not only handed on."""
    match shape:
        case Copy():
            return
        case Struct(parts):
            for _, part in parts:
                yield from _looked(part)
        case Array(items):
            for item in items:
                yield from _looked(item)
        case Map(key, value, _, _):
            yield from _looked(key)
            yield from _looked(value)
        case Choice((only,), (), False, beside):
            yield from _looked(only)
            yield from beside
        case Made() | Choice():
            yield from paths_in(shape)


@dataclass(frozen=True, slots=True)
class _Place:
    """A part of an output column, and the number of the open step that each index stands for."""

    path: Path
    indices: Mapping[int, int] = field(default_factory=lambda: {WITNESS: WITNESS})
    opened: int = 0

    def then(self, step: Step) -> "_Place":
        """The place one step further in."""
        return replace(self, path=self.path.then(step))

    def any(self, step: Step, index: int | None) -> "_Place":
        """Any item or value in it, at the position of an index."""
        known = self.indices if index is None else {**self.indices, index: self.opened}
        return _Place(self.path.then(step), known, self.opened + 1)

    def move(
        self,
        inputs: tuple[Path, ...],
        how: How,
        by: tuple[Path, ...],
        positions: Positions,
        chosen: bool,
    ) -> Move:
        """What is at the place, moved there from some inputs."""
        places = tuple(self._of(path) for path in (*inputs, *by))
        if any(WITNESS in found for found in places[: len(inputs)]):
            positions = "witness"
        plain = [tuple(range(len(found))) if how == "copied" else () for found in places]
        usual = (*plain[: len(inputs)], *(() for _ in by))
        if all(_means(found, its) for found, its in zip(places, usual, strict=True)):
            places = ()
        listed, looked = (tuple(map(opened, paths)) for paths in (inputs, by))
        return Move(self.path, listed, how, looked, positions, chosen, places)

    def _of(self, path: Path) -> tuple[int | None, ...]:
        """The number of the output's open step that each open step of an input goes with."""
        return tuple(
            self.indices.get(step.index) if isinstance(step, At) else None
            for step in path.steps
            if isinstance(step, At) or step in (Item(), Value())
        )


def _means(found: tuple[int | None, ...], usual: tuple[int, ...]) -> bool:
    """Whether places are the usual ones, which need not be told."""
    return found == usual if usual else all(place is None for place in found)


def _numbered(at: int, move: Move) -> Move:
    """A move that is about one of several rows that are made of a row, if it takes anything."""
    return replace(move, at=at if move.inputs or move.influences else None)


def _moves(
    place: _Place, shape: Shape, by: tuple[Path, ...] = (), chosen: bool = False
) -> Iterator[Move]:
    """A shape as moves; several for one output path are alternatives."""
    match shape:
        case Copy(path, positions):
            yield place.move((path,), "copied", by, positions, chosen)
        case Made(inputs, opaque, inside, positions):
            how: How = "undefined" if opaque else "computed"
            yield place.move(inputs, how, by, positions, chosen or inside)
        case Struct(parts):
            if not parts:
                yield place.move((), "computed", by, "same", chosen)
            for name, part in parts:
                yield from _moves(place.then(Field(name)), part, by, chosen)
        case Array(items, listed, index):
            if not items:
                yield place.move((), "computed", by, "same", chosen)
            for i, item in enumerate(items):
                inner = place.then(Item(i)) if listed else place.any(Item(), index)
                yield from _moves(inner, item, by, chosen)
        case Map(key, value, listed, index):
            yield from _moves(place.then(Key()), key, by, chosen)
            for name, part in listed:
                yield from _moves(place.then(Value(name)), part, by, chosen)
            if not listed:
                yield from _moves(place.any(Value(), index), value, by, chosen)
        case Choice(options, chosen_by, several, beside):
            looked = unique((*by, *chosen_by, *beside))
            yield from _choices(place, options, looked, chosen or several)


def _choices(
    place: _Place, options: Sequence[Shape], by: tuple[Path, ...], chosen: bool
) -> Iterator[Move]:
    copies = [option for option in options if isinstance(option, Copy)]
    if copies:
        positions: Positions = copies[0].positions
        if any(copy.positions != positions for copy in copies):
            positions = "any"
        yield place.move(unique(c.path for c in copies), "copied", by, positions, chosen)
    for option in options:
        if not isinstance(option, Copy):
            yield from _moves(place, option, by, chosen)
