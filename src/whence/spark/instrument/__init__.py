"""How each family of operators computes its witness: one module per family.

`instrument` walks whence's plan and Spark's normalised plan side by side and makes the second plan
that gives the same rows plus the slots of their witnesses. `copied` is true where an operator above
may copy rows: there, groups are referred to by key instead of being listed.
"""

from __future__ import annotations

from typing import assert_never

from whence import plan as ops
from whence.algebra.witness import slots
from whence.errors import UnsupportedError
from whence.plan import Operator
from whence.spark.gateway import Plan
from whence.spark.instrument import groups, joins, rows, sets, unions, unnest, windows
from whence.spark.instrument.subqueries import join_subqueries
from whence.spark.instrument.traced import Context, Traced


def instrument(context: Context, operator: Operator, node: Plan, *, copied: bool = False) -> Traced:
    """The traced form of an operator, given its node in Spark's plan."""
    traced = join_subqueries(context, operator, _instrument(context, operator, node, copied))
    context.scopes[operator.id] = slots(traced.shape)
    return traced


def _instrument(context: Context, operator: Operator, node: Plan, copied: bool) -> Traced:
    match operator:
        case ops.Source():
            return context.leaves[operator.id]
        case ops.OneRow():
            return rows.one_row(node)
        case ops.View():
            return instrument(context, operator.children[0], node.child(), copied=copied)
        case ops.Project():
            return rows.project(context, operator, node, copied)
        case (
            ops.Filter()
            | ops.Sort()
            | ops.Limit()
            | ops.Offset()
            | ops.Tail()
            | ops.Sample()
            | ops.Number()
            | ops.Repartition()
            | ops.Hint()
            | ops.Observe()
        ):
            return rows.pass_through(context, operator, node, copied)
        case ops.Join():
            return joins.join(context, operator, node, copied)
        case ops.Union():
            return unions.union(context, operator, node, copied)
        case ops.Aggregate():
            return groups.aggregate(context, operator, node, copied)
        case ops.Window():
            return windows.window(context, operator, node, copied)
        case ops.Generate():
            return unnest.generate(context, operator, node)
        case ops.Expand():
            return unnest.expand(context, operator, node)
        case ops.Except() | ops.Intersect():
            return sets.all_rows(context, operator, node)
        case ops.MapBatches() | ops.MapGroups() | ops.MapCogroups():
            raise UnsupportedError(f"internal: {operator.id} must be cut before instrumentation")
        case ops.ArrayFunction():
            raise UnsupportedError(f"internal: {operator.id} does not run in Spark")
        case _:
            assert_never(operator)


__all__ = ["Context", "Traced", "instrument"]
