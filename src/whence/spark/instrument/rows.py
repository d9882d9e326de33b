"""Operators that keep a row what it is: its witness is handed on."""

from __future__ import annotations

from whence.algebra.witness import Nothing
from whence.plan import Operator, Sample
from whence.spark import instrument as family
from whence.spark.gateway import Plan
from whence.spark.instrument.traced import Context, Traced


def one_row(node: Plan) -> Traced:
    """A row made from nothing, as in `SELECT 1`."""
    return Traced(node, {}, Nothing())


def pass_through(context: Context, operator: Operator, node: Plan, copied: bool) -> Traced:
    """Filter, sort, limit and the like: the rows that remain keep their slots.

    A sample with replacement may give a row several times.
    """
    again = isinstance(operator, Sample) and operator.replacement
    child = family.instrument(context, operator.children[0], node.child(), copied=copied or again)
    return child.over(context.gateway.with_children(node, [child.plan]))


def project(context: Context, operator: Operator, node: Plan, copied: bool) -> Traced:
    """A projection carries the slots along.

    SELECT a + 1 AS b FROM t   →   SELECT a + 1 AS b, slots FROM t
    """
    gateway = context.gateway
    child = family.instrument(context, operator.children[0], node.child(), copied=copied)
    expressions = gateway.seq(node.projectList(), child.slots.values())
    return child.over(gateway.with_arguments(node, {0: expressions, 1: child.plan}))
