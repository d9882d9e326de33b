"""Nodes of a normalised Spark plan to operators, one to one."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from whence.plan import operators as plan
from whence.plan import tree
from whence.plan.catalyst import leaves, rows, shaping, types
from whence.plan.catalyst.context import Context
from whence.plan.catalyst.flow import Flow
from whence.plan.catalyst.nodes import Node, parse, subqueries
from whence.plan.catalyst.scope import Attributes, Names, Places, refuse_twins
from whence.plan.catalyst.sql import Writer
from whence.plan.operators import Operator
from whence.plan.tree import walk


@dataclass(frozen=True, slots=True)
class Leaf:
    """What the caller knows of a leaf that the plan's text does not say; empty means unknown."""

    name: str = ""
    format: str = ""
    location: str = ""


def read_plan(plan_json: str, found: Sequence[Leaf] = (), schema_json: str = "") -> Operator:
    """The text of a normalised plan's `toJSON()` as a plan.

    `found` tells of the leaves, in the order of `tree.walk` (a node, its subqueries, its
    children): one for each source, or one for each leaf, the empty row of a SELECT without FROM
    included. `schema_json`, the root's `schema().json()`, gives types that the text leaves open.
    """
    items = json.loads(plan_json)
    with _deep():
        root = _Reader(Attributes.of(items)).operator(parse(items), ())
        return _with_schema(_with_leaves(root, found), schema_json)


class _Reader:
    """Reads one plan: hands out ids and knows all attributes."""

    def __init__(self, attributes: Attributes) -> None:
        self._attributes = attributes
        self._count = 0

    def operator(self, node: Node, trail: tuple[str, ...]) -> Operator:
        """One node with all below it."""
        name = f"View:{leaves.view_name(node)}" if node.name == "View" else node.name
        trail = (*trail, name)
        entry = READERS.get(node.name)
        if entry is None or node.fields.get("isStreaming") is True:
            raise leaves.unsupported(node, trail)
        self._count += 1
        operator_id = f"{entry[0].kind}-{self._count}"
        plans: list[Operator] = []
        ids: dict[int, str] = {}
        for subquery in subqueries(node):
            if subquery.name != "ScalarSubquery":
                raise leaves.unsupported(subquery, trail)
            plans.append(self.operator(parse(subquery.fields["plan"]), trail))
            ids.setdefault(subquery.id, plans[-1].id)
        children = tuple([self.operator(child, trail) for child in node.children])
        return self._build(node, operator_id, children, tuple(plans), ids, trail)

    def _build(
        self,
        node: Node,
        operator_id: str,
        children: tuple[Operator, ...],
        plans: tuple[Operator, ...],
        ids: dict[int, str],
        trail: tuple[str, ...],
    ) -> Operator:
        names = Names(self._attributes, (c for child in children for c in child.output))
        positions = {key: [p.id for p in plans].index(found) for key, found in ids.items()}
        flow = Flow(self._attributes, children, plans, positions)
        places = Places(self._attributes, [child.output for child in children])
        numbered = {key: f"@{len(children) + i}" for key, i in positions.items()}
        labels = Writer(places, self._attributes, numbered)
        writer = Writer(names, self._attributes, ids, labels)
        _, read = READERS[node.name]
        return read(
            Context(node, operator_id, children, plans, trail, self._attributes, writer, flow)
        )


def _with_leaves(root: Operator, found: Sequence[Leaf]) -> Operator:
    if not found:
        return root
    every = [o for o in walk(root) if not o.children]
    known = [o for o in every if isinstance(o, plan.Source)]
    if len(found) not in (len(known), len(every)):
        raise ValueError(f"the plan has {len(known)} sources, and {len(found)} leaves were given")
    chosen = known if len(found) == len(known) else every
    by_id = {o.id: leaf for o, leaf in zip(chosen, found, strict=True)}

    def fill(operator: Operator) -> Operator:
        if not isinstance(operator, plan.Source):
            return operator
        leaf = by_id[operator.id]
        return replace(
            operator,
            name=leaf.name or operator.name,
            format=leaf.format or operator.format,
            location=leaf.location or operator.location,
        )

    return tree.map_plan(root, fill)


def _with_schema(root: Operator, schema_json: str) -> Operator:
    if not schema_json:
        return root
    fields = json.loads(schema_json)["fields"]
    for field in fields:
        refuse_twins(field["name"], field["type"])
    output = tuple(
        replace(column, type=types.field_text(field), nullable=field["nullable"])
        for column, field in zip(root.output, fields, strict=True)
    )
    return replace(root, output=output)


@contextmanager
def _deep() -> Iterator[None]:
    """Room for deep plans and long chains of AND: a frame of Python code takes no C stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 50_000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


_Entry = tuple[type[Any], Callable[[Context], Operator]]

READERS: dict[str, _Entry] = {
    **dict.fromkeys(leaves.FORMATS, (plan.Source, leaves.source)),
    "OneRowRelation": (plan.OneRow, leaves.one_row),
    "View": (plan.View, leaves.view),
    "Project": (plan.Project, shaping.project),
    "Expand": (plan.Expand, shaping.expand),
    "Generate": (plan.Generate, shaping.generate),
    "Aggregate": (plan.Aggregate, shaping.aggregate),
    "Window": (plan.Window, shaping.window),
    "MapInPandas": (plan.MapBatches, shaping.map_batches),
    "MapInArrow": (plan.MapBatches, shaping.map_batches),
    "FlatMapGroupsInPandas": (plan.MapGroups, shaping.map_groups),
    "FlatMapGroupsInArrow": (plan.MapGroups, shaping.map_groups),
    "FlatMapCoGroupsInPandas": (plan.MapCogroups, shaping.map_cogroups),
    "FlatMapCoGroupsInArrow": (plan.MapCogroups, shaping.map_cogroups),
    "Filter": (plan.Filter, rows.filter_rows),
    "Join": (plan.Join, rows.join),
    "Union": (plan.Union, rows.union),
    "Except": (plan.Except, rows.except_all),
    "Intersect": (plan.Intersect, rows.intersect_all),
    "Sort": (plan.Sort, rows.sort),
    "GlobalLimit": (plan.Limit, rows.limit),
    "LocalLimit": (plan.Limit, rows.limit),
    "Offset": (plan.Offset, rows.offset),
    "Tail": (plan.Tail, rows.tail),
    "Sample": (plan.Sample, rows.sample),
    "AttachDistributedSequence": (plan.Number, rows.number),
    "Repartition": (plan.Repartition, rows.repartition),
    "RepartitionByExpression": (plan.Repartition, rows.repartition),
    "RebalancePartitions": (plan.Repartition, rows.repartition),
    "ResolvedHint": (plan.Hint, rows.hint),
    "CollectMetrics": (plan.Observe, rows.observe),
}
