"""Running a stored pipeline again: to find members of groups, or on only the traced inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from whence.algebra.witness import GroupShape, Row
from whence.plan import Operator, Source
from whence.spark import rebuild
from whence.spark.gateway import Gateway, Plan, exactly
from whence.spark.instrument import Context, Traced
from whence.spark.literals import MAX_LITERALS, literal_rows
from whence.spark.members import LIMITED_ROOT, ROOT, Bounds, find_members
from whence.spark.physical import storable
from whence.spark.rebuild import align
from whence.spark.sources import located, restored_with_slots
from whence.spark.stored import Stored


@dataclass(frozen=True, slots=True)
class Input:
    """The dataset behind a leaf, and the absolute paths of its files."""

    stored: Stored
    paths: Sequence[str]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A stored step: its plan, the plan's bytes, and the inputs by operator id."""

    plan: Operator
    attachment: bytes
    inputs: Mapping[str, Input]


def write_members(
    gateway: Gateway, pipeline: Pipeline, group: str, keys: str | None, folder: str
) -> GroupShape:
    """Write the members of a group's instances to a folder; `keys` is a Parquet file of keys."""
    node = rebuild.from_bytes(gateway, pipeline.plan, pipeline.attachment)
    leaves = {
        op.id: _leaf(gateway, op, part, pipeline.inputs[op.id])
        for op, part in align(gateway, pipeline.plan, node)
        if isinstance(op, Source)
    }
    node = rebuild.with_leaves(
        gateway,
        pipeline.plan,
        node,
        lambda op, part: gateway.project(part.output(), leaves[op.id].plan),
    )
    context = Context(gateway, "list", leaves)
    operator, part = pipeline.plan, node
    if group not in (ROOT, LIMITED_ROOT):
        wanted = group.split("/", 1)[0]
        operator, part = next(
            (op, p) for op, p in align(gateway, pipeline.plan, node) if op.id == wanted
        )
    bounds = None if keys is None else _bounds(gateway, keys)
    plan, shape = find_members(context, operator, part, group, bounds)
    plan.setAnalyzed()
    gateway.write_parquet(gateway.frame(plan), folder)
    return shape


def write_rows(gateway: Gateway, plan: Plan, folder: str) -> None:
    """Write a plan's rows to a folder as those of a result are stored, their columns numbered."""
    columns = [
        gateway.alias(storable(gateway, column), f"c{i}")
        for i, column in enumerate(gateway.output(plan))
    ]
    plan = gateway.project(columns, plan)
    plan.setAnalyzed()
    gateway.write_parquet(gateway.frame(plan), folder)


def _leaf(gateway: Gateway, operator: Source, node: Plan, found: Input) -> Traced:
    """A leaf read again from its dataset, with its locators, under the attributes it had."""
    wanted = gateway.output(node)
    stored = found.stored
    if stored.kind == "range":
        return _range_leaf(gateway, operator, wanted, stored)
    relation = gateway.read_files(list(found.paths), stored)
    if stored.kind != "snapshot" and any(map(gateway.is_metadata, wanted)):
        relation = relation.withMetadataColumns()  # the pipeline looks at it as well
    traced = located(gateway, relation, stored, operator.id)
    have = {str(a.name()): a for a in gateway.output(relation)}
    pairs, missing = [], []
    for position, attribute in enumerate(wanted):
        name = f"c{position}" if stored.kind == "snapshot" else str(attribute.name())
        if name in have:
            pairs.append((have[name], attribute))
        else:
            null = gateway.null(attribute.dataType())
            missing.append(gateway.alias(null, attribute.name(), attribute.exprId()))
    plan = restored_with_slots(
        gateway, traced, [h for h, _ in pairs], [w for _, w in pairs], missing
    )
    return traced.over(plan)


def _range_leaf(gateway: Gateway, operator: Source, wanted: list[Any], stored: Stored) -> Traced:
    node, slot = range_rows(gateway, stored)
    have = gateway.output(node)
    traced = Traced(node, {slot: have[1]}, Row(slot, operator.id))
    return traced.over(restored_with_slots(gateway, traced, have[:1], wanted, []))


def range_rows(gateway: Gateway, stored: Stored) -> tuple[Plan, str]:
    """The rows of a range and beside each its locator, and what that column is called."""
    bounds = stored.properties["range"]
    end = bounds["start"] + bounds["rows"] * bounds["step"]
    frame = gateway.session.range(bounds["start"], end, bounds["step"])
    slot = gateway.fresh("w")
    frame = frame.selectExpr("id", f"(id - {bounds['start']}L) div {bounds['step']}L AS `{slot}`")
    return frame._jdf.queryExecution().analyzed(), slot


def _bounds(gateway: Gateway, keys: str) -> Bounds:
    meta = pq.read_metadata(keys)
    literals = None
    if meta.num_rows <= MAX_LITERALS:
        literals = literal_rows([list(row.values()) for row in pq.read_table(keys).to_pylist()])

    def plan() -> Plan:
        return gateway.session.read.parquet(exactly(keys))._jdf.queryExecution().analyzed()

    return Bounds(len(meta.schema.to_arrow_schema()), plan, literals)


def replay(
    gateway: Gateway, pipeline: Pipeline, kept: Mapping[str, str], replaced: Mapping[str, Plan]
) -> Plan:
    """The pipeline over only some rows of its inputs.

    `kept` maps a dataset's id to a Parquet file with a column `locator`; a dataset that is not in
    it gives no rows. `replaced` maps a dataset's id to a plan that stands for it, columns by name.
    """
    node = rebuild.from_bytes(gateway, pipeline.plan, pipeline.attachment)

    def leaf(operator: Source, part: Plan) -> Plan:
        found = pipeline.inputs[operator.id]
        wanted = gateway.output(part)
        if found.stored.id in replaced:
            return gateway.renamed(replaced[found.stored.id], wanted)
        if found.stored.id not in kept:
            return gateway.empty_relation(wanted)
        traced = _leaf(gateway, operator, part, found)
        slot = next(iter(traced.slots.values()))
        locators = gateway.session.read.parquet(exactly(kept[found.stored.id]))
        rows = locators._jdf.queryExecution().analyzed()
        column = gateway.attribute(rows, "locator")
        only = gateway.join(traced.plan, rows, "leftsemi", gateway.null_safe_equal(slot, column))
        return gateway.project(wanted, only)

    return rebuild.with_leaves(gateway, pipeline.plan, node, leaf)
