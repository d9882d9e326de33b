"""Going through a plan, written once.

The order is: an operator, then the plans of its subqueries, then its children.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from whence.errors import UnknownNameError
from whence.plan.operators import Operator, Source

_T = TypeVar("_T", bound=Operator)


def walk(root: Operator) -> Iterator[Operator]:
    """All operators: each before its subqueries, and those before its children."""
    pending = [root]
    while pending:
        operator = pending.pop()
        yield operator
        pending.extend(reversed(operator.subqueries + operator.children))


def find(root: Operator, kind: type[_T]) -> Iterator[_T]:
    """All operators of one class, in the order of `walk`."""
    return (operator for operator in walk(root) if isinstance(operator, kind))


def by_id(root: Operator, operator_id: str) -> Operator:
    """The operator with this id."""
    for operator in walk(root):
        if operator.id == operator_id:
            return operator
    raise UnknownNameError("operator", operator_id, (operator.id for operator in walk(root)))


def sources(root: Operator) -> tuple[Source, ...]:
    """All leaves that are sources, in the order of `walk`."""
    return tuple(find(root, Source))


def map_plan(root: Operator, change: Callable[[Operator], Operator]) -> Operator:
    """The plan with each operator replaced by `change` of it, inputs first."""
    children = tuple(map_plan(child, change) for child in root.children)
    subqueries = tuple(map_plan(plan, change) for plan in root.subqueries)
    if any(new is not old for new, old in zip(children, root.children, strict=True)) or any(
        new is not old for new, old in zip(subqueries, root.subqueries, strict=True)
    ):
        root = replace(root, children=children, subqueries=subqueries)
    return change(root)


def paths_to_leaves(root: Operator) -> Iterator[tuple[Operator, ...]]:
    """Every way from the root to a leaf, through children and subqueries."""
    pending: list[tuple[Operator, ...]] = [(root,)]
    while pending:
        path = pending.pop()
        inputs = path[-1].subqueries + path[-1].children
        if not inputs:
            yield path
        pending.extend((*path, operator) for operator in reversed(inputs))
