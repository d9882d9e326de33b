"""Wrappers of Python functions over batches and groups.

They run in Python workers and are sent there by value, so they are made of functions inside of
functions, and import what they need themselves. A wrapper is put together from three parts: what
handles tables of pandas or of Arrow, what is done with the rows' slots (`noting`, `rowwise`), and
how the function is called (over batches, over a group, over a group's batches, over two groups).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Function = Callable[..., Any]
Run = Callable[[Callable[[Iterator[Any]], Any], Iterator[Any]], Iterator[Any]]
"""Calls a function over batches without slots, and gives its results with what is to be known."""

ROW = "__whence_row"
TOKEN = "__whence_token"
NUMBER = "__whence_number"


@dataclass(frozen=True, slots=True)
class Tables:
    """How tables of one kind are handled; only its fields are sent to workers.

    `take` gives the slots of a table's rows, and the table without some columns. `size` counts
    rows, `label` adds columns: a value for all rows, or a list.
    """

    take: Function
    size: Function
    label: Function


def labelled(names: Sequence[str]) -> Function:
    """Gives a result without names those of the schema, as Spark does, and adds columns to it."""

    def label(result: Any, extra: dict[str, Any]) -> Any:
        import pandas as pd

        unnamed = not any(isinstance(name, str) for name in result.columns)
        if unnamed and len(result.columns) == len(names):
            result = result.set_axis(list(names), axis=1)
        made = {
            name: pd.Series(value, index=result.index, dtype=object)
            if isinstance(value, list)
            else value
            for name, value in extra.items()
        }
        return result.assign(**made)

    return label


def pandas_tables(names: Sequence[str]) -> Tables:
    """DataFrames of pandas; `names` are the columns of the function's schema."""

    def take(table: Any, drop: Sequence[str]) -> tuple[list[str], Any]:
        return table["__whence_row"].tolist(), table.drop(columns=list(drop))

    return Tables(take, len, labelled(names))


def arrow_tables(_: Sequence[str]) -> Tables:
    """Record batches and tables of Arrow."""

    def take(table: Any, drop: Sequence[str]) -> tuple[list[str], Any]:
        kept = [i for i, name in enumerate(table.schema.names) if name not in drop]
        rows = table.column(table.schema.get_field_index("__whence_row"))
        return rows.to_pylist(), table.select(kept)

    def size(table: Any) -> int:
        return int(table.num_rows)

    def label(result: Any, extra: dict[str, Any]) -> Any:
        import pyarrow as pa

        kinds = {
            "__whence_row": pa.string(),
            "__whence_token": pa.string(),
            "__whence_number": pa.int64(),
        }
        names, columns = list(result.schema.names), list(result.columns)
        for name, value in extra.items():
            values = value if isinstance(value, list) else [value] * result.num_rows
            names.append(name)
            columns.append(pa.array(values, kinds.get(name, pa.list_(pa.string()))))
        return type(result).from_arrays(columns, names=names)

    return Tables(take, size, label)


# --- What is done with slots -----------------------------------------------------------------


def noting(tables: Tables, drop: Sequence[str], members: str) -> Run:
    """The first row of each result notes the rows that were taken by then."""
    take, size, label = tables.take, tables.size, tables.label

    def run(call: Callable[[Iterator[Any]], Any], batches: Iterator[Any]) -> Iterator[Any]:
        import uuid

        token, taken, number = uuid.uuid4().hex, [], 0

        def feed() -> Iterator[Any]:
            for batch in batches:
                rows, plain = take(batch, drop)
                taken.extend(rows)
                yield plain

        for result in call(feed()):
            column: list[Any] = [None] * size(result)
            if column and taken:
                number += 1
                column[0] = list(taken)
                taken.clear()
            extra = {"__whence_token": token, "__whence_number": number, members: column}
            yield label(result, extra)

    return run


def rowwise(tables: Tables, drop: Sequence[str]) -> Run:
    """One row for each row, in order: slots are handed on."""
    take, size, label = tables.take, tables.size, tables.label

    def run(call: Callable[[Iterator[Any]], Any], batches: Iterator[Any]) -> Iterator[Any]:
        waiting: list[list[str]] = []

        def feed() -> Iterator[Any]:
            for batch in batches:
                rows, plain = take(batch, drop)
                waiting.append(rows)
                yield plain

        for result in call(feed()):
            rows = waiting.pop(0) if waiting else []
            if len(rows) != size(result):
                raise ValueError(
                    f"a function declared rowwise gave {size(result)} rows for {len(rows)}"
                )
            yield label(result, {"__whence_row": rows})

    return run


# --- How a function is called ----------------------------------------------------------------


def over_batches(function: Function, run: Run) -> Function:
    """`mapInPandas`, `mapInArrow`."""

    def wrapped(batches: Iterator[Any]) -> Iterator[Any]:
        return run(function, batches)

    return wrapped


def over_group(function: Function, run: Run) -> Function:
    """`applyInPandas`, `applyInArrow`: a group at once."""
    takes_key = len(inspect.signature(function).parameters) == 2

    def wrapped(key, group):  # type: ignore[no-untyped-def]  # hints would be read by Spark
        def call(tables: Iterator[Any]) -> list[Any]:
            plain = next(tables)
            return [function(key, plain) if takes_key else function(plain)]

        return next(run(call, iter([group])))

    return wrapped


def over_group_batches(function: Function, run: Run, table: type) -> Function:
    """The same, a group in batches; `table` is what they are of."""
    takes_key = len(inspect.signature(function).parameters) == 2

    def wrapped(key, batches):  # type: ignore[no-untyped-def]
        return run(lambda feed: function(key, feed) if takes_key else function(feed), batches)

    # Spark tells by the hints that this one takes batches.
    batches = Iterator[table]  # type: ignore[valid-type]
    wrapped.__annotations__ = {"key": tuple[Any, ...], "batches": batches, "return": batches}
    return wrapped


def over_cogroup(
    function: Function, tables: Tables, drops: Sequence[list[str]], members: Sequence[str]
) -> Function:
    """The groups of two sides: the first row of the result notes the rows of both."""
    take, size, label = tables.take, tables.size, tables.label
    takes_key = len(inspect.signature(function).parameters) == 3

    def wrapped(key, left, right):  # type: ignore[no-untyped-def]
        import uuid

        sides = [take(side, drop) for side, drop in zip((left, right), drops, strict=True)]
        plain = [side for _, side in sides]
        result = function(key, *plain) if takes_key else function(*plain)
        extra: dict[str, Any] = {"__whence_token": uuid.uuid4().hex, "__whence_number": 1}
        for name, (rows, _) in zip(members, sides, strict=True):
            column: list[Any] = [None] * size(result)
            if column:
                column[0] = rows
            extra[name] = column
        return label(result, extra)

    return wrapped
