"""Rows of the whole result, found again by their values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from whence import plan as ops
from whence.algebra.witness import GroupShape, order_name
from whence.plan import Operator
from whence.spark.gateway import Gateway, Plan
from whence.spark.instrument import Context, instrument
from whence.spark.members.flat import Bounds, apart, by_values, flat, is_float, matching

ROOT = "root"
LIMITED_ROOT = "root/limited"
_UNORDERED = {"variant", "interval"}


def root(
    context: Context, operator: Operator, node: Plan, group: str, bounds: Bounds | None
) -> tuple[Plan, GroupShape]:
    """Rows of the whole result, told by their values; `kid` is the number of the row asked for.

    Rows that are known to be in the result are traced without the limits and sorts on top of it,
    unless equal rows are beyond the limit.
    """
    gateway = context.gateway
    columns = gateway.output(node)
    on_top = ops.Sort | ops.Limit | ops.Offset | ops.View | ops.Hint
    passed = []
    while group == ROOT and isinstance(operator, on_top):
        passed.append(operator.id)
        operator, node = operator.children[0], node.child()
    traced = instrument(context, operator, node)
    context.scopes.update(dict.fromkeys(passed, context.scopes[operator.id]))
    if bounds is None:
        return by_values(context, operator, traced, columns, group, None)
    kid, *wanted = gateway.output(bounds.plan)
    plan = apart(gateway, operator, traced.plan)
    if bounds.literals is not None:
        plan = matching(gateway, plan, columns, [row[1:] for row in bounds.literals])
    collects = any(isinstance(op, ops.Aggregate) and op.collects for op in ops.walk(operator))
    plan, left = _comparable(gateway, plan, columns, columns, collects)
    asked, right = _comparable(gateway, bounds.plan, wanted, columns, collects)
    tests = [_same(gateway, c, w) for c, w in zip(left, right, strict=True) if not _is_void(c)]
    joined = gateway.join(plan, asked, "inner", gateway.conjunction(tests))
    lists = {i: (w, columns[i]) for i, w in enumerate(wanted) if collects and _is_list(columns[i])}
    joined, orders = _orders(gateway, joined, lists)
    members, shape = flat(gateway, joined, [kid], traced, group, orders)
    return members, replace(shape, orders=tuple(lists))


def _orders(
    gateway: Gateway, plan: Plan, lists: Mapping[int, tuple[Any, Any]]
) -> tuple[Plan, list[Any]]:
    """Where the items of stored lists are in the lists that came out again; null if in place.

    The first of several equal items is the first of them again, and so on.
    """
    output = gateway.output(plan)
    aliases, texts = [], []
    for i, (stored, again) in lists.items():
        old = gateway.alias(gateway.as_type(stored, again.dataType()), gateway.fresh("c"))
        new = gateway.alias(again, gateway.fresh("c"))
        aliases += [old, new]
        texts.append((order_name(i), _order(str(old.name()), str(new.name()))))
    if not lists:
        return plan, []
    named = gateway.project([*output, *aliases], plan)
    wide = gateway.resolved_project(output, named, texts)
    return wide, [gateway.attribute(wide, name) for name, _ in texts]


def _order(stored: str, again: str) -> str:
    """SQL for the places of equal items in two lists of the same items."""
    sides = [
        f"sort_array(transform(`{name}`, (v, p) -> named_struct('v', v, 'p', p)))"
        for name in (stored, again)
    ]
    pair = "(s, a) -> named_struct('stored', s.p, 'again', a.p)"
    return f"CASE WHEN NOT `{stored}` <=> `{again}` THEN zip_with({', '.join(sides)}, {pair}) END"


def _is_list(value: Any) -> bool:
    """Whether a value is a list of items that can be sorted."""
    kind = str(value.dataType().catalogString())
    unsorted = {"map", "void", *_UNORDERED} & set(re.split(r"\W", kind))
    return kind.startswith("array<") and not unsorted


def _comparable(
    gateway: Gateway, plan: Plan, columns: Sequence[Any], like: Sequence[Any], collects: bool
) -> tuple[Plan, list[Any]]:
    """The plan with columns that SQL cannot compare (maps, nulls in lists) also as JSON text.

    Where lists are collected, which may come out in another order, they are sorted first.
    """
    kinds = [str(c.dataType().catalogString()) for c in like]
    forms = {}
    for i, kind in enumerate(kinds):
        if kind != "void" and ("map<" in kind or "void" in kind):
            forms[i] = "to_json(struct(`{}` AS v))"
        elif collects and _is_list(like[i]):
            forms[i] = "sort_array(`{}`)"
    if not forms:
        return plan, list(columns)
    output = gateway.output(plan)
    aliases = {i: gateway.alias(columns[i], gateway.fresh("c")) for i in forms}
    named = gateway.project([*output, *aliases.values()], plan)
    texts = {i: (gateway.fresh("j"), forms[i].format(alias.name())) for i, alias in aliases.items()}
    wide = gateway.resolved_project(output, named, list(texts.values()))
    found = {i: gateway.attribute(wide, name) for i, (name, _) in texts.items()}
    return wide, [found.get(i, column) for i, column in enumerate(columns)]


def _same(gateway: Gateway, value: Any, wanted: Any) -> Any:
    """Equality that lets floating-point sums differ in the order of their additions."""
    if is_float(value):
        return gateway.close_to(value, wanted)
    if str(value.dataType().catalogString()) == "interval":
        value = gateway.cast(value, "string")
    return gateway.null_safe_equal(value, gateway.as_type(wanted, value.dataType()))


def _is_void(value: Any) -> bool:
    return str(value.dataType().catalogString()) == "void"
