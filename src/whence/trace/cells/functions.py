"""Python functions that were followed: marks of what they gave as marks of the cells it is from.

Each row that such a function gave has a list of ranges of the rows that it took.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence import plan as ops
from whence.algebra.witness import RANK, slots
from whence.plan import Operator
from whence.trace.cells.marks import Mark
from whence.trace.cells.scopes import Scope
from whence.trace.followed import ranges_sql
from whence.trace.places import ROW
from whence.trace.steps import StepView
from whence.trace.tables import Tables, quoted

_ALL = -1


def kept_columns(view: StepView) -> list[str]:
    """The columns of a step's output that tell what its followed functions did."""
    cells = [entry[name] for entry in view.cells.values() for name in ("slot", "token")]
    return list(dict.fromkeys([*cells, *view.doubts.values()]))


@dataclass(frozen=True, slots=True)
class Side:
    """One input of a followed function: the rows that it used of it, and the marks of these."""

    child: Operator
    scope: Scope
    marks: list[Mark]


class FollowedCells:
    """The ranges of one followed function for the rows of a scope; `of` makes them if they tell."""

    def __init__(
        self, tables: Tables, view: StepView, operator: Operator, scope: Scope, entry: Any
    ) -> None:
        self._tables, self._view, self._operator = tables, view, operator
        self._scope, self._entry = scope, entry
        slot, token = quoted(entry["slot"]), quoted(entry["token"])
        kept = f"row_number() OVER () AS {ROW}, parent, token"
        rows = f"SELECT {ROW} AS parent, {token} AS token, {slot} AS cells FROM {scope.table}"
        self._ranges = tables.table("ranges", ranges_sql(kept, f"({rows})"))

    @classmethod
    def of(
        cls, tables: Tables, view: StepView, operator: Operator, scope: Scope
    ) -> FollowedCells | None:
        """None if nothing was kept about these rows, or there is a doubt about one of them."""
        entry = view.cells.get(operator.id)
        if entry is None or any(group not in view.groups for group in entry["groups"]):
            return None
        there = {row[0] for row in tables.run(f"DESCRIBE {scope.table}")}
        doubt = view.doubts.get(operator.id)
        wanted = {entry["slot"], entry["token"]} | ({doubt} if doubt is not None else set())
        if not wanted <= there or not _names_are_known(operator, entry):
            return None
        # Where an outer join found no row, there is neither a call nor anything that it told.
        unclear = f"{quoted(entry['token'])} IS NOT NULL AND {quoted(entry['slot'])} IS NULL"
        if doubt is not None:
            unclear += f" OR {quoted(doubt)} IS NOT NULL"
        ((count,),) = tables.run(f"SELECT count(*) FROM {scope.table} WHERE {unclear}")
        return None if count else cls(tables, view, operator, scope, entry)

    def sides(self, marks: Sequence[Mark]) -> Iterator[Side]:
        """The inputs that something came from."""
        found = self._tables.run(f"SELECT DISTINCT out, side, inp, role FROM {self._ranges}")
        for number, child in enumerate(self._operator.children):
            told = sorted(row for row in found if row[1] == number)
            if told:
                scope = self._members(number)
                made = [mark for asked in marks for mark in self._made(asked, child, scope, told)]
                yield Side(child, scope, made + self._key_marks(marks, number, child, scope))

    def _members(self, side: int) -> Scope:
        """The rows that ranges of one side hold, under the number of the range."""
        shape, dataset = self._view.groups[self._entry["groups"][side]]
        names = [quoted(name) for name in (*slots(shape.element), "k0", RANK)]
        rows = self._tables.rows(self._tables.dataset(dataset), names)
        own = "".join(f", g.{quoted(name)}" for name in slots(shape.element))
        table = self._tables.table(
            "members",
            f"SELECT row_number() OVER () AS {ROW}, r.{ROW} AS parent{own} "
            f"FROM {self._ranges} AS r JOIN ({rows}) AS g ON g.k0 = r.token "
            f"AND g.{RANK} BETWEEN r.first AND r.last WHERE r.side = {side}",
        )
        return Scope(table, shape.element, {**self._scope.scopes, **shape.scopes})

    def _made(
        self, mark: Mark, child: Operator, members: Scope, told: list[tuple[int, ...]]
    ) -> Iterator[Mark]:
        """One mark for each column and role that a marked column has ranges of."""
        places = {column.number: place for place, column in enumerate(self._operator.output)}
        own, side = (places[mark.column], _ALL), told[0][1]
        wanted = sorted({(inp, role) for out, _, inp, role in told if out in own})
        for inp, role in wanted:
            test = f"r.out IN {own} AND r.inp = {inp} AND r.role = {role}"
            table = self._marked(mark, members, test)
            contributes = mark.contributing and role == 1
            looked = frozenset({self._operator.id})
            for column in self._columns(child, side, inp):
                if contributes:
                    made = mark.moved | looked
                    yield Mark(column, (), table, True, mark.accessed | looked, made)
                else:
                    yield Mark(column, (), table, False, looked)

    def _marked(self, mark: Mark, members: Scope, test: str = "true") -> str:
        return self._tables.table(
            "mark",
            f"SELECT DISTINCT s.{ROW} FROM {mark.table} AS m JOIN {self._ranges} AS r "
            f"ON r.parent = m.{ROW} JOIN {members.table} AS s ON s.parent = r.{ROW} WHERE {test}",
        )

    def _columns(self, child: Operator, side: int, position: int) -> list[int]:
        if position == _ALL:
            return list(_numbers(child).values())
        return [_numbers(child)[self._entry["inputs"][side][position]]]

    def _key_marks(
        self, marks: Sequence[Mark], side: int, child: Operator, members: Scope
    ) -> list[Mark]:
        """The keys of grouped rows were looked at, for whatever is made of these rows."""
        numbers, looked = _numbers(child), frozenset({self._operator.id})
        columns = [numbers[name] for name in _keys(self._operator, side)]
        tables = [self._marked(mark, members) for mark in marks] if columns else []
        return [Mark(column, (), table, False, looked) for table in tables for column in columns]


def _numbers(child: Operator) -> Mapping[str, int]:
    return {column.name: column.number for column in child.output}


def _keys(operator: Operator, side: int) -> list[str]:
    """The names of the columns that a function's groups are made by."""
    match operator:
        case ops.MapGroups(keys=keys):
            return [key.text for key in keys]
        case ops.MapCogroups(left_keys=left, right_keys=right):
            return [key.text for key in (left, right)[side]]
        case _:
            return []


def _names_are_known(operator: Operator, entry: Any) -> bool:
    """Whether the columns of a function's inputs can be told by their names."""
    if len(entry["outputs"]) != len(operator.output):
        return False
    for side, child in enumerate(operator.children):
        # A key stands before the columns of its input, and is often one of them.
        columns = {(column.name, column.number) for column in child.output}
        wanted = {*entry["inputs"][side], *_keys(operator, side)}
        names = {name for name, _ in columns}
        if not wanted <= names or len(names) < len(columns):
            return False
    return True
