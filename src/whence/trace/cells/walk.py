"""From marked cells of an output back to cells of sources, operator by operator.

A *scope* is a table of rows of one operator's output: a number for each, and the slots of its
witness. Marks say which cells of these rows are asked about. An operator that keeps rows only
rewrites the marks' paths; one that combines rows makes new scopes from the witness: the members of
a group, the rows of a branch, the rows behind a subquery.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from whence import plan as ops
from whence.algebra.witness import (
    Choice,
    Group,
    Members,
    Row,
    Witness,
    order_name,
    slots,
    walk,
)
from whence.plan import Operator
from whence.plan.paths import Item as ItemStep
from whence.trace.backward import Backward
from whence.trace.cells.functions import FollowedCells, kept_columns
from whence.trace.cells.groups import GroupMarks
from whence.trace.cells.marks import (
    Mark,
    held,
    influences,
    moves_of,
    through,
)
from whence.trace.cells.members import MemberTables
from whence.trace.cells.passing import Passing
from whence.trace.cells.scopes import Scope, group_of, is_side, part, row_of
from whence.trace.cells.unnested import Generator, Unnested, item_of
from whence.trace.places import ROW, Held
from whence.trace.steps import StepView, step_view
from whence.trace.tables import LOCATOR, Tables, quoted

_TESTING = ("semi", "existence", "anti")  # joins that give no columns of their right side


@dataclass(frozen=True, slots=True)
class Reached:
    """Cells of a source: their rows are the locators in the column `slot` of a scope's table."""

    dataset: str
    column: str
    mark: Mark
    scope: str
    slot: str


@dataclass(frozen=True, slots=True)
class Present:
    """Rows of a source that had to be there, whether or not anything in them was looked at."""

    dataset: str
    scope: str
    slot: str


