"""Nodes and edges as they are met: SQL with known columns, and where it is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from whence.algebra.witness import Members, Witness, slots, walk
from whence.archive.ledger import SealSettings
from whence.trace.seal.formulas import Formulas
from whence.trace.seal.settings import ROW_ID, Engine, Ledger, NewLabel

CONTRIBUTES = "__contributes"


@dataclass(frozen=True, slots=True)
class Met:
    """A place where nodes are met: SQL that gives their f and s, all with one label."""

    sql: str
    label: NewLabel
    level: int
    place: int


@dataclass(slots=True)
class Work:
    """One sealing: its engine, its settings, and what was found so far.

    A part of a derivation is columns of a frame: `<part>f` the full hash, `<part>s` the token (left
    out when it is the full hash), `<part>l` whether it is a leaf, that is a source row, `<part>i`
    the node's id where it is known already. Edges are SQL
    that gives d (full hash of the derived), e (the place), f and i (of the input), idx, times,
    contributes.
    """

    engine: Engine
    settings: SealSettings
    ledger: Ledger
    nodes: list[Met] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)
    levels: int = 0
    met: int = 0
    _kept: set[str] = field(default_factory=set)
    _lists: dict[str, str] = field(default_factory=dict)

    @property
    def formulas(self) -> Formulas:
        """The words of the engine."""
        return Formulas(self.engine.dialect)

    @property
    def suffixes(self) -> str:
        """The columns that a part has."""
        return f"{self.hashes}li"

    @property
    def hashes(self) -> str:
        """Those of them that are hashes."""
        return "f" if self.settings.bits == 256 else "fs"

    @property
    def token(self) -> str:
        """The one that is the token."""
        return self.hashes[-1]

    def place(self) -> int:
        """A number for a place where nodes are met."""
        self.met += 1
        return self.met

    def keep(self, stem: str, frame: str) -> str:
        """What stands behind FROM, computed once and cut off from what made it.

        Frames build on one another many times over: with all that is behind each in its plan,
        plans would grow without bound.
        """
        if frame in self._kept:
            return frame
        name = self.engine.table(stem, f"SELECT * FROM {frame} AS x")
        self._kept.add(name)
        return name

    def listed(self, rows: str, shape: Members, where: str) -> str:
        """What stands behind FROM: one row for each listed member, the row that lists it in `k`.

        Both source rows and derivations are looked for in lists, which are taken apart once.
        """
        name, inner = self.formulas.name, slots(shape.element)
        columns = self.formulas.members(shape, inner)
        if has_lists(shape.element):
            columns.append(f"CAST(k AS STRING) || '.' || CAST(__pos AS STRING) AS {ROW_ID}")
        flags = " OR ".join(f"(m).{name(flag)}" for flag in shape.flags) or "true"
        columns.append(f"coalesce({flags}, false) AS {CONTRIBUTES}")
        items = self.formulas.each_with_place(f"x.{name(shape.slot)}")
        found = f"(SELECT x.{ROW_ID} AS k, {items} FROM {rows} AS x WHERE {where})"
        sql = f"SELECT k, {', '.join(columns)} FROM {found} AS x"
        if sql not in self._lists:
            self._lists[sql] = self.engine.listed(sql)
            if self._lists[sql] != f"({sql})":
                self._kept.add(self._lists[sql])
        return self._lists[sql]


def has_lists(shape: Witness) -> bool:
    """Whether there are lists in a shape, whose rows must be told apart."""
    return any(isinstance(part, Members) for part in walk(shape))


def union(parts: Sequence[str]) -> str:
    """What stands behind FROM: the rows of all these queries."""
    return f"({' UNION ALL '.join(parts)})"
