"""How a row was made: its witness read out as an expression over source rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from whence.algebra.expression import Atom, Expression, Zero, plus, times
from whence.algebra.locators import ROW_BITS, ROW_MASK
from whence.algebra.packing import member_values
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

_KID, _COUNT = "__whence_kid", "__whence_count"


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
        self._groups: dict[tuple[Any, ...], Expression] = {}

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
        return self.read_all(view, view.shape, self._dicts(sql, output))

    def _dicts(self, sql: str, dataset: Dataset | None = None) -> list[dict[str, Any]]:
        return list(self._tables.arrow(sql, dataset).to_pylist())

    def _lazy(self, view: StepView, output: Dataset, chosen: str) -> list[Expression]:
        keys, files, group = self._backward.lazy_members(view, output, chosen)
        found: dict[int, list[Expression]] = {}
        rows = self._dicts(f"SELECT * FROM {self._tables.scan(files)}")
        for row, expression in zip(rows, self.read_all(view, group.element, rows), strict=True):
            found.setdefault(row["kid"], []).append(expression)
        order = self._dicts(f"SELECT kid FROM {keys} ORDER BY kid")
        return [plus(found.get(key["kid"], [])) for key in order]

    def read_all(self, view: StepView, shape: Witness, rows: list[Any]) -> list[Expression]:
        """What a shape says of each of some rows; what they refer to is looked up at once."""
        atoms: dict[str, set[int]] = {}
        groups: dict[str, dict[str, Any]] = {}
        for row in rows:
            self._refer(view, shape, row, atoms, groups)
        for operator, keys in groups.items():
            self._find_groups(view, operator, keys)
        for dataset_id, locators in atoms.items():
            self._find_atoms(dataset_id, sorted(locators))
        return [self.read(view, shape, row) for row in rows]

    def _refer(
        self, view: StepView, shape: Witness, row: Any, atoms: dict[str, set[int]], groups: Any
    ) -> None:
        """Collect the rows and groups that reading a row will ask for."""
        match shape:
            case Row(slot, source) if row[slot] is not None:
                if (view.inputs[source], row[slot]) not in self._atoms:
                    atoms.setdefault(view.inputs[source], set()).add(row[slot])
            case Product(parts):
                for part in parts:
                    self._refer(view, part, row, atoms, groups)
            case Choice(slot, branches) if row[slot] is not None:
                self._refer(view, branches[row[slot]], row, atoms, groups)
            case Item(parent, _):
                self._refer(view, parent, row, atoms, groups)
            case Members():
                for item in self._shown(shape, row)[0]:
                    self._refer(view, shape.element, item, atoms, groups)
            case Group() if row[shape.slot] is not None:
                key = row[shape.slot]
                if (*_place(view), shape.operator, repr(key)) not in self._groups:
                    groups.setdefault(shape.operator, {})[repr(key)] = key
            case _:
                pass

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
        shown, more = self._shown(shape, row)
        return plus([self.read(view, shape.element, item) for item in shown], more)

    def _shown(self, shape: Members, row: Mapping[str, Any]) -> tuple[list[Any], int]:
        """The members of a list that are shown, and how many more there are."""
        items = [member_values(shape, item) for item in row[shape.slot] or []]
        if shape.flags:
            items = [item for item in items if any(item[flag] for flag in shape.flags)]
        items = sorted(items, key=lambda item: _sort_key(item, slots(shape.element)))
        return items[: self._terms], max(0, len(items) - self._terms)

    def _group(self, view: StepView, shape: Group, row: Mapping[str, Any]) -> Expression:
        key = row[shape.slot]
        if key is None:
            return Zero()
        place = (*_place(view), shape.operator, repr(key))
        if place not in self._groups:
            self._find_groups(view, shape.operator, {repr(key): key})
        return self._groups[place]

    def _find_groups(self, view: StepView, operator: str, wanted: Mapping[str, Any]) -> None:
        """The groups with some keys, each with its first members, in one query."""
        keys = self._tables.literal("keys", list(wanted.values()), {ROLE: "true"})
        numbered = self._tables.table("kid", f"SELECT row_number() OVER () AS kid, * FROM {keys}")
        files, group = self._backward.group_files(view, operator, keys)
        tests = [membership(group, "k", "g")]
        if group.flags:
            tests.append("(" + " OR ".join(f"g.{quoted(flag)}" for flag in group.flags) + ")")
        order = ", ".join(f"g.{quoted(s)}" for s in slots(group.element)) or "1"
        rows = self._dicts(
            f"SELECT g.*, k.kid AS {_KID}, count(*) OVER (PARTITION BY k.kid) AS {_COUNT} "
            f"FROM {numbered} AS k JOIN {self._tables.scan(files)} AS g ON {' AND '.join(tests)} "
            f"QUALIFY row_number() OVER (PARTITION BY k.kid ORDER BY {order}) <= {self._terms} "
            f"ORDER BY k.kid, {order}"
        )
        members: dict[int, list[Expression]] = {}
        counts = {row[_KID]: row[_COUNT] for row in rows}
        for row, expression in zip(rows, self.read_all(view, group.element, rows), strict=True):
            members.setdefault(row[_KID], []).append(expression)
        for number, name in enumerate(wanted, 1):
            more = max(0, counts.get(number, 0) - self._terms)
            found = plus(members.get(number, []), more)
            self._groups[(*_place(view), operator, name)] = found

    def _atom(self, dataset_id: str, locator: int | None) -> Expression:
        if locator is None:
            return Zero()
        if (dataset_id, locator) not in self._atoms:
            self._find_atoms(dataset_id, [locator])
        return self._atoms[dataset_id, locator]

    def _find_atoms(self, dataset_id: str, locators: list[int]) -> None:
        """What rows of a dataset are made of; those that no step made are their own source."""
        dataset = self._tables.dataset(dataset_id)
        archive = self._tables.archive
        producer = archive.producer(dataset_id) if dataset.kind == "output" else None
        if producer is None:
            name = self._names.get(dataset_id, dataset.name)
            for locator in locators:
                self._atoms[dataset_id, locator] = Atom(name, _row_name(dataset, locator))
            return
        view = step_view(*producer)
        found: list[Expression] = []
        if len(locators) > 1:
            found = self.rows(view, self._chosen(locators), len(locators))
        if len(found) != len(locators):  # one by one, where rows cannot be told apart
            found = [plus(self.rows(view, self._chosen([one]), 1)) for one in locators]
        for locator, expression in zip(locators, found, strict=True):
            self._atoms[dataset_id, locator] = expression

    def _chosen(self, locators: list[int]) -> str:
        rows = [{"locator": locator} for locator in locators]
        return self._tables.literal("one", rows, {"role": "true"})


def _place(view: StepView) -> tuple[str, int]:
    return view.run.id, view.step.number


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
