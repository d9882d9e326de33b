"""What is given out: text and tables for people, data for JSON, records for CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TextIO

from whence.present.values import cell, plain

Format = Literal["table", "json", "csv"]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: names of columns, and rows of values. `more` rows are not shown."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    more: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """One answer in all its forms."""

    blocks: tuple[str | Grid, ...]
    """For people: paragraphs and tables, in order."""
    data: Any
    """For programs: JSON data, values still as Python has them."""
    records: Grid
    """For spreadsheets: the one table that holds the answer."""


def write(report: Report, format: Format, stream: TextIO) -> None:
    """Give a report out; on a terminal, tables are drawn to fit it."""
    match format:
        case "json":
            stream.write(json.dumps(plain(report.data), ensure_ascii=False, indent=2) + "\n")
        case "csv":
            _write_csv(report.records, stream)
        case "table":
            from whence.present.text import write_blocks

            write_blocks(report.blocks, stream)


def _write_csv(grid: Grid, stream: TextIO) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(grid.columns)
    for row in grid.rows:
        writer.writerow([_csv_value(value) for value in row])


def _csv_value(value: Any) -> Any:
    """Text as it is; null as nothing; lists and structs as JSON."""
    if value is None:
        return ""
    found = plain(value)
    return cell(found) if isinstance(found, bool | list | dict) else found


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names, with a number added where one stands twice.

    >>> distinct_names(["a", "b", "a"])
    ('a', 'b', 'a_2')
    """
    taken: list[str] = []
    for name in names:
        own, number = name, 2
        while own in taken:
            own, number = f"{name}_{number}", number + 1
        taken.append(own)
    return tuple(taken)


def dicts(grid: Grid) -> list[dict[str, Any]]:
    """The rows of a grid, each value under its column's name."""
    return [dict(zip(grid.columns, row, strict=True)) for row in grid.rows]
