"""Scalar subqueries: the expression stays where it is for its value, its witness is joined once."""

from __future__ import annotations

from whence import plan as ops
from whence.algebra.witness import Row
from whence.plan import Operator
from whence.spark.instrument.traced import Context, Traced, group_slot, with_slot


def join_subqueries(context: Context, operator: Operator, traced: Traced) -> Traced:
    """`traced` jointly with the rows behind each scalar subquery in the operator's expressions.

    What all rows share is stored once: the slot only says that the group is used. A subquery that
    was captured as a step of its own has at most one row, whose locator is known.
    """
    gateway = context.gateway
    for subquery in operator.subqueries:
        inner = subquery
        while isinstance(inner, ops.Project) and not inner.subqueries:
            inner = inner.children[0]
        if isinstance(inner, ops.Source) and context.rows.get(inner.id) == 1:
            name = gateway.fresh("w")
            locator = gateway.cast(gateway.literal(0), "bigint")
            traced = with_slot(context, traced, name, locator, Row(name, inner.id))
        elif not (isinstance(inner, ops.Source) and context.rows.get(inner.id) == 0):
            traced = group_slot(context, traced, subquery, [], f"{subquery.id}/scalar")
    return traced
