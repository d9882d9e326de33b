"""EXCEPT ALL, INTERSECT ALL: a row stands for equal rows of its inputs, found by their values."""

from __future__ import annotations

from whence import plan as ops
from whence.algebra.witness import Nothing
from whence.spark.gateway import Plan
from whence.spark.instrument.keys import comparable
from whence.spark.instrument.traced import Context, Traced, group_slot


def all_rows(context: Context, operator: ops.Except | ops.Intersect, node: Plan) -> Traced:
    """The operator as it is; equal rows of the left, and for INTERSECT of the right, are groups."""
    columns = comparable(context.gateway, node, context.gateway.output(node))
    traced = Traced(node, {}, Nothing())
    traced = group_slot(context, traced, operator, columns, f"{operator.id}/left")
    if isinstance(operator, ops.Intersect):
        traced = group_slot(context, traced, operator, columns, f"{operator.id}/right")
    return traced
