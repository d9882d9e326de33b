"""The answer for one output array: which cells of which inputs are behind its cells."""

from __future__ import annotations

from typing import Any

from whence.arrays import cells as cellset
from whence.arrays.cells import Cells, Ints, Shape
from whence.arrays.forms import empty
from whence.arrays.graph import KEPT, Grade, Node, Role, doubts, leaves, ordered
from whence.arrays.relation import Relation
from whence.arrays.walks import Reached, relate, walk_backward, walk_forward
from whence.errors import ArrayError, SelectionError, UnknownNameError

Indices = tuple[Ints, ...]


class Provenance:
    """Backward and forward questions about one output; every answer has a grade."""

    __slots__ = ("_node", "_relations", "inputs", "name", "unknown", "untracked", "view")

    def __init__(
        self,
        node: Node,
        inputs: dict[str, Shape],
        name: str = "",
        untracked: tuple[str, ...] = (),
        unknown: str = "",
        view: str = "",
    ) -> None:
        self._node, self.inputs, self.name = node, inputs, name
        self.untracked, self.unknown, self.view = untracked, unknown, view
        self._relations: dict[tuple[str, str], Relation] | None = None

    @property
    def node(self) -> Node:
        """What was recorded about the output."""
        return self._node

    @property
    def shape(self) -> Shape:
        """The shape of the output."""
        return self._node.shape

    @property
    def by_values(self) -> bool:
        """Whether the relations follow from values, not only from sizes."""
        return any(edge.by_values for current in ordered(self._node) for edge in current.edges)

    @property
    def grade(self) -> Grade:
        """`exact`, `superset` (an operation could not be followed), or `unknown`."""
        if self.unknown:
            return "unknown"
        return "superset" if self.notes else "exact"

    @property
    def notes(self) -> tuple[str, ...]:
        """The operations that keep the answer from being exact."""
        if self.unknown:
            return (self.unknown,)
        kept = (KEPT,) if leaves(self._node).keys() - self.inputs.keys() else ()
        return tuple(dict.fromkeys((*doubts(self._node), *kept)))

    def backward(self, selector: Any = ..., role: Role = "contributing") -> dict[str, Indices]:
        """Index arrays of the input cells behind the chosen output cells, by input."""
        return {name: cells.indices() for name, cells in self.cells(selector, role).items()}

    def cells(self, selector: Any = ..., role: Role = "contributing") -> dict[str, Cells]:
        """As `backward`, as sets of cells that are listed only on request."""
        self._known()
        reached = walk_backward(self._node, cellset.select(self.shape, selector))
        none = {n: cellset.no_cells(s) for n, s in self.inputs.items()}
        found = {n: _of(reached[n], role) for n in self.inputs if n in reached}
        return {**none, **found}

    def forward(self, name: str, selector: Any = ..., role: Role = "contributing") -> Indices:
        """Index arrays of the output cells that the chosen cells of one input go to."""
        return self.forward_cells(name, selector, role).indices()

    def forward_cells(self, name: str, selector: Any = ..., role: Role = "contributing") -> Cells:
        """As `forward`, as a set of cells."""
        self._known()
        cells = cellset.select(self.inputs[self._input(name)], selector)
        return _of(walk_forward(self._node, name, cells), role)

    def relation(self, name: str, role: Role = "contributing") -> Relation:
        """The relation with one input, compressed."""
        self._known()
        key = self._input(name), _checked(role)
        if self._relations is None:
            self._relations = {}
        if key not in self._relations:
            form = relate(self._node, name, role)
            made = form if form is not None else empty(self.shape, self.inputs[name])
            self._relations[key] = Relation(made)
        return self._relations[key]

    def picture(self, selector: Any = ..., role: Role = "contributing") -> Any:
        """A matplotlib figure: the chosen output cells, and the input cells behind them."""
        from whence.arrays.picture import picture

        return picture(self, selector, role)

    def _input(self, name: str) -> str:
        if name not in self.inputs:
            raise UnknownNameError("input array", name, self.inputs)
        return name

    def _known(self) -> None:
        if self.unknown:
            raise ArrayError(f"the provenance is unknown: {self.unknown}")

    def __repr__(self) -> str:
        inputs = ", ".join(f"{n}{s}" for n, s in self.inputs.items())
        return f"Provenance({self.name}{self.shape} ← {inputs}; {self.grade})"

    def _repr_html_(self) -> str:
        from whence.arrays.picture import provenance_html

        return provenance_html(self)


def _checked(role: str) -> Role:
    if role not in ("contributing", "influencing"):
        raise SelectionError(f"role is {role!r}; expected 'contributing' or 'influencing'")
    return role  # type: ignore[return-value]


def _of(reached: Reached, role: Role) -> Cells:
    return reached.contributing if _checked(role) == "contributing" else reached.influencing
