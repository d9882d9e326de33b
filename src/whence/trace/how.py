"""How a row was made: its witness read out as an expression over source rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from whence.algebra.expression import Atom, Expression, Zero, plus, times
from whence.algebra.locators import ROW_BITS, ROW_MASK
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
from whence.archive import Dataset
from whence.trace.backward import ROLE, Backward
from whence.trace.steps import StepView, membership, step_view
from whence.trace.tables import LOCATOR, Tables, quoted


class How:
    """Reads witnesses out; at most `terms` members of a group are shown."""

    def __init__(
        self, tables: Tables, backward: Backward, names: Mapping[str, str], terms: int
    ) -> None:
        self._tables = tables
        self._backward = backward
        self._names = names
        self._terms = terms
        self._atoms: dict[tuple[str, int], Expression] = {}

    def rows(self, view: StepView, chosen: str, limit: int) -> list[Expression]:
        """The expressions of chosen output rows, in the order of their locators."""
        output = self._tables.archive.dataset(view.step.output)
        first = self._tables.table(
            "first", f"SELECT locator, role FROM {chosen} ORDER BY locator LIMIT {limit}"
        )
        if isinstance(view.shape, Group) and view.shape.slot == "":
            return self._lazy(view, output, first)
        names = slots(view.shape)
        if not names:
            return [Zero()] * self._tables.count(first)
        columns = [quoted(name) for name in names]
        sql = f"{self._tables.at(output, columns, first)} ORDER BY {LOCATOR}"
        return [self.read(view, view.shape, row) for row in self._dicts(sql, output)]

    def _dicts(self, sql: str, dataset: Dataset | None = None) -> list[dict[str, Any]]:
        return list(self._tables.arrow(sql, dataset).to_pylist())

    def _lazy(self, view: StepView, output: Dataset, chosen: str) -> list[Expression]:
        keys, files, group = self._backward.lazy_members(view, output, chosen)
        found: dict[int, list[Expression]] = {}
        for row in self._dicts(f"SELECT * FROM {self._tables.scan(files)}"):
            found.setdefault(row["kid"], []).append(self.read(view, group.element, row))
        order = self._dicts(f"SELECT kid FROM {keys} ORDER BY kid")
        return [plus(found.get(key["kid"], [])) for key in order]

    def read(self, view: StepView, shape: Witness, row: Mapping[str, Any]) -> Expression:
        """What a shape says, given the values of its slots."""
        match shape:
            case Nothing():
                return Zero()
            case Row(slot, source):
                return self._atom(view.inputs[source], row[slot])
            case Product(parts):
                return times(self.read(view, part, row) for part in parts)
            case Choice(slot, branches):
                number = row[slot]
                return Zero() if number is None else self.read(view, branches[number], row)
            case Item(parent, slot):
                return _at(self.read(view, parent, row), row[slot] if slot else None)
            case Members():
                return self._members(view, shape, row)
            case Group():
                return self._group(view, shape, row)
            case _:
                assert_never(shape)

    def _members(self, view: StepView, shape: Members, row: Mapping[str, Any]) -> Expression:
        items = row[shape.slot] or []
        if shape.is_bare:
            name = slots(shape.element)[0]
            items = [{name: item} for item in items]
        if shape.flags:
            items = [item for item in items if any(item[flag] for flag in shape.flags)]
        items = sorted(items, key=lambda item: _sort_key(item, slots(shape.element)))
        shown = [self.read(view, shape.element, item) for item in items[: self._terms]]
        return plus(shown, max(0, len(items) - self._terms))

    def _group(self, view: StepView, shape: Group, row: Mapping[str, Any]) -> Expression:
        key = row[shape.slot]
        if key is None:
            return Zero()
        keys = self._keys_table(key)
        files, group = self._backward.group_files(view, shape.operator, keys)
        tests = [membership(group, "k", "g")]
        if group.flags:
            tests.append("(" + " OR ".join(f"g.{quoted(flag)}" for flag in group.flags) + ")")
        members = self._tables.table(
            "members",
            f"SELECT g.* FROM {keys} AS k JOIN {self._tables.scan(files)} AS g "
            f"ON {' AND '.join(tests)}",
        )
        order = ", ".join(quoted(s) for s in slots(group.element)) or "1"
        shown = self._dicts(f"SELECT * FROM {members} ORDER BY {order} LIMIT {self._terms}")
        more = max(0, self._tables.count(members) - self._terms)
        return plus((self.read(view, group.element, item) for item in shown), more)

    def _keys_table(self, key: Mapping[str, Any]) -> str:
        import pyarrow as pa

        name = self._tables.fresh("key")
        self._tables.register(name, pa.Table.from_pylist([{**key, ROLE: True}]))
        return name

    def _atom(self, dataset_id: str, locator: int | None) -> Expression:
        if locator is None:
            return Zero()
        known = self._atoms.get((dataset_id, locator))
        if known is None:
            known = self._atoms[dataset_id, locator] = self._found_atom(dataset_id, locator)
        return known

    def _found_atom(self, dataset_id: str, locator: int) -> Expression:
        dataset = self._tables.dataset(dataset_id)
        archive = self._tables.archive
        producer = archive.producer(dataset_id) if dataset.kind == "output" else None
        if producer is not None:
            table = self._tables.table("one", f"SELECT {locator}::BIGINT AS locator, true AS role")
            return plus(self.rows(step_view(*producer), table, 1))
        return Atom(self._names.get(dataset_id, dataset.name), _row_name(dataset, locator))


def _sort_key(item: Mapping[str, Any], names: tuple[str, ...]) -> tuple[int, ...]:
    """Members in the order of their locators, since a list has no order that can be relied on."""
    return tuple(item[name] if isinstance(item[name], int) else -1 for name in names)


def _row_name(dataset: Dataset, locator: int) -> str:
    """How a row is called: its index, and its file's number if there are several."""
    row = locator & ROW_MASK
    if len(dataset.files) <= 1:
        return str(row)
    slot = locator >> ROW_BITS
    number = next(i for i, file in enumerate(dataset.files) if file.slot == slot)
    return f"{number}:{row}"


def _at(expression: Expression, position: int | None) -> Expression:
    if position is None or not isinstance(expression, Atom):
        return expression
    return Atom(expression.source, expression.row, (*expression.positions, position))
