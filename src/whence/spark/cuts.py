"""Where a pipeline is cut into steps.

What is run again later must give the same rows again. Below an operator whose groups are found by
running its input again, anything that may not (random numbers, a limit without a total order, a
sample) is cut off: it becomes a step of its own, written once, and what follows reads its rows. So
does a Python function over batches or groups, whose rows cannot be told apart by a rule; a list of
collected values whose rows are copied, since collecting again may order it otherwise; and in the
eager mode a scalar subquery, which Spark runs by itself anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from whence import plan as ops
from whence.plan import Operator, Source, walk
from whence.spark.gateway import Gateway, Plan

Mode = Literal["eager", "lazy", "auto"]
OPAQUE = (ops.MapBatches, ops.MapGroups, ops.MapCogroups)


def find_cut(root: Operator, mode: Mode) -> Operator | None:
    """The next operator whose rows must become a step of their own; innermost first."""
    opaque: list[Operator] = [op for op in walk(root) if isinstance(op, OPAQUE) and op is not root]
    if opaque:
        return _innermost(opaque)
    unsteady = [op for part in _run_again(root, mode) for op in walk(part) if not _steady(op)]
    if unsteady:
        return _outermost(unsteady, root)
    if mode != "lazy":
        lists = list(_copied_lists(root, False))
        if lists:
            return _innermost(lists)
    if mode == "eager":
        scalar = [
            subquery
            for op in walk(root)
            for subquery in op.subqueries
            if not isinstance(_unwrapped(subquery), Source)
        ]
        if scalar:
            return _innermost(scalar)
    return None


def _steady(operator: Operator) -> bool:
    """Whether running the operator again on the same input gives the same rows."""
    if isinstance(operator, ops.Limit | ops.Offset | ops.Tail | ops.Sample):
        return False
    return operator.deterministic


def _unwrapped(operator: Operator) -> Operator:
    while isinstance(operator, ops.Project) and not operator.subqueries:
        operator = operator.children[0]
    return operator


def _innermost(found: list[Operator]) -> Operator:
    """One that has no other of them below it."""
    ids = {op.id for op in found}
    for op in found:
        if not any(inner.id in ids for inner in walk(op) if inner is not op):
            return op
    return found[-1]


def _outermost(found: list[Operator], root: Operator) -> Operator:
    """One that has no other of them above it: a limit is cut with the limit it belongs to."""
    first = found[0]
    for op in walk(root):
        if any(op is other for other in found):
            return op
    return first


def _run_again(root: Operator, mode: Mode) -> Iterator[Operator]:
    """The parts of a plan that are run again to find members of groups."""
    if mode == "lazy":
        top = root
        while isinstance(top, ops.Sort | ops.Limit | ops.Offset | ops.View | ops.Hint):
            top = top.children[0]
        yield top
        return
    yield from _keyed_inputs(root, False, mode == "auto")


def _keyed_inputs(op: Operator, copied: bool, keyed: bool) -> Iterator[Operator]:
    """The inputs of operators that refer to their groups by key."""
    if keyed:
        yield from op.subqueries
    match op:
        case ops.Aggregate():
            if copied or keyed or op.in_python:
                yield op.children[0]
        case ops.Window():
            yield op.children[0]
        case ops.Join(type="semi" | "existence"):
            yield op.children[1]
        case ops.Except() | ops.Intersect():
            yield from op.children
        case _:
            pass
    for child, below in _inputs(op, copied):
        yield from _keyed_inputs(child, below, keyed)


def _copied_lists(op: Operator, copied: bool) -> Iterator[Operator]:
    """Aggregates that collect values, below an operator that repeats rows."""
    if copied and isinstance(op, ops.Aggregate) and op.collects:
        yield op
    for child, below in _inputs(op, copied):
        yield from _copied_lists(child, below)


def _inputs(op: Operator, copied: bool) -> Iterator[tuple[Operator, bool]]:
    """The inputs that are traced, and whether their rows may be copied; mirrors `instrument`."""
    match op:
        case ops.Join(type="anti"):
            yield op.children[0], copied
        case ops.Join(type="semi" | "existence"):
            yield op.children[0], copied
            yield op.children[1], True
        case ops.Join() | ops.Generate() | ops.Expand():
            yield from ((child, True) for child in op.children)
        case ops.Aggregate() | ops.Except() | ops.Intersect():
            yield from ((child, False) for child in op.children)
        case _:
            yield from ((child, copied) for child in op.children)


def replaced(gateway: Gateway, op: Operator, node: Plan, wanted: str, fresh: Plan) -> Plan:
    """The plan with the node of one operator replaced, in subqueries too."""
    if op.id == wanted:
        return fresh
    if all(inner.id != wanted for inner in walk(op)):
        return node
    kids = gateway.items(node.children())
    changed = [
        replaced(gateway, child, kid, wanted, fresh)
        for child, kid in zip(op.children, kids, strict=True)
    ]
    node = gateway.with_children(node, changed) if kids else node
    if not any(inner.id == wanted for subquery in op.subqueries for inner in walk(subquery)):
        return node
    return gateway.map_subqueries(
        node,
        lambda i, expression: expression.withNewPlan(
            replaced(gateway, op.subqueries[i], expression.plan(), wanted, fresh)
        ),
    )
