"""Records of a dataset, as DuckDB reads them: their columns, and their canonical bytes.

Spark may read a file with a schema that has more than the file: a column, or a field of a struct,
is null then. In canonical bytes that is a value without a type.
"""

from __future__ import annotations

import re
from typing import Any

from whence.algebra.canonical import Column, Type, record_columns, row_sql
from whence.archive import Dataset
from whence.errors import UnsupportedError
from whence.trace.tables import RECORD, Tables, local, quoted, text

SOURCE_HASH = "sha256('S' || b)"
"""SQL: the full hash of a source row by value, in hexadecimal, from its canonical bytes."""
_MISSING = "void"


def record_names(dataset: Dataset) -> list[str]:
    """The names of the columns of a dataset's records."""
    return [name for name, _, _ in record_columns(dataset.schema, dataset.properties)]


def stored_columns(tables: Tables, dataset: Dataset) -> list[Column]:
    """Name, stored name and type of each column; what the files of a source lack has no type."""
    found = record_columns(dataset.schema, dataset.properties)
    if dataset.kind != "source" or not dataset.files:
        return found
    held = tables.types(dataset)
    return [
        (name, stored, _fitted(kind, held.get(stored.casefold()))) for name, stored, kind in found
    ]


def record_texts(tables: Tables, dataset: Dataset) -> str:
    """SQL: locator and canonical bytes (`b`, as text) of a dataset's rows."""
    columns = [
        (name, f"{RECORD}.{quoted(stored)}", kind)
        for name, stored, kind in stored_columns(tables, dataset)
    ]
    return tables.rows(dataset, [f"{row_sql(columns, 'duckdb')} AS b"])


def check_calendar(tables: Tables, dataset: Dataset) -> None:
    """Refuse days of which readers do not agree what they are: old ones, as Spark 2 wrote them.

    Spark counts them anew as it reads; DuckDB does not.
    """
    if dataset.kind != "source" or not dataset.files or not _DAYS.search(dataset.schema):
        return
    listed = ", ".join(text(local(path)) for path in tables.archive.file_paths(dataset))
    found = tables.run(
        f"SELECT DISTINCT file_name FROM parquet_kv_metadata([{listed}]) WHERE {_LEGACY}", dataset
    )
    types = tables.types(dataset).items()
    tests = [test for name, kind in types if (test := _is_old(quoted(name), kind))]
    for (path,) in found if tests else ():
        scan = f"read_parquet({text(path)}, union_by_name = true)"
        if tables.run(f"SELECT 1 FROM {scan} AS r WHERE {' OR '.join(tests)} LIMIT 1", dataset):
            raise UnsupportedError(
                f"source {dataset.name!r}: {path} holds dates before 1582, or times before 1900, "
                "in the calendar of Spark 2, of which readers do not agree what they are; write "
                "the file again with Spark 3 or later (datetimeRebaseModeInWrite = CORRECTED)"
            )


_DAYS = re.compile(r'"(date|timestamp)"')
_LEGACY = (
    "key IN ('org.apache.spark.legacyDateTime', 'org.apache.spark.legacyINT96') "
    "OR (key = 'org.apache.spark.version' AND value < '3')"
)
_OLD = r"(0\d|1[0-8])\d\d-\d\d-\d\d"


def _is_old(column: str, kind: Any) -> str:
    """SQL: whether a value is, or may hold, a day that calendars count differently; or nothing."""
    if kind.id == "date":
        return f"{column} < DATE '1582-10-15'"
    if kind.id.startswith("timestamp"):
        return f"{column} < TIMESTAMP '1900-01-01'"
    if kind.id in ("struct", "list", "map") and re.search("DATE|TIMESTAMP", str(kind)):
        return f"regexp_matches(CAST({column} AS VARCHAR), {text(_OLD)})"
    return ""


def _fitted(kind: Any, held: Any) -> Type:
    """A type without what the files lack; `held` is what DuckDB finds in them."""
    if held is None:
        return _MISSING
    if not isinstance(kind, dict):
        return str(kind)
    match kind["type"], held.id:
        case "struct", "struct":
            inside = {name.casefold(): inner for name, inner in held.children}
            fields = [
                {**field, "type": _fitted(field["type"], inside.get(field["name"].casefold()))}
                for field in kind["fields"]
            ]
            return {**kind, "fields": fields}
        case "array", "list":
            return {**kind, "elementType": _fitted(kind["elementType"], held.child)}
        case "map", "map":
            key, value = (inner for _, inner in held.children)
            fitted = {
                "keyType": _fitted(kind["keyType"], key),
                "valueType": _fitted(kind["valueType"], value),
            }
            return {**kind, **fitted}
        case "udt", _:
            return {**kind, "sqlType": _fitted(kind["sqlType"], held)}
        case _:
            return kind
