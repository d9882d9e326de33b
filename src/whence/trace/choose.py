"""Choosing rows of a dataset: a selection becomes a table of locators."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from whence.archive import Dataset
from whence.errors import SelectionError, WhenceError
from whence.trace.tables import LOCATOR, Tables, quoted

Selection = Any
"""SQL text over the columns, a Column, a DataFrame, a list of rows, or None for all rows."""


def choose(
    tables: Tables, dataset: Dataset, selection: Selection, column_text: Callable[[Any], str]
) -> str:
    """A table with the locators of a dataset's selected rows.

    `column_text` gives the SQL text of a Spark Column.
    """
    names, physical = _column_names(dataset)
    items = [f"{quoted(p)} AS {quoted(n)}" for n, p in zip(names, physical, strict=True)]
    rows = tables.rows(dataset, items or ["1 AS __whence_none"])
    where = "true"
    if selection is not None:
        where = _condition(tables, selection, names, column_text)
    try:
        if selection is not None:
            described = tables.run(f"DESCRIBE SELECT {where} FROM ({rows}) AS r", dataset)
            _check_boolean(selection, described[0][1])
        sql = f"SELECT {LOCATOR} AS locator, true AS role FROM ({rows}) AS r WHERE {where}"
        return tables.table("chosen", sql, dataset)
    except WhenceError:
        raise
    except Exception as error:
        raise SelectionError(
            f"cannot select by {selection!r}: {str(error).splitlines()[0]}"
        ) from error


def _condition(
    tables: Tables, selection: Selection, names: list[str], column_text: Callable[[Any], str]
) -> str:
    from whence.trace.selection import as_table, condition, matching  # these import sqlglot

    if isinstance(selection, str):
        return condition(selection, names)
    if type(selection).__module__.startswith("pyspark") and hasattr(selection, "_jc"):
        return condition(column_text(selection), names)
    table = as_table(selection)
    name = tables.fresh("given")
    where = matching(name, table.column_names, names)
    if not table.num_rows:
        return "false"
    tables.register(name, table)
    return where


def _column_names(dataset: Dataset) -> tuple[list[str], list[str]]:
    properties = dataset.properties
    if "columns" in properties:
        return list(properties["columns"]), list(properties["physical"])
    names = [field["name"] for field in json.loads(dataset.schema)["fields"]]
    return names, names


def _check_boolean(selection: Selection, kind: str) -> None:
    if kind not in ("BOOLEAN", '"NULL"'):
        raise SelectionError(f"cannot select by {selection!r}: it is {kind}, not true or false")
