"""Choosing rows of a dataset: a selection becomes a table of locators."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from whence.archive import Dataset
from whence.errors import SelectionError, WhenceError
from whence.trace.tables import LOCATOR, RECORD, Tables, quoted

if TYPE_CHECKING:
    from whence.trace.selection import Known

Selection = Any
"""SQL text over the columns, a Column, a DataFrame, a list of rows, or None for all rows."""


class Selecting(Protocol):
    """What a selection asks of Spark."""

    @property
    def zone(self) -> str:
        """The time zone of the session at hand; UTC where there is none."""
        ...

    def selected(self, dataset: Dataset, predicate: Any) -> Any:
        """The locators of the rows that a predicate, SQL text or a Column, holds for, as Arrow."""
        ...


def choose(tables: Tables, dataset: Dataset, selection: Selection, engine: Selecting) -> str:
    """A table with the locators of a dataset's selected rows.

    The engine answers what DuckDB may understand otherwise than Spark does.
    """
    if selection is None:
        rows = tables.rows(dataset, ["1 AS __whence_none"])
        return tables.table("chosen", f"SELECT {LOCATOR} AS locator, true AS role FROM ({rows})")
    from whence.trace.selection import known  # this imports sqlglot

    names, physical, kinds = _columns(dataset)
    columns = known(names, kinds)
    labels = [quoted(column.label) for column in columns]
    stored = [tables.column(dataset, name) for name in physical]
    items = [f"{column} AS {label}" for label, column in zip(labels, stored, strict=True)]
    rows = tables.rows(dataset, items or ["1 AS __whence_none"])
    where = _condition(tables, dataset, rows, selection, columns, engine)
    return _chosen(tables, dataset, rows, selection, where)


def _chosen(tables: Tables, dataset: Dataset, rows: str, selection: Selection, where: str) -> str:
    """The locators of the rows for which a condition holds."""
    try:
        described = tables.run(f"DESCRIBE SELECT {where} FROM ({rows}) AS {RECORD}", dataset)
        _check_boolean(selection, described[0][1])
        sql = f"SELECT {LOCATOR} AS locator, true AS role FROM ({rows}) AS {RECORD} WHERE {where}"
        return tables.table("chosen", sql, dataset)
    except WhenceError:
        raise
    except Exception as error:
        raise SelectionError(
            f"cannot select by {selection!r}: {str(error).splitlines()[0]}"
        ) from error


def _condition(
    tables: Tables,
    dataset: Dataset,
    rows: str,
    selection: Selection,
    columns: Sequence[Known],
    engine: Selecting,
) -> str:
    """What the selected rows fulfil, as DuckDB understands it."""
    from whence.trace.selection import as_table, condition, matching

    if isinstance(selection, str):
        text = condition(selection, columns)
        if text is not None and not (engine.zone != "UTC" and _has_times(columns)):
            return text
    elif not (type(selection).__module__.startswith("pyspark") and hasattr(selection, "_jc")):
        schema = tables.arrow(f"SELECT * FROM ({rows}) LIMIT 0", dataset).schema
        table = as_table(selection, columns, schema)
        name = tables.fresh("given")
        where = matching(name, table.column_names, columns)
        if not table.num_rows:
            return "false"
        given = [f"g{i}" for i in range(table.num_columns)]
        tables.register(name, table.rename_columns(given))
        return where
    name = tables.fresh("given")
    tables.register(name, engine.selected(dataset, selection))
    return f"{RECORD}.{LOCATOR} IN (SELECT locator FROM {name})"


def _has_times(columns: Sequence[Known]) -> bool:
    """Whether some column holds points in time, which look different in every time zone."""
    return any("timestamp" in str(c.type).replace("timestamp_ntz", "") for c in columns)


def _columns(dataset: Dataset) -> tuple[list[str], list[str], list[Any]]:
    """The names of a dataset's columns, those they are stored under, and their types."""
    fields = json.loads(dataset.schema)["fields"]
    kinds = [{"type": f["type"], **f["metadata"]} for f in fields]
    properties = dataset.properties
    if "columns" in properties:
        return list(properties["columns"]), list(properties["physical"]), kinds
    names = [f["name"] for f in fields]
    return names, names, kinds


def _check_boolean(selection: Selection, kind: str) -> None:
    if kind not in ("BOOLEAN", '"NULL"'):
        raise SelectionError(f"cannot select by {selection!r}: it is {kind}, not true or false")
