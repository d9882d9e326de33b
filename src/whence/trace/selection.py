"""Which rows are meant: SQL text as Spark writes it, or rows given as a table.

Selections are written in Spark's SQL, since that is what the pipeline is written in, and translated
to DuckDB's. Names are checked first, so that a wrong one is answered with the nearest right ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError, TokenError

from whence.errors import SelectionError, UnknownNameError
from whence.trace.tables import quoted


def condition(where: str, columns: Sequence[str], kind: str = "column") -> str:
    """A predicate in Spark's SQL as one in DuckDB's.

    >>> condition("`a.b` = 'x' AND c <=> NULL", ["a.b", "c"])
    '"a.b" = \\'x\\' AND "c" IS NOT DISTINCT FROM NULL'
    """
    try:
        parsed = sqlglot.parse_one(where, dialect="spark", into=exp.Condition)
    except SqlglotError as error:
        raise SelectionError(_message(where, error)) from error
    if not isinstance(parsed, exp.Condition):
        raise SelectionError(f"cannot read the selection {where!r}: it is not one predicate")
    folded = {name.casefold(): name for name in columns}
    for column in list(parsed.find_all(exp.Column)):
        _resolve(column, columns, folded, kind)
    if parsed.find(exp.Subquery, exp.Select):
        raise SelectionError(
            f"the selection {where!r} holds a subquery; use a predicate over columns"
        )
    return str(parsed.sql(dialect="duckdb", identify=True))


def _resolve(column: exp.Column, columns: Sequence[str], folded: dict[str, str], kind: str) -> None:
    """Give a column the name it has; `a.b` may be a column of that name or a field of `a`."""
    parts = [part.name for part in column.parts]
    whole = folded.get(".".join(parts).casefold())
    if whole is not None:
        column.replace(exp.column(whole, quoted=True))
        return
    first = folded.get(parts[0].casefold())
    if first is None:
        raise UnknownNameError(kind, parts[0], columns)
    access: exp.Expression = exp.column(first, quoted=True)
    for part in parts[1:]:
        access = exp.Dot(this=access, expression=exp.to_identifier(part, quoted=True))
    column.replace(access)


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


def matching(table: str, given: Sequence[str], columns: Sequence[str]) -> str:
    """A predicate over rows `r`: equal, in the columns given, to some row of a table."""
    for name in given:
        if name not in columns:
            raise UnknownNameError("column", name, columns)
    tests = [f"r.{quoted(n)} IS NOT DISTINCT FROM g.{quoted(n)}" for n in given]
    return f"EXISTS (SELECT 1 FROM {table} AS g WHERE {' AND '.join(tests) or 'true'})"


def as_table(rows: Any) -> Any:
    """Rows given in any usual form (Arrow, pandas, dicts, Row objects) as an Arrow table."""
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
            try:
                return pa.Table.from_pylist(dicts)
            except (pa.ArrowException, TypeError, OverflowError) as error:
                raise SelectionError(f"cannot select by these rows: {error}") from error
    raise SelectionError(
        f"cannot select by {type(rows).__name__}; give SQL text, a Column, a DataFrame, an Arrow "
        "table, or a list of rows or dicts"
    )
