"""The right rows that a semi join's or an existence join's condition matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whence import plan as ops
from whence.algebra.witness import GroupShape, Test
from whence.spark.gateway import Gateway, Plan
from whence.spark.instrument import Context, Traced, instrument
from whence.spark.instrument.joins import bound_expressions, split_condition
from whence.spark.members.flat import (
    Bounds,
    apart,
    flat,
    has_literals,
    matching,
    named_keys,
    restrict,
)


def semi_join(
    context: Context, operator: ops.Join, node: Plan, group: str, bounds: Bounds | None
) -> tuple[Plan, GroupShape]:
    """The right rows that a semi join's condition matches.

    Rows that share the values which the condition equates are one group: what else it compares is
    kept beside each member. A condition of another form has a group for each of the left values
    that it looks at.
    """
    gateway = context.gateway
    right = instrument(context, operator.children[1], node.right(), copied=True)
    condition = split_condition(gateway, node)
    if condition is None:
        right = right.over(apart(gateway, operator.children[1], right.plan))
        return _matched(context, node, right, group, bounds)
    equal = [c for c in condition.compared if c.comparison == "="]
    others = condition.compared[len(equal) :]
    needed = [gateway.not_null(c.right) for c in equal if not c.nulls]
    plan = right.plan
    if condition.right or needed:
        plan = gateway.filter(gateway.conjunction([*condition.right, *needed]), plan)
    keys = [c.right for c in equal]
    asked = bounds and bounds.first(gateway, len(keys))
    plan = restrict(gateway, operator.children[1], plan, keys, asked)
    values = [gateway.alias(c.right, f"c{i}") for i, c in enumerate(others)]
    tests = [Test(f"k{len(equal) + i}", c.comparison, f"c{i}") for i, c in enumerate(others)]
    named = named_keys(gateway, keys) if equal or not others else []
    return flat(gateway, plan, named, right, group, values, tuple(tests))


def _matched(
    context: Context, node: Plan, right: Traced, group: str, bounds: Bounds | None
) -> tuple[Plan, GroupShape]:
    """The right rows that the condition matches with the left values of each key."""
    gateway = context.gateway
    expressions = bound_expressions(gateway, node)
    if bounds is None:
        named = named_keys(gateway, expressions)
        plan = gateway.distinct(gateway.project(named, node.left()))
    else:
        plan = bounds.plan
    keys = gateway.output(plan)
    condition = node.condition()
    on = None
    if condition.isDefined():
        typed = [
            (e, gateway.as_type(k, e.dataType())) for e, k in zip(expressions, keys, strict=False)
        ]
        on = gateway.replace_in(condition.get(), typed)
    source = right.plan
    if bounds is not None and bounds.literals is not None:
        for position, expression in _equated(gateway, node, expressions):
            column = [[row[position]] for row in bounds.literals]
            source = matching(gateway, source, [expression], column)
    joined = gateway.join(plan, source, "inner", on)
    return flat(gateway, joined, keys, right, group)


def _equated(gateway: Gateway, node: Plan, bound: Sequence[Any]) -> list[tuple[int, Any]]:
    """Right expressions that the condition equates with a bound one, by its position."""
    right = {a.exprId().id() for a in gateway.output(node.right())}
    found: list[tuple[int, Any]] = []
    condition = node.condition()
    pending = [condition.get()] if condition.isDefined() else []
    while pending:
        expression = pending.pop()
        kind = gateway.kind(expression)
        if kind == "And":
            pending.extend(gateway.items(expression.children()))
        elif kind in ("EqualTo", "EqualNullSafe"):
            sides = gateway.items(expression.children())
            for one, other in (sides, sides[::-1]):
                ids = gateway.referenced_ids(other)
                position = next((i for i, b in enumerate(bound) if one.semanticEquals(b)), None)
                if position is not None and ids and ids <= right and has_literals(other):
                    found.append((position, other))
    return found
