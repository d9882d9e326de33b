"""Unions: each row comes from one branch; a slot holds the branch's number.

Branches share slots of the same type, so a union of many branches is not wider than its widest one.
"""

from __future__ import annotations

from collections.abc import Mapping

from whence import plan as ops
from whence.algebra.witness import Choice, Nothing, Witness, rename
from whence.spark import instrument as family
from whence.spark.gateway import Gateway, Plan
from whence.spark.instrument.traced import Context, Traced


def union(context: Context, operator: ops.Union, node: Plan, copied: bool) -> Traced:
    """SELECT … FROM a UNION ALL SELECT … FROM b, each branch with its number and shared slots."""
    gateway = context.gateway
    branches = [
        family.instrument(context, child, kid, copied=copied)
        for child, kid in zip(operator.children, gateway.items(node.children()), strict=True)
    ]
    if all(isinstance(branch.shape, Nothing) for branch in branches):
        return Traced(node, {}, Nothing())
    columns, mappings = _shared_columns(gateway, branches)
    for child, mapping in zip(operator.children, mappings, strict=True):
        for inner in ops.walk(child):
            own = context.scopes.get(inner.id, ())
            context.scopes[inner.id] = tuple(mapping.get(name, name) for name in own)
    tag = gateway.fresh("b")
    kids = [
        _branch(gateway, number, kid, branch, tag, columns, mapping)
        for number, (kid, branch, mapping) in enumerate(
            zip(gateway.items(node.children()), branches, mappings, strict=True)
        )
    ]
    plan = gateway.with_children(node, kids)
    tail = gateway.items(plan.output().takeRight(1 + len(columns)))
    slots = dict(zip([tag, *columns], tail, strict=True))
    shapes: list[Witness] = [
        rename(branch.shape, mapping) for branch, mapping in zip(branches, mappings, strict=True)
    ]
    return Traced(plan, slots, Choice(tag, tuple(shapes)))


def _shared_columns(
    gateway: Gateway, branches: list[Traced]
) -> tuple[dict[str, object], list[dict[str, str]]]:
    """Names and types of the shared slots, and for each branch which of its slots goes where."""
    columns: dict[str, object] = {}
    mappings: list[dict[str, str]] = []
    types: dict[str, str] = {}
    for branch in branches:
        free = dict(types)
        mapping: dict[str, str] = {}
        for name, attribute in branch.slots.items():
            kind = str(attribute.dataType().catalogString())
            shared = next((column for column, t in free.items() if t == kind), None)
            if shared is None:
                shared = gateway.fresh("u")
                columns[shared] = attribute.dataType()
                types[shared] = kind
            free.pop(shared, None)
            mapping[name] = shared
        mappings.append(mapping)
    return columns, mappings


def _branch(
    gateway: Gateway,
    number: int,
    kid: Plan,
    branch: Traced,
    tag: str,
    columns: Mapping[str, object],
    mapping: Mapping[str, str],
) -> Plan:
    sources = {shared: branch.slots[name] for name, shared in mapping.items()}
    aliases = [gateway.alias(gateway.literal(number), tag)]
    for column, kind in columns.items():
        value = sources.get(column)
        aliases.append(gateway.alias(gateway.null(kind) if value is None else value, column))
    return gateway.project(kid.output(), branch.plan, aliases)
