"""Scalar subqueries: the expression stays where it is for its value, its witness is joined once."""

from __future__ import annotations

from whence.plan import Operator
from whence.spark.instrument.traced import Context, Traced, group_slot


def join_subqueries(context: Context, operator: Operator, traced: Traced) -> Traced:
    """`traced` jointly with the rows behind each scalar subquery in the operator's expressions.

    What all rows share is stored once: the slot only says that the group is used.
    """
    for subquery in operator.subqueries:
        traced = group_slot(context, traced, subquery, [], f"{subquery.id}/scalar")
    return traced
