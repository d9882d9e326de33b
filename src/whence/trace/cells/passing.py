"""Marks of an operator's output as marks of the cells of its inputs, by the operator's moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from whence.plan import Operator
from whence.plan.paths import Move
from whence.trace.cells.marks import Mark, Passed, entry_number, influences, moves_of, through
from whence.trace.cells.scopes import Scope
from whence.trace.places import Held, PlaceStep
from whence.trace.tables import Tables, text


class Passing:
    """Takes marks back through operators; what is not known exactly goes into `reasons`."""

    def __init__(self, tables: Tables, reasons: dict[str, None]) -> None:
        self._tables = tables
        self._reasons = reasons

    def back(
        self,
        operator: Operator,
        scope: Scope,
        marks: Sequence[Mark],
        unnested: PlaceStep | None = None,
    ) -> dict[int, list[Mark]]:
        """The marks on each input of an operator that keeps rows, and what it decides by."""
        found: dict[int, list[Mark]] = {}
        for mark in marks:
            moves = moves_of(operator, mark)
            if moves is None:
                found.setdefault(_owner(operator, mark.column), []).append(mark)
            for move in moves or ():
                own = self._taken_out(operator, move, mark, unnested)
                if own is None:
                    continue
                self.note_choice(operator, move)
                for passed in through(own, move, operator.id, unnested):
                    known = self.tested(operator, move, passed)
                    found.setdefault(passed.input, []).append(known)
                for number, looked in influences(own, move, operator.id, unnested):
                    found.setdefault(number, []).append(looked)
        everything = Mark(0, (), scope.table, False)
        for path in operator.decides:
            found.setdefault(path.input or 0, []).append(everything.influence(path, operator.id))
        return found

    def note_choice(self, operator: Operator, move: Move) -> None:
        """Which values were taken, if only data that is not at hand or a function could tell."""
        if move.chosen:
            told = "which of several values was taken is not known, all count"
            self._reasons[f"{operator.id}: {told}"] = None
        if move.how == "undefined":
            told = "what a function does is not known, all that it reads counts"
            self._reasons[f"{operator.id}: {told}"] = None

    def _taken_out(
        self, operator: Operator, move: Move, mark: Mark, unnested: PlaceStep | None
    ) -> Mark | None:
        """The mark, for the rows of the item that a move of a generator is about; if any are."""
        if move.at is None:
            return mark
        if not isinstance(unnested, Held):
            self.note_positions(operator)
            return mark
        sql = f"SELECT * FROM {mark.table} WHERE {unnested.column} = {move.at}"
        table = self._tables.table("mark", sql)
        return replace(mark, table=table) if self._tables.count(table) else None

    def note_positions(self, operator: Operator) -> None:
        """That positions do not tell which items are meant."""
        self._reasons[f"{operator.id}: which items moved where is not known, all count"] = None

    def tested(self, operator: Operator, move: Move, passed: Passed) -> Mark:
        """The mark, for those rows only whose positions the move is about."""
        unknown, found = passed.unknown, []
        for step, value in passed.tests:
            place: int | str | None = value
            if step.to == "entry" and isinstance(value, str):
                place = entry_number(operator, move, value)
            unknown = unknown or place is None
            if place is not None:
                told = place if isinstance(place, int) else text(place)
                found.append(f"{step.column} = {told}")
        if unknown:
            self.note_positions(operator)
        if not found:
            return passed.mark
        tests = " AND ".join(found)
        table = self._tables.table("mark", f"SELECT * FROM {passed.mark.table} WHERE {tests}")
        return replace(passed.mark, table=table)


def _owner(operator: Operator, column: int) -> int:
    """The input that hands a column on."""
    for number, child in enumerate(operator.children):
        if any(own.number == column for own in child.output):
            return number
    return 0
