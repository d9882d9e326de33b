"""Plans that outlive their session: taken apart to bytes, put together again, given other leaves.

Relations and subqueries do not survive Java serialisation, so they are taken out: a leaf becomes an
empty local relation with the same attributes, a scalar subquery a placeholder whose plan is stored
beside. Putting a plan together gives each leaf a relation of this session, attribute ids unchanged;
new attributes are kept from having the same ids.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from whence.errors import ArchiveError, EngineError
from whence.plan import (
    Except,
    Intersect,
    MapBatches,
    MapCogroups,
    MapGroups,
    Number,
    OneRow,
    Operator,
    Source,
    View,
)
from whence.spark.gateway import Expression, Gateway, JavaObject, Plan

_PLACEHOLDER = "__whence_subquery_"

LeafChange = Callable[[Source, Plan], Plan]


def align(gateway: Gateway, operator: Operator, node: Plan) -> Iterator[tuple[Operator, Plan]]:
    """Operators beside their nodes in Spark's plan, in the order of `plan.walk`."""
    yield operator, node
    if operator.subqueries:
        inner = gateway.items(node.subqueries())
        for subquery, plan in zip(operator.subqueries, inner, strict=True):
            yield from align(gateway, subquery, plan)
    if operator.children:
        kids = gateway.items(node.children())
        for child, kid in zip(operator.children, kids, strict=True):
            yield from align(gateway, child, kid)


def with_leaves(gateway: Gateway, operator: Operator, node: Plan, change: LeafChange) -> Plan:
    """The plan with each source's node replaced, in subqueries too."""

    def subquery(position: int, expression: Expression) -> Expression:
        inner = operator.subqueries[position]
        return expression.withNewPlan(with_leaves(gateway, inner, expression.plan(), change))

    if isinstance(operator, Source):
        return change(operator, node)
    if isinstance(operator, OneRow):
        return node
    kids = gateway.items(node.children())
    fresh = [
        with_leaves(gateway, child, kid, change)
        for child, kid in zip(operator.children, kids, strict=True)
    ]
    node = gateway.with_children(node, fresh) if kids else node
    if operator.subqueries:
        node = gateway.map_subqueries(node, subquery)
    return node


def to_bytes(gateway: Gateway, operator: Operator, node: Plan) -> bytes:
    """A plan as bytes, without its relations."""
    parts: list[bytes] = []

    def take_apart(op: Operator, part: Plan) -> Plan:
        if isinstance(op, Source):
            return gateway.empty_relation(part.output())
        kids = gateway.items(part.children())
        fresh = [take_apart(c, k) for c, k in zip(op.children, kids, strict=True)]
        if isinstance(op, View | Number):
            # A view's node refers to the session's catalog; a projection hands rows on as well. A
            # number's node cannot be serialised; a projection of the same columns stands for it.
            return gateway.project(part.output(), fresh[0])
        if isinstance(op, Except | Intersect):
            # Java cannot read these back; a union of the same inputs stands for them.
            return gateway.union(fresh)
        part = gateway.with_children(part, fresh) if kids else part
        if not op.subqueries:
            return part

        def subquery(position: int, expression: Expression) -> Expression:
            inner = take_apart(op.subqueries[position], expression.plan())
            parts.append(gateway.serialise(inner))
            return gateway.new_attribute(f"{_PLACEHOLDER}{len(parts) - 1}", expression.dataType())

        return gateway.map_subqueries(part, subquery)

    top = _opaque_parts(gateway, operator, node)
    inputs = [(operator, node)]
    if top is not None:
        inputs = list(zip(operator.children, gateway.items(node.children()), strict=True))
    mains = [gateway.serialise(take_apart(op, part)) for op, part in inputs]
    stored = {
        "spark": gateway.version,
        "ids": gateway.new_id(),
        "top": top and {"class": top[0], "arguments": _text(top[1])},
        "inputs": [_text(main) for main in mains],
        "subqueries": [_text(part) for part in parts],
    }
    return zlib.compress(json.dumps(stored).encode())


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _opaque_parts(gateway: Gateway, operator: Operator, node: Plan) -> tuple[str, bytes] | None:
    """Class and arguments of a Python operator, whose node cannot be serialised as a whole.

    Where an argument is an input, the operator's children stand in for it when it is read back.
    """
    if not isinstance(operator, MapBatches | MapGroups | MapCogroups):
        return None
    kids = gateway.items(node.children())
    values = [node.productElement(i) for i in range(node.productArity())]
    kept = [
        next((f"child {i}" for i, kid in enumerate(kids) if kid.equals(value)), value)
        if isinstance(value, JavaObject)
        else value
        for value in values
    ]
    return gateway.kind(node), gateway.serialise(gateway.seq(kept))


def from_bytes(gateway: Gateway, operator: Operator, data: bytes) -> Plan:
    """The plan that `to_bytes` took apart, its leaves still empty relations."""
    try:
        stored = json.loads(zlib.decompress(data))
    except (zlib.error, ValueError) as error:
        raise ArchiveError(f"a stored plan is damaged: {error}") from error
    try:
        mains = [gateway.deserialise(base64.b64decode(p)) for p in stored["inputs"]]
        parts = [gateway.deserialise(base64.b64decode(p)) for p in stored["subqueries"]]
    except Exception as error:
        raise EngineError(
            f"the stored plan cannot be read by Spark {gateway.version}; it was captured with "
            f"Spark {stored['spark']}, use that version"
        ) from error

    gateway.pass_ids(stored["ids"])

    def put_together(op: Operator, part: Plan) -> Plan:
        if isinstance(op, Source | OneRow):
            return part
        kids = gateway.items(part.children())
        fresh = [put_together(c, k) for c, k in zip(op.children, kids, strict=True)]
        if isinstance(op, Except | Intersect):
            return gateway.set_operation(op.node, fresh, op.all)
        if isinstance(op, Number):
            return gateway.numbered(gateway.output(part)[0], *fresh)
        part = gateway.with_children(part, fresh) if kids else part
        if not op.subqueries:
            return part
        remaining = iter(op.subqueries)

        def placeholder(expression: Any) -> Expression | None:
            if not _is_placeholder(gateway, expression):
                return None
            number = int(str(expression.name()).removeprefix(_PLACEHOLDER))
            return gateway.scalar_subquery(put_together(next(remaining), parts[number]))

        return gateway.map_expressions(part, placeholder)

    top = stored["top"]
    if top is None:
        return put_together(operator, mains[0])
    kids = [put_together(op, part) for op, part in zip(operator.children, mains, strict=True)]
    arguments = gateway.items(gateway.deserialise(base64.b64decode(top["arguments"])))
    filled = [
        kids[int(value.removeprefix("child "))]
        if isinstance(value, str) and value.startswith("child ")
        else value
        for value in arguments
    ]
    return gateway.logical_node(top["class"], filled)


def _is_placeholder(gateway: Gateway, expression: Any) -> bool:
    return gateway.kind(expression) == "AttributeReference" and str(expression.name()).startswith(
        _PLACEHOLDER
    )
