"""Marks of what a generator took out of lists and maps as marks of these.

An item is at the position that the witness holds. An outer generator also makes a row of a list
without items, which has no position: what is in that row is so because of the list as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from whence import plan as ops
from whence.algebra.witness import Item, walk
from whence.plan.paths import WITNESS, Key, Move, Path, Value
from whence.plan.paths import Item as ItemStep
from whence.trace.cells.marks import Mark, held, is_open, places_of
from whence.trace.cells.passing import Passing
from whence.trace.cells.scopes import Scope
from whence.trace.places import ROW, Held, PlaceStep
from whence.trace.tables import Tables, quoted

Generator = ops.Generate | ops.Expand
"""What makes several rows of one."""


def item_of(scope: Scope, operator: Generator) -> Item | None:
    """The part of a scope's witness that is an item which a generator took out."""
    parts = (part for part in walk(scope.shape) if isinstance(part, Item))
    return next((part for part in parts if part.operator == operator.id), None)


class Unnested:
    """Takes marks back through generators."""

    def __init__(self, tables: Tables, passing: Passing) -> None:
        self._tables = tables
        self._passing = passing

    def back(
        self, operator: Generator, scope: Scope, marks: Sequence[Mark]
    ) -> tuple[Scope, dict[int, list[Mark]]]:
        """The rows of a scope with the positions of their items, and the marks on each input."""
        item = item_of(scope, operator)
        if item is None or item.slot is None:
            unknown = ItemStep() if isinstance(operator, ops.Generate) else None
            return scope, self._passing.back(operator, scope, marks, unknown)
        place = Held(self._tables.fresh("p"))
        rows = self._tables.table(
            "items", f"SELECT *, {quoted(item.slot)} AS {place.column} FROM {scope.table}"
        )
        own = [self._placed(mark.on(scope.table, rows), place, rows) for mark in marks]
        found: dict[int, list[Mark]] = {}
        for generator, test in self._cases(operator, rows, place):
            some = self._where(rows, test)
            asked = [replace(mark, table=self._where(mark.table, test)) for mark in own]
            below = self._passing.back(generator, replace(scope, table=some), asked, place)
            for number, reached in below.items():
                at = [self._at(mark, place, operator, some) for mark in reached]
                found.setdefault(number, []).extend(at)
        found.setdefault(0, []).extend(self._before(operator, own, place))
        return replace(scope, table=rows), found

    def _before(self, operator: Generator, marks: Sequence[Mark], place: Held) -> Iterator[Mark]:
        """Of positions that are asked about, the items before: each has to be there."""
        counted = _positions(operator)
        for mark in marks:
            if mark.column not in counted:
                continue
            table = self._tables.table(
                "mark",
                f"SELECT {ROW}, unnest(range({place.column})) AS {place.column} FROM {mark.table}",
            )
            for column, steps in dict.fromkeys(_taken(operator)):
                if steps[-1] == ItemStep():
                    looked = frozenset({operator.id})
                    yield Mark(column, (*steps[:-1], place), table, False, looked)

    def _cases(
        self, operator: Generator, rows: str, place: Held
    ) -> Iterator[tuple[Generator, str]]:
        """The generator for the rows that are items, and for those of lists without any."""
        none = f"{place.column} IS NULL"
        outer = isinstance(operator, ops.Generate) and operator.outer
        if outer and self._tables.count(f"(SELECT 1 FROM {rows} WHERE {none})"):
            yield operator, f"{place.column} IS NOT NULL"
            yield _of_none(operator), none
        else:
            yield operator, ""

    def _where(self, table: str, test: str) -> str:
        sql = f"SELECT * FROM {table} WHERE {test}"
        return self._tables.table("mark", sql) if test else table

    def _at(self, mark: Mark, place: Held, operator: Generator, table: str) -> Mark:
        """What a generator looked at, at the position of the item that it took out."""
        looked = not mark.contributing and operator.id in mark.accessed and not mark.moved
        if isinstance(operator, ops.Expand) or not looked or ItemStep() not in mark.steps:
            return mark
        where = mark.steps.index(ItemStep())
        if (mark.column, mark.steps[: where + 1]) not in _taken(operator):
            self._passing.note_positions(operator)
            return mark
        steps: tuple[PlaceStep, ...] = (*mark.steps[:where], place, *mark.steps[where + 1 :])
        chosen = any(move.chosen for move in operator.moves)
        return replace(mark, steps=steps, table=table, chosen=chosen)

    def _placed(self, mark: Mark, place: Held, rows: str) -> Mark:
        """The mark with the positions of unnested items beside its own."""
        if mark.table == rows:
            return mark
        columns = ", ".join(f"m.{name}" for name in (ROW, *held(mark.steps)))
        sql = f"SELECT {columns}, s.{place.column} FROM {mark.table} AS m JOIN {rows} AS s "
        return replace(mark, table=self._tables.table("mark", f"{sql} USING ({ROW})"))


def _positions(operator: Generator) -> set[int]:
    """The columns of a generator that are made of no value: positions."""
    if not isinstance(operator, ops.Generate):
        return set()
    handed_on = {column.number for column in operator.children[0].output}
    made = {m.output.column for m in operator.moves if m.inputs or m.influences}
    return {c.number for c in operator.output if c.number not in handed_on | made}


def _taken(operator: Generator) -> Iterator[tuple[int, tuple[PlaceStep, ...]]]:
    """The lists whose items are at the position of the row that was made of them: column and steps.

    explode(xs)   →   xs[]          explode(reverse(xs))   →   none
    """
    for move in operator.moves:
        for path, places in zip((*move.inputs, *move.influences), places_of(move), strict=True):
            opened = [i for i, step in enumerate(path.steps) if is_open(step)]
            for i, place in zip(opened, places, strict=False):
                if place == WITNESS:
                    yield path.column, path.steps[: i + 1]


def _of_none(operator: Generator) -> Generator:
    """The generator as it is over lists and maps without items.

    x <- f(items[].n, k)   →   x <- f(items) by k
    """
    return replace(
        operator,
        moves=tuple(map(_move_of_none, operator.moves)),
        decides=tuple(dict.fromkeys(map(_whole, operator.decides))),
    )


def _move_of_none(move: Move) -> Move:
    places = move.places or ((),) * (len(move.inputs) + len(move.influences))
    taken = [p for p, at in zip(move.inputs, places, strict=False) if WITNESS in at] or move.inputs
    looked = [path for path in (*move.inputs, *move.influences) if path not in taken]
    return Move(
        move.output,
        tuple(dict.fromkeys(map(_whole, taken))),
        "computed",
        tuple(dict.fromkeys(map(_whole, looked))),
        chosen=move.chosen,
    )


def _whole(path: Path) -> Path:
    """The list or map whose items a path goes to."""
    steps = path.steps
    ends = [i for i, step in enumerate(steps) if step in (ItemStep(), Value(), Key())]
    return replace(path, steps=steps[: ends[0]]) if ends else path
