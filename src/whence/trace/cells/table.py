"""The cells that a way back reached, as one table: dataset, locator, path, role and operators."""

from __future__ import annotations

import json
from collections.abc import Iterator

from whence.archive import Dataset
from whence.plan.paths import Field, Item, Step, Value, named, quote, step_text
from whence.trace.backward import Backward
from whence.trace.cells.entries import Entries
from whence.trace.cells.marks import Mark, held
from whence.trace.cells.walk import Reached, Walk
from whence.trace.patterns.match import Matched
from whence.trace.patterns.schema import Type, element, fields, kind, under
from whence.trace.places import ROW, Held, PlaceStep
from whence.trace.steps import StepView
from whence.trace.tables import Tables, quoted, text

_QUOTE = "'"


class Cells:
    """All cells behind a question, in one table.

    Its columns are `dataset`, `locator`, `path`, `role` (whether it contributes), `accessed_by` and
    `moved_by`. The path is empty for a row that had to be there without any of its cells, as those
    that are counted.
    """

    def __init__(self, tables: Tables, walk: Walk) -> None:
        self._tables = tables
        self.views = walk.views
        self.datasets: dict[str, Dataset] = {}
        self._made: dict[str, str] = {}
        self._entries = Entries(tables, walk.reasons)
        parts = [part for reached in walk.reached for part in self._parts(reached)]
        self.reasons = tuple(walk.reasons)
        union = " UNION ALL ".join(parts) or (
            "SELECT '' AS dataset, 0::BIGINT AS locator, '' AS path, true AS role, "
            "['']::VARCHAR[] AS accessed_by, ['']::VARCHAR[] AS moved_by WHERE false"
        )
        cells = (
            "SELECT dataset, locator, path, bool_or(role) AS role, "
            "list_sort(list_distinct(flatten(list(accessed_by)))) AS accessed_by, "
            "list_sort(list_distinct(flatten(list(moved_by)))) AS moved_by "
            f"FROM ({union}) GROUP BY dataset, locator, path"
        )
        self.table = tables.table("cells", cells)
        if bare := self._bare(walk):
            self.table = tables.table("cells", f"SELECT * FROM {self.table} UNION ALL {bare}")

    def hits(self) -> dict[str, str]:
        """For each dataset, a table with the locators of rows that have cells, and their role."""
        found = {name for (name,) in self._tables.run(f"SELECT DISTINCT dataset FROM {self.table}")}
        return {
            dataset: self._tables.table(
                "hits",
                f"SELECT locator, bool_or(role) AS role FROM {self.table} "
                f"WHERE dataset = {text(dataset)} GROUP BY locator",
            )
            for dataset in self.datasets
            if dataset in found
        }

    def _bare(self, walk: Walk) -> str | None:
        """SQL for the rows that were there without any of their cells being looked at, if any."""
        marked = {(r.dataset, r.scope, r.slot) for r in walk.reached if r.mark.table == r.scope}
        found = []
        for rows in dict.fromkeys(walk.present):
            self.datasets.setdefault(rows.dataset, self._tables.dataset(rows.dataset))
            if (rows.dataset, rows.scope, rows.slot) not in marked:
                found.append(
                    f"SELECT {text(rows.dataset)} AS dataset, {quoted(rows.slot)} AS locator "
                    f"FROM {rows.scope} WHERE {quoted(rows.slot)} IS NOT NULL"
                )
        if not found:
            return None
        return (
            "SELECT DISTINCT p.dataset, p.locator, '', false, []::VARCHAR[], []::VARCHAR[] "
            f"FROM ({' UNION ALL '.join(found)}) AS p "
            f"ANTI JOIN {self.table} AS c ON c.dataset = p.dataset AND c.locator = p.locator"
        )

    def _parts(self, reached: Reached) -> Iterator[str]:
        """SQL for the rows of the table that one mark on a source stands for."""
        dataset = self._tables.dataset(reached.dataset)
        self.datasets.setdefault(dataset.id, dataset)
        mark = reached.mark
        start = _column_type(dataset, reached.column)
        column = _stored_name(dataset, reached.column)
        placed = (self._places(reached), mark.steps)
        for places, steps in self._entries.by_key(dataset, column, placed, mark.chosen):
            paths = [_path(reached.column, found) for found in _leaves(start, steps)]
            yield (
                f"SELECT {text(dataset.id)} AS dataset, locator, "
                f"unnest([{', '.join(paths)}]) AS path, {str(mark.contributing).lower()} AS role, "
                f"{_names(mark.accessed)} AS accessed_by, {_names(mark.moved)} AS moved_by "
                f"FROM {places} AS m"
            )

    def _places(self, reached: Reached) -> str:
        """A table of the marked rows' locators and positions, each once; many marks share one."""
        mark, slot = reached.mark, f"s.{quoted(reached.slot)}"
        if mark.table == reached.scope:
            rows, own = f"{reached.scope} AS s", "s"
        else:
            rows, own = f"{reached.scope} AS s JOIN {mark.table} AS m USING ({ROW})", "m"
        columns = "".join(f", {own}.{name}" for name in held(mark.steps))
        sql = f"SELECT DISTINCT {slot} AS locator{columns} FROM {rows} WHERE {slot} IS NOT NULL"
        if sql not in self._made:
            self._made[sql] = self._tables.table("places", sql)
        return self._made[sql]


