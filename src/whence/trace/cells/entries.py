"""Entries of a source's maps, told by their keys instead of their places; and what is not there."""

from __future__ import annotations

from collections.abc import Iterator

from whence.archive import Dataset
from whence.errors import SourceChangedError
from whence.plan.paths import Field, Item, Value
from whence.trace.places import Held, PlaceStep
from whence.trace.tables import LOCATOR, Tables, check_source, key_as_text, quoted, text

Placed = tuple[str, tuple[PlaceStep, ...]]
"""A table of places and the steps that are at them."""


class Entries:
    """Looks keys up in the sources; what is not known exactly goes into `reasons`."""

    def __init__(self, tables: Tables, reasons: dict[str, None]) -> None:
        self._tables = tables
        self._reasons = reasons

    def by_key(
        self, dataset: Dataset, column: str, placed: Placed, chosen: bool = False, since: int = 0
    ) -> Iterator[Placed]:
        """The same places by key; a map without such an entry counts as a whole.

        So does a list without such an item, if the value was `chosen` among several.

        m{entry 1}   →   m{'d'}, and m in the rows where it has one entry or is null
        """
        table, steps = placed
        asked = (i for i, s in enumerate(steps) if is_entry(s) or (chosen and _is_item(s)))
        number = next((i for i in asked if i >= since), None)
        if number is None:
            yield placed
            return
        value = None if _has_changed(dataset) else _value("r.c", steps[:number])
        if value is None:
            yield self._told_together(dataset, placed)
            return
        found, step = self._looked_up(dataset, column, table, value, steps[number])
        none = f"{found} WHERE {step.column} IS NULL"
        if self._tables.count(f"(SELECT 1 FROM {none})"):
            yield self._tables.table("places", f"SELECT * FROM {none}"), steps[:number]
        some = f"SELECT * FROM {found} WHERE {step.column} IS NOT NULL"
        known = self._tables.table("places", some), (*steps[:number], step, *steps[number + 1 :])
        yield from self.by_key(dataset, column, known, chosen, number + 1)

    def _told_together(self, dataset: Dataset, placed: Placed) -> Placed:
        """All values of maps for entries that cannot be looked up, or that several maps have."""
        table, steps = placed
        if any(map(is_entry, steps)) and _has_changed(dataset):
            told = "which entries of its maps were meant is not known, all count"
            self._reasons[f"{dataset.name}: {told}"] = None
        return table, tuple(Value() if is_entry(step) else step for step in steps)

    def _looked_up(
        self, dataset: Dataset, column: str, table: str, value: str, step: PlaceStep
    ) -> tuple[str, Held]:
        """The table with a column for the key, or the position, that a map or list has."""
        if is_entry(step):
            key = Held(self._tables.fresh("k"), "value")
            text_of = key_as_text(f"map_keys({value})[{_position(step)} + 1]")
        else:
            key = Held(self._tables.fresh("p"))
            text_of = f"CASE WHEN len({value}) > {_position(step)} THEN {_position(step)} END"
        rows = self._tables.at(dataset, [f"{self._tables.column(dataset, column)} AS c"], table)
        found = self._tables.table(
            "keys",
            f"SELECT m.*, {text_of} AS {key.column} "
            f"FROM {table} AS m JOIN ({rows}) AS r ON r.{LOCATOR} = m.locator",
            dataset,
        )
        return found, key


def is_entry(step: PlaceStep) -> bool:
    """Whether a step goes to a map's entry by its place."""
    return isinstance(step, Held) and step.to == "entry"


def _is_item(step: PlaceStep) -> bool:
    """Whether a step goes to one item of a list."""
    if isinstance(step, Held):
        return step.to == "item"
    return isinstance(step, Item) and step.position is not None


def _position(step: PlaceStep) -> str:
    """SQL for the position that a step goes to."""
    if isinstance(step, Held):
        return f"m.{step.column}"
    assert isinstance(step, Item)
    return str(step.position)


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
    keys = f"list_transform(map_keys({found}), lambda key: {key_as_text('key')})"
    return f"map_values({found})[list_position({keys}, {key})]"
