"""Joins: both sides are used jointly; in a semi join all matching right rows are alternatives."""

from __future__ import annotations

from whence import plan as ops
from whence.algebra.witness import product
from whence.spark import instrument as family
from whence.spark.gateway import Expression, Gateway, Plan
from whence.spark.instrument.traced import Context, Traced, group_slot


def join(context: Context, operator: ops.Join, node: Plan, copied: bool) -> Traced:
    """Dispatch on the type of the join."""
    match operator.type:
        case "anti":
            return _one_sided(context, operator, node, copied)
        case "semi" | "existence":
            return _semi_keyed(context, operator, node, copied)
        case _:
            return _two_sided(context, operator, node)


def _two_sided(context: Context, operator: ops.Join, node: Plan) -> Traced:
    """Inner, outer and cross joins: a row has the slots of both sides, null where extended."""
    left = family.instrument(context, operator.children[0], node.left(), copied=True)
    right = family.instrument(context, operator.children[1], node.right(), copied=True)
    plan = context.gateway.with_children(node, [left.plan, right.plan])
    attributes = {a.name(): a for a in context.gateway.output(plan)}
    slots = {name: attributes[name] for name in (*left.slots, *right.slots)}
    shape = product(left.shape, right.shape)
    return Traced(plan, slots, shape)


def _one_sided(context: Context, operator: ops.Join, node: Plan, copied: bool) -> Traced:
    """The left row alone: an anti join, or a semi join before its right side is attached."""
    left = family.instrument(context, operator.children[0], node.left(), copied=copied)
    return left.over(context.gateway.with_children(node, [left.plan, node.right()]))


def _semi_keyed(context: Context, operator: ops.Join, node: Plan, copied: bool) -> Traced:
    """The left row, and the matching right rows by the left values that the condition looks at."""
    traced = _one_sided(context, operator, node, copied)
    return group_slot(context, traced, operator, bound_expressions(context.gateway, node))


def bound_expressions(gateway: Gateway, node: Plan) -> list[Expression]:
    """The largest parts of a join's condition that look at the left side only.

    l.a + 1 = r.b AND l.c < r.d   →   l.a + 1, l.c
    """
    left = {a.exprId().id() for a in gateway.output(node.left())}
    found: list[Expression] = []

    def visit(expression: Expression) -> None:
        references = {a.exprId().id() for a in gateway.items(expression.references().toSeq())}
        if references and references <= left:
            if not any(expression.semanticEquals(other) for other in found):
                found.append(expression)
        elif references & left:
            for child in gateway.items(expression.children()):
                visit(child)

    condition = node.condition()
    if condition.isDefined():
        visit(condition.get())
    return found
