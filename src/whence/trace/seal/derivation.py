"""Derivations: a witness's shape, nested again as the plan is, with a label for each node.

A shape is flat where the plan is not: a · b · c stands for two joins. For tokens the joins count,
so that a query that joins a and b shares that node with one that joins c to it. Operators that hand
rows on (select, project, sort, limit, ...) make no node, unless they call user code.

    Empty                   no input row
    Leaf(slot, dataset)     a row of a source, or of the output of an earlier step
    Joint(label, parts)     all parts together, in order; a part may be missing (outer join)
    Branch(slot, branches)  one branch of a union, or what a function took from one of its inputs
    Pick(label, part, slot) an item of a collection
    Bag(label, ...)         the members of a group, listed in a slot or found by key
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from whence import plan as ops
from whence.algebra.witness import (
    Choice,
    Group,
    Item,
    Members,
    Nothing,
    Product,
    Row,
    Witness,
    children,
)
from whence.errors import UnsupportedError
from whence.plan import Operator
from whence.plan.labels import Label, label


@dataclass(frozen=True, slots=True)
class Empty:
    """No input row."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A row of a dataset, its locator in the slot."""

    slot: str
    dataset: str


@dataclass(frozen=True, slots=True)
class Joint:
    """Parts used together."""

    label: Label
    parts: tuple[Derivation, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """The branch whose number is in the slot."""

    label: Label
    slot: str
    branches: tuple[Derivation, ...]


@dataclass(frozen=True, slots=True)
class Pick:
    """An item of a collection, its position in the slot if it is known."""

    label: Label
    part: Derivation
    slot: str | None


@dataclass(frozen=True, slots=True)
class Bag:
    """The members of a group: listed in a slot, or by the key in it."""

    label: Label
    members: Members | Group


Derivation = Empty | Leaf | Joint | Branch | Pick | Bag

# They hand on what they get, but what their functions do is not known: each call is a node.
_OPAQUE = ops.MapBatches | ops.MapGroups | ops.MapCogroups | ops.ArrayFunction


class Nesting:
    """Nests the shapes of one step; `code` has the digests of user code by operator id."""

    def __init__(
        self, plan: Operator, inputs: Mapping[str, str], code: Mapping[str, Sequence[str]]
    ) -> None:
        self._plan = plan
        self._inputs = inputs
        self._code = code
        self._operators = {op.id: op for op in ops.walk(plan)}
        self._below = {
            op.id: frozenset(inner.id for inner in ops.walk(op)) for op in ops.walk(plan)
        }

    def whole(self, shape: Witness) -> Derivation:
        """The derivation of the step's output rows."""
        return self._nest(self._plan, _parts(shape))

    def member(self, group: str, element: Witness) -> Derivation:
        """The derivation of a member of an operator's group: a row of one of its inputs.

        The members behind a scalar subquery, and those of the whole result, are rows of the
        operator itself.
        """
        name, _, side = group.partition("/")
        operator = self._operators.get(name)
        parts = _parts(element)
        if operator is not None and side != "scalar":
            anchors = frozenset[str]().union(*(_anchors(part) for part in parts))
            for inner in operator.inputs:
                if anchors <= self._below[inner.id]:
                    return self._nest(inner, parts)
        return self._nest(operator or self._plan, parts)

    def _label(self, operator: Operator, role: str = "") -> Label:
        return label(operator, self._code.get(operator.id, ()), role)

    def _nest(self, op: Operator, parts: tuple[Witness, ...]) -> Derivation:
        if not parts:
            return Empty()
        match parts:
            case (Row(slot, source),) if source == op.id:
                return Leaf(slot, self._inputs[source])
            case (Members(_, operator) as listed,) if operator == op.id:
                return Bag(self._label(op), listed)
            case (Item(parent, slot, operator),) if operator == op.id:
                return Pick(self._label(op), self._nest(op.children[0], _parts(parent)), slot)
            case (Choice(slot, branches),) if isinstance(op, ops.Union):
                nested = tuple(
                    self._nest(child, _parts(branch))
                    for child, branch in zip(op.children, branches, strict=True)
                )
                return Branch(self._label(op), slot, nested)
            case (Choice(slot, branches),) if isinstance(op, _OPAQUE):
                sides = tuple(self._joint(op, _parts(branch)) for branch in branches)
                return Branch(self._label(op, "side"), slot, sides)
        return self._joint(op, parts)

    def _joint(self, op: Operator, parts: tuple[Witness, ...]) -> Derivation:
        own = [p for p in parts if isinstance(p, Group) and p.operator.split("/", 1)[0] == op.id]
        left = [p for p in parts if p not in own]
        nested: list[Derivation] = []
        for inner in op.inputs:
            below = self._below[inner.id]
            mine = tuple(p for p in left if _anchors(p) <= below)
            left = [p for p in left if p not in mine]
            if mine:
                nested.append(self._nest(inner, mine))
        if left:
            raise UnsupportedError(f"internal: {op.id} has a witness that none of its inputs made")
        alone = isinstance(op, ops.Aggregate) or not nested
        for part in own:
            side = part.operator.partition("/")[2] or "members"
            role = "" if alone and len(own) == 1 else side
            nested.append(Bag(self._label(op, role), part))
        calls = bool(self._code.get(op.id)) and not isinstance(op, ops.Aggregate)
        if len(nested) == 1 and not (calls and not own) and not (isinstance(op, _OPAQUE) and own):
            return nested[0]
        return Joint(self._label(op), tuple(nested))


def _parts(shape: Witness) -> tuple[Witness, ...]:
    match shape:
        case Nothing():
            return ()
        case Product(parts):
            return parts
        case _:
            return (shape,)


def _anchors(shape: Witness) -> frozenset[str]:
    """The operators that made a witness."""
    inner = frozenset[str]().union(*(_anchors(child) for child in children(shape)))
    match shape:
        case Row(_, source):
            return inner | {source}
        case Group(_, operator) | Members(_, operator, _) | Item(_, _, operator):
            return inner | {operator.split("/", 1)[0]}
        case Nothing() | Product() | Choice():
            return inner
        case _:
            assert_never(shape)
