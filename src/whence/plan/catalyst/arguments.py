"""A function call whose arguments are evaluated on demand."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from whence.plan.catalyst import shapes, types
from whence.plan.catalyst.keys import constant_key
from whence.plan.catalyst.nodes import Node
from whence.plan.catalyst.shapes import Shape, paths_in
from whence.plan.catalyst.types import DataType
from whence.plan.paths import Path

Variables: TypeAlias = Mapping[int, Shape]


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call; `variables` are those of the lambdas around it."""

    evaluate: Callable[[Node, Variables], Shape]
    node: Node
    variables: Variables
    types: Mapping[int, DataType]
    _found: dict[int, Shape] = field(default_factory=dict, init=False)

    def __getitem__(self, i: int) -> Shape:
        if i not in self._found:  # a call of calls would take twice as long with each of them
            self._found[i] = self.evaluate(self.node.children[i], self.variables)
        return self._found[i]

    def __len__(self) -> int:
        return len(self.node.children)

    def shapes(self, start: int = 0) -> list[Shape]:
        """All arguments from `start` on."""
        return [self[i] for i in range(start, len(self))]

    def type(self, i: int) -> DataType:
        """The type of an argument, where it is plain."""
        return types.infer(self.node.children[i], self.types)

    def literal(self, i: int) -> str | None:
        """The value of a constant argument, as text."""
        child = self.node.children[i]
        while child.name == "Cast":
            child = child.children[0]
        found = child.fields.get("value") if child.name == "Literal" else None
        return None if found is None else str(found)

    def key(self, i: int) -> str | None:
        """The text of a constant argument that is the key of a map."""
        return constant_key(self.node.children[i])

    def call(self, i: int, *given: Shape) -> Shape:
        """The lambda at `i`, called."""
        body, *parameters = self.node.children[i].children
        bound = {p.id: shape for p, shape in zip(parameters, given, strict=False)}
        return self.evaluate(body, {**self.variables, **bound})


Rule: TypeAlias = Callable[[Arguments], Shape]


def looked(found: Iterable[Shape]) -> tuple[Path, ...]:
    """All paths in these values."""
    return shapes.unique(path for shape in found for path in paths_in(shape))
