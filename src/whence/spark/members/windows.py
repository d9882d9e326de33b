"""The rows of a window's partitions, with their ranks and what tells whose value was taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from whence import plan as ops
from whence.algebra.witness import RANK, GroupShape, Taken, between
from whence.spark.gateway import Gateway, Plan
from whence.spark.instrument import Context, instrument
from whence.spark.instrument.keys import comparable
from whence.spark.instrument.windows import Taking, find_taking, rank_column
from whence.spark.members.flat import Bounds, flat, named_keys, restrict


def window(
    context: Context, operator: ops.Window, node: Plan, group: str, bounds: Bounds | None
) -> tuple[Plan, GroupShape]:
    """The rows of each partition with their ranks, and with what tells whose value was taken."""
    gateway = context.gateway
    child = instrument(context, operator.children[0], node.child())
    own = gateway.items(node.partitionSpec())
    partition = comparable(gateway, child.plan, own)
    asked = bounds and bounds.first(gateway, len(partition))
    plan = restrict(gateway, operator.children[0], child.plan, partition, asked)
    order = gateway.items(node.orderSpec())
    if order:
        column = rank_column(gateway, node)
        plan = gateway.window([column], own, order, plan)
        rank = gateway.alias(column.toAttribute(), RANK)
    else:
        rank = gateway.alias(gateway.literal(1), RANK)
    keys = named_keys(gateway, partition)[: len(partition)]
    tests = between(f"k{len(partition)}", f"k{len(partition) + 1}")
    values, taken = _taken(
        gateway, find_taking(gateway, operator, node), len(partition) + len(tests)
    )
    members, shape = flat(gateway, plan, keys, child, group, [rank, *values], tests)
    return members, replace(shape, taken=taken)


def _taken(
    gateway: Gateway, calls: Sequence[Taking], before: int
) -> tuple[list[Any], tuple[Taken, ...]]:
    """What members have of the calls' values, and how it is compared with the key's fields.

    `before` are the fields of the key that come before those of the calls.
    """
    values, taken = [], []
    for call in calls:
        key = field = when = None
        if call.value is not None:
            key, field = f"k{before}", f"v{call.column}"
            values.append(gateway.alias(call.value, field))
            before += 1
        if call.when is not None:
            when = f"w{call.column}"
            values.append(gateway.alias(gateway.default_false(call.when), when))
        taken.append(Taken(call.column, key, field, call.nulls, when))
    return values, tuple(taken)
