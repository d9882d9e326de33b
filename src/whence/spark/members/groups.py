"""Members of aggregates, and the rows behind scalar subqueries."""

from __future__ import annotations

from typing import Any

from whence import plan as ops
from whence.algebra.witness import GroupShape, Members
from whence.plan import Operator
from whence.spark.gateway import Gateway, Plan
from whence.spark.instrument import Context, Traced, instrument
from whence.spark.instrument.groups import find_flags, grouping, listed
from whence.spark.instrument.keys import comparable, is_merged
from whence.spark.members.flat import Bounds, by_values, flat, named_keys, restrict


def scalar(context: Context, operator: Operator, node: Plan, group: str) -> tuple[Plan, GroupShape]:
    """The rows behind a scalar subquery; those of a plain global aggregate are not even listed."""
    gateway = context.gateway
    while isinstance(operator, ops.Project | ops.View) and not operator.subqueries:
        operator, node = operator.children[0], node.child()
    if isinstance(operator, ops.Aggregate) and not operator.keys and not operator.subqueries:
        return aggregate(context, operator, node, group, None)
    traced = instrument(context, operator, node)
    key = gateway.alias(gateway.literal(True), "k0")
    return flat(gateway, traced.plan, [key], traced, group)


def aggregate(
    context: Context, operator: ops.Aggregate, node: Plan, group: str, bounds: Bounds | None
) -> tuple[Plan, GroupShape]:
    """The rows with the same grouping keys, and which of them each aggregate took."""
    gateway = context.gateway
    child = instrument(context, operator.children[0], node.child())
    keys = grouping(gateway, node)
    merged = any(map(is_merged, keys))  # only grouping tells which rows belong together
    if not merged:
        keys = comparable(gateway, child.plan, keys)
    if not merged and not find_flags(gateway, operator, node):
        return by_values(context, operator.children[0], child, keys, group, bounds)
    rows = child.plan
    if not merged:
        rows = restrict(gateway, operator.children[0], rows, keys, bounds)
    restricted = child.over(rows)
    named = named_keys(gateway, keys)
    traced = listed(context, operator, node, named, restricted)
    keyed = [key.toAttribute() for key in named]
    if not isinstance(traced.shape, Members):
        return flat(gateway, traced.plan, keyed, traced, group)
    return _exploded(gateway, traced, keyed, traced.shape, group)


def _exploded(
    gateway: Gateway, traced: Traced, keys: list[Any], shape: Members, group: str
) -> tuple[Plan, GroupShape]:
    """A listed group as one row per member."""
    item = gateway.fresh("i")
    plan = gateway.resolved_project(keys, traced.plan, [(item, f"explode(`{shape.slot}`)")])
    names = [str(key.name()) for key in keys]
    kept = [gateway.attribute(plan, name) for name in names]
    if shape.is_bare:
        texts = [(shape.bare_slot, f"`{item}`")]
    else:
        inner = [n for n, _ in _element_fields(gateway, plan, item)]
        texts = [(name, f"`{item}`.`{name}`") for name in inner]
    plan = gateway.resolved_project(kept, plan, texts)
    return plan, GroupShape(group, tuple(names), shape.element, shape.flags, chosen=shape.chosen)


def _element_fields(gateway: Gateway, plan: Plan, item: str) -> list[tuple[str, Any]]:
    struct = gateway.attribute(plan, item).dataType()
    return [(str(f.name()), f.dataType()) for f in struct.fields()]