class Walk:
    """One way back, being made."""

    def __init__(self, tables: Tables, backward: Backward) -> None:
        self._tables = tables
        self._backward = backward
        self.reached: list[Reached] = []
        self.present: list[Present] = []
        self.views: list[StepView] = []
        self.reasons: dict[str, None] = {}
        self._members = MemberTables(tables, backward, self.reasons)
        self._passing = Passing(tables, self.reasons)
        self._unnested = Unnested(tables, self._passing)
        self._groups = GroupMarks(tables, self._members, self._passing, self.reasons)

    # --- Steps ------------------------------------------------------------------------------

    def output(self, view: StepView, rows: str, marks: Sequence[Mark]) -> None:
        """Go back from an output's rows, whose locators are in the column `locator` of a table.

        The marks' tables have the numbers that the table gives to these rows.
        """
        self.views.append(view)
        dataset = self._tables.archive.dataset(view.step.output)
        shape: Witness = view.shape
        scopes: Mapping[str, tuple[str, ...]] = view.scopes
        if isinstance(shape, Group) and shape.slot == "":
            scope, orders = self._lazy(view, rows)
            numbers = {view.plan.output[i].number: order_name(i) for i in orders}
            marks = [self._reordered(mark, scope, numbers.get(mark.column)) for mark in marks]
        else:
            names = [quoted(name) for name in (*slots(shape), *kept_columns(view))]
            found = self._tables.near(dataset, names or ["1 AS __whence_none"], rows)
            sql = (
                f"SELECT c.{ROW}, r.* EXCLUDE ({LOCATOR}) FROM ({found}) AS r "
                f"JOIN {rows} AS c ON c.locator = r.{LOCATOR}"
            )
            scope = Scope(self._tables.table("scope", sql, dataset), shape, scopes)
            marks = [mark.on(rows, scope.table) for mark in marks]
        self._visit(view, view.plan, scope, list(marks))

    def _lazy(self, view: StepView, rows: str) -> tuple[Scope, tuple[int, ...]]:
        """Rows of a run without witnesses, found again by their values; which lists are placed."""
        dataset = self._tables.archive.dataset(view.step.output)
        chosen = self._tables.table("chosen", f"SELECT locator, true AS role FROM {rows}")
        keys, files, group = self._backward.lazy_members(view, dataset, chosen)
        self._backward.check_all_found(view, files, keys)
        physical = [quoted(p) for p in dataset.properties["physical"]]
        found = self._tables.at(dataset, physical or ["true AS x"], rows)
        same = [f"r.{p} IS NOT DISTINCT FROM k.k{i}" for i, p in enumerate(physical)]
        fields = [*slots(group.element), *map(order_name, group.orders)]
        names = "".join(f", g.{quoted(name)}" for name in fields)
        sql = (
            f"SELECT c.{ROW}{names} FROM ({found}) AS r JOIN {rows} AS c "
            f"ON c.locator = r.{LOCATOR} JOIN {keys} AS k ON {' AND '.join(same) or 'true'} "
            f"JOIN {self._tables.scan(files)} AS g ON g.kid = k.kid"
        )
        scope = Scope(self._tables.table("scope", sql, dataset), group.element, group.scopes)
        return scope, group.orders

    def _reordered(self, mark: Mark, scope: Scope, order: str | None) -> Mark:
        """A mark of an item of a list, at the place where the list that came out again has it."""
        step = mark.steps[0] if mark.steps else None
        if order is None or not isinstance(step, Held | ItemStep) or step == ItemStep():
            return mark
        stored = f"m.{step.column}" if isinstance(step, Held) else str(step.position)
        place = Held(self._tables.fresh("p"))
        sql = (
            f"SELECT m.*, coalesce(o.again, {stored}) AS {place.column} FROM {mark.table} AS m "
            f"LEFT JOIN (SELECT {ROW}, unnest({order}, recursive := true) FROM {scope.table}) AS o "
            f"ON o.{ROW} = m.{ROW} AND o.stored = {stored}"
        )
        table = self._tables.table("mark", sql)
        return replace(mark, table=table, steps=(place, *mark.steps[1:]))

    def _source(self, view: StepView, source: ops.Source, scope: Scope, marks: list[Mark]) -> None:
        """Cells of a source are reached: the end, or the output of an earlier step or run."""
        if not isinstance(scope.shape, Row):
            return
        archive = self._tables.archive
        dataset = self._tables.dataset(view.inputs[source.id])
        slot = scope.shape.slot
        producer = archive.producer(dataset.id) if dataset.kind == "output" else None
        if producer is None:
            names = {column.number: column.name for column in source.output}
            self.present.append(Present(dataset.id, scope.table, slot))
            self.reached += [
                Reached(dataset.id, names[mark.column], mark, scope.table, slot) for mark in marks
            ]
            return
        earlier = step_view(*producer)
        rows = self._tables.table(
            "rows",
            f"SELECT {ROW}, {quoted(slot)} AS locator FROM {scope.table} "
            f"WHERE {quoted(slot)} IS NOT NULL",
        )
        stored = zip(dataset.properties["physical"], earlier.plan.output, strict=True)
        numbers = {name: column.number for name, column in stored}
        columns = {c.number: numbers[c.name] for c in source.output if c.name in numbers}
        moved = [replace(m, column=columns[m.column]) for m in marks if m.column in columns]
        whole = [m if held(m.steps) else m.on(scope.table, rows) for m in moved]
        self.output(earlier, rows, whole)

    # --- Operators --------------------------------------------------------------------------

    def _visit(self, view: StepView, operator: Operator, scope: Scope, marks: list[Mark]) -> None:
        match operator:
            case ops.Source():
                self._source(view, operator, scope, marks)
            case ops.OneRow():
                pass
            case ops.Aggregate():
                self._aggregate(view, operator, scope, marks)
            case ops.Window():
                self._window(view, operator, scope, marks)
            case ops.Union():
                self._union(view, operator, scope, marks)
            case ops.Join():
                self._join(view, operator, scope, marks)
            case ops.Generate() | ops.Expand():
                self._generate(view, operator, scope, marks)
            case ops.Except() | ops.Intersect():
                self._set(view, operator, scope, marks)
            case ops.MapBatches() | ops.MapGroups() | ops.MapCogroups() | ops.ArrayFunction():
                self._opaque(view, operator, scope, marks)
            case _:
                passed = self._passing.back(operator, scope, marks)
                self._children(view, operator, scope, passed)

    def _children(
        self, view: StepView, operator: Operator, scope: Scope, marks: Mapping[int, list[Mark]]
    ) -> None:
        """Go on into children whose rows are in the same scope, and into subqueries.

        Below a child of which no cell is asked about, its rows were still looked at.
        """
        hidden = isinstance(operator, ops.Join) and operator.type in _TESTING
        for number, child in enumerate(operator.children[:1] if hidden else operator.children):
            self._visit(view, child, part(scope, child), marks.get(number, []))
        self._subqueries(view, operator, scope, marks)

    def _subqueries(
        self, view: StepView, operator: Operator, scope: Scope, marks: Mapping[int, list[Mark]]
    ) -> None:
        for number, subquery in enumerate(operator.subqueries, len(operator.children)):
            if not marks.get(number):
                continue
            below, asked = subquery, marks[number]
            while isinstance(below, ops.Project | ops.View) and not below.subqueries:
                asked = self._passing.back(below, scope, asked).get(0, [])
                below = below.children[0]
            group = group_of(scope.shape, f"{subquery.id}/scalar")
            if group is None:
                self._visit(view, below, row_of(scope, subquery), asked)
                continue
            inner = self._members.referred(view, scope, group)
            if isinstance(below, ops.Aggregate) and not below.keys and not below.subqueries:
                self._into_groups(view, below, inner, asked)
            else:
                moved = [self._members.spread(mark, inner.table) for mark in asked]
                self._visit(view, below, inner, moved)

    def _join(self, view: StepView, operator: ops.Join, scope: Scope, marks: list[Mark]) -> None:
        kept = {column.number for column in operator.children[0].output}
        tested = operator.type == "semi" or any(mark.column not in kept for mark in marks)
        if operator.type == "existence" and not tested:
            operator = replace(operator, decides=())  # it keeps all rows
        found = self._passing.back(operator, scope, marks)
        if operator.type in _TESTING:
            looked = found.pop(1, [])
            group = group_of(scope.shape, operator.id)
            if group is not None and (looked or tested):
                inner = self._members.referred(view, scope, group)
                moved = [self._members.spread(mark, inner.table) for mark in looked]
                self._visit(view, operator.children[1], inner, moved)
        self._children(view, operator, scope, found)

    def _union(self, view: StepView, operator: ops.Union, scope: Scope, marks: list[Mark]) -> None:
        choice = scope.shape
        if not isinstance(choice, Choice):
            return
        for number, child in enumerate(operator.children):
            table = self._tables.table(
                "branch", f"SELECT * FROM {scope.table} WHERE {quoted(choice.slot)} = {number}"
            )
            if not self._tables.count(table):
                continue  # what is not known there does not matter
            columns = {
                out.number: own.number
                for out, own in zip(operator.output, child.output, strict=True)
            }
            moved = [replace(mark, column=columns[mark.column]) for mark in marks]
            inner = Scope(table, choice.branches[number], scope.scopes)
            self._visit(view, child, inner, [mark.on(scope.table, table) for mark in moved])

    def _generate(
        self, view: StepView, operator: Generator, scope: Scope, marks: list[Mark]
    ) -> None:
        item = item_of(scope, operator)
        inner, found = self._unnested.back(operator, scope, marks)
        below = replace(inner, shape=item.parent) if item else inner
        self._visit(view, operator.children[0], below, found.get(0, []))
        self._subqueries(view, operator, inner, found)

    def _set(self, view: StepView, operator: Operator, scope: Scope, marks: list[Mark]) -> None:
        for number, side in enumerate(("left", "right")):
            group = group_of(scope.shape, f"{operator.id}/{side}")
            if group is None:
                continue
            child = operator.children[number]
            columns = {
                out.number: own.number
                for out, own in zip(operator.output, child.output, strict=True)
            }
            inner = self._members.referred(view, scope, group)
            moved = [
                replace(self._members.spread(mark, inner.table), column=columns[mark.column])
                for mark in marks
            ]
            looked = [
                Mark(column.number, (), inner.table, False, frozenset({operator.id}))
                for column in child.output
            ]
            self._visit(view, child, inner, moved + looked)

    def _opaque(self, view: StepView, operator: Operator, scope: Scope, marks: list[Mark]) -> None:
        """A Python function over rows: what it was seen to do, or all in the rows that it took."""
        followed = FollowedCells.of(self._tables, view, operator, scope)
        if followed is not None:
            for side in followed.sides(marks):
                self._visit(view, side.child, side.scope, side.marks)
            return
        self.reasons[f"{operator.id}: nobody sees into a Python function, all it reads counts"] = (
            None
        )
        found = self._passing.back(operator, scope, marks)
        for shape in walk(scope.shape):
            if isinstance(shape, Members) and shape.operator == operator.id:
                table = self._members.listed(scope, shape)
                scope = Scope(table, shape.element, scope.scopes)
                found = {
                    number: [self._members.spread(mark, table) for mark in asked]
                    for number, asked in found.items()
                }
                break
        for number, child in enumerate(operator.children):
            inner = self._side(view, operator, scope, number)
            if inner is None:
                self._visit(view, child, part(scope, child), found.get(number, []))
                continue
            moved = [self._members.spread(mark, inner.table) for mark in found.get(number, [])]
            self._visit(view, child, inner, moved)

    def _side(self, view: StepView, operator: Operator, scope: Scope, number: int) -> Scope | None:
        """The rows that a function took from one of its inputs, if the witness refers to them."""
        shape = scope.shape
        if isinstance(shape, Choice):
            table = self._tables.table(
                "branch", f"SELECT * FROM {scope.table} WHERE {quoted(shape.slot)} = {number}"
            )
            scope, shape = replace(scope, table=table), shape.branches[number]
        own = [p for p in walk(shape) if isinstance(p, Group)]
        sides = [g for g in own if is_side(g.operator, operator.id, number)] or own
        if not sides:
            return None
        return self._members.referred(view, scope, sides[0])

    # --- Groups -----------------------------------------------------------------------------

    def _window(
        self, view: StepView, operator: ops.Window, scope: Scope, marks: list[Mark]
    ) -> None:
        made = {call.column for call in operator.functions}
        own = [mark for mark in marks if mark.column not in made]
        asked = [mark for mark in marks if mark.column in made]
        child = operator.children[0]
        if own or not asked:
            self._visit(view, child, part(scope, child), own)
        if not asked:
            return
        frames = [
            p for p in walk(scope.shape) if isinstance(p, Group) and p.operator == operator.id
        ]
        bare = replace(operator, decides=())
        for mark in asked:
            self._note_items(operator, mark)
        if frames:
            looked = [one for mark in asked for one in self._beside_frame(bare, mark)]
        else:
            looked = self._passing.back(bare, scope, asked).get(0, [])
        self._visit(view, child, part(scope, child), looked)
        for frame in frames:
            own = _of_frame(frame, frames, asked)
            if any(frame.columns and mark.column not in frame.columns for mark in own):
                self.reasons[f"{operator.id}: the whole partition counts, not the frame"] = None
            if own:
                inner = self._members.referred(view, scope, frame)
                moved = [m for mark in own for m in self._in_frame(bare, scope, inner, mark)]
                self._visit(view, child, inner, moved)

    def _beside_frame(self, operator: ops.Window, mark: Mark) -> Iterator[Mark]:
        """What a window looks at in the row itself, whether or not it is in its frame.

        Of several values that may have been taken one may be a default, which is that of the row.
        """
        for move in moves_of(operator, mark) or ():
            for number, looked in influences(mark, move, operator.id):
                if not number:
                    yield looked
            for passed in through(mark, move, operator.id) if move.chosen else ():
                if not passed.input:
                    own = self._passing.tested(operator, move, passed)
                    yield replace(own, contributing=False)

    def _in_frame(
        self, operator: ops.Window, scope: Scope, members: Scope, mark: Mark
    ) -> list[Mark]:
        """A mark of a window's value as marks of the rows in its frame.

        Where one of their values was taken, the others were looked at.
        """
        flag = dict(members.chosen).get(mark.column)
        calls = [call for call in operator.functions if call.column == mark.column]
        if flag is None and any(call.picks for call in calls):
            self.reasons[f"{operator.id}: rows whose value was not taken count too"] = None
        found = self._passing.back(operator, scope, [mark]).get(0, [])
        moved = [self._members.spread(one, members.table) for one in found]
        if flag is None:
            return moved
        compared = any(call.function in ops.CHOOSING | ops.AT_A_PLACE for call in calls)
        below = [one for one in moved if not one.contributing]
        for one in moved:
            if one.contributing:
                taken, other = self._members.divided(one, members, flag)
                below += [taken, other] if compared else [taken]
        return below

    def _note_items(self, operator: ops.Window, mark: Mark) -> None:
        """Which row of a frame gave an item of a list is not kept."""
        for move in moves_of(operator, mark) or ():
            items = {passed.item for passed in through(mark, move, operator.id)}
            if move.positions != "same" and items - {None, ItemStep()}:
                self._members.unknown(operator)

    def _aggregate(
        self, view: StepView, operator: ops.Aggregate, scope: Scope, marks: list[Mark]
    ) -> None:
        part = next(
            (
                p
                for p in walk(scope.shape)
                if isinstance(p, Members | Group) and p.operator == operator.id
            ),
            None,
        )
        found = self._passing.back(operator, scope, marks)
        self._subqueries(view, operator, scope, found)
        made = {call.column for call in operator.aggregates}
        if not operator.keys and not any(mark.column in made for mark in marks):
            return  # its one row is there whatever the others are
        if isinstance(part, Members):
            table = self._members.listed(scope, part)
            inner = Scope(table, part.element, scope.scopes, part.collected, part.chosen)
            self._into_groups(view, operator, inner, marks)
        elif part is not None:
            inner = self._members.referred(view, scope, part)
            self._into_groups(view, operator, inner, marks)

    def _into_groups(
        self, view: StepView, operator: ops.Aggregate, members: Scope, marks: Sequence[Mark]
    ) -> None:
        asked, below = self._groups.of_members(operator, members, marks)
        if operator.children:
            child = operator.children[0]
            self._visit(view, child, part(asked, child), below)


def _of_frame(frame: Group, frames: Sequence[Group], asked: Sequence[Mark]) -> list[Mark]:
    """The asked values of functions that have this frame; one frame alone stands for all."""
    if len(frames) == 1 or not frame.columns:
        return list(asked)
    return [mark for mark in asked if mark.column in frame.columns]
