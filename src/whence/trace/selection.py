"""Which rows are meant: SQL text as Spark writes it, or rows given as a table.

Selections are written in Spark's SQL, since that is what the pipeline is written in. What DuckDB
understands as Spark does is translated to DuckDB's; anything else is for Spark itself to decide.
Names are checked first, so that a wrong one is answered with the nearest right ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError, TokenError

from whence.errors import SelectionError, UnknownNameError
from whence.trace.tables import RECORD, quoted

# What means the same in Spark and in DuckDB; some of it only with the arguments that `_is_plain`
# looks at.
_PLAIN: tuple[type[exp.Expression], ...] = (
    *(exp.Column, exp.Identifier, exp.Dot, exp.Bracket, exp.Paren, exp.Tuple),
    *(exp.Literal, exp.Null, exp.Boolean, exp.HexString, exp.Cast, exp.DataType, exp.DataTypeParam),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE),
    *(exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg, exp.Interval, exp.Var),
    *(exp.DPipe, exp.Length, exp.Upper, exp.Lower, exp.Trim, exp.StartsWith, exp.RegexpLike),
    *(exp.Coalesce, exp.If, exp.Case, exp.Nullif, exp.Abs, exp.Year, exp.Month, exp.Day),
    *(exp.TsOrDsToDate, exp.ArraySize),
)


@dataclass(frozen=True, slots=True)
class Known:
    """A column that a selection may name: what DuckDB calls it, and its type in Spark's JSON."""

    name: str
    label: str
    type: Any = "?"


def known(names: Sequence[str], types: Sequence[Any] | None = None) -> list[Known]:
    """Columns as a selection knows them; DuckDB does not tell names apart by case alone.

    >>> [column.label for column in known(["a", "b", "A"])]
    ['a~0', 'b', 'A~2']
    """
    counts = Counter(name.casefold() for name in names)
    plain = [counts[n.casefold()] == 1 and not n.startswith("__whence") for n in names]
    labels = [n if plain[i] else f"{n}~{i}" for i, n in enumerate(names)]
    return [
        Known(name, label, kind)
        for name, label, kind in zip(names, labels, types or ["?"] * len(names), strict=True)
    ]


def condition(where: str, columns: Sequence[Known]) -> str | None:
    """A predicate in Spark's SQL as one in DuckDB's; None if only Spark can tell what it means.

    >>> condition("`a.b` = 'x' AND c <=> NULL", known(["a.b", "c"]))
    '"a.b" = \\'x\\' AND "c" IS NOT DISTINCT FROM NULL'
    >>> condition("dayofweek(d) = 1", known(["d"]))
    """
    try:
        parsed = sqlglot.parse_one(where, dialect="spark", into=exp.Condition)
    except SqlglotError as error:
        raise SelectionError(_message(where, error)) from error
    except RecursionError as error:
        raise SelectionError("the selection is nested too deeply to be read") from error
    if not isinstance(parsed, exp.Condition):
        raise SelectionError(f"cannot read the selection {where!r}: it is not one predicate")
    if parsed.find(exp.Subquery, exp.Select):
        raise SelectionError(
            f"the selection {where!r} holds a subquery; use a predicate over columns"
        )
    if parsed.find(exp.Lambda):
        return None  # its variables look like columns
    used = [_resolve(column, columns) for column in list(parsed.find_all(exp.Column))]
    if not all(map(_is_plain, parsed.walk())) or any(map(_is_foreign, used)):
        return None
    return str(parsed.sql(dialect="duckdb", identify=True))


def _is_plain(part: Any) -> bool:
    """Whether a part of a predicate means the same in Spark and in DuckDB."""
    match part:
        case exp.Cast():  # of numbers it rounds or does not, as text it looks different
            return isinstance(part.this, exp.Literal) and type(part) is exp.Cast
        case exp.TsOrDsToDate() | exp.Trim():
            return len([v for v in part.args.values() if v]) == 1
        case exp.Like() | exp.ILike():
            pattern = part.expression
            return isinstance(pattern, exp.Literal) and "\\" not in pattern.this
        case exp.RegexpLike():
            pattern = part.expression
            plain = isinstance(pattern, exp.Literal) and re.fullmatch(
                r"[\w .^$*+|-]*", pattern.this
            )
            return bool(plain) and not part.args.get("flag")
        case _:
            return isinstance(part, _PLAIN)


def _is_foreign(column: Known) -> bool:
    """Whether DuckDB knows a column's values otherwise: collated text, intervals as numbers."""
    kind = str(column.type).lower()
    return "collat" in kind or "interval" in kind


def _resolve(column: exp.Column, columns: Sequence[Known]) -> Known:
    """Give a column the name it has; `a.b` may be a column of that name or a field of `a`."""
    parts = [part.name for part in column.parts]
    whole = find_column(".".join(parts), columns)
    found = whole or find_column(parts[0], columns)
    if found is None:
        raise UnknownNameError("column", parts[0], [other.name for other in columns])
    access: exp.Expression = exp.column(found.label, quoted=True)
    for part in () if whole else parts[1:]:
        access = exp.Dot(this=access, expression=exp.to_identifier(part, quoted=True))
    column.replace(access)
    return found


