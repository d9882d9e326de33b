"""Joins: both sides are used jointly; in a semi join all matching right rows are alternatives."""

from __future__ import annotations

from dataclasses import dataclass

from whence import plan as ops
from whence.algebra.witness import Comparison, product
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
    condition = split_condition(context.gateway, node)
    if condition is None:
        return group_slot(context, traced, operator, bound_expressions(context.gateway, node))
    return group_slot(context, traced, operator, [c.left for c in condition.compared])


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of an expression over the left side with one over the right side."""

    left: Expression
    comparison: Comparison
    right: Expression
    nulls: bool
    """Whether null equals null."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A join's condition: comparisons between the sides, equalities first, and the right's own."""

    compared: list[Compared]
    right: list[Expression]


_COMPARISONS: dict[str, tuple[Comparison, Comparison]] = {
    "EqualTo": ("=", "="),
    "EqualNullSafe": ("=", "="),
    "Not": ("<>", "<>"),
    "LessThan": ("<", ">"),
    "LessThanOrEqual": ("<=", ">="),
    "GreaterThan": (">", "<"),
    "GreaterThanOrEqual": (">=", "<="),
}
# What compares in DuckDB as it does in Spark.
_PLAIN = frozenset(
    {"boolean", "tinyint", "smallint", "int", "bigint", "string", "binary", "date", "timestamp"}
)


def split_condition(gateway: Gateway, node: Plan) -> Condition | None:
    """A join's condition as comparisons of both sides; None if it is of another form.

    l.a + 1 = r.b AND l.c < r.d AND r.e > 0   →   l.a + 1 = r.b, l.c < r.d; r.e > 0
    """
    left, right = (gateway.attribute_ids(side.outputSet()) for side in (node.left(), node.right()))
    result = Condition([], [])
    condition = node.condition()
    pending = [condition.get()] if condition.isDefined() else []
    while pending:
        expression = pending.pop(0)
        references = gateway.attribute_ids(expression.references())
        if gateway.kind(expression) == "And":
            pending += gateway.items(expression.children())
        elif references <= right:
            result.right.append(expression)
        else:
            compared = _compared(gateway, expression, left, right)
            if compared is None:
                return None
            result.compared.append(compared)
    result.compared.sort(key=lambda c: c.comparison != "=")
    return result


def _compared(
    gateway: Gateway, expression: Expression, left: set[int], right: set[int]
) -> Compared | None:
    kind = gateway.kind(expression)
    nulls = kind == "EqualNullSafe"
    if kind == "Not":
        expression = expression.child()
        if gateway.kind(expression) != "EqualTo":
            return None
    if kind not in _COMPARISONS:
        return None
    one, other = gateway.items(expression.children())
    sides = [gateway.attribute_ids(side.references()) for side in (one, other)]
    type_name = str(one.dataType().catalogString())
    if not all(sides) or not (type_name in _PLAIN or type_name.startswith("decimal(")):
        return None
    straight, turned = _COMPARISONS[kind]
    if sides[0] <= left and sides[1] <= right:
        return Compared(one, straight, other, nulls)
    if sides[0] <= right and sides[1] <= left:
        return Compared(other, turned, one, nulls)
    return None


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
