"""Scopes: rows of an operator's output with their witness, and the parts of it that others made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from whence import plan as ops
from whence.algebra.witness import (
    Collected,
    Group,
    Nothing,
    Product,
    Row,
    Witness,
    product,
    slots,
    walk,
)
from whence.plan import Operator


@dataclass(frozen=True, slots=True)
class Scope:
    """Rows of an operator's output: a table with their numbers and slots, and the slots' shape.

    `scopes` has the slots of each operator below, as far as this witness knows them. Of members of
    a group, `collected` tells which items of the group's lists are theirs, and `chosen` the column
    that says, for a value of the group that some members had, whether a member did.
    """

    table: str
    shape: Witness
    scopes: Mapping[str, tuple[str, ...]]
    collected: tuple[Collected, ...] = ()
    chosen: tuple[tuple[int, str], ...] = ()


def part(scope: Scope, child: Operator) -> Scope:
    """The same rows with the part of the witness that a child made."""
    own = set(scope.scopes[child.id])
    shape = scope.shape
    parts = shape.parts if isinstance(shape, Product) else (shape,)
    kept = [part for part in parts if set(slots(part)) <= own]
    return replace(scope, shape=product(*kept))


def row_of(scope: Scope, subquery: Operator) -> Scope:
    """The same rows with the one row of a subquery that was captured as a step of its own."""
    own = {source.id for source in ops.sources(subquery)}
    for part in walk(scope.shape):
        if isinstance(part, Row) and part.source in own:
            return replace(scope, shape=part)
    return replace(scope, shape=Nothing())


def group_of(shape: Witness, operator: str) -> Group | None:
    """The part of a shape that refers to an operator's group."""
    return next((p for p in walk(shape) if isinstance(p, Group) and p.operator == operator), None)


def is_side(group: str, operator: str, number: int) -> bool:
    """Whether a group is that of one of an operator's inputs."""
    name, _, side = group.partition("/")
    return name == operator and side in ("", ("left", "right")[number])
