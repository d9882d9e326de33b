"""Steps whose Python function was followed: doubts about their rows, and the cells behind cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whence import plan as ops
from whence.algebra.expression import Expression
from whence.algebra.witness import RANK, GroupShape, slots
from whence.archive import Dataset
from whence.trace.steps import StepView
from whence.trace.tables import LOCATOR, Tables, quoted

CELLS = {
    "run": "VARCHAR",
    "step": "BIGINT",
    "operator": "VARCHAR",
    "row": "BIGINT",
    "column": "VARCHAR",
    "input_row": "VARCHAR",
    "input_column": "VARCHAR",
    "role": "VARCHAR",
}
_ALL = "*"
_RANGE = ("out", "side", "inp", "first", "last", "role")


def ranges_sql(kept: str, rows: str) -> str:
    """SQL for the ranges in the lists `cells` of rows, each beside some columns of its row.

    A range is six numbers on end: an output column, the input (its side), an input column, the
    first and last row of the call that it is about, and whether they contribute. A column may be
    -1, "all of them".
    """
    fields = ", ".join(f"cells[i + {n}] AS {name}" for n, name in enumerate(_RANGE, 1))
    numbered = f"SELECT *, unnest(range(0, len(cells), {len(_RANGE)})) AS i FROM {rows}"
    return f"SELECT {kept}, {fields} FROM ({numbered})"


def doubts_of(tables: Tables, view: StepView, chosen: str | None = None) -> list[str]:
    """Why witnesses of a step are not exact: those of the rows in a table, or of all rows."""
    reasons: list[str] = []
    for operator, slot in view.doubts.items():
        output = tables.archive.dataset(view.step.output)
        column = f"{quoted(slot)} AS doubt"
        rows = tables.rows(output, [column])
        if chosen is not None:
            rows = tables.at(output, [column], chosen)
        sql = f"SELECT DISTINCT doubt FROM ({rows}) WHERE doubt IS NOT NULL ORDER BY doubt"
        name = function_of(view, operator)
        reasons += [f"{operator}: {name}: {doubt}" for (doubt,) in tables.run(sql, output)]
    return reasons


def function_of(view: StepView, operator: str) -> str:
    """The name of an operator's Python function."""
    for found in ops.walk(view.plan):
        if found.id == operator and isinstance(
            found, ops.MapBatches | ops.MapGroups | ops.MapCogroups | ops.ArrayFunction
        ):
            return found.function
    return operator


class CellReader:
    """Reads the cells that a followed step stored, for chosen rows of its output."""

    def __init__(self, tables: Tables, how: Any, limit: int) -> None:
        self._tables = tables
        self._how = how
        self._limit = limit
        self._known: dict[tuple[str, ...], list[tuple[int, Expression]]] = {}

    def rows(self, view: StepView, chosen: str) -> Iterator[dict[str, Any]]:
        """One entry per output cell, input row, input column and role."""
        output = self._tables.archive.dataset(view.step.output)
        for operator, entry in view.cells.items():
            for found in self._ranges(output, entry, chosen):
                outputs = _names(entry["outputs"], found["out"])
                inputs = _names(entry["inputs"][found["side"]], found["inp"])
                group = entry["groups"][found["side"]]
                for number, expression in self._members_of(view, group, found):
                    yield from (
                        {
                            "run": view.run.name,
                            "step": view.step.number,
                            "operator": operator,
                            "row": found["row"],
                            "column": one,
                            "input_row": expression,
                            "input_column": two,
                            "role": "contributing" if found["role"] else "influencing",
                            "number": number,
                        }
                        for one in outputs
                        for two in inputs
                    )

    def _ranges(self, output: Dataset, entry: Any, chosen: str) -> list[dict[str, Any]]:
        names = [quoted(entry["slot"]) + " AS cells", quoted(entry["token"]) + " AS token"]
        rows = self._tables.at(output, names, chosen)
        # A cell of a row that is only looked at is only looked at as well.
        sql = (
            f"SELECT r.* REPLACE (r.role = 1 AND c.role AS role) "
            f"FROM ({ranges_sql(f'{LOCATOR} AS row, token', f'({rows})')}) AS r "
            f"JOIN {chosen} AS c ON c.locator = r.row "
            f"ORDER BY role DESC, row, out, side, inp, first LIMIT {self._limit}"
        )
        return list(self._tables.arrow(sql, output).to_pylist())

    def _members_of(
        self, view: StepView, group: str, found: dict[str, Any]
    ) -> list[tuple[int, Expression]]:
        """The members in a range; many cells are made of the same ones."""
        key = (view.run.id, group, *(str(found[name]) for name in ("token", "first", "last")))
        if key not in self._known:
            self._known[key] = self._members(view, group, found)
        return self._known[key]

    def _members(
        self, view: StepView, group: str, found: dict[str, Any]
    ) -> list[tuple[int, Expression]]:
        if group not in view.groups:
            return []
        shape: GroupShape = view.groups[group][0]
        dataset = self._tables.archive.dataset(view.groups[group][1])
        names = [quoted(name) for name in (*slots(shape.element), "k0", RANK)]
        where = f"k0 = '{found['token']}' AND {RANK} BETWEEN {found['first']} AND {found['last']}"
        sql = f"{self._tables.rows(dataset, names, where)} ORDER BY {RANK} LIMIT {self._limit}"
        rows = self._tables.arrow(sql, dataset).to_pylist()
        expressions = self._how.read_all(view, shape.element, rows)
        return [(row[RANK], made) for row, made in zip(rows, expressions, strict=True)]


def _names(names: list[str], position: int) -> list[str]:
    return [_ALL] if position < 0 else [names[position]]
