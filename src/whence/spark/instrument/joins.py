"""Joins: both sides are used jointly; in a semi join all matching right rows are alternatives."""

from __future__ import annotations

from dataclasses import dataclass

from whence import plan as ops
from whence.algebra.witness import Comparison, product
from whence.plan import Operator
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
    slots = {n: context.gateway.attribute(plan, n) for n in (*left.slots, *right.slots)}
    shape = product(left.shape, right.shape)
    return Traced(plan, slots, shape)


def _one_sided(context: Context, operator: ops.Join, node: Plan, copied: bool) -> Traced:
    """An anti join: the left row alone."""
    left = family.instrument(context, operator.children[0], node.left(), copied=copied)
    right = untraced(context.gateway, operator.children[1], node.right())
    return left.over(context.gateway.with_children(node, [left.plan, right]))


def _semi_keyed(context: Context, operator: ops.Join, node: Plan, copied: bool) -> Traced:
    """The left row, and the matching right rows by the left values that the condition looks at."""
    gateway = context.gateway
    left = family.instrument(context, operator.children[0], node.left(), copied=copied)
    right = untraced(gateway, operator.children[1], node.right())
    condition = split_condition(gateway, node)
    plan = _semi(gateway, operator, node, condition, left.plan, right)
    if condition is None:
        bound = bound_expressions(gateway, node)
    else:
        bound = [c.left for c in condition.compared]
    return group_slot(context, left.over(plan), operator, bound)


def untraced(gateway: Gateway, operator: Operator, node: Plan) -> Plan:
    """A plan without slots, its semi joins as Spark can best work with them."""
    if not any(isinstance(op, ops.Join) and op.type == "semi" for op in ops.walk(operator)):
        return node
    pairs = zip(operator.children, gateway.items(node.children()), strict=True)
    kids = [untraced(gateway, child, kid) for child, kid in pairs]
    if isinstance(operator, ops.Join):
        condition = split_condition(gateway, node)
        return _semi(gateway, operator, node, condition, *kids)
    return gateway.with_children(node, kids) if kids else node


def _semi(
    gateway: Gateway,
    operator: ops.Join,
    node: Plan,
    condition: Condition | None,
    left: Plan,
    right: Plan,
) -> Plan:
    """A join over other inputs; `left values IN (SELECT right values)` where it says no more.

    Spark infers of equal columns elsewhere what a filter says; what a join says it does not.
    """
    if operator.type != "semi" or condition is None or not _is_membership(node, condition):
        return gateway.with_children(node, [left, right])
    named = [gateway.alias(c.right, gateway.fresh("r")) for c in condition.compared]
    among = gateway.is_in([c.left for c in condition.compared], gateway.project(named, right))
    return gateway.filter(among, left)


def _is_membership(node: Plan, condition: Condition) -> bool:
    plain = all(c.comparison == "=" and not c.nulls for c in condition.compared)
    hinted = bool(str(node.hint().toString()))
    return bool(condition.compared) and plain and not condition.right and not hinted


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
