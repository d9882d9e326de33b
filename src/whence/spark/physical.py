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
    types = [field["type"] for field in fields]
    kinds = json.dumps(types)
    return '"void"' not in kinds and '"interval"' not in kinds and types == list(map(_apart, types))


def storable(gateway: Gateway, attribute: Any) -> Expression:
    """The column as a type that Parquet can hold."""
    kind = str(attribute.dataType().catalogString())
    target = _stored_type(kind)
    if target is not None:
        return gateway.cast(attribute, target)
    if not _is_mixed(kind, attribute):
        return attribute
    apart = _apart(_type_of(attribute))
    field = {"name": "x", "type": apart, "nullable": True, "metadata": {}}
    whole = gateway.struct_type(json.dumps({"type": "struct", "fields": [field]}))
    return gateway.cast_to(attribute, whole.fields()[0].dataType())


def _type_of(attribute: Any) -> Any:
    """The type of a column, as JSON."""
    return json.loads(str(attribute.dataType().json()))


def _is_mixed(kind: str, attribute: Any) -> bool:
    """Whether fields of a struct in a column have the same name, which Spark does not read."""
    return "struct<" in kind and _apart(own := _type_of(attribute)) != own


def _apart(kind: Any) -> Any:
    """A type, as JSON, in which no two fields of a struct have one name: later ones get others.

    >>> names = _apart({"type": "struct", "fields": [{"name": n, "type": "int"} for n in "abA"]})
    >>> [field["name"] for field in names["fields"]]
    ['a', 'b', 'A_2']
    """
    match kind:
        case {"type": "struct", "fields": fields}:
            own = [field["name"].casefold() for field in fields]
            made = []
            for i, field in enumerate(fields):
                name = field["name"]
                while name.casefold() in (own[:i] if name == field["name"] else own):
                    name = f"{name}_{i}"
                made.append({**field, "name": name, "type": _apart(field["type"])})
            return {**kind, "fields": made}
        case {"type": "array", "elementType": inner}:
            return {**kind, "elementType": _apart(inner)}
        case {"type": "map", "keyType": key, "valueType": value}:
            return {**kind, "keyType": _apart(key), "valueType": _apart(value)}
        case _:
            return kind


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
        elif _stored_type(kind) is not None or _is_mixed(kind, want):
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
