"""What the reader of one node is given."""

from dataclasses import dataclass
from typing import Any

from whence.plan.catalyst.nodes import Node
from whence.plan.catalyst.scope import Attributes
from whence.plan.catalyst.shapes import Flow
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
        expressions: tuple[Node, ...] = (),
        moves: tuple[Move, ...] = (),
        reads: tuple[Path, ...] | None = None,
    ) -> dict[str, Any]:
        """The fields that all operators have; `expressions` are what the operator looks at."""
        return {
            "id": self.id,
            "node": self.node.name,
            "output": output,
            "children": self.children,
            "subqueries": self.subqueries,
            "deterministic": all(map(deterministic, expressions)),
            "reads": self.flow.reads(expressions) if reads is None else reads,
            "moves": moves,
        }

    @property
    def input(self) -> tuple[Column, ...]:
        """The output of the first child."""
        return self.children[0].output

    def columns(self, field: str) -> tuple[Column, ...]:
        """A field of attributes as columns."""
        return tuple(self.attributes.column(node) for node in self.node.expressions(field))
