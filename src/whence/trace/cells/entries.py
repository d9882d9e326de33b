"""The entries of a source's maps, told by their keys instead of their places."""

from __future__ import annotations

from collections.abc import Iterator

from whence.archive import Dataset
from whence.errors import SourceChangedError
from whence.plan.paths import Field, Item, Value
from whence.trace.places import Held, PlaceStep
from whence.trace.tables import LOCATOR, Tables, check_source, quoted, text

Placed = tuple[str, tuple[PlaceStep, ...]]
"""A table of places and the steps that are at them."""


class Entries:
    """Looks keys up in the sources; what is not known exactly goes into `reasons`."""

    def __init__(self, tables: Tables, reasons: dict[str, None]) -> None:
        self._tables = tables
        self._reasons = reasons

    def by_key(self, dataset: Dataset, column: str, placed: Placed) -> Iterator[Placed]:
        """The same places by key; a map without such an entry counts as a whole.

        m{entry 1}   →   m{'d'}, and m in the rows where it has one entry or is null
        """
        table, steps = placed
        number = next((i for i, step in enumerate(steps) if is_entry(step)), None)
        if number is None:
            yield placed
            return
        value = _value("r.c", steps[:number])
        if value is None or _has_changed(dataset):
            if value is not None:
                told = "which entries of its maps were meant is not known, all count"
                self._reasons[f"{dataset.name}: {told}"] = None
            yield table, tuple(Value() if is_entry(step) else step for step in steps)
            return
        key = Held(self._tables.fresh("k"), "value")
        found = self._keys(
            dataset, column, table, f"map_keys({value})[m.{_of(steps[number])} + 1]", key
        )
        none = f"{found} WHERE {key.column} IS NULL"
        if self._tables.count(f"(SELECT 1 FROM {none})"):
            yield self._tables.table("places", f"SELECT * FROM {none}"), steps[:number]
        some = f"SELECT * FROM {found} WHERE {key.column} IS NOT NULL"
        known = self._tables.table("places", some)
        yield from self.by_key(
            dataset, column, (known, (*steps[:number], key, *steps[number + 1 :]))
        )

    def _keys(self, dataset: Dataset, column: str, table: str, found: str, key: Held) -> str:
        """The table with a column for a key that the source's rows have."""
        rows = self._tables.at(dataset, [f"{self._tables.column(dataset, column)} AS c"], table)
        return self._tables.table(
            "keys",
            f"SELECT m.*, CAST({found} AS VARCHAR) AS {key.column} "
            f"FROM {table} AS m JOIN ({rows}) AS r ON r.{LOCATOR} = m.locator",
            dataset,
        )


def is_entry(step: PlaceStep) -> bool:
    """Whether a step goes to a map's entry by its place."""
    return isinstance(step, Held) and step.to == "entry"


def _of(step: PlaceStep) -> str:
    assert isinstance(step, Held)
    return step.column


def _has_changed(dataset: Dataset) -> bool:
    try:
        check_source(dataset)
    except SourceChangedError:
        return True
    return False


def _value(start: str, steps: tuple[PlaceStep, ...]) -> str | None:
    """SQL for the one value that steps lead to; None if they lead to several."""
    value = start
    for step in steps:
        match step:
            case Field(name):
                value += f".{quoted(name)}"
            case Held(column, "item"):
                value += f"[m.{column} + 1]"
            case Item(int(position)):
                value += f"[{position + 1}]"
            case Held(column, "value"):
                value = _under(value, f"m.{column}::VARCHAR")
            case Value(str(key)):
                value = _under(value, text(key))
            case _:
                return None
    return value


def _under(found: str, key: str) -> str:
    """SQL for the value of a map under a key, given as text."""
    keys = f"CAST(map_keys({found}) AS VARCHAR[])"
    return f"map_values({found})[list_position({keys}, {key})]"
