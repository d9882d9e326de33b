"""Columns as Parquet can hold them: safe names, storable types, and the way back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    NullType,
    StructType,
    _parse_datatype_json_string,
)

from whence.spark.gateway import Expression, Gateway, Plan

PREFIX = "__whence_"
_FORBIDDEN = frozenset(" ,;{}()\n\t=")
# By Spark, by DuckDB, and by what a row is read with.
_TAKEN = frozenset({"_metadata", "file_row_number", f"{PREFIX}locator", f"{PREFIX}file"})


def physical_names(names: Sequence[str]) -> list[str]:
    """The names under which columns are stored: their own, if Parquet can hold them all.

    >>> physical_names(["a", "b"]), physical_names(["a", "A"]), physical_names(["", "x"])
    (['a', 'b'], ['c0', 'c1'], ['c0', 'c1'])
    """
    unsafe = any(
        not name or _FORBIDDEN & set(name) or name.casefold().startswith(PREFIX) for name in names
    )
    if unsafe or not told_apart(names):
        return [f"c{i}" for i in range(len(names))]
    return list(names)


def told_apart(names: Sequence[str]) -> bool:
    """Whether DuckDB can tell columns of these names apart, from each other and from its own."""
    folded = {name.casefold() for name in names}
    return len(folded) == len(names) and not folded & _TAKEN


def is_storable(fields: Sequence[Any]) -> bool:
    """Whether Parquet can hold columns as they are; these are the fields of their schema's JSON."""
    kinds = json.dumps([field["type"] for field in fields])
    return '"void"' not in kinds and '"interval"' not in kinds


def storable(gateway: Gateway, attribute: Any) -> Expression:
    """The column as a type that Parquet can hold."""
    kind = str(attribute.dataType().catalogString())
    target = _stored_type(kind)
    if target is None:
        return attribute
    return gateway.cast(attribute, target)


def _stored_type(kind: str) -> str | None:
    if kind == "interval":
        return "string"
    if "void" in kind:
        return kind.replace("void", "boolean")
    return None


def restored(gateway: Gateway, plan: Plan, stored: Sequence[Any], wanted: Sequence[Any]) -> Plan:
    """Stored columns under the names, identities, types and nullability of the wanted ones."""
    columns = []
    for have, want in zip(stored, wanted, strict=True):
        value: Any = have
        kind = str(want.dataType().catalogString())
        if kind == "void":
            value = gateway.null(want.dataType())
        elif "void" in kind:
            wanted_type = _parse_datatype_json_string(str(want.dataType().json()))
            value = gateway.resolved(plan, have, partial(revived, kind=wanted_type))
        elif _stored_type(kind) is not None:
            value = gateway.cast_to(have, want.dataType())
        if not want.nullable() and kind != "void":
            value = gateway.known_not_null(value)
        columns.append(gateway.alias(value, want.name(), want.exprId(), want.metadata()))
    return gateway.project(columns, plan)


def revived(text: str, kind: DataType, depth: int = 0) -> str:
    """SQL that gives a stored value its nulls without a type back, which no cast does.

    >>> revived("a", ArrayType(NullType()))
    'transform(a, x0 -> NULL)'
    """
    name = f"x{depth}"
    match kind:
        case NullType():
            return "NULL"
        case ArrayType(elementType=inner):
            return f"transform({text}, {name} -> {revived(name, inner, depth + 1)})"
        case MapType(valueType=inner):
            return f"transform_values({text}, (k, {name}) -> {revived(name, inner, depth + 1)})"
        case StructType(fields=fields):
            parts = ", ".join(
                f"'{f.name}', {revived(f'{text}.`{f.name}`', f.dataType, depth)}" for f in fields
            )
            return f"if({text} IS NULL, NULL, named_struct({parts}))"
        case _:
            return text
