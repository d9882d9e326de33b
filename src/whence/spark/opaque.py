"""Python functions over batches and groups: what they consumed is noted as they run.

No rule says which input rows an output row of such a function was made from. The function is called
through a wrapper that sends each input row's slots beside it, takes them off before the function
sees the row, and notes with the first output row of each batch which rows the function had taken by
then. An output row refers to all rows taken so far by the same call: at worst more than matter.

A function that is declared `whence.rowwise` makes one row of each row, in order; its rows keep
their own slots, and the answer is exact.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from whence import plan as ops
from whence.algebra.witness import Group, GroupShape, Nothing, Witness, between, product
from whence.errors import UnsupportedError
from whence.plan import Operator
from whence.spark.gateway import Gateway, Plan
from whence.spark.instrument import Context, Traced, instrument
from whence.spark.instrument.traced import own_slots

ROW = "__whence_row"
TOKEN = "__whence_token"
NUMBER = "__whence_number"
KEY = "__whence_key"
ROWWISE = "rowwise"
_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Noted:
    """What a side of an opaque step noted: where its members stand, and how to read them."""

    group: str
    members: str
    schema: StructType
    element: Witness


@dataclass(frozen=True, slots=True)
class Opaque:
    """The traced form of an opaque operator, and what is to be written beside its output."""

    traced: Traced
    noted: tuple[Noted, ...]
    exact: bool


def opaque(context: Context, operator: Operator, node: Plan) -> Opaque:
    """The operator with its function wrapped; it is the root of its step."""
    match operator:
        case ops.MapBatches():
            return _map_batches(context, operator, node)
        case ops.MapGroups():
            return _map_groups(context, operator, node)
        case ops.MapCogroups():
            return _map_cogroups(context, operator, node)
        case _:
            raise UnsupportedError(f"internal: {operator.id} is not opaque")


def members_frame(frame: DataFrame, noted: Noted, slot: str) -> DataFrame:
    """The noted members of an output, one row each, with their key."""
    rows = frame.where(F.col(f"`{noted.members}`").isNotNull()).select(
        F.col(f"`{slot}`.k0").alias("k0"),
        F.col(f"`{slot}`.k2").alias("rank"),
        F.explode(f"`{noted.members}`").alias("member"),
    )
    parsed = F.from_json("member", noted.schema, _JSON)
    return rows.select("k0", "rank", parsed.alias("m")).select("k0", "rank", "m.*")


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


def _function(gateway: Gateway, expression: Any) -> tuple[Function, int]:
    """The user's function out of Spark's expression, and the kind of its evaluation."""
    command = expression.func().command()
    data = gateway.to_bytes(command)
    function = CloudPickleSerializer().loads(data)
    if not isinstance(function, tuple):
        raise UnsupportedError("a Python function that is sent by broadcast cannot be wrapped")
    return function[0], int(expression.evalType())


def _noting(schema: StructType, members: list[str]) -> StructType:
    """The user's schema and the columns that the wrapper adds."""
    extra = [StructField(TOKEN, StringType()), StructField(NUMBER, LongType())]
    extra += [StructField(name, ArrayType(StringType())) for name in members]
    return StructType([*schema.fields, *extra])


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
    for side in noted:
        if isinstance(side.element, Nothing):
            continue
        name = gateway.fresh("g")
        alias = gateway.alias(gateway.struct([("k0", token), ("k1", zero), ("k2", number)]), name)
        added.append(alias)
        slots[name] = alias.toAttribute()
        shape = product(shape, Group(name, side.group))
    for attribute in columns[width + 2 :]:
        slots[str(attribute.name())] = attribute
    plan = gateway.project([*columns, *added], plan)
    sides = tuple(side for side in noted if not isinstance(side.element, Nothing))
    return Opaque(Traced(plan, slots, shape), sides, exact=False)


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


