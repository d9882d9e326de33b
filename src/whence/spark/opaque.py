"""Python functions over batches and groups: what they consumed is noted as they run.

No rule says which input rows an output row of such a function was made from. The function is called
through a wrapper that sends each input row's slots beside it, takes them off before the function
sees the row, and notes with the first output row of each batch which rows the function had taken by
then. An output row refers to all rows taken so far by the same call: at worst more than matter.

A function that is declared `whence.rowwise` makes one row of each row, in order; its rows keep
their own slots, and the answer is exact. One that uses tracked arrays is followed: its rows refer
to the rows behind their cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from whence import plan as ops
from whence.algebra.witness import Group, GroupShape, Nothing, Witness, between, product
from whence.errors import UnsupportedError
from whence.plan import Operator
from whence.spark.followed import (
    CellSlots,
    Follow,
    answer_fields,
    following_batches,
    following_groups,
    listed_ranges,
)
from whence.spark.gateway import Gateway, Plan
from whence.spark.instrument import Context, Traced, instrument
from whence.spark.instrument.traced import own_slots
from whence.spark.wrappers import (
    NUMBER,
    ROW,
    TOKEN,
    Run,
    arrow_tables,
    noting,
    over_batches,
    over_cogroup,
    over_group,
    over_group_batches,
    pandas_tables,
    rowwise,
)

KEY = "__whence_key"
ROWWISE = "rowwise"
_IN_BATCHES = (215, 216)  # SQL_GROUPED_MAP_ARROW_ITER_UDF, SQL_GROUPED_MAP_PANDAS_ITER_UDF
_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Noted:
    """What a side of an opaque step noted: where its members stand, and how to read them.

    `token` and `rank` are SQL over the output: what names the call, and the number of the member at
    `position` of the list.
    """

    group: str
    members: str
    schema: StructType
    element: Witness
    token: str = ""
    rank: str = ""


@dataclass(frozen=True, slots=True)
class Opaque:
    """The traced form of an opaque operator, and what is to be written beside its output."""

    traced: Traced
    noted: tuple[Noted, ...]
    exact: bool
    doubts: dict[str, str] = field(default_factory=dict)
    cells: dict[str, CellSlots] = field(default_factory=dict)


def opaque(context: Context, operator: Operator, node: Plan, follow: Follow) -> Opaque:
    """The operator with its function wrapped; it is the root of its step."""
    match operator:
        case ops.MapBatches():
            return _map_batches(context, operator, node, follow)
        case ops.MapGroups():
            return _map_groups(context, operator, node, follow)
        case ops.MapCogroups():
            return _map_cogroups(context, operator, node, follow)
        case _:
            raise UnsupportedError(f"internal: {operator.id} is not opaque")


def members_frame(frame: DataFrame, noted: Noted) -> DataFrame:
    """The noted members of an output, one row each, with their key."""
    rows = frame.where(F.col(f"`{noted.members}`").isNotNull()).select(
        "*", F.posexplode(f"`{noted.members}`").alias("position", "member")
    )
    parsed = F.from_json("member", noted.schema, _JSON)
    rank = F.expr(noted.rank).cast("bigint")
    named = rows.select(F.expr(noted.token).alias("k0"), rank.alias("rank"), parsed.alias("m"))
    return named.select("k0", "rank", "m.*")


def group_shape(noted: Noted) -> GroupShape:
    """What a group of noted members looks like."""
    return GroupShape(noted.group, ("k0",), noted.element, (), between("k1", "k2"))


# --- Sides -----------------------------------------------------------------------------------


def _side(
    context: Context, operator: Operator, node: Plan, keys: int = 0
) -> tuple[DataFrame, Traced, StructType]:
    """An input as a frame: its columns, numbered keys if any, and its slots as one JSON text."""
    gateway = context.gateway
    traced = instrument(context, operator, node, copied=True)
    columns = gateway.output(node)
    named = [gateway.alias(a, f"{KEY}{i}") for i, a in enumerate(columns[:keys])]
    slots = own_slots(traced) or [("__whence_none", gateway.literal(True))]
    struct = gateway.alias(gateway.struct(slots), ROW)
    frame = gateway.frame(gateway.project([*named, *columns[keys:], struct], traced.plan))
    schema = frame.schema[ROW].dataType
    kept = frame.columns[:-1]
    if len(set(kept)) == len(kept):
        frame = frame.withColumn(ROW, F.to_json(ROW, _JSON))
    else:
        frame = frame.toDF(*[f"c{i}" for i in range(len(kept))], ROW)
        frame = frame.withColumn(ROW, F.to_json(ROW, _JSON)).toDF(*kept, ROW)
    return frame, traced, schema


def _function(gateway: Gateway, expression: Any) -> tuple[Function, bytes]:
    """The user's function out of Spark's expression, and the bytes that hold it."""
    command = expression.func().command()
    data = gateway.to_bytes(command)
    function = CloudPickleSerializer().loads(data)
    if not isinstance(function, tuple):
        raise UnsupportedError("a Python function that is sent by broadcast cannot be wrapped")
    return function[0], data


def _noting(
    schema: StructType, members: list[str], answer: Sequence[StructField] = ()
) -> StructType:
    """The user's schema and the columns that the wrapper adds."""
    extra = [StructField(TOKEN, StringType()), StructField(NUMBER, LongType())]
    extra += [StructField(name, ArrayType(StringType())) for name in members]
    return StructType([*schema.fields, *extra, *answer])


