"""Backward: from chosen output rows down the witness to source rows.

A *scope* is a temporary table that holds the slots of some rows and, in `role`, whether they
contribute. Walking a shape makes a scope of list members or of a group's members from the scope
that refers to them, and leaves locators in one table per source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import assert_never

from whence.algebra.witness import (
    RANK,
    Choice,
    Group,
    GroupShape,
    Item,
    Members,
    Nothing,
    Product,
    Row,
    Witness,
    slots,
)
from whence.archive import Archive, Dataset
from whence.errors import EngineError
from whence.plan import Limit, Offset, Operator, Union, Window, walk
from whence.trace.engine import Engine
from whence.trace.followed import doubts_of
from whence.trace.steps import StepView, member_columns, membership, step_view
from whence.trace.tables import LOCATOR, Tables, quoted

ROLE = "__whence_role"
Branch = tuple[str, int]


class Backward:
    """One backward answer, being made."""

    def __init__(self, tables: Tables, engine: Engine | None) -> None:
        self._tables = tables
        self.engine = engine
        self._found: dict[str, list[str]] = {}
        self.lost: list[tuple[str, int]] = []
        self.doubts: list[str] = []
        self.followed: list[tuple[StepView, str]] = []
        self._counted: list[tuple[StepView, Witness, str, Branch | None]] = []
        self.datasets: dict[str, Dataset] = {}
        self.views: list[StepView] = []

    def from_output(self, view: StepView, chosen: str) -> None:
        """Trace the output rows of a step whose locators are in the table `chosen`."""
        output, *_ = self._tables.datasets([view.step.output, *view.step.inputs])
        self.views.append(view)
        if view.doubts:
            self.doubts += doubts_of(self._tables, view, chosen)
            self.followed.append((view, chosen))
        if isinstance(view.shape, Group) and view.shape.slot == "":
            found, group = self._lazy_scope(view, output, chosen)
            self._walk(replace(view, scopes=group.scopes), group.element, found)
            return
        columns = [quoted(slot) for slot in slots(view.shape)]
        rows = self._tables.at(output, columns, chosen) if columns else None
        if rows is None:
            return
        scope_sql = (
            f"SELECT r.* EXCLUDE ({LOCATOR}), c.role AS {ROLE} FROM ({rows}) AS r "
            f"JOIN {chosen} AS c ON c.locator = r.{LOCATOR}"
        )
        scope = self._tables.table("scope", scope_sql, output)
        self._walk(view, view.shape, scope)

    def hits(self) -> dict[str, str]:
        """For each source dataset, a table with `locator` and `role`."""
        result = {}
        for dataset, parts in self._found.items():
            union = " UNION ALL ".join(f"SELECT * FROM {part}" for part in parts)
            sql = f"SELECT locator, bool_or(role) AS role FROM ({union}) GROUP BY locator"
            result[dataset] = self._tables.table("hits", sql)
        return result

    # --- Shapes -----------------------------------------------------------------------------

    def _walk(
        self, view: StepView, shape: Witness, scope: str, branch: Branch | None = None
    ) -> None:
        self._counted.append((view, shape, scope, branch))
        self._visit(view, shape, scope, branch)

    def _visit(
        self, view: StepView, shape: Witness, scope: str, branch: Branch | None = None
    ) -> None:
        match shape:
            case Nothing():
                pass
            case Row(slot, source):
                self._row(view, slot, source, scope)
            case Product(parts):
                for part in parts:
                    self._visit(view, part, scope, branch)
            case Item(parent):
                self._visit(view, parent, scope, branch)
            case Choice(slot, branches):
                union = _union(view, slot, branch)
                for number, inner in enumerate(branches):
                    if isinstance(inner, Nothing):
                        continue
                    chosen = f"SELECT * FROM {scope} WHERE {quoted(slot)} = {number}"
                    rows = self._tables.table("branch", chosen)
                    self._walk(view, inner, rows, (union, number))
            case Members():
                self._walk(view, shape.element, self._listed(shape, scope), branch)
            case Group():
                self._group(view, shape, scope, branch)
            case _:
                assert_never(shape)

    def _row(self, view: StepView, slot: str, source: str, scope: str) -> None:
        name = quoted(slot)
        sql = (
            f"SELECT {name} AS locator, bool_or({ROLE}) AS role FROM {scope} "
            f"WHERE {name} IS NOT NULL GROUP BY {name}"
        )
        self._reached(view.inputs[source], self._tables.table("rows", sql))

    def _reached(self, dataset_id: str, rows: str) -> None:
        """Rows of a dataset are reached: the end, or the output of an earlier step or run."""
        archive: Archive = self._tables.archive
        dataset = self._tables.dataset(dataset_id)
        producer = archive.producer(dataset_id) if dataset.kind == "output" else None
        if producer is not None:
            self.from_output(step_view(*producer), rows)
            return
        self.datasets[dataset_id] = dataset
        self._found.setdefault(dataset_id, []).append(rows)

    def _listed(self, shape: Members, scope: str) -> str:
        """The scope of the members in a list."""
        inner = f"SELECT unnest({quoted(shape.slot)}) AS m, {ROLE} FROM {scope}"
        columns = member_columns(shape, slots(shape.element))
        role = _role([f"m.{quoted(flag)}" for flag in shape.flags])
        sql = f"SELECT {', '.join([*columns, role])} FROM ({inner})"
        return self._tables.table("members", sql)

    def _group(self, view: StepView, shape: Group, scope: str, branch: Branch | None) -> None:
        """The members of the groups that a scope refers to."""
        slot = quoted(shape.slot)
        if not self._tables.run(f"SELECT 1 FROM {scope} WHERE {slot} IS NOT NULL LIMIT 1"):
            return
        keys = self._tables.table(
            "keys",
            f"SELECT unnest(k), {ROLE} FROM (SELECT {slot} AS k, bool_or({ROLE}) AS {ROLE} "
            f"FROM {scope} WHERE {slot} IS NOT NULL GROUP BY {slot})",
        )
        files, group = self.group_files(view, shape.operator, keys)
        inner = replace(view, scopes={**view.scopes, **group.scopes})
        self.note_ties(view, shape, group, files, keys)
        self._walk(inner, group.element, self._members(group, files, keys), branch)

    def note_ties(
        self, view: StepView, shape: Group, group: GroupShape, files: list[str], keys: str
    ) -> None:
        """Note it where a frame of rows is cut between rows that its order does not tell apart.

        Which of them are in it is not kept.
        """
        operator = next((op for op in walk(view.plan) if op.id == shape.operator), None)
        if group.frame is None or not isinstance(operator, Window):
            return
        calls = [c for c in operator.functions if not shape.columns or c.column in shape.columns]
        sides = zip(group.frame, (any(c.cuts[side] for c in calls) for side in (0, 1)), strict=True)
        edges = ", ".join(f"k.{quoted(name)}" for name, is_cut in sides if is_cut)
        if edges and self._tables.run(
            f"SELECT 1 FROM {keys} AS k JOIN {self._tables.scan(files)} AS g "
            f"ON {membership(group, 'k', 'g')} AND g.{RANK} IN ({edges}) "
            f"GROUP BY k, g.{RANK} HAVING count(*) > 1 LIMIT 1"
        ):
            self.doubts.append(f"{shape.operator}: rows that tie at the edge of a frame all count")

    def _members(self, group: GroupShape, files: list[str], keys: str) -> str:
        columns = [f"g.{quoted(name)}" for name in slots(group.element)]
        role = _role([f"g.{quoted(flag)}" for flag in group.flags], "k.")
        sql = (
            f"SELECT {', '.join([*columns, role])} FROM {keys} AS k "
            f"JOIN {self._tables.scan(files)} AS g ON {membership(group, 'k', 'g')}"
        )
        return self._tables.table("members", sql)

    # --- Groups that are not stored ---------------------------------------------------------

    def group_files(
        self, view: StepView, group: str, keys: str | None
    ) -> tuple[list[str], GroupShape]:
        """The files that hold a group's members: stored ones, or made by running again."""
        archive = self._tables.archive
        if group in view.groups:
            shape, dataset_id = view.groups[group]
            return archive.file_paths(archive.dataset(dataset_id)), shape
        if self.engine is None:
            raise EngineError(
                f"the groups of {group} in run {view.run.name!r} were not stored (mode "
                f"{view.run.mode!r}), so this answer needs Spark, which is not at hand"
            )
        if keys is None:
            return self.engine.members(view.run, view.step, group, None)
        path = self._tables.scratch_file()
        columns = f"SELECT * EXCLUDE ({ROLE}) FROM {keys}"
        self._tables.run(f"COPY ({columns}) TO '{path}' (FORMAT parquet)")
        return self.engine.members(view.run, view.step, group, path)

    def _lazy_scope(self, view: StepView, output: Dataset, chosen: str) -> tuple[str, GroupShape]:
        """Chosen rows of a run without witnesses: found again by their values."""
        keys, files, group = self.lazy_members(view, output, chosen)
        scope = self._members(group, files, keys)
        self.check_all_found(view, files, keys)
        return scope, group

    def lazy_members(
        self, view: StepView, output: Dataset, chosen: str
    ) -> tuple[str, list[str], GroupShape]:
        """The values of chosen rows, numbered, and the files with what running again gave."""
        physical = output.properties["physical"]
        items = [f"{quoted(p)} AS k{i}" for i, p in enumerate(physical)]
        rows = self._tables.at(output, items or ["true AS k0"], chosen)
        names = ", ".join(["0 AS kid", *(f"k{i}" for i in range(len(items)))])
        keys = self._tables.table(
            "keys",
            f"SELECT * REPLACE (row_number() OVER () AS kid) FROM (SELECT {names}, "
            f"bool_or(c.role) AS {ROLE} FROM ({rows}) AS r "
            f"JOIN {chosen} AS c ON c.locator = r.{LOCATOR} GROUP BY ALL)",
            output,
        )
        files, group = self.group_files(view, "root", keys)
        limited = any(isinstance(op, Limit | Offset) for op in walk(view.plan))
        if limited and self._tables.count(self._tables.scan(files)) > self._tables.count(chosen):
            # Equal rows beyond a limit were found as well: the limit must be kept.
            files, group = self.group_files(view, "root/limited", keys)
        return keys, files, group

    def check_all_found(self, view: StepView, files: list[str], keys: str) -> None:
        """Note the rows that running again did not give: nothing can be said of them."""
        (lost,) = self._tables.one(
            f"SELECT count(*) FROM {keys} "
            f"WHERE kid NOT IN (SELECT kid FROM {self._tables.scan(files)})"
        )
        if lost:
            self.lost.append((view.run.name, int(lost)))

    # --- Counts -----------------------------------------------------------------------------

    @cached_property
    def counts(self) -> dict[tuple[str, int, str], int]:
        """How many rows each operator handled on the way, by run, step and operator."""
        found: dict[tuple[str, int, str], int] = {}
        for view, shape, scope, branch in self._counted:
            for operator, rows in self._count_scope(view, shape, scope, branch):
                key = (view.run.id, view.step.number, operator)
                found[key] = found.get(key, 0) + rows
        return found

    def _count_scope(
        self, view: StepView, shape: Witness, scope: str, branch: Branch | None
    ) -> Iterator[tuple[str, int]]:
        """How many rows of a scope each operator handled, told by the slots it had.

        Branches of a union share slots, so operators below one are counted in its rows alone.
        """
        available = set(slots(shape))
        below = _branches(view.plan)
        wanted = [
            (operator, own)
            for operator, own in view.scopes.items()
            if own and set(own) <= available and below.get(operator) == branch
        ]
        if not wanted:
            return
        by_slots = list(dict.fromkeys(own for _, own in wanted))
        items = []
        for own in by_slots:
            names = ", ".join(quoted(name) for name in own)
            some = " OR ".join(f"{quoted(name)} IS NOT NULL" for name in own)
            items.append(f"count(DISTINCT row({names})) FILTER ({some})")
        found = self._tables.one(f"SELECT {', '.join(items)} FROM {scope}")
        numbers = dict(zip(by_slots, found, strict=True))
        for operator, own in wanted:
            yield operator, int(numbers[own])


def _union(view: StepView, slot: str, branch: Branch | None) -> str:
    """The union whose branches a slot numbers; it has that slot first, and lies in a branch."""
    below = _branches(view.plan)
    return next(
        (
            operator.id
            for operator in walk(view.plan)
            if isinstance(operator, Union)
            and view.scopes.get(operator.id, ())[:1] == (slot,)
            and below.get(operator.id) == branch
        ),
        "",
    )


def _branches(plan: Operator) -> dict[str, Branch]:
    """For each operator below a union, the nearest such union and the number of its branch."""
    found: dict[str, Branch] = {}
    for operator in walk(plan):
        if isinstance(operator, Union):
            for number, child in enumerate(operator.children):
                found.update({inner.id: (operator.id, number) for inner in walk(child)})
    return found


def _role(flags: list[str], prefix: str = "") -> str:
    if not flags:
        return f"{prefix}{ROLE} AS {ROLE}"
    return f"{prefix}{ROLE} AND ({' OR '.join(flags)}) AS {ROLE}"
