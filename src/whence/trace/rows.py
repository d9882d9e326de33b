"""Rows that an answer names: those of a source, or those of an output."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from whence.algebra.locators import ROW_BITS, ROW_MASK
from whence.archive import Dataset
from whence.errors import EngineError, SelectionError
from whence.trace.engine import Engine
from whence.trace.tables import LOCATOR, Tables, check_source, local, quoted, text

EXTRA = ("_file", "_row", "_role")


@dataclass(frozen=True, slots=True)
class Fetched:
    """The first rows of an answer as tuples; `more` rows were not fetched."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    more: int


class SourceRows:
    """The traced rows of one source."""

    def __init__(
        self, tables: Tables, dataset: Dataset, hits: str, name: str, engine: Engine | None
    ) -> None:
        self._tables = tables
        self._engine = engine
        self.hits = hits
        self.dataset = dataset
        self.name = name

    def __len__(self) -> int:
        return self._tables.count(self.hits)

    def __repr__(self) -> str:
        return f"<{len(self):,} rows of {self.name}>"

    @property
    def columns(self) -> list[str]:
        """The columns of the source, as far as the pipeline read them."""
        return [name for name, _ in self._stored_columns()]

    def locators(self) -> Any:
        """File, row index and role of each row, as an Arrow table."""
        return self._tables.arrow(
            f"SELECT {self.file_sql()} AS file, locator & {ROW_MASK} AS row, "
            f"{role_sql('role')} AS role FROM {self.hits} ORDER BY locator"
        )

    def contributing(self) -> str:
        """A table with the locators of the contributing rows."""
        return self._tables.table("kept", f"SELECT locator FROM {self.hits} WHERE role")

    def to_arrow(self, *, role: str | None = None, extra: bool = False) -> Any:
        """The rows as an Arrow table, in the order of the source.

        `role` keeps only the contributing or only the influencing ones; `extra` adds the columns
        `_file`, `_row` and `_role`.
        """
        if role not in (None, "contributing", "influencing"):
            raise SelectionError(f"a role is 'contributing' or 'influencing', not {role!r}")
        check_source(self.dataset)
        pairs = self._stored_columns()
        more = ""
        if extra:
            more = (
                f", {self.file_sql('h.')} AS _file, h.locator & {ROW_MASK} AS _row, "
                f"{role_sql('h.role')} AS _role"
            )
        where = "" if role is None else f" WHERE {role_sql('h.role')} = {text(role)}"
        chosen = ", ".join(f"r.c{i}" for i in range(len(pairs)))
        table = self._tables.arrow(
            f"SELECT {chosen or '1 AS row'}{more} FROM ({self._rows(pairs)}) AS r "
            f"JOIN {self.hits} AS h ON h.locator = r.{LOCATOR}{where} ORDER BY h.locator",
            self.dataset,
        )
        names = [name for name, _ in pairs] or ["row"]
        return table.rename_columns([*names, *table.column_names[len(names) :]])

    def _rows(self, pairs: list[tuple[str, str]]) -> str:
        """SQL for the rows, their columns as c0, c1, ..., whatever they are called."""
        columns = [self._tables.column(self.dataset, physical) for _, physical in pairs]
        items = [f"{column} AS c{i}" for i, column in enumerate(columns)]
        return self._tables.at(self.dataset, items or ["1 AS c0"], self.hits)

    def fetch(self, limit: int | None = None) -> Fetched:
        """The first rows with `_file`, `_row` and `_role` before their columns, without Arrow."""
        check_source(self.dataset)
        pairs = self._stored_columns()
        chosen = "".join(f", r.c{i}" for i in range(len(pairs)))
        sql = (
            f"SELECT {self.file_sql('h.')}, h.locator & {ROW_MASK}, {role_sql('h.role')}{chosen} "
            f"FROM ({self._rows(pairs)}) AS r JOIN {self.hits} AS h ON h.locator = r.{LOCATOR} "
            f"ORDER BY h.locator{limit_sql(limit)}"
        )
        rows = self._tables.run(sql, self.dataset)
        columns = (*EXTRA, *(name for name, _ in pairs))
        return Fetched(columns, rows, len(self) - len(rows))

    def to_pandas(self, *, role: str | None = None) -> Any:
        """The rows as a pandas DataFrame."""
        return self.to_arrow(role=role).to_pandas()

    def to_pylist(self, *, role: str | None = None) -> list[dict[str, Any]]:
        """The rows as dicts."""
        return list(self.to_arrow(role=role).to_pylist())

    def spark(self) -> Any:
        """The rows as a Spark DataFrame, in the active session."""
        if self._engine is None:
            raise EngineError("there is no Spark session at hand; use to_arrow() or to_pandas()")
        return self._engine.frame(self.to_arrow())

    def _stored_columns(self) -> list[tuple[str, str]]:
        """Names as people know them, beside the names they are stored under."""
        properties = self.dataset.properties
        if "columns" in properties:
            return list(zip(properties["columns"], properties["physical"], strict=True))
        return [(f["name"], f["name"]) for f in json.loads(self.dataset.schema)["fields"]]

    def file_sql(self, prefix: str = "") -> str:
        """SQL: the file that a locator is in."""
        files = self.dataset.files
        if not files:
            return "NULL"
        paths = [local(p) for p in self._tables.archive.file_paths(self.dataset)]
        cases = " ".join(
            f"WHEN {file.slot} THEN '{path.replace(chr(39), chr(39) * 2)}'"
            for file, path in zip(files, paths, strict=True)
        )
        return f"CASE {prefix}locator >> {ROW_BITS} {cases} END"


def output_rows(tables: Tables, dataset: Dataset, chosen: str) -> Any:
    """Output rows by locator, in their order, under their own names."""
    pairs = zip(dataset.properties["columns"], dataset.properties["physical"], strict=True)
    names = [(n, p) for n, p in pairs]
    items = [quoted(p) for _, p in names] or ["1 AS row"]
    table = tables.arrow(f"{tables.at(dataset, items, chosen)} ORDER BY {LOCATOR}", dataset)
    table = table.drop_columns([LOCATOR])
    return table.rename_columns([n for n, _ in names]) if names else table


def fetch_output(tables: Tables, dataset: Dataset, chosen: str, limit: int | None) -> Fetched:
    """The first of some output rows, without Arrow."""
    physical = [quoted(name) for name in dataset.properties["physical"]]
    rows = tables.at(dataset, physical or ["1 AS c0"], chosen)
    sql = f"SELECT * EXCLUDE ({LOCATOR}) FROM ({rows}) ORDER BY {LOCATOR}{limit_sql(limit)}"
    found = tables.run(sql, dataset)
    listed = found if physical else [() for _ in found]
    columns = tuple(dataset.properties["columns"])
    return Fetched(columns, listed, tables.count(chosen) - len(listed))


def limit_sql(limit: int | None) -> str:
    """SQL: at most so many rows."""
    return "" if limit is None else f" LIMIT {checked_count(limit)}"


def checked_count(count: Any) -> int:
    """A number of rows that was asked for."""
    if not isinstance(count, int) or count < 0:
        raise SelectionError(f"a number of rows is 0 or more, not {count!r}")
    return count


def role_sql(column: str) -> str:
    """SQL: a role in words."""
    return f"CASE WHEN {column} THEN 'contributing' ELSE 'influencing' END"
