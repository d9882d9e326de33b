"""Members of groups that are referred to by key: their rows, with the key beside each.

Every operator that refers to groups has a way to find their members again: the rows of its input
with the same grouping keys, the same partition, or that a semi join's condition matches. The answer
is flat, one row per member, whatever the size of a group.
"""

from __future__ import annotations

from dataclasses import replace

from whence import plan as ops
from whence.algebra.witness import GroupShape
from whence.errors import UnsupportedError
from whence.plan import Operator
from whence.spark.gateway import Plan
from whence.spark.instrument import Context, instrument
from whence.spark.instrument.keys import comparable
from whence.spark.members.flat import Bounds, by_values
from whence.spark.members.groups import aggregate, scalar
from whence.spark.members.joins import semi_join
from whence.spark.members.results import LIMITED_ROOT, ROOT, root
from whence.spark.members.windows import window

__all__ = ["LIMITED_ROOT", "ROOT", "Bounds", "find_members"]


def find_members(
    context: Context, operator: Operator, node: Plan, group: str, bounds: Bounds | None
) -> tuple[Plan, GroupShape]:
    """The members of the groups asked for (all, without bounds) and what they look like.

    `node` is the operator's node, or the subquery's or pipeline's plan for a scalar or root group.
    """
    plan, shape = _find(context, operator, node, group, bounds)
    return plan, replace(shape, scopes=dict(context.scopes))


def _find(
    context: Context, operator: Operator, node: Plan, group: str, bounds: Bounds | None
) -> tuple[Plan, GroupShape]:
    if group in (ROOT, LIMITED_ROOT):
        return root(context, operator, node, group, bounds)
    if group.endswith("/scalar"):
        return scalar(context, operator, node, group)
    match operator:
        case ops.Aggregate():
            return aggregate(context, operator, node, group, bounds)
        case ops.Join():
            return semi_join(context, operator, node, group, bounds)
        case ops.Window():
            return window(context, operator, node, group, bounds)
        case ops.Except() | ops.Intersect():
            side = 0 if group.endswith("/left") else 1
            child = instrument(context, operator.children[side], node.children().apply(side))
            own = context.gateway.output(node.children().apply(side))
            keys = comparable(context.gateway, child.plan, own)
            return by_values(context, operator.children[side], child, keys, group, bounds)
        case _:
            raise UnsupportedError(f"internal: {operator.id} has no groups")