def _map_batches(context: Context, operator: ops.MapBatches, node: Plan) -> Opaque:
    gateway = context.gateway
    frame, traced, schema = _side(context, operator.children[0], node.child())
    function, _ = _function(gateway, node.productElement(0))
    wanted = gateway.frame(node).schema
    arrow = gateway.kind(node).endswith("Arrow")
    barrier = bool(node.isBarrier())
    apply = frame.mapInArrow if arrow else frame.mapInPandas
    if getattr(function, "__whence__", None) == ROWWISE:
        rows = StructType([*wanted.fields, StructField(ROW, StringType())])
        wrapped = (_rowwise_arrow if arrow else _rowwise_pandas)(function)
        return _restored(context, apply(wrapped, rows, barrier), len(wanted), traced, schema)
    members = gateway.fresh("members")
    wrapped = (_noting_arrow if arrow else _noting_pandas)(function, members)
    result = apply(wrapped, _noting(wanted, [members]), barrier)
    noted = Noted(operator.id, members, schema, traced.shape)
    return _finished(context, operator, result, len(wanted), [noted])


def _map_groups(context: Context, operator: ops.MapGroups, node: Plan) -> Opaque:
    gateway = context.gateway
    keys = node.groupingAttributes().size()
    frame, traced, schema = _side(context, operator.children[0], node.child(), keys)
    function, _ = _function(gateway, node.productElement(1))
    if "Arrow" in gateway.kind(node):
        raise UnsupportedError(
            f"{operator.id} is applyInArrow, which is not supported; use applyInPandas"
        )
    wanted = gateway.frame(node).schema
    grouped = frame.groupBy(*[f"{KEY}{i}" for i in range(keys)])
    drop = [*(f"{KEY}{i}" for i in range(keys)), ROW]
    if getattr(function, "__whence__", None) == ROWWISE:
        rows = StructType([*wanted.fields, StructField(ROW, StringType())])
        result = grouped.applyInPandas(_rowwise_group(function, drop), rows)
        return _restored(context, result, len(wanted), traced, schema)
    members = gateway.fresh("members")
    wrapped = _noting_group(function, drop, members)
    result = grouped.applyInPandas(wrapped, _noting(wanted, [members]))
    noted = Noted(operator.id, members, schema, traced.shape)
    return _finished(context, operator, result, len(wanted), [noted])


def _map_cogroups(context: Context, operator: ops.MapCogroups, node: Plan) -> Opaque:
    gateway = context.gateway
    counts = (int(node.leftGroupingLen()), int(node.rightGroupingLen()))
    inputs = gateway.items(node.children())
    sides = [
        _side(context, child, kid, count)
        for child, kid, count in zip(operator.children, inputs, counts, strict=True)
    ]
    function, _ = _function(gateway, node.functionExpr())
    if "Arrow" in gateway.kind(node):
        raise UnsupportedError(
            f"{operator.id} is a cogroup's applyInArrow, which is not supported; use applyInPandas"
        )
    wanted = gateway.frame(node).schema
    groups = [
        side[0].groupBy(*[f"{KEY}{i}" for i in range(count)])
        for side, count in zip(sides, counts, strict=True)
    ]
    names = [gateway.fresh("members"), gateway.fresh("members")]
    wrapped = _noting_cogroup(function, counts, names)
    result = groups[0].cogroup(groups[1]).applyInPandas(wrapped, _noting(wanted, names))
    noted = [
        Noted(f"{operator.id}/{word}", name, schema, traced.shape)
        for word, name, (_, traced, schema) in zip(("left", "right"), names, sides, strict=True)
    ]
    return _finished(context, operator, result, len(wanted), noted)


# --- Wrappers: they run in Python workers and are sent there by value -------------------------


def _noting_pandas(function: Function, members: str) -> Function:
    def noting(batches: Iterator[Any]) -> Iterator[Any]:
        import uuid

        token, taken, number = uuid.uuid4().hex, [], 0

        def feed() -> Iterator[Any]:
            for batch in batches:
                taken.extend(batch["__whence_row"].tolist())
                yield batch.drop(columns=["__whence_row"])

        for result in function(feed()):
            column: list[Any] = [None] * len(result)
            if column and taken:
                number += 1
                column[0] = list(taken)
                taken.clear()
            extra = {"__whence_token": token, "__whence_number": number, members: column}
            yield result.assign(**extra)

    return noting