def cells_of(
    tables: Tables, backward: Backward, view: StepView, rows: str, matched: Matched | None
) -> Cells:
    """The cells behind what a pattern matched in an output, or behind all columns of some rows."""
    walk = Walk(tables, backward)
    numbered = tables.table("rows", f"SELECT locator AS {ROW}, locator FROM {rows}")
    dataset = tables.archive.dataset(view.step.output)
    columns = dataset.properties["columns"]
    numbers = [column.number for column in view.plan.output]
    marks = []
    if matched is None:
        marks = [Mark(number, (), numbered, True) for number in numbers]
    for place in matched.chosen if matched else ():
        first, *rest = place.steps
        assert isinstance(first, Field)
        number = numbers[columns.index(first.name)]
        mark = Mark(number, tuple(rest), place.table, True)
        marks.append(mark.on(matched.rows, numbered) if matched else mark)
    walk.output(view, numbered, marks)
    return Cells(tables, walk)


def _stored_name(dataset: Dataset, column: str) -> str:
    properties = dataset.properties
    stored = dict(zip(properties.get("columns", ()), properties.get("physical", ()), strict=True))
    return str(stored.get(column, column))


def _column_type(dataset: Dataset, column: str) -> Type:
    stored = dict(fields(json.loads(dataset.schema)))
    return stored.get(_stored_name(dataset, column), "?")


def _leaves(start: Type, steps: tuple[PlaceStep, ...]) -> Iterator[tuple[PlaceStep, ...]]:
    """A path, and where it ends in a struct the paths of what is in the struct."""
    yield from _within(_at(start, steps), steps)


def _within(found: Type, steps: tuple[PlaceStep, ...]) -> Iterator[tuple[PlaceStep, ...]]:
    if kind(found) == "struct" and fields(found):
        for name, inner in fields(found):
            yield from _within(inner, (*steps, Field(name)))
    else:
        yield steps


def _at(found: Type, steps: tuple[PlaceStep, ...]) -> Type:
    for step in steps:
        match step:
            case Field(name) if kind(found) == "struct":
                inside = dict(fields(found))
                found = inside.get(named(inside, name) or "", "?")
            case Item() if kind(found) == "array":
                found = element(found)
            case Value() if kind(found) == "map":
                found = under(found)
            case Held(_, "item") if kind(found) == "array":
                found = element(found)
            case Held(_, "value" | "entry") if kind(found) == "map":
                found = under(found)
            case _:
                return "?"
    return found


def _path(column: str, steps: tuple[PlaceStep, ...]) -> str:
    """SQL for a path as people write it, with the positions that a mark holds."""
    parts = [text(quote(column))]
    for step in steps:
        match step:
            case Held(name, "value"):
                key = f"replace(m.{name}::VARCHAR, {text(_QUOTE)}, {text(_QUOTE * 2)})"
                parts += [text("{'"), key, text("'}")]
            case Held(name):
                parts += [text("["), f"m.{name}", text("]")]
            case Item(None):
                parts.append(text("[*]"))
            case _:
                parts.append(text(_step(step)))
    return " || ".join(parts)


def _step(step: Step | Held) -> str:
    assert not isinstance(step, Held)
    return step_text(step)


def _names(operators: frozenset[str]) -> str:
    return f"[{', '.join(text(name) for name in sorted(operators))}]::VARCHAR[]"