def _finished(
    context: Context, operator: Operator, result: DataFrame, width: int, noted: list[Noted]
) -> Opaque:
    """The wrapped function's result, with the key of what each row refers to."""
    gateway = context.gateway
    plan = result._jdf.queryExecution().analyzed()
    columns = gateway.output(plan)
    token, number = columns[width], columns[width + 1]
    zero = gateway.cast(gateway.literal(0), "bigint")
    slots: dict[str, Any] = {}
    shape: Witness = Nothing()
    added = []
    sides = []
    for side in noted:
        if isinstance(side.element, Nothing):
            continue
        name = gateway.fresh("g")
        alias = gateway.alias(gateway.struct([("k0", token), ("k1", zero), ("k2", number)]), name)
        added.append(alias)
        slots[name] = alias.toAttribute()
        shape = product(shape, Group(name, side.group))
        sides.append(replace(side, token=f"`{name}`.k0", rank=f"`{name}`.k2"))
    for attribute in columns[width + 2 :]:
        slots[str(attribute.name())] = attribute
    plan = gateway.project([*columns, *added], plan)
    return Opaque(Traced(plan, slots, shape), tuple(sides), exact=False)


def _followed(
    context: Context,
    operator: Operator,
    result: DataFrame,
    wanted: StructType,
    noted: list[Noted],
    inputs: list[tuple[str, ...]],
) -> Opaque:
    """The followed function's result: each row lists ranges of the rows that its call took."""
    gateway = context.gateway
    width = len(wanted)
    plan = result._jdf.queryExecution().analyzed()
    names = {TOKEN: "t", NUMBER: "n", "__whence_cells": "cells", "__whence_doubt": "doubt"}
    fresh = {name: gateway.fresh(stem) for name, stem in names.items()}
    groups = [(side.group, side.element) for side in noted]
    plan, ranges, shape = listed_ranges(gateway, plan, TOKEN, operator.id, groups)
    have = {str(a.name()): a for a in gateway.output(plan)[width:]}
    aliases = [gateway.alias(have[name], slot) for name, slot in fresh.items()]
    kept = [*gateway.output(plan)[:width], *(have[side.members] for side in noted), have[ranges]]
    plan = gateway.project([*kept, *aliases], plan)
    slots = {str(a.name()): a for a in gateway.output(plan)[width:]}
    token, number = fresh[TOKEN], fresh[NUMBER]
    sides = tuple(
        replace(side, token=f"`{token}`", rank=f"`{number}` + position + 1")
        for side in noted
        if not isinstance(side.element, Nothing)
    )
    cells = CellSlots(
        fresh["__whence_cells"],
        tuple(wanted.names),
        tuple(inputs),
        tuple(side.group for side in noted),
        token,
    )
    doubts = {operator.id: fresh["__whence_doubt"]}
    traced = Traced(plan, slots, shape if sides else Nothing())
    return Opaque(traced, sides, True, doubts, {operator.id: cells})


def _restored(
    context: Context, result: DataFrame, width: int, traced: Traced, schema: StructType
) -> Opaque:
    """The result of a row-wise function: each row has the slots of the row it was made from."""
    gateway = context.gateway
    struct = F.from_json(ROW, schema, _JSON)
    frame = result.withColumn(ROW, struct)
    plan = frame._jdf.queryExecution().analyzed()
    columns = gateway.output(plan)
    fields = {f.name: i for i, f in enumerate(schema.fields)}
    aliases = {
        name: gateway.alias(gateway.field(columns[width], fields[name]), name)
        for name, _ in own_slots(traced)
    }
    plan = gateway.project([*columns[:width], *aliases.values()], plan)
    slots = {name: alias.toAttribute() for name, alias in aliases.items()}
    return Opaque(Traced(plan, slots, traced.shape), (), exact=True)


# --- The three families ----------------------------------------------------------------------


