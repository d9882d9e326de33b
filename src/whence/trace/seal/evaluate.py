"""Evaluating derivations: each row of a scope gets the hash of its node, bottom up.

A scope is a frame (what stands behind FROM) with slots, and in `__row` what tells its rows apart.
Each part of a derivation adds columns to it. What nodes and edges there are is read off the
finished scopes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import assert_never

from whence.algebra.witness import Group, GroupShape, Members, slots
from whence.plan.labels import Label
from whence.trace.seal import frames
from whence.trace.seal.bags import BagHashes
from whence.trace.seal.derivation import (
    Bag,
    Branch,
    Derivation,
    Empty,
    Joint,
    Leaf,
    Nesting,
    Pick,
)
from whence.trace.seal.formulas import shortened
from whence.trace.seal.settings import ROW_ID, NewLabel, SealStep
from whence.trace.seal.work import CONTRIBUTES, Met, Work, union
from whence.trace.tables import LOCATOR


@dataclass(frozen=True, slots=True)
class _Node:
    """A node column of a scope, to be read off when the scope is finished."""

    part: str
    label: NewLabel
    level: int
    inputs: tuple[tuple[str, str], ...]
    """Part and SQL of the index, for each input."""
    where: str
    """SQL: for which rows."""


@dataclass(slots=True)
class _Scope:
    """A frame while it grows; `where` holds for the rows that a part is about."""

    frame: str
    nodes: list[_Node]
    rows: str
    """The frame before any part was added."""
    where: str = "true"


class Evaluator:
    """Evaluates the derivations of one step."""

    def __init__(
        self,
        work: Work,
        step: SealStep,
        nesting: Nesting,
        leaves: dict[str, str],
        few: set[str],
        levels: dict[str, int],
    ) -> None:
        self._work, self._formulas = work, work.formulas
        self._step, self._nesting = step, nesting
        self._leaves, self._levels = leaves, levels
        self._few = few
        self._names = count()

    # --- Scopes -----------------------------------------------------------------------------

    def scope(self, frame: str, derivation: Derivation) -> tuple[str, str, int]:
        """The frame with the columns of a derivation, its nodes read off; the part; its level.

        It is computed once where nodes are read off it; where there are none, when it is used.
        """
        rows = self._work.keep("rows", frame) if _lists(derivation) else frame
        scope = _Scope(rows, [], rows)
        part, level = self._part(scope, derivation)
        frame = self._work.keep("scope", scope.frame) if scope.nodes else scope.frame
        for node in scope.nodes:
            self._read_off(frame, node)
        self._work.levels = max(self._work.levels, level)
        return frame, part, level

    def _read_off(self, frame: str, node: _Node) -> None:
        """The nodes of a finished scope and their edges."""
        work, part, place = self._work, node.part, self._work.place()
        columns = ", ".join(f"{part}{x} AS {x}" for x in work.hashes)
        there = f"FROM {frame} AS x WHERE {node.where}"
        rows = f"SELECT {columns} {there}"
        work.nodes.append(Met(rows, node.label, node.level, place))
        inputs = [
            f"SELECT {part}f AS d, {name}f AS f, {name}i AS i, CAST({index} AS INT) AS idx "
            f"{there} AND {name}f IS NOT NULL"
            for name, index in node.inputs
        ]
        if inputs:
            alike = work.engine.alike(f"(SELECT {part}f AS d {there})", "d")
            work.edges.append(
                f"SELECT {'DISTINCT ' if alike else ''}d, {place} AS e, f, i, idx, "
                f"CAST(1 AS BIGINT) AS times, true AS contributes FROM {union(inputs)} AS u"
            )

    # --- Parts ------------------------------------------------------------------------------

    def _part(self, scope: _Scope, derivation: Derivation) -> tuple[str, int]:
        """Add a part to a scope; its name and level."""
        part = f"__p{next(self._names)}"
        match derivation:
            case Empty():
                self._add(scope, part, dict.fromkeys(self._work.hashes, "CAST(NULL AS BINARY)"))
                return part, 0
            case Leaf(slot, dataset):
                self._leaf(scope, part, slot, dataset)
                return part, self._levels.get(dataset, 0)
            case Joint():
                return self._joint(scope, part, derivation)
            case Pick(label, inner, slot):
                index = "NULL" if slot is None else self._formulas.name(slot)
                return part, self._one(scope, part, label, inner, index)
            case Branch():
                return self._branch(scope, part, derivation)
            case Bag():
                return self._bag(scope, part, derivation)
            case _:
                assert_never(derivation)

    def _add(self, scope: _Scope, part: str, hashes: dict[str, str]) -> None:
        """Add the columns of a part that is a new node."""
        added = [f"{hashes[x]} AS {part}{x}" for x in self._work.hashes]
        added += [f"false AS {part}l", f"CAST(NULL AS BIGINT) AS {part}i"]
        scope.frame = f"(SELECT x.*, {', '.join(added)} FROM {scope.frame} AS x)"

    def _leaf(self, scope: _Scope, part: str, slot: str, dataset: str) -> None:
        added = ", ".join(f"l.{x} AS {part}{x}" for x in self._work.suffixes)
        hint = "BROADCAST" if dataset in self._few else "SHUFFLE_HASH"
        scope.frame = (
            f"(SELECT /*+ {hint}(l) */ x.*, {added} FROM {scope.frame} AS x LEFT JOIN "
            f"{self._leaves[dataset]} AS l ON x.{self._formulas.name(slot)} = l.{LOCATOR} "
            f"AND {scope.where})"
        )

    def _hashed(self, scope: _Scope, part: str, write: Callable[[str], str], present: str) -> None:
        """Add a new node where `present` holds; `write` makes SQL of a suffix."""
        bits = self._work.settings.bits
        hashes = {"f": write("f")}
        if bits != 256:
            hashes["s"] = shortened(write("s"), bits)
        self._add(scope, part, {x: f"CASE WHEN {present} THEN {h} END" for x, h in hashes.items()})

    def _joint(self, scope: _Scope, part: str, derivation: Joint) -> tuple[str, int]:
        found = [self._part(scope, inner) for inner in derivation.parts]
        parts = [name for name, _ in found]
        level = max(level for _, level in found) + 1
        digest = derivation.label.digest
        present = " OR ".join(f"{name}f IS NOT NULL" for name in parts)
        self._hashed(
            scope,
            part,
            lambda x: self._formulas.joint(digest, [(f"{p}{x}", f"{p}l") for p in parts]),
            present,
        )
        label = NewLabel(digest, "joint", len(parts), derivation.label.text)
        inputs = tuple((name, str(position)) for position, name in enumerate(parts))
        scope.nodes.append(_Node(part, label, level, inputs, f"{part}f IS NOT NULL"))
        return part, level

    def _one(self, scope: _Scope, part: str, label: Label, inner: Derivation, index: str) -> int:
        name, level = self._part(scope, inner)
        self._hashed(
            scope,
            part,
            lambda x: self._formulas.one(label.digest, index, f"{name}{x}", f"{name}l"),
            f"{name}f IS NOT NULL",
        )
        new = NewLabel(label.digest, "one", 1, label.text)
        inputs = ((name, index),)
        scope.nodes.append(_Node(part, new, level + 1, inputs, f"{part}f IS NOT NULL"))
        return level + 1

    def _branch(self, scope: _Scope, part: str, derivation: Branch) -> tuple[str, int]:
        """Branches share slots: each looks only at its own rows, and leaves the others empty."""
        outer, highest, names = scope.where, 0, []
        for number, inner in enumerate(derivation.branches):
            name = f"{part}b{number}_"
            scope.where = self._formulas.branch(outer, derivation.slot, number)
            level = self._one(scope, name, derivation.label, inner, str(number))
            highest = max(highest, level)
            names.append(name)
        scope.where = outer
        hashes = {
            x: f"coalesce({', '.join(f'{name}{x}' for name in names)})" for x in self._work.hashes
        }
        self._add(scope, part, hashes)
        return part, highest

    # --- Groups -----------------------------------------------------------------------------

    def _bag(self, scope: _Scope, part: str, bag: Bag) -> tuple[str, int]:
        scope.frame = self._work.keep("frame", scope.frame)
        slot = self._formulas.name(bag.members.slot)
        on = f"x.{slot}"
        if isinstance(bag.members, Group):
            hashes, level = self._keyed(scope, bag, bag.members)
        else:
            on = f"x.{ROW_ID}"
            derivation = self._nesting.member(bag.members.operator, bag.members.element)
            listed = self._work.listed(scope.rows, bag.members, scope.where)
            members, name, level = self.scope(listed, derivation)
            hashes = self._hashes(bag).of(members, name, level + 1)
        bits, empty = self._work.settings.bits, self._formulas.empty_bag(bag.label.digest)
        blank = {"f": empty, "s": shortened(empty, bits)}
        there = f"x.{slot} IS NOT NULL AND {scope.where}"
        added = [
            f"CASE WHEN {there} THEN coalesce(h.{x}, {blank[x]}) END AS {part}{x}"
            for x in self._work.hashes
        ]
        scope.frame = (
            f"(SELECT x.*, {', '.join(added)}, false AS {part}l, CAST(NULL AS BIGINT) AS {part}i "
            f"FROM {scope.frame} AS x LEFT JOIN {hashes} AS h ON {on} IS NOT DISTINCT FROM h.k)"
        )
        # Groups without members are nodes as well, though no member leads to them.
        scope.nodes.append(_Node(part, self._label(bag), level + 1, (), f"{part}f = {empty}"))
        return part, level + 1

    def _keyed(self, scope: _Scope, bag: Bag, group: Group) -> tuple[str, int]:
        """The hashes of the groups that the frame refers to, by key."""
        files, shape = self._step.groups(group.operator)
        name, slot = self._formulas.name, self._formulas.name(group.slot)
        keys = self._work.engine.table(
            "keys",
            f"SELECT DISTINCT x.{slot} AS k FROM {scope.frame} AS x "
            f"WHERE x.{slot} IS NOT NULL AND {scope.where}",
        )
        members = self._work.engine.members(files)
        derivation = self._nesting.member(group.operator, shape.element)
        flags = " OR ".join(f"m.{name(flag)}" for flag in shape.flags) or "true"
        contributes = f"coalesce({flags}, false) AS {CONTRIBUTES}"
        own = [f"m.{name(inner)}" for inner in slots(shape.element)]
        columns = ", ".join([ROW_ID, *own, contributes])
        semi = self._formulas.semi_join
        if shape.frame:
            keys = self._work.engine.table("keys", frames.framed(self._work, keys, shape))
            ranked = frames.ranked(self._work, members, shape)
            rows = (
                f"(SELECT p, r, {columns} FROM ({ranked}) AS m {semi} {keys} AS q "
                "ON m.p IS NOT DISTINCT FROM q.p)"
            )
            rows, part, level = self.scope(rows, derivation)
            rows = self._work.keep("ranked", rows)
            return frames.hashes(self._hashes(bag), keys, rows, part, level)
        # Each member is evaluated once, however many groups it is in.
        told = [name(n) for n in (*shape.keys, *(test.field for test in shape.tests))]
        asked = "".join(f"m.{n} AS __t{i}, " for i, n in enumerate(told))
        rows = f"(SELECT {asked}{columns} FROM {members} AS m {semi} {keys} AS q ON "
        rows += f"{self._matches(shape, told)})"
        rows, part, level = self.scope(rows, derivation)
        fields = [f"__t{i}" for i in range(len(told))]
        joined = f"(SELECT q.k, m.* FROM {keys} AS q JOIN {rows} AS m ON "
        joined += f"{self._matches(shape, fields)})"
        return self._hashes(bag).of(joined, part, level + 1), level

    def _matches(self, shape: GroupShape, fields: list[str]) -> str:
        """SQL: whether the member `m` belongs to the group that the key of `q` refers to."""
        key = [f"(q.k).{self._formulas.name(name)}" for name in shape.keys]
        tests = [
            f"{k} IS NOT DISTINCT FROM m.{field}" for k, field in zip(key, fields, strict=False)
        ]
        tests += [
            f"(q.k).{self._formulas.name(test.key)} {test.comparison} m.{field}"
            for test, field in zip(shape.tests, fields[len(key) :], strict=True)
        ]
        return " AND ".join(tests) or "true"

    @staticmethod
    def _label(bag: Bag) -> NewLabel:
        return NewLabel(bag.label.digest, "bag", 0, bag.label.text)

    def _hashes(self, bag: Bag) -> BagHashes:
        return BagHashes(self._work, self._label(bag))


def _lists(derivation: Derivation) -> bool:
    """Whether there are lists in a derivation, whose rows must be told apart."""
    match derivation:
        case Empty() | Leaf():
            return False
        case Joint(_, parts) | Branch(_, _, parts):
            return any(map(_lists, parts))
        case Pick(_, part):
            return _lists(part)
        case Bag(members=members):
            return isinstance(members, Members)
        case _:
            assert_never(derivation)
