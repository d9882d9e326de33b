"""Windows: the row itself, jointly with the rows of its frame.

A partition is shared by its rows, so it is referred to by key. The frame is a range of ranks in it:
ranks do not depend on how Spark orders ties, so a frame found again later is the same one. Where
ties stand at the edge of a ROWS frame the range takes in all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from whence import plan as ops
from whence.plan import AT_A_PLACE, CHOOSING
from whence.spark import instrument as family
from whence.spark.gateway import Expression, Gateway, Plan
from whence.spark.instrument.keys import comparable
from whence.spark.instrument.traced import Context, Traced, group_slot

# Their value depends on the size of the partition, whatever their frame says.
_WHOLE_PARTITION = frozenset({"NTile", "PercentRank", "CumeDist"})
_LAST_RANK = 2**31 - 1
_TAKES = CHOOSING | AT_A_PLACE
_NOT_COMPARED = re.compile(r"\b(map|void|interval|variant)\b")
_SHORT = re.compile(r"(tiny|small|big)?int|float|double|boolean|date|timestamp.*|decimal.*")


@dataclass(frozen=True, slots=True)
class Taking:
    """A call that takes a value of some rows of its frame, or passes over some of them.

    `value` is what a row would give, `result` what was taken, or hashes of these: the rows that had
    it gave it. With `nulls` a null is a value like any other. `when` is a FILTER clause; `beside` a
    column that the result needs, which the window computes as well.
    """

    column: int
    value: Expression | None
    result: Any | None
    nulls: bool
    when: Expression | None
    beside: Any | None = None


def window(context: Context, operator: ops.Window, node: Plan, copied: bool) -> Traced:
    """The operator as it is, plus the key of each row's partition and the ranks of its frames."""
    gateway = context.gateway
    child = family.instrument(context, operator.children[0], node.child(), copied=copied)
    frames = _frames(gateway, node)
    calls = [call.column for call in operator.functions]
    taking = find_taking(gateway, operator, node)
    beside = [t.beside for t in taking if t.beside is not None]
    asked = gateway.with_arguments(node, {0: gateway.seq(node.windowExpressions(), beside)})
    if any(frame is None for frame in frames):
        plan = gateway.with_children(asked, [child.plan])
        whole = [c for c, frame in zip(calls, frames, strict=True) if frame is None]
        ranges = [(gateway.literal(1), gateway.literal(_LAST_RANK), whole)]
    else:
        plan, ranges = _ranges(gateway, asked, child.plan, list(zip(calls, frames, strict=True)))
    grouped = child.over(plan)
    partition = comparable(gateway, plan, gateway.items(node.partitionSpec()))
    results = [t.result for t in taking if t.result is not None]
    for low, high, own in ranges:
        keys = [*partition, low, high, *results]
        made = () if len(own) == len(calls) else tuple(own)
        grouped = group_slot(context, grouped, operator, keys, columns=made)
    slots = list(grouped.slots.values())
    return grouped.over(gateway.project(node.output(), grouped.plan, slots))


def find_taking(gateway: Gateway, operator: ops.Window, node: Plan) -> list[Taking]:
    """The calls whose rows can be told by their values, in the order of the columns."""
    picking = {call.column for call in operator.functions if call.picks}
    made = operator.output[len(operator.output) - int(node.windowExpressions().size()) :]
    found = []
    for column, alias in zip(made, gateway.items(node.windowExpressions()), strict=True):
        expression = alias.child()
        if column.number not in picking or gateway.kind(expression) != "WindowExpression":
            continue
        taking = _taking(gateway, column.number, alias, expression)
        if taking is not None:
            found.append(taking)
    return found


