"""Where the parts of a value come from: an expression read as moves of paths."""

from collections.abc import Mapping, Sequence

from whence.plan.catalyst.nodes import Node
from whence.plan.catalyst.scope import Attributes
from whence.plan.operators import Column, Operator
from whence.plan.paths import Move, Path


class Flow:
    """The paths of one operator's inputs, and how its expressions use them."""

    __slots__ = ("_attributes", "_inputs", "_subqueries")

    def __init__(
        self,
        attributes: Attributes,
        children: Sequence[Operator],
        plans: Sequence[Operator],
        positions: Mapping[int, int],
    ) -> None:
        self._attributes = attributes
        self._inputs: dict[int, Path] = {}
        for i, child in enumerate(children):
            for column in child.output:
                self._inputs.setdefault(column.number, Path(column.number, column.name, (), i))
        self._subqueries = {
            key: Path(plans[i].output[0].number, plans[i].output[0].name, (), len(children) + i)
            for key, i in positions.items()
        }

    def reads(self, expressions: Sequence[Node]) -> tuple[Path, ...]:
        """The input paths that the expressions look at."""
        found: dict[Path, None] = {}
        for expression in expressions:
            for part in expression.walk():
                if part.name == "AttributeReference":
                    path = self._inputs.get(self._attributes.number(part.id))
                    if path:
                        found.setdefault(path)
                elif part.name == "ScalarSubquery":
                    found.setdefault(self._subqueries[part.id])
        return tuple(found)

    def moves(self, output: Sequence[Column], expressions: Sequence[Node]) -> tuple[Move, ...]:
        """How each expression makes its output column."""
        return tuple(
            Move(Path(column.number, column.name), self.reads((node,)), "computed")
            for column, node in zip(output, expressions, strict=True)
            if node.name == "Alias"
        )

    def alternatives(
        self, output: Sequence[Column], lists: Sequence[Sequence[Node]]
    ) -> tuple[Move, ...]:
        """How the lists of an Expand make its output columns, each list for some rows."""
        return tuple(
            Move(Path(c.number, c.name), self.reads([listed[i] for listed in lists]), "computed")
            for i, c in enumerate(output)
        )

    def generated(self, output: Sequence[Column], generator: Node) -> tuple[Move, ...]:
        """How a generator makes its columns."""
        reads = self.reads((generator,))
        return tuple(Move(Path(c.number, c.name), reads, "computed") for c in output)