def _map_batches(context: Context, operator: ops.MapBatches, node: Plan, follow: Follow) -> Opaque:
    gateway = context.gateway
    frame, traced, schema = _side(context, operator.children[0], node.child())
    function, command = _function(gateway, node.productElement(0))
    wanted = gateway.frame(node).schema
    arrow = gateway.kind(node).endswith("Arrow")
    barrier = bool(node.isBarrier())
    apply = frame.mapInArrow if arrow else frame.mapInPandas
    tables = (arrow_tables if arrow else pandas_tables)(wanted.names)
    if getattr(function, "__whence__", None) == ROWWISE:
        wrapped = over_batches(function, rowwise(tables, [ROW]))
        result = apply(wrapped, _handing_on(wanted), barrier)
        return _restored(context, result, len(wanted), traced, schema)
    members = gateway.fresh("members")
    noted = Noted(operator.id, members, schema, traced.shape)
    if not arrow and follow.uses(function):
        wrapped = following_batches(function, command, wanted.names, members, follow.batches)
        rows = _noting(wanted, [members], answer_fields())
        result = apply(wrapped, rows, barrier)
        inputs = tuple(frame.columns[:-1])
        return _followed(context, operator, result, wanted, [noted], [inputs])
    wrapped = over_batches(function, noting(tables, [ROW], members))
    result = apply(wrapped, _noting(wanted, [members]), barrier)
    return _finished(context, operator, result, len(wanted), [noted])


def _map_groups(context: Context, operator: ops.MapGroups, node: Plan, follow: Follow) -> Opaque:
    gateway = context.gateway
    keys = node.groupingAttributes().size()
    frame, traced, schema = _side(context, operator.children[0], node.child(), keys)
    expression = node.productElement(1)
    function, command = _function(gateway, expression)
    wanted = gateway.frame(node).schema
    grouped = frame.groupBy(*[f"{KEY}{i}" for i in range(keys)])
    drop = [*(f"{KEY}{i}" for i in range(keys)), ROW]
    arrow = "Arrow" in gateway.kind(node)
    in_batches = int(expression.evalType()) in _IN_BATCHES
    apply = grouped.applyInArrow if arrow else grouped.applyInPandas
    tables = (arrow_tables if arrow else pandas_tables)(wanted.names)

    def wrapped(run: Run) -> Any:
        if in_batches:
            return over_group_batches(function, run, _batch_type(arrow))
        return over_group(function, run)

    if getattr(function, "__whence__", None) == ROWWISE:
        result = apply(wrapped(rowwise(tables, drop)), _handing_on(wanted))
        return _restored(context, result, len(wanted), traced, schema)
    members = gateway.fresh("members")
    noted = Noted(operator.id, members, schema, traced.shape)
    if not arrow and not in_batches and follow.uses(function):
        followed = following_groups(
            function, command, wanted.names, [drop], [members], follow.groups
        )
        rows = _noting(wanted, [members], answer_fields())
        result = apply(followed, rows)
        inputs = [tuple(frame.columns[keys:-1])]
        return _followed(context, operator, result, wanted, [noted], inputs)
    result = apply(wrapped(noting(tables, drop, members)), _noting(wanted, [members]))
    return _finished(context, operator, result, len(wanted), [noted])


def _map_cogroups(
    context: Context, operator: ops.MapCogroups, node: Plan, follow: Follow
) -> Opaque:
    gateway = context.gateway
    counts = (int(node.leftGroupingLen()), int(node.rightGroupingLen()))
    inputs = gateway.items(node.children())
    sides = [
        _side(context, child, kid, count)
        for child, kid, count in zip(operator.children, inputs, counts, strict=True)
    ]
    function, command = _function(gateway, node.functionExpr())
    wanted = gateway.frame(node).schema
    groups = [
        side[0].groupBy(*[f"{KEY}{i}" for i in range(count)])
        for side, count in zip(sides, counts, strict=True)
    ]
    names = [gateway.fresh("members"), gateway.fresh("members")]
    noted = [
        Noted(f"{operator.id}/{word}", name, schema, traced.shape)
        for word, name, (_, traced, schema) in zip(("left", "right"), names, sides, strict=True)
    ]
    together = groups[0].cogroup(groups[1])
    arrow = "Arrow" in gateway.kind(node)
    apply = together.applyInArrow if arrow else together.applyInPandas
    drops = [[*(f"{KEY}{i}" for i in range(count)), ROW] for count in counts]
    if not arrow and follow.uses(function):
        wrapped = following_groups(function, command, wanted.names, drops, names, follow.groups)
        result = apply(wrapped, _noting(wanted, names, answer_fields()))
        inputs = [tuple(s[0].columns[n:-1]) for s, n in zip(sides, counts, strict=True)]
        return _followed(context, operator, result, wanted, noted, inputs)
    tables = (arrow_tables if arrow else pandas_tables)(wanted.names)
    wrapped = over_cogroup(function, tables, drops, names)
    result = apply(wrapped, _noting(wanted, names))
    return _finished(context, operator, result, len(wanted), noted)


def _handing_on(schema: StructType) -> StructType:
    """The user's schema and the slots that are handed on."""
    return StructType([*schema.fields, StructField(ROW, StringType())])


def _batch_type(arrow: bool) -> type:
    if arrow:
        import pyarrow as pa

        return pa.RecordBatch  # type: ignore[no-any-return]
    import pandas as pd

    return pd.DataFrame
