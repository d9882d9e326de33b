"""Rows of an answer straight from DuckDB: Arrow takes longer to load than most answers take.

The one module here that looks behind the public face of answers.
"""

from __future__ import annotations

from whence.archive import Dataset
from whence.present.report import Grid, distinct_names
from whence.trace.answer import Impact, SourceRows, Trace
from whence.trace.tables import LOCATOR, ROW_BITS, Tables, check_source, quoted

EXTRA = ("_file", "_row", "_role")


def source_grid(rows: SourceRows, limit: int | None) -> Grid:
    """Traced rows in the order of their source: file, row and role, then its columns."""
    tables, hits, dataset = rows._tables, rows._hits, rows.dataset
    check_source(dataset)
    pairs = rows._stored_columns()
    items = [f"{quoted(physical)} AS c{i}" for i, (_, physical) in enumerate(pairs)]
    found = tables.at(dataset, items or ["1 AS c0"], hits)
    chosen = "".join(f", r.c{i}" for i in range(len(pairs)))
    sql = (
        f"SELECT {rows._file()}, h.locator & {(1 << ROW_BITS) - 1}, "
        f"CASE WHEN h.role THEN 'contributing' ELSE 'influencing' END{chosen} "
        f"FROM ({found}) AS r JOIN {hits} AS h ON h.locator = r.{LOCATOR} "
        f"ORDER BY h.locator{_limit(limit)}"
    )
    listed = tables.run(sql, dataset)
    return Grid((*EXTRA, *(name for name, _ in pairs)), listed, len(rows) - len(listed))


def output_grid(answer: Trace | Impact, limit: int | None) -> Grid:
    """The output rows of an answer, in their order."""
    chosen = answer._chosen if isinstance(answer, Trace) else answer._found
    tables = answer._tables
    dataset = tables.archive.dataset(answer._view.step.output)
    listed = _output_rows(tables, dataset, chosen, limit)
    names = distinct_names(dataset.properties["columns"])
    return Grid(names, listed, tables.count(chosen) - len(listed))


def _output_rows(
    tables: Tables, dataset: Dataset, chosen: str, limit: int | None
) -> list[tuple[object, ...]]:
    physical = [quoted(name) for name in dataset.properties["physical"]]
    rows = tables.at(dataset, physical or ["1 AS c0"], chosen)
    sql = f"SELECT * EXCLUDE ({LOCATOR}) FROM ({rows}) ORDER BY {LOCATOR}{_limit(limit)}"
    found = tables.run(sql, dataset)
    return found if physical else [() for _ in found]


def _limit(limit: int | None) -> str:
    return "" if limit is None else f" LIMIT {limit}"
