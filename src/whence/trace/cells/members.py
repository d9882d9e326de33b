"""The members of groups, in tables of their own, and marks of groups as marks of their members.

A table of members has their own number, the number `parent` of the row whose group they are in, and
the slots of their witness; those of a list have their `place` in it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from whence import plan as ops
from whence.algebra.witness import Collected, Group, Members, Taken, slots
from whence.plan.paths import Item as ItemStep
from whence.trace.backward import ROLE, Backward
from whence.trace.cells.marks import Mark, Passed, held
from whence.trace.cells.scopes import Scope
from whence.trace.places import ROW, Held, PlaceStep
from whence.trace.steps import StepView, member_columns, membership
from whence.trace.tables import Tables, quoted


class MemberTables:
    """Makes the tables; what is not known exactly goes into `reasons`."""

    def __init__(self, tables: Tables, backward: Backward, reasons: dict[str, None]) -> None:
        self._tables = tables
        self._backward = backward
        self._reasons = reasons

    def referred(self, view: StepView, scope: Scope, group: Group) -> Scope:
        """The members of groups that a scope refers to by key."""
        slot = quoted(group.slot)
        keys = self._tables.table(
            "keys",
            f"SELECT unnest(k), true AS {ROLE} FROM (SELECT DISTINCT {slot} AS k "
            f"FROM {scope.table} WHERE {slot} IS NOT NULL)",
        )
        files, shape = self._backward.group_files(view, group.operator, keys)
        self._backward.note_ties(view, group, shape, files, keys)
        names = "".join(f", g.{quoted(n)}" for n in (*slots(shape.element), *shape.flags))
        taken = {t.column: f"taken{t.column}" for t in shape.taken}
        found = "".join(f", {_is_taken(t, f's.{slot}')} AS {taken[t.column]}" for t in shape.taken)
        table = self._tables.table(
            "members",
            f"SELECT row_number() OVER () AS {ROW}, s.{ROW} AS parent{names}{found} "
            f"FROM {scope.table} AS s JOIN {self._tables.scan(files)} AS g "
            f"ON s.{slot} IS NOT NULL AND {membership(shape, f's.{slot}', 'g')}",
        )
        scopes = {**scope.scopes, **shape.scopes}
        chosen = (*shape.chosen, *taken.items())
        return Scope(table, shape.element, scopes, chosen=chosen)

    def listed(self, scope: Scope, shape: Members) -> str:
        """The members in lists: their own number, that of the group's row, and their place.

        Of long lists few members may be asked for, so what is packed is taken apart when it is.
        """
        extra = [*shape.flags, *(c.field for c in shape.collected if c.field)]
        columns = member_columns(shape, [*slots(shape.element), *extra])
        slot = quoted(shape.slot)
        packed = self._tables.table(
            "packed",
            f"SELECT row_number() OVER () AS {ROW}, parent, place, m FROM ("
            f"SELECT {ROW} AS parent, generate_subscripts({slot}, 1) - 1 AS place, "
            f"unnest({slot}) AS m FROM {scope.table})",
        )
        told = ", ".join((ROW, "parent", "place", *columns))
        return self._tables.view("members", f"SELECT {told} FROM {packed}")

    def spread(self, mark: Mark, members: str) -> Mark:
        """The mark for every member of the groups that it was about."""
        columns = "".join(f", m.{name}" for name in held(mark.steps))
        sql = (
            f"SELECT s.{ROW}{columns} FROM {mark.table} AS m "
            f"JOIN {members} AS s ON s.parent = m.{ROW}"
        )
        return replace(mark, table=self._tables.table("mark", sql))

    def divided(self, mark: Mark, members: Scope, flag: str) -> tuple[Mark, Mark]:
        """A mark of members as two: of those whose value was taken, and of the others."""
        sql = f"SELECT m.* FROM {mark.table} AS m JOIN {members.table} AS s USING ({ROW}) WHERE"
        taken = self._tables.table("mark", f"{sql} s.{quoted(flag)}")
        other = self._tables.table("mark", f"{sql} NOT s.{quoted(flag)}")
        looked = replace(mark, table=other, contributing=False)
        return replace(mark, table=taken), looked

    def made(
        self,
        operator: ops.Aggregate,
        members: Scope,
        passed: Passed,
        positions: str,
        collected: Collected | None,
    ) -> Mark:
        """A mark of an aggregated value as one of the members that made it."""
        mark, item = passed.mark, passed.item
        if positions == "same" or item in (None, ItemStep()):
            return self.spread(mark, members.table)
        if collected is None:
            self.unknown(operator)
            return self.spread(mark, members.table)
        place = f"m.{item.column}" if isinstance(item, Held) else str(_number(item))
        columns = "".join(f", m.{name}" for name in held(mark.steps))
        sql = (
            f"SELECT s.{ROW}{columns} FROM {mark.table} AS m JOIN ({_placed(members, collected)}) "
            f"AS s ON s.parent = m.{ROW} AND s.place = {place}"
        )
        return replace(mark, table=self._tables.table("mark", sql))

    def before(
        self, operator: ops.Aggregate, members: Scope, passed: Passed, collected: Collected
    ) -> tuple[Mark, bool] | None:
        """The members that gave the items before one whose place the pipeline itself told.

        Without them another item would be there; and whether they would give none if their value
        were null.
        """
        if not isinstance(passed.item, ItemStep) or not passed.item.position:
            return None
        columns = "".join(f", m.{name}" for name in held(passed.mark.steps))
        sql = (
            f"SELECT s.{ROW}{columns} FROM {passed.mark.table} AS m "
            f"JOIN ({_placed(members, collected)}) AS s "
            f"ON s.parent = m.{ROW} AND s.place < {passed.item.position}"
        )
        accessed = passed.mark.accessed | {operator.id}
        table = self._tables.table("mark", sql)
        looked = replace(passed.mark, table=table, contributing=False, accessed=accessed)
        return replace(looked, moved=frozenset()), collected.field is not None

    def unknown(self, operator: ops.Operator) -> None:
        """An item of a list that an operator collected is asked about, and its member not kept."""
        self._reasons[f"{operator.id}: which rows made an item is not known, all count"] = None

    def used(self, members: Scope, values: Sequence[Mark], picked: Sequence[Mark]) -> str:
        """The members that made the asked values: all, where no value of their group is asked."""
        asked = [mark.table for mark in values if mark.contributing]
        if not asked:
            return members.table
        groups = union_of(ROW, asked)
        own = union_of(ROW, [mark.table for mark in picked]) if picked else "SELECT -1"
        return self._tables.table(
            "used",
            f"SELECT * FROM {members.table} WHERE {ROW} IN ({own}) OR parent NOT IN ({groups})",
        )


def _is_taken(taken: Taken, key: str) -> str:
    """SQL that tells whether the value of a member `g` of a frame was taken."""
    tests = []
    if taken.field is not None:
        same = "IS NOT DISTINCT FROM" if taken.nulls else "="
        tests.append(f"{key}.{quoted(str(taken.key))} {same} g.{quoted(taken.field)}")
    if taken.when is not None:
        tests.append(f"g.{quoted(taken.when)}")
    return f"coalesce({' AND '.join(tests) or 'true'}, false)"


def _placed(members: Scope, collected: Collected) -> str:
    """SQL for members with the place of the item that each of them gave to a list or set."""
    if collected.field is None:
        return f"SELECT * FROM {members.table}"
    field = quoted(collected.field)
    if collected.of_set:
        return f"SELECT * REPLACE ({field} AS place) FROM {members.table}"
    return (
        f"SELECT * REPLACE (count(*) OVER (PARTITION BY parent ORDER BY place) - 1 AS place) "
        f"FROM {members.table} WHERE {field}"
    )


def _number(step: PlaceStep | None) -> int:
    assert isinstance(step, ItemStep) and step.position is not None
    return step.position


def union_of(column: str, tables: Sequence[str]) -> str:
    """SQL for the values of a column in any of some tables."""
    return " UNION ".join(f"SELECT {column} FROM {table}" for table in tables)
