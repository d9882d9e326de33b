"""What one operator reads of its inputs, and how it moves their values into its output."""

from collections.abc import Iterator, Mapping, Sequence

from whence.plan.catalyst import shapes, types
from whence.plan.catalyst.evaluate import Evaluator
from whence.plan.catalyst.nodes import Node
from whence.plan.catalyst.scope import Attributes
from whence.plan.catalyst.shapes import (
    NOTHING,
    Array,
    Choice,
    Copy,
    Made,
    Map,
    Shape,
    Struct,
    made,
    paths_in,
    unique,
)
from whence.plan.operators import Column, Operator
from whence.plan.paths import Field, How, Item, Key, Move, Path, Positions, Value


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
        return unique(path for shape in every for path in paths_in(shape))

    def looks(self, expressions: Sequence[Node]) -> tuple[Path, ...]:
        """The input paths that the expressions look at; a value only handed on is not looked at."""
        every = (self._evaluator.shape(e) for e in _plain(expressions))
        return unique(path for shape in every for path in _looked(shape))

    def moves(self, output: Sequence[Column], expressions: Sequence[Node]) -> tuple[Move, ...]:
        """How each expression makes its output column; none for a column handed on untouched."""
        pairs = zip(output, expressions, strict=True)
        return tuple(
            move
            for column, node in pairs
            if node.name != "AttributeReference"
            for move in _moves(_path(column), self._evaluator.shape(node))
        )

    def alternatives(
        self, output: Sequence[Column], lists: Sequence[Sequence[Node]]
    ) -> tuple[Move, ...]:
        """How the lists of an Expand make its output columns, each list for some rows."""
        found: list[Move] = []
        for i, column in enumerate(output):
            options = [self._evaluator.shape(listed[i]) for listed in lists]
            shape = shapes.choice(options or [NOTHING])
            handed_on = isinstance(shape, Copy) and shape.path.column == column.number
            if not handed_on:
                found += _moves(_path(column), shape)
        return tuple(found)

    def generated(self, output: Sequence[Column], generator: Node) -> tuple[Move, ...]:
        """How a generator makes its columns; positions come from the witness."""
        made_of = self._generate(generator, len(output))
        return tuple(
            move
            for column, shape in zip(output, made_of, strict=True)
            for move in _moves(_path(column), shapes.from_witness(shape))
        )

    def unnested(self, generator: Node) -> tuple[Path, ...]:
        """What a generator looks at to make rows: of an array or map only that an item is there."""
        while generator.name == "GeneratorOuter":
            generator = generator.children[0]
        if generator.name not in ("Explode", "PosExplode", "Inline"):
            return self.paths(generator.children)
        whole = self._evaluator.shape(generator.children[0])
        if self._is_map(generator.children[0], whole):
            return unique((*paths_in(shapes.key(whole)), *paths_in(shapes.value(whole))))
        return unique(paths_in(shapes.item(whole)))

    def _is_map(self, node: Node, whole: Shape) -> bool:
        match self._evaluator.type(node):
            case {"type": "map"}:
                return True
            case _:
                return isinstance(whole, Map)

    def _generate(self, generator: Node, width: int) -> list[Shape]:
        while generator.name == "GeneratorOuter":
            generator = generator.children[0]
        whole = [self._evaluator.shape(child) for child in generator.children]
        match generator.name:
            case "Explode" | "PosExplode":
                found = self._exploded(generator.children[0], whole[0], width)
            case "Inline":
                names = types.fields(types.item(self._evaluator.type(generator.children[0])))
                item = shapes.item(whole[0])
                if not names and isinstance(item, Struct):
                    names = tuple(name for name, _ in item.parts)
                found = [shapes.field(item, name) for name in names]
            case "Stack":
                found = [shapes.choice(whole[1 + i :: width] or [NOTHING]) for i in range(width)]
            case "JsonTuple":
                found = [made(whole[:1])] * width
            case name:
                found = [made(whole, opaque=name.startswith("Python"))] * width
        return found if len(found) == width else [made(whole)] * width

    def _exploded(self, argument: Node, whole: Shape, width: int) -> list[Shape]:
        found = [shapes.item(whole)]
        if self._is_map(argument, whole):
            found = [shapes.key(whole), shapes.value(whole)]
        return [NOTHING, *found] if len(found) < width else found


def _plain(expressions: Sequence[Node]) -> Iterator[Node]:
    for expression in expressions:
        yield expression.children[0] if expression.name == "SortOrder" else expression


def _path(column: Column) -> Path:
    return Path(column.number, column.name)


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
        case Map(key, value):
            yield from _looked(key)
            yield from _looked(value)
        case Made() | Choice():
            yield from paths_in(shape)


def _moves(
    output: Path, shape: Shape, by: tuple[Path, ...] = (), chosen: bool = False
) -> Iterator[Move]:
    """A shape as moves; several for one output path are alternatives."""
    match shape:
        case Copy(path, positions):
            yield Move(output, (path,), "copied", by, positions, chosen)
        case Made(inputs, opaque, inside):
            how: How = "undefined" if opaque else "computed"
            yield Move(output, inputs, how, by, chosen=chosen or inside)
        case Struct(parts):
            if not parts:
                yield Move(output, (), "computed", by, chosen=chosen)
            for name, part in parts:
                yield from _moves(output.then(Field(name)), part, by, chosen)
        case Array(items, listed):
            if not items:
                yield Move(output, (), "computed", by, chosen=chosen)
            for i, item in enumerate(items):
                yield from _moves(output.then(Item(i if listed else None)), item, by, chosen)
        case Map(key, value):
            yield from _moves(output.then(Key()), key, by, chosen)
            yield from _moves(output.then(Value()), value, by, chosen)
        case Choice(options, chosen_by, several):
            yield from _choices(output, options, unique((*by, *chosen_by)), chosen or several)


def _choices(
    output: Path, options: Sequence[Shape], by: tuple[Path, ...], chosen: bool
) -> Iterator[Move]:
    copies = [option for option in options if isinstance(option, Copy)]
    if copies:
        positions: Positions = copies[0].positions
        if any(copy.positions != positions for copy in copies):
            positions = "any"
        yield Move(output, unique(c.path for c in copies), "copied", by, positions, chosen)
    for option in options:
        if not isinstance(option, Copy):
            yield from _moves(output, option, by, chosen)
