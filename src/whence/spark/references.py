"""The keys under which rows that were just written refer to groups.

On this machine DuckDB reads them, in milliseconds; a Spark job takes its planning alone. Rows that
were written elsewhere are read by Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from whence.algebra.witness import Group, Members, Witness, children, walk
from whence.spark.files import local_path
from whence.spark.gateway import Gateway, Plan, struct_of
from whence.spark.literals import MAX_LITERALS, literal_rows
from whence.spark.members import Bounds
from whence.spark.stored import Stored

Holder = tuple[Witness, Stored]
"""A witness, and the dataset whose rows have its slots."""


def refers(shape: Witness, group: str) -> bool:
    """Whether a witness refers to a group."""
    return any(isinstance(part, Group) and part.operator == group for part in walk(shape))


def referred(gateway: Gateway, holders: Sequence[Holder], group: str) -> Bounds:
    """The groups of an operator that the holders' rows refer to.

    As literals too if they are few, so that Spark pushes them down.
    """
    schema = next(s for h in holders for s in _key_schemas(_stored_schema(h[1]), h[0], group))
    kinds = schema.simpleString()
    if "timestamp" not in kinds and "interval" not in kinds:
        rows = _few_keys(gateway, holders, group)
        literals = literal_rows(rows) if len(rows) <= MAX_LITERALS else None
        if literals is not None:
            return Bounds(len(schema), lambda: gateway.values(literals, schema), literals)
    return Bounds(len(schema), lambda: _plan(_keys(gateway, holders, group)))


def _plan(frame: DataFrame) -> Plan:
    return frame._jdf.queryExecution().analyzed()


def _stored_schema(stored: Stored) -> StructType:
    return struct_of(json.dumps(stored.properties["stored"]))


def _key_schemas(schema: StructType, shape: Witness, group: str) -> Iterator[StructType]:
    """For each place of a shape that refers to the group, the types of its keys."""
    kind: Any
    match shape:
        case Group(slot, operator) if operator == group:
            kind = schema[slot].dataType
            yield kind
        case Members(slot=slot, element=element):
            kind = schema[slot].dataType
            item = kind.elementType
            if shape.is_bare:
                item = StructType([StructField(shape.bare_slot, item)])
            yield from _key_schemas(item, element, group)
        case _:
            for child in children(shape):
                yield from _key_schemas(schema, child, group)


@cache
def _duckdb() -> Any:
    import duckdb  # here, since a pipeline without groups does without it

    return duckdb.connect(":memory:")


def _few_keys(gateway: Gateway, holders: Sequence[Holder], group: str) -> list[Sequence[Any]]:
    """The distinct keys, up to one more than are handed over as literals."""
    most = MAX_LITERALS + 1
    queries: list[str] = []
    paths: list[list[str]] = []
    for shape, stored in holders:
        folder = local_path(stored.location)
        if folder is None:
            with gateway.job():
                return [list(row) for row in _keys(gateway, holders, group).limit(most).collect()]
        for query in _key_queries("read_parquet(?)", shape, group):
            queries.append(query)
            paths.append([str(folder / file.path) for file in stored.files])
    text = f"SELECT DISTINCT * FROM ({' UNION ALL '.join(queries)}) LIMIT {most}"
    return list(_duckdb().cursor().execute(text, paths).fetchall())


def _key_queries(source: str, shape: Witness, group: str) -> Iterator[str]:
    """For each place of a shape that refers to the group, SQL for the keys that stand there."""
    match shape:
        case Group(slot, operator) if operator == group:
            yield f"SELECT {slot}.* FROM {source} WHERE {slot} IS NOT NULL"
        case Members(slot=slot, element=element):
            items = f"SELECT unnest({slot}) AS item FROM {source}"
            fields = f"item AS {shape.bare_slot}" if shape.is_bare else "item.*"
            yield from _key_queries(f"(SELECT {fields} FROM ({items}))", element, group)
        case _:
            for child in children(shape):
                yield from _key_queries(source, child, group)


def _keys(gateway: Gateway, holders: Sequence[Holder], group: str) -> DataFrame:
    """The distinct keys, as Spark reads them."""
    frames: list[DataFrame] = []
    for shape, stored in holders:
        schema = json.dumps(stored.properties["stored"])
        frame = gateway.frame(gateway.read_parquet(stored.location, schema))
        frames.extend(_key_frames(frame, shape, group))
    union = frames[0]
    for frame in frames[1:]:
        union = union.unionByName(frame)
    return union.distinct()


def _key_frames(frame: DataFrame, shape: Witness, group: str) -> Iterator[DataFrame]:
    match shape:
        case Group(slot, operator) if operator == group:
            yield frame.where(F.col(f"`{slot}`").isNotNull()).select(f"`{slot}`.*")
        case Members(slot=slot, element=element):
            if refers(element, group):
                if shape.is_bare:
                    inner = frame.select(F.explode(f"`{slot}`").alias(shape.bare_slot))
                else:
                    inner = frame.select(F.inline(f"`{slot}`"))
                yield from _key_frames(inner, element, group)
        case _:
            for child in children(shape):
                yield from _key_frames(frame, child, group)
