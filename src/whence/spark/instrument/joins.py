"""Joins: both sides are used jointly; in a semi join all matching right rows are alternatives."""

from __future__ import annotations

from typing import Any

from whence import plan as ops
from whence.algebra.witness import Members, bounded, product
from whence.spark import instrument as family
from whence.spark.gateway import Expression, Gateway, Plan
from whence.spark.instrument.groups import collect
from whence.spark.instrument.traced import Context, Traced, group_slot, own_slots


def join(context: Context, operator: ops.Join, node: Plan, copied: bool) -> Traced:
    """Dispatch on the type of the join."""
    match operator.type:
        case "anti":
            return _one_sided(context, operator, node, copied)
        case "semi" if context.policy == "list" and _is_one_table(operator.children[0]):
            return _semi_listed(context, operator, node, copied)
        case "semi" | "existence":
            return _semi_keyed(context, operator, node, copied)
        case _:
            return _two_sided(context, operator, node)


def _is_one_table(operator: ops.Operator) -> bool:
    """Whether no join stands below: else Spark moves the semi join down, which a list prevents."""
    return not any(isinstance(op, ops.Join) for op in ops.walk(operator))


def _two_sided(context: Context, operator: ops.Join, node: Plan) -> Traced:
    """Inner, outer and cross joins: a row has the slots of both sides, null where extended."""
    left = family.instrument(context, operator.children[0], node.left(), copied=True)
    right = family.instrument(context, operator.children[1], node.right(), copied=True)
    plan = context.gateway.with_children(node, [left.plan, right.plan])
    attributes = {a.name(): a for a in context.gateway.output(plan)}
    slots = {name: attributes[name] for name in (*left.slots, *right.slots)}
    shape = product(left.shape, right.shape)
    return Traced(plan, slots, shape, left.identifying and right.identifying)


def _one_sided(context: Context, operator: ops.Join, node: Plan, copied: bool) -> Traced:
    """The left row alone: an anti join, or a semi join before its right side is attached."""
    left = family.instrument(context, operator.children[0], node.left(), copied=copied)
    return left.over(context.gateway.with_children(node, [left.plan, node.right()]))


def _semi_keyed(context: Context, operator: ops.Join, node: Plan, copied: bool) -> Traced:
    """The left row, and the matching right rows by the left values that the condition looks at."""
    traced = _one_sided(context, operator, node, copied)
    return group_slot(context, traced, operator, bound_expressions(context.gateway, node))


def _semi_listed(context: Context, operator: ops.Join, node: Plan, copied: bool) -> Traced:
    """The left row with its matching right rows listed, in the same job.

    left LEFT SEMI JOIN right ON c
      →  SELECT first(left columns), collect_list(right slots)
         FROM left JOIN right ON c GROUP BY left slots, left join keys

    Grouping by the join keys as well lets Spark reuse the join's partitioning. It needs left slots
    that tell rows apart and can be grouped by, and a place where the list is not copied. Without
    a left side in the condition all rows have the same matches, which are stored once instead.
    """
    gateway = context.gateway
    left = family.instrument(context, operator.children[0], node.left(), copied=True)
    copies = copied or not bound_expressions(gateway, node)
    if copies or not left.identifying or not bounded(left.shape) or not left.slots:
        return _semi_keyed(context, operator, node, copied)
    right = family.instrument(context, operator.children[1], node.right(), copied=True)
    if not own_slots(right):
        return _semi_keyed(context, operator, node, copied)
    condition = node.condition()
    inner = gateway.join(
        left.plan, right.plan, "inner", condition.get() if condition.isDefined() else None
    )
    keys = [a for a in _left_join_keys(gateway, node) if _groupable(a)]
    key_ids = {a.exprId().id() for a in keys}
    slot_ids = {a.exprId().id() for a in left.slots.values()}
    grouping = [*left.slots.values(), *keys]
    columns = []
    for attribute in gateway.output(left.plan):
        expr_id = attribute.exprId().id()
        if expr_id in key_ids or expr_id in slot_ids:
            columns.append(attribute)
        else:
            first = gateway.first(attribute)
            columns.append(gateway.alias(first, attribute.name(), attribute.exprId()))
    name = gateway.fresh("m")
    alias = gateway.alias(collect(gateway, own_slots(right), ()), name)
    plan = gateway.aggregate(grouping, [*columns, alias], inner)
    plan = gateway.project([*gateway.output(left.plan), alias.toAttribute()], plan)
    members = Members(name, operator.id, right.shape)
    slots = {**left.slots, name: alias.toAttribute()}
    return Traced(plan, slots, product(left.shape, members), True)


def _left_join_keys(gateway: Gateway, node: Plan) -> list[Any]:
    """Left attributes that stand alone on one side of an equality in the condition."""
    left = {a.exprId().id() for a in gateway.output(node.left())}
    found: dict[int, Any] = {}
    condition = node.condition()
    pending = [condition.get()] if condition.isDefined() else []
    while pending:
        expression = pending.pop()
        kind = gateway.kind(expression)
        if kind == "And":
            pending.extend(gateway.items(expression.children()))
        elif kind in ("EqualTo", "EqualNullSafe"):
            for side in gateway.items(expression.children()):
                if gateway.kind(side) == "AttributeReference" and side.exprId().id() in left:
                    found[side.exprId().id()] = side
    return list(found.values())


def _groupable(attribute: Any) -> bool:
    return "map<" not in attribute.dataType().catalogString()


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
