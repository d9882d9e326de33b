"""Marks of an aggregate's groups as marks of the groups' members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from whence import plan as ops
from whence.algebra.witness import Nothing
from whence.trace.cells.marks import Mark, held, influences, moves_of, through
from whence.trace.cells.members import MemberTables, union_of
from whence.trace.cells.passing import Passing
from whence.trace.cells.scopes import Scope
from whence.trace.places import ROW
from whence.trace.tables import Tables


class GroupMarks:
    """Goes into groups; what is not known exactly goes into `reasons`."""

    def __init__(
        self, tables: Tables, members: MemberTables, passing: Passing, reasons: dict[str, None]
    ) -> None:
        self._tables = tables
        self._members = members
        self._passing = passing
        self._reasons = reasons

    def of_members(
        self, operator: ops.Aggregate, members: Scope, marks: Sequence[Mark]
    ) -> tuple[Scope, list[Mark]]:
        """Marks of groups as marks of their members, and the members that are asked about.

        An aggregated value leads to the members that made it, and one that was chosen among theirs
        to those that had it, while the others were looked at; a grouping key is that of those
        members, or of all of them if no aggregated value of the group is asked about or if it is a
        session.
        """
        made = {call.column for call in operator.aggregates}
        values = [mark for mark in marks if mark.column in made]
        keys = [mark for mark in marks if mark.column not in made]
        below: list[Mark] = []
        picked: list[Mark] = []
        items = {entry.column: entry for entry in members.collected}
        chosen = dict(members.chosen)
        counted: list[Mark] = []
        for mark in values:
            reached = len(picked) + len(below)
            flag = chosen.get(mark.column)
            calls = [call for call in operator.aggregates if call.column == mark.column]
            if flag is None and any(map(_picks, calls)):
                self._reasons[f"{operator.id}: rows whose value was not taken count too"] = None
            for move in moves_of(operator, mark) or ():
                self._passing.note_choice(operator, move)
                for passed in through(mark, move, operator.id):
                    if passed.input:
                        continue  # a subquery, which is the same for all members
                    item = items.get(mark.column)
                    passed = replace(passed, mark=self._passing.tested(operator, move, passed))
                    one = self._members.made(operator, members, passed, move.positions, item)
                    if item is not None and move.positions != "same":
                        earlier = self._members.before(operator, members, passed, item)
                        if earlier:
                            looked, may_be_null = earlier
                            (below if may_be_null else counted).append(looked)
                    if flag is not None:
                        one, other = self._members.divided(one, members, flag)
                        if any(call.function in ops.CHOOSING for call in calls):
                            below.append(other)
                    (picked if mark.contributing else below).append(one)
                below += [
                    self._members.spread(looked, members.table)
                    for number, looked in influences(mark, move, operator.id)
                    if not number
                ]
            if len(picked) + len(below) == reached:  # a count of rows is made of no cell of theirs
                counted.append(self._members.spread(mark, members.table))
        made_of = picked + [mark for mark in counted if mark.contributing]
        used = self._members.used(members, values, made_of)
        below += picked
        for mark in keys:
            of_all = _is_session(operator, mark)
            below += self._key_marks(operator, mark, members.table if of_all else used)
        near = union_of(ROW, [used, *(m.table for m in [*below, *counted])])
        narrowed = self._tables.table(
            "members", f"SELECT * FROM {members.table} WHERE {ROW} IN ({near})"
        )
        everyone = Mark(0, (), narrowed, False)
        decides = [path for path in operator.decides if not path.input]
        below += [everyone.influence(path, operator.id) for path in decides]
        return replace(members, table=narrowed), below

    def _key_marks(self, operator: ops.Aggregate, mark: Mark, used: str) -> list[Mark]:
        columns = ", ".join(f"m.{name}" for name in held(mark.steps))
        sql = (
            f"SELECT u.{ROW}{', ' if columns else ''}{columns} FROM {mark.table} AS m "
            f"JOIN {used} AS u ON u.parent = m.{ROW}"
        )
        moved = replace(mark, table=self._tables.table("mark", sql))
        found = self._passing.back(
            replace(operator, decides=()), Scope(used, Nothing(), {}), [moved]
        )
        return found.get(0, [])


def _is_session(operator: ops.Aggregate, mark: Mark) -> bool:
    """Whether a key is the start or the end of a session, which all of its rows make together."""
    if not operator.merges:
        return False
    moves = moves_of(operator, mark)
    if moves is None:
        return any(
            column.number == mark.column and column.name == ops.SESSION
            for column in operator.children[0].output
        )
    return any(path.name == ops.SESSION for move in moves for path in move.inputs)


def _picks(call: ops.AggregateCall) -> bool:
    """Whether an aggregate takes the values of some rows of a group only."""
    return call.filter is not None or call.function in ops.CHOOSING
