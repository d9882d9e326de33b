"""Evaluating derivations: each row of a scope gets the hash of its node, bottom up.

A scope is a frame with slots, and in `__row` what tells its rows apart. A part of a derivation
becomes columns of the scope: `<part>f` the full hash, `<part>s` the token (left out when it is the
full hash), `<part>i` the id where it is known already. What nodes and edges there are is read off
the finished scopes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, assert_never

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from whence.algebra.witness import GroupShape, slots
from whence.spark.gateway import Gateway
from whence.spark.seal import frames, sql
from whence.spark.seal.bags import CONTRIBUTES, BagHashes, Found
from whence.spark.seal.derivation import (
    Bag,
    Branch,
    Derivation,
    Empty,
    Joint,
    Leaf,
    Nesting,
    Pick,
)
from whence.spark.seal.records import LOCATOR
from whence.spark.seal.settings import NewLabel, SealStep, Settings

ROW = "__row"


@dataclass(frozen=True, slots=True)
class _Node:
    """A node column of a scope, to be read off when the scope is finished."""

    part: str
    label: NewLabel
    level: int
    inputs: tuple[tuple[str, str], ...]
    """Part and SQL of the index, for each input."""


class Evaluator:
    """Evaluates the derivations of one step."""

    def __init__(
        self,
        gateway: Gateway,
        settings: Settings,
        step: SealStep,
        nesting: Nesting,
        leaves: dict[str, DataFrame],
        small: set[str],
        levels: dict[str, int],
        found: Found,
    ) -> None:
        self._gateway, self._settings = gateway, settings
        self._step, self._nesting = step, nesting
        self._leaves, self._levels, self._found = leaves, levels, found
        self._small = small
        self._names = count()

    # --- Scopes -----------------------------------------------------------------------------

    def scope(
        self, frame: DataFrame, derivation: Derivation, *, keep: bool = False
    ) -> tuple[DataFrame, str, int]:
        """The frame with the columns of a derivation, its nodes read off.

        It is computed once if there are nodes to be read off, or if it is to be kept.
        """
        nodes: list[_Node] = []
        frame, part, level = self._part(frame, derivation, nodes)
        if nodes or keep:
            frame = self._found.keep(frame)
        if nodes:
            self._read_off(frame, nodes)
        self._found.levels = max(self._found.levels, level)
        return frame, part, level

    def _read_off(self, frame: DataFrame, nodes: list[_Node]) -> None:
        """The nodes of a finished scope and their edges, all in one pass."""
        found, inputs = [], []
        for node in nodes:
            e = self._found.number()
            self._found.labels.add(node.label)
            found.append(
                f"named_struct('f', `{node.part}f`, 's', {self._token(node.part)}, "
                f"'label', '{node.label.digest}', 'shape', '{node.label.shape}', "
                f"'level', {node.level}, 'e', {e})"
            )
            inputs += [
                f"named_struct('d', `{node.part}f`, 'e', {e}, 'f', `{part}f`, 'i', `{part}i`, "
                f"'idx', CAST({index} AS INT))"
                for part, index in node.inputs
            ]
        rows = frame.selectExpr(f"inline(array({', '.join(found)}))")
        self._found.nodes.append(rows.where("f IS NOT NULL"))
        if not inputs:
            return
        edges = frame.selectExpr(f"inline(array({', '.join(inputs)}))")
        edges = edges.where("d IS NOT NULL AND f IS NOT NULL").dropDuplicates(["d", "e", "idx"])
        self._found.edges.append(
            edges.selectExpr("d", "e", "f", "i", "idx", "1L AS times", "true AS contributes")
        )

    # --- Parts ------------------------------------------------------------------------------

    def _part(
        self, frame: DataFrame, derivation: Derivation, nodes: list[_Node]
    ) -> tuple[DataFrame, str, int]:
        part = f"__p{next(self._names)}"
        match derivation:
            case Empty():
                return self._nothing(frame, part), part, 0
            case Leaf(slot, dataset):
                return self._leaf(frame, part, slot, dataset), part, self._levels.get(dataset, 0)
            case Joint():
                return self._joint(frame, part, derivation, nodes)
            case Pick(label, inner, slot):
                index = "NULL" if slot is None else f"`{slot}`"
                return self._one(frame, part, label, inner, index, nodes)
            case Branch():
                return self._branch(frame, part, derivation)
            case Bag():
                return self._bag(frame, part, derivation, nodes)
            case _:
                assert_never(derivation)

    def _nothing(self, frame: DataFrame, part: str) -> DataFrame:
        return frame.selectExpr(
            "*",
            f"CAST(NULL AS BINARY) AS `{part}f`",
            f"CAST(NULL AS BINARY) AS `{part}s`",
            f"CAST(NULL AS BIGINT) AS `{part}i`",
        )

    def _leaf(self, frame: DataFrame, part: str, slot: str, dataset: str) -> DataFrame:
        table = self._leaves[dataset].selectExpr(
            f"{LOCATOR} AS `{part}l`", f"f AS `{part}f`", f"s AS `{part}s`", f"i AS `{part}i`"
        )
        table = table.hint("broadcast" if dataset in self._small else "shuffle_hash")
        joined = frame.join(table, F.col(f"`{slot}`") == F.col(f"`{part}l`"), "left")
        return joined.drop(f"{part}l")

    def _hashed(self, frame: DataFrame, part: str, write: Any, present: str) -> DataFrame:
        """Hash and token of a new node where `present` holds; `write` makes SQL of a suffix."""
        full = f"CASE WHEN {present} THEN {write('f')} END AS `{part}f`"
        token = f"CASE WHEN {present} THEN {sql.shortened(write('s'), self._settings.bits)} END"
        if self._settings.bits == 256:
            token = "CAST(NULL AS BINARY)"
        return frame.selectExpr(
            "*", full, f"{token} AS `{part}s`", f"CAST(NULL AS BIGINT) AS `{part}i`"
        )

    def _token(self, part: str) -> str:
        return f"`{part}f`" if self._settings.bits == 256 else f"`{part}s`"

    def _column(self, part: str, suffix: str) -> str:
        return f"`{part}f`" if self._settings.bits == 256 else f"`{part}{suffix}`"

    def _joint(
        self, frame: DataFrame, part: str, derivation: Joint, nodes: list[_Node]
    ) -> tuple[DataFrame, str, int]:
        parts, levels = [], []
        for inner in derivation.parts:
            frame, name, level = self._part(frame, inner, nodes)
            parts.append(name)
            levels.append(level)
        level = max(levels) + 1
        digest = derivation.label.digest
        present = " OR ".join(f"`{name}f` IS NOT NULL" for name in parts)
        frame = self._hashed(
            frame,
            part,
            lambda suffix: sql.joint(digest, [self._column(name, suffix) for name in parts]),
            f"({present})",
        )
        label = NewLabel(digest, "joint", len(parts), derivation.label.text)
        inputs = tuple((name, str(position)) for position, name in enumerate(parts))
        nodes.append(_Node(part, label, level, inputs))
        return frame, part, level

    def _one(
        self,
        frame: DataFrame,
        part: str,
        label: Any,
        inner: Derivation,
        index: str,
        nodes: list[_Node],
    ) -> tuple[DataFrame, str, int]:
        frame, name, level = self._part(frame, inner, nodes)
        frame = self._hashed(
            frame,
            part,
            lambda suffix: sql.one(label.digest, index, self._column(name, suffix)),
            f"`{name}f` IS NOT NULL",
        )
        new = NewLabel(label.digest, "one", 1, label.text)
        nodes.append(_Node(part, new, level + 1, ((name, index),)))
        return frame, part, level + 1

    def _branch(
        self, frame: DataFrame, part: str, derivation: Branch
    ) -> tuple[DataFrame, str, int]:
        """Branches share slots, so each is evaluated over its own rows."""
        frame = self._found.keep(frame)
        columns = [f"`{name}`" for name in frame.columns]
        union: DataFrame | None = None
        highest = 0
        for number, inner in enumerate(derivation.branches):
            rows = frame.where(f"`{derivation.slot}` = {number}")
            picked = Pick(derivation.label, inner, None)
            rows, name, level = self.scope(
                rows.withColumn("__branch", F.lit(number)), _numbered(picked)
            )
            highest = max(highest, level)
            renamed = [f"`{name}{x}` AS `{part}{x}`" for x in "fsi"]
            rows = rows.selectExpr(*columns, *renamed)
            union = rows if union is None else union.unionByName(rows)
        assert union is not None
        missing = self._nothing(frame.where(f"`{derivation.slot}` IS NULL"), part)
        return union.unionByName(missing), part, highest

    # --- Groups -----------------------------------------------------------------------------

    def _bag(
        self, frame: DataFrame, part: str, bag: Bag, nodes: list[_Node]
    ) -> tuple[DataFrame, str, int]:
        if bag.group:
            hashes, level = self._keyed(frame, bag)
        else:
            derivation = self._nesting.member(bag.operator, bag.element)
            members, name, level = self.scope(self._listed(frame, bag), derivation)
            hashes = self._hashes(bag).of(members, name, level + 1)
        empty = sql.bag(bag.label.digest, "CAST(array() AS ARRAY<BINARY>)")
        on = F.col(f"`{bag.slot}`" if bag.group else ROW)
        hashes = hashes.selectExpr(
            "k AS __k", f"f AS `{part}f`", f"s AS `{part}s`", f"CAST(NULL AS BIGINT) AS `{part}i`"
        )
        joined = frame.join(hashes, on.eqNullSafe(F.col("__k")), "left").drop("__k")
        there = f"`{bag.slot}` IS NOT NULL"
        full = F.expr(f"CASE WHEN {there} THEN coalesce(`{part}f`, {empty}) END")
        short = sql.shortened(empty, self._settings.bits)
        token = F.expr(f"CASE WHEN {there} THEN coalesce(`{part}s`, {short}) END")
        joined = joined.withColumn(f"{part}f", full).withColumn(f"{part}s", token)
        # Groups without members are nodes as well, though no member leads to them.
        label = NewLabel(bag.label.digest, "bag", 0, bag.label.text)
        nodes.append(_Node(part, label, level + 1, ()))
        return joined, part, level + 1

    def _listed(self, frame: DataFrame, bag: Bag) -> DataFrame:
        """One row for each listed member, under the row that lists it."""
        names = slots(bag.element)
        if bag.bare:
            columns = [f"m AS `{names[0]}`"]
        else:
            columns = [f"m.`{name}` AS `{name}`" for name in names]
        inner = frame.selectExpr(f"{ROW} AS __owner", f"posexplode(`{bag.slot}`) AS (__pos, m)")
        flags = " OR ".join(f"m.`{flag}`" for flag in bag.flags) or "true"
        return inner.selectExpr(
            "__owner AS k",
            f"concat(CAST(__owner AS STRING), '.', CAST(__pos AS STRING)) AS {ROW}",
            *columns,
            f"coalesce({flags}, false) AS {CONTRIBUTES}",
        )

    def _keyed(self, frame: DataFrame, bag: Bag) -> tuple[DataFrame, int]:
        """The hashes of the groups that the frame refers to, by key."""
        files, shape = self._step.groups(bag.operator)
        keys = frame.where(f"`{bag.slot}` IS NOT NULL").selectExpr(f"`{bag.slot}` AS k").distinct()
        members = self._gateway.session.read.parquet(*files)
        members = members.selectExpr(
            "*", f"concat(_metadata.file_name, ':', _metadata.row_index) AS {ROW}"
        )
        flags = " OR ".join(f"`{flag}`" for flag in shape.flags) or "true"
        contributes = f"coalesce({flags}, false) AS {CONTRIBUTES}"
        columns = [f"`{name}`" for name in slots(shape.element)]
        derivation = self._nesting.member(bag.operator, shape.element)
        if shape.frame:
            keys = self._found.keep(frames.framed(keys, shape))
            wanted = keys.selectExpr("p AS __p").distinct()
            rows = frames.ranked(members, shape).join(wanted, F.expr("p <=> __p"), "left_semi")
            rows = rows.selectExpr("p", "r", ROW, *columns, contributes)
            rows, name, level = self.scope(rows, derivation, keep=True)
            return frames.hashes(self._hashes(bag), keys, rows, name, level)
        joined = keys.join(members, _matches(keys, members, shape), "inner")
        rows = joined.selectExpr("k", ROW, *columns, contributes)
        rows, name, level = self.scope(rows, derivation)
        return self._hashes(bag).of(rows, name, level + 1), level

    def _hashes(self, bag: Bag) -> BagHashes:
        label = NewLabel(bag.label.digest, "bag", 0, bag.label.text)
        return BagHashes(self._found, self._settings, label)


_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _numbered(pick: Pick) -> Pick:
    return Pick(pick.label, pick.part, "__branch")


def _matches(keys: DataFrame, members: DataFrame, shape: GroupShape) -> Any:
    """Whether a member belongs to the group that a key refers to."""
    condition = F.lit(True)
    for name in shape.keys:
        condition = condition & keys["k"][name].eqNullSafe(members[name])
    for test in shape.tests:
        compared = _COMPARED[test.comparison](keys["k"][test.key], members[test.field])
        condition = condition & compared
    return condition
