"""Wrappers of Python functions over batches and groups.

They run in Python workers and are sent there by value, so they import what they need themselves.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Function = Callable[..., Any]


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


def noting_pandas(function: Function, names: Sequence[str], members: str) -> Function:
    """Batches of pandas: the first row of a result notes what was taken by then."""
    label = labelled(names)

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
            yield label(result, extra)

    return noting


def noting_arrow(function: Function, _: Sequence[str], members: str) -> Function:
    """The same for batches of Arrow."""

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


def rowwise_pandas(function: Function, names: Sequence[str]) -> Function:
    """Batches of pandas, one row for each row: slots are handed on."""
    label = labelled(names)

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
            yield label(result, {"__whence_row": rows})

    return rowwise


def rowwise_arrow(function: Function, _: Sequence[str]) -> Function:
    """The same for batches of Arrow."""

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


def noting_group(
    function: Function, names: Sequence[str], drop: list[str], members: str
) -> Function:
    """A group: the first row of the result notes its rows."""
    label = labelled(names)
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
        return label(result, extra)

    return noting


def rowwise_group(function: Function, names: Sequence[str], drop: list[str]) -> Function:
    """A group, one row for each row: slots are handed on."""
    label = labelled(names)
    takes_key = len(inspect.signature(function).parameters) == 2

    def rowwise(key: Any, group: Any) -> Any:
        rows = group["__whence_row"].tolist()
        plain = group.drop(columns=drop)
        result = function(key, plain) if takes_key else function(plain)
        if len(rows) != len(result):
            raise ValueError(f"a function declared rowwise gave {len(result)} rows for {len(rows)}")
        return label(result, {"__whence_row": rows})

    return rowwise


def noting_cogroup(
    function: Function, names: Sequence[str], counts: tuple[int, int], members: list[str]
) -> Function:
    """The groups of two sides: the first row of the result notes the rows of both."""
    label = labelled(names)
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
        return label(result, extra)

    return noting