def find_column(name: str, columns: Sequence[Known]) -> Known | None:
    """The column of a name: as it is written, else whatever its case."""
    exact = [other for other in columns if other.name == name]
    near = exact or [other for other in columns if other.name.casefold() == name.casefold()]
    if len(near) > 1:
        raise SelectionError(
            f"the column {name!r} is ambiguous, {len(near)} columns have that name; give them "
            "names of their own in the pipeline"
        )
    return near[0] if near else None


def _message(where: str, error: Exception) -> str:
    """What is wrong with a selection, and where."""
    start = f"cannot read the selection {where!r}: "
    details = getattr(error, "errors", None)
    if isinstance(error, TokenError):
        return start + "a quote is not closed"
    if not details:
        return start + "there is no predicate in it"
    first = details[0]
    told = first["description"]
    if told.startswith("Required keyword"):
        told = "something is missing"
    elif told.startswith("Expecting "):
        told = f"{told.removeprefix('Expecting ')} is missing"
    else:
        told = "this was not expected"
    return f"{start}{told} at {first['highlight']!r} (character {first['col']})"


def matching(table: str, given: Sequence[str], columns: Sequence[Known]) -> str:
    """A predicate over rows `RECORD`: equal, in the columns given, to some row of a table.

    The table's columns are `g0`, `g1`, ...; maps are equal whatever the order of their entries.
    """
    tests = []
    for i, column in enumerate(_given(given, columns)):
        values = [f"{RECORD}.{quoted(column.label)}", f"g.g{i}"]
        if _kind(column) == "map":
            values = [f"list_sort(map_entries({value}))" for value in values]
        tests.append(" IS NOT DISTINCT FROM ".join(values))
    return f"EXISTS (SELECT 1 FROM {table} AS g WHERE {' AND '.join(tests) or 'true'})"


def _given(names: Sequence[str], columns: Sequence[Known]) -> list[Known]:
    """The columns that rows are given in, by their exact names."""
    found = []
    for name in names:
        column = find_column(name, [other for other in columns if other.name == name])
        if column is None:
            raise UnknownNameError("column", name, [other.name for other in columns])
        found.append(column)
    return found


def _kind(column: Known) -> str:
    """struct, array, map, or the name of a plain type."""
    found = column.type
    while isinstance(found, Mapping):
        found = found["type"]
    return str(found)


def as_table(rows: Any, columns: Sequence[Known], schema: Any) -> Any:
    """Rows given in any usual form (Arrow, pandas, dicts, Row objects) as an Arrow table.

    `schema` has the columns' Arrow types, in their order.
    """
    import pyarrow as pa

    if isinstance(rows, pa.Table):
        return rows
    if hasattr(rows, "toArrow"):
        return rows.toArrow()
    if hasattr(rows, "to_arrow"):
        return rows.to_arrow()
    if type(rows).__module__.startswith("pandas"):
        return pa.Table.from_pandas(rows, preserve_index=False)
    if isinstance(rows, dict):
        rows = [rows]
    if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
        dicts = [row.asDict() if hasattr(row, "asDict") else row for row in rows]
        if all(isinstance(row, dict) for row in dicts) and (not dicts or any(dicts)):
            names = list(dict.fromkeys(str(name) for row in dicts for name in row))
            arrays = {}
            for name, column in zip(names, _given(names, columns), strict=True):
                kind = schema.field(columns.index(column)).type
                try:
                    values = [_as_arrow(row.get(name), kind, _kind(column)) for row in dicts]
                    arrays[name] = pa.array(values, kind)
                except (pa.ArrowException, TypeError, OverflowError) as error:
                    raise SelectionError(f"cannot select by these rows: {error}") from error
            return pa.table(arrays)
    raise SelectionError(
        f"cannot select by {type(rows).__name__}; give SQL text, a Column, a DataFrame, an Arrow "
        "table, or a list of rows or dicts"
    )


def _as_arrow(value: Any, kind: Any, spark: str = "") -> Any:
    """A value as Arrow takes it for a type, times and intervals as Spark stores them."""
    import pyarrow.types as is_a

    if value is None:
        return None
    if is_a.is_map(kind) and isinstance(value, Mapping):
        return [(k, _as_arrow(v, kind.item_type)) for k, v in value.items()]
    if is_a.is_struct(kind):
        parts = value.asDict() if hasattr(value, "asDict") else value
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return {f.name: _as_arrow(parts.get(f.name), f.type) for f in fields}
    if is_a.is_list(kind) and isinstance(value, list | tuple):
        return [_as_arrow(item, kind.value_type) for item in value]
    if spark.startswith("interval ") and is_a.is_int64(kind) and isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if spark == "timestamp" and isinstance(value, datetime):
        moment = value.astimezone(UTC)  # without a zone it is in that of this process
        return moment if kind.tz else moment.replace(tzinfo=None)
    return value