def _taking(gateway: Gateway, column: int, alias: Any, call: Expression) -> Taking | None:
    when, function = None, call.windowFunction()
    if gateway.kind(function) == "AggregateExpression":
        condition = function.filter()
        when = condition.get() if condition.isDefined() else None
        function = function.aggregateFunction()
    kind = gateway.kind(function)
    if kind not in _TAKES:
        return Taking(column, None, None, False, when)
    value, *others = gateway.items(function.children())
    if _NOT_COMPARED.search(str(value.dataType().catalogString())):
        return None
    nulls = kind in ("First", "Last", "AnyValue", "NthValue") and not function.ignoreNulls()
    if kind in ("MinBy", "MaxBy"):
        # The row had the value, and the least or most of what it is taken by.
        spec, extreme = call.windowSpec(), gateway.extreme(kind[:3], others[0], when)
        frame = (spec.partitionSpec(), spec.orderSpec(), spec.frameSpecification())
        most = gateway.alias(gateway.over(extreme, *frame), gateway.fresh("e"))
        given, taken = (
            gateway.hash(gateway.struct([("v", v), ("by", by)]))
            for v, by in ((value, others[0]), (alias.toAttribute(), most.toAttribute()))
        )
        return Taking(column, given, taken, False, when, most)
    given, taken = (_brief(gateway, v) for v in (value, alias.toAttribute()))
    return Taking(column, given, taken, nulls, when)


def _brief(gateway: Gateway, value: Expression) -> Expression:
    """A value, or a hash in place of one that may be long."""
    short = _SHORT.fullmatch(str(value.dataType().catalogString()))
    return value if short else gateway.hash(value)


def _frames(gateway: Gateway, node: Plan) -> list[Any]:
    """The frame of each window expression; None for the whole partition."""
    frames = []
    for expression in _window_expressions(gateway, node):
        frame = expression.windowSpec().frameSpecification()
        function = expression.windowFunction()
        kind = gateway.kind(function)
        whole = gateway.items(node.orderSpec()) == [] or kind in _WHOLE_PARTITION
        if not whole and kind in ("Lag", "Lead") and function.ignoreNulls():
            whole = True
        unbounded = (
            gateway.kind(frame) == "SpecifiedWindowFrame"
            and "UnboundedPreceding" in gateway.kind(frame.lower())
            and "UnboundedFollowing" in gateway.kind(frame.upper())
        )
        frames.append(None if whole or unbounded else frame)
    return frames


def _window_expressions(gateway: Gateway, node: Plan) -> list[Expression]:
    found: list[Expression] = []

    def visit(expression: Expression) -> None:
        if gateway.kind(expression) == "WindowExpression":
            found.append(expression)
            return
        for child in gateway.items(expression.children()):
            visit(child)

    for expression in gateway.items(node.windowExpressions()):
        visit(expression)
    return found


def _ranges(
    gateway: Gateway, node: Plan, child: Plan, frames: list[tuple[int, Any]]
) -> tuple[Plan, list[tuple[Expression, Expression, list[int]]]]:
    """The window over ranked rows; the lowest and highest rank in each frame, and its columns."""
    partition, order = node.partitionSpec(), node.orderSpec()
    rank = rank_column(gateway, node)
    ranked = gateway.window([rank], gateway.items(partition), gateway.items(order), child)
    seen: list[tuple[Any, list[int]]] = []
    edges: list[tuple[Any, Any]] = []
    for column, frame in frames:
        known = next((columns for other, columns in seen if frame.equals(other)), None)
        if known is not None:
            known.append(column)
            continue
        seen.append((frame, [column]))
        functions = [gateway.extreme(kind, rank.toAttribute(), None) for kind in ("Min", "Max")]
        low, high = (
            gateway.alias(gateway.over(function, partition, order, frame), gateway.fresh("e"))
            for function in functions
        )
        edges.append((low, high))
    added = [edge for pair in edges for edge in pair]
    expressions = gateway.seq(node.windowExpressions(), added)
    plan = gateway.with_arguments(node, {0: expressions, 3: ranked})
    return plan, [
        # A frame without rows has no ranks: from the first to the one before it.
        (gateway.default(low.toAttribute(), 1), gateway.default(high.toAttribute(), 0), columns)
        for (low, high), (_, columns) in zip(edges, seen, strict=True)
    ]


def rank_column(gateway: Gateway, node: Plan) -> Any:
    """`rank() OVER` the window's partition and order, as a column."""
    order = node.orderSpec()
    function = gateway.rank(gateway.items(order))
    over = gateway.over(function, node.partitionSpec(), order, function.frame())
    return gateway.alias(over, gateway.fresh("r"))
