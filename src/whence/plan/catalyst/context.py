"""What the reader of one node is given."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whence.errors import UnsupportedError
from whence.plan.catalyst.flow import Flow
from whence.plan.catalyst.nodes import Node
from whence.plan.catalyst.scope import Attributes
from whence.plan.catalyst.shapes import unique
from whence.plan.catalyst.sql import Writer, deterministic
from whence.plan.operators import Column, Operator
from whence.plan.paths import Move, Path


@dataclass(frozen=True, slots=True)
class Context:
    """A node of a Spark plan whose inputs have been read."""

    node: Node
    id: str
    children: tuple[Operator, ...]
    subqueries: tuple[Operator, ...]
    trail: tuple[str, ...]
    attributes: Attributes
    writer: Writer
    flow: Flow

    def common(
        self,
        output: tuple[Column, ...],
        *,
        decides: Sequence[Node] = (),
        looks: Sequence[Node] = (),
        reads: Sequence[Node] = (),
        moves: tuple[Move, ...] = (),
        whole: tuple[Path, ...] = (),
    ) -> dict[str, Any]:
        """The fields that all operators have.

        `decides` are expressions that decide about rows, `looks` and `reads` those that make
        columns: of `looks` a value only handed on is not read. `whole` are paths that decide.
        """
        deciding = unique((*whole, *self.flow.paths(decides)))
        return {
            "id": self.id,
            "node": self.node.name,
            "output": output,
            "children": self.children,
            "subqueries": self.subqueries,
            "deterministic": all(map(deterministic, (*decides, *looks, *reads))),
            "reads": unique((*deciding, *self.flow.paths(reads), *self.flow.looks(looks))),
            "decides": deciding,
            "moves": moves,
        }

    @property
    def everything(self) -> tuple[Path, ...]:
        """The paths of all columns of all children."""
        return tuple(
            Path(column.number, column.name, (), i)
            for i, child in enumerate(self.children)
            for column in child.output
        )

    @property
    def input(self) -> tuple[Column, ...]:
        """The output of the first child."""
        return self.children[0].output

    def columns(self, field: str) -> tuple[Column, ...]:
        """A field of attributes as columns."""
        return tuple(self.attributes.column(node) for node in self.node.expressions(field))

    def expression(self, field: str) -> Node:
        """A field that must hold an expression."""
        found = self.node.expression(field)
        if found is None:
            raise self.incomplete(field)
        return found

    def incomplete(self, field: str) -> UnsupportedError:
        """The error for a field that Spark left out of its text."""
        return UnsupportedError(
            f"the text of {self.node.name} (at {' > '.join(self.trail)}) says nothing of its "
            f"{field}; take the text from whence.spark.normalise.plan_text"
        )