def _noting_arrow(function: Function, members: str) -> Function:
    def noting(batches: Iterator[Any]) -> Iterator[Any]:
        import uuid

        import pyarrow as pa

        token, taken, number = uuid.uuid4().hex, [], 0

        def feed() -> Iterator[Any]:
            for batch in batches:
                position = batch.schema.get_field_index("__whence_row")
                taken.extend(batch.column(position).to_pylist())
                yield batch.remove_column(position)

        for result in function(feed()):
            column: list[Any] = [None] * result.num_rows
            if column and taken:
                number += 1
                column[0] = list(taken)
                taken.clear()
            arrays = [
                *result.columns,
                pa.array([token] * len(column), pa.string()),
                pa.array([number] * len(column), pa.int64()),
                pa.array(column, pa.list_(pa.string())),
            ]
            names = [*result.schema.names, "__whence_token", "__whence_number", members]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    return noting


def _rowwise_pandas(function: Function) -> Function:
    def rowwise(batches: Iterator[Any]) -> Iterator[Any]:
        waiting: list[Any] = []

        def feed() -> Iterator[Any]:
            for batch in batches:
                waiting.append(batch["__whence_row"].tolist())
                yield batch.drop(columns=["__whence_row"])

        for result in function(feed()):
            rows = waiting.pop(0) if waiting else []
            if len(rows) != len(result):
                raise ValueError(
                    f"a function declared rowwise gave {len(result)} rows for {len(rows)}"
                )
            yield result.assign(__whence_row=rows)

    return rowwise


def _rowwise_arrow(function: Function) -> Function:
    def rowwise(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        waiting: list[Any] = []

        def feed() -> Iterator[Any]:
            for batch in batches:
                position = batch.schema.get_field_index("__whence_row")
                waiting.append(batch.column(position))
                yield batch.remove_column(position)

        for result in function(feed()):
            rows = waiting.pop(0) if waiting else pa.array([], pa.string())
            if len(rows) != result.num_rows:
                raise ValueError(
                    f"a function declared rowwise gave {result.num_rows} rows for {len(rows)}"
                )
            names = [*result.schema.names, "__whence_row"]
            yield pa.RecordBatch.from_arrays([*result.columns, rows], names=names)

    return rowwise


def _noting_group(function: Function, drop: list[str], members: str) -> Function:
    takes_key = len(inspect.signature(function).parameters) == 2

    def noting(key: Any, group: Any) -> Any:
        import uuid

        rows = group["__whence_row"].tolist()
        plain = group.drop(columns=drop)
        result = function(key, plain) if takes_key else function(plain)
        column: list[Any] = [None] * len(result)
        if column:
            column[0] = rows
        extra = {"__whence_token": uuid.uuid4().hex, "__whence_number": 1, members: column}
        return result.assign(**extra)

    return noting


def _rowwise_group(function: Function, drop: list[str]) -> Function:
    takes_key = len(inspect.signature(function).parameters) == 2

    def rowwise(key: Any, group: Any) -> Any:
        rows = group["__whence_row"].tolist()
        plain = group.drop(columns=drop)
        result = function(key, plain) if takes_key else function(plain)
        if len(rows) != len(result):
            raise ValueError(f"a function declared rowwise gave {len(result)} rows for {len(rows)}")
        return result.assign(__whence_row=rows)

    return rowwise


def _noting_cogroup(function: Function, counts: tuple[int, int], members: list[str]) -> Function:
    takes_key = len(inspect.signature(function).parameters) == 3

    def noting(key: Any, left: Any, right: Any) -> Any:
        import uuid

        rows = [left["__whence_row"].tolist(), right["__whence_row"].tolist()]
        plain = [
            side.drop(columns=[*(f"__whence_key{i}" for i in range(count)), "__whence_row"])
            for side, count in zip((left, right), counts)  # noqa: B905
        ]
        result = function(key, *plain) if takes_key else function(*plain)
        extra: dict[str, Any] = {"__whence_token": uuid.uuid4().hex, "__whence_number": 1}
        for name, taken in zip(members, rows):  # noqa: B905
            column: list[Any] = [None] * len(result)
            if column:
                column[0] = taken
            extra[name] = column
        return result.assign(**extra)

    return noting
