"""Forward: which output rows a source row took part in.

Goes from the source up: a predicate over slots says whether a witness holds one of the rows. Groups
are decided first and once each, so that what many rows share is not gone through for each of them.
"""

from __future__ import annotations

from typing import assert_never

from whence.algebra.witness import (
    Choice,
    Group,
    Item,
    Members,
    Nothing,
    Product,
    Row,
    Witness,
    slots,
)
from whence.trace.backward import Backward
from whence.trace.followed import doubts_of
from whence.trace.steps import StepView, member_columns, membership, step_view
from whence.trace.tables import LOCATOR, Tables, quoted


class Forward:
    """One forward answer, being made."""

    def __init__(self, tables: Tables, groups: Backward) -> None:
        self._tables = tables
        self._groups = groups
        self.views: list[StepView] = []
        self.doubts: list[str] = []

    def output_rows(self, view: StepView, wanted: dict[str, str]) -> str:
        """A table with the locators of the output rows that the wanted source rows took part in.

        `wanted` maps a dataset's id to a table of locators.
        """
        self.views.append(view)
        self.doubts += doubts_of(self._tables, view)
        wanted = {**wanted, **self._through_steps(view, wanted)}
        output = self._tables.archive.dataset(view.step.output)
        if isinstance(view.shape, Group) and view.shape.slot == "":
            return self._lazy(view, wanted)
        names = slots(view.shape)
        columns = [quoted(name) for name in names] or ["true AS present"]
        scope = self._tables.table("scope", self._tables.rows(output, columns), output)
        test = self._test(view, view.shape, scope, LOCATOR, wanted)
        sql = f"SELECT {LOCATOR} AS locator, true AS role FROM {scope} WHERE {test}"
        return self._tables.table("impact", sql)

    def _through_steps(self, view: StepView, wanted: dict[str, str]) -> dict[str, str]:
        """Rows of inputs that are themselves outputs of earlier steps or runs."""
        reached: dict[str, str] = {}
        for dataset in self._tables.datasets(view.inputs.values()):
            if dataset.id in wanted or dataset.kind != "output":
                continue
            producer = self._tables.archive.producer(dataset.id)
            if producer is not None:
                reached[dataset.id] = self.output_rows(step_view(*producer), wanted)
        return reached

    def _test(
        self, view: StepView, shape: Witness, scope: str, row: str, wanted: dict[str, str]
    ) -> str:
        """A predicate over the rows of a scope, whose identity is the column `row`."""
        match shape:
            case Nothing():
                return "false"
            case Row(slot, source):
                rows = wanted.get(view.inputs[source])
                if rows is None:
                    return "false"
                return f"coalesce({quoted(slot)} IN (SELECT locator FROM {rows}), false)"
            case Product(parts):
                tests = [self._test(view, part, scope, row, wanted) for part in parts]
                return _any(tests)
            case Item(parent):
                return self._test(view, parent, scope, row, wanted)
            case Choice(slot, branches):
                tests = []
                for number, branch in enumerate(branches):
                    test = self._test(view, branch, scope, row, wanted)
                    if test != "false":
                        tests.append(f"({quoted(slot)} = {number} AND {test})")
                return _any(tests)
            case Members():
                return self._member_test(view, shape, scope, row, wanted)
            case Group():
                return self._group_test(view, shape, scope, wanted)
            case _:
                assert_never(shape)

    def _member_test(
        self, view: StepView, shape: Members, scope: str, row: str, wanted: dict[str, str]
    ) -> str:
        inner = f"SELECT {row} AS owner, unnest({quoted(shape.slot)}) AS m FROM {scope}"
        columns = member_columns(shape, slots(shape.element))
        members = self._tables.table(
            "members",
            f"SELECT row_number() OVER () AS __whence_member, owner, {', '.join(columns)} "
            f"FROM ({inner})",
        )
        test = self._test(view, shape.element, members, "__whence_member", wanted)
        if test == "false":
            return "false"
        return f"{row} IN (SELECT owner FROM {members} WHERE {test})"

    def _group_test(self, view: StepView, shape: Group, scope: str, wanted: dict[str, str]) -> str:
        files, group = self._groups.group_files(view, shape.operator, None)
        members = self._tables.table(
            "members",
            f"SELECT row_number() OVER () AS __whence_member, * FROM {self._tables.scan(files)}",
        )
        test = self._test(view, group.element, members, "__whence_member", wanted)
        if test == "false":
            return "false"
        fields = dict.fromkeys((*group.keys, *(t.field for t in group.tests)))
        hit = self._tables.table(
            "hit",
            f"SELECT DISTINCT {', '.join(map(quoted, fields)) or 'true AS present'} "
            f"FROM {members} WHERE {test}",
        )
        slot = quoted(shape.slot)
        matched = membership(group, slot, "h")
        return f"({slot} IS NOT NULL AND EXISTS (SELECT 1 FROM {hit} AS h WHERE {matched}))"

    def _lazy(self, view: StepView, wanted: dict[str, str]) -> str:
        """A run without witnesses: all of them are made by running it again."""
        output = self._tables.archive.dataset(view.step.output)
        everything = self._tables.table(
            "chosen",
            f"SELECT {LOCATOR} AS locator, true AS role "
            f"FROM ({self._tables.rows(output, ['1 AS x'])})",
            output,
        )
        keys, files, group = self._groups.lazy_members(view, output, everything)
        members = self._tables.table(
            "members",
            f"SELECT row_number() OVER () AS __whence_member, * FROM {self._tables.scan(files)}",
        )
        test = self._test(view, group.element, members, "__whence_member", wanted)
        physical = [quoted(p) for p in output.properties["physical"]]
        rows = self._tables.rows(output, physical or ["true AS x"])
        tests = [f"r.{p} IS NOT DISTINCT FROM k.k{i}" for i, p in enumerate(physical)]
        return self._tables.table(
            "impact",
            f"SELECT DISTINCT r.{LOCATOR} AS locator, true AS role FROM ({rows}) AS r "
            f"JOIN {keys} AS k ON {' AND '.join(tests) or 'true'} "
            f"WHERE k.kid IN (SELECT kid FROM {members} WHERE {test})",
            output,
        )


def _any(tests: list[str]) -> str:
    real = [test for test in tests if test != "false"]
    return f"({' OR '.join(real)})" if real else "false"
