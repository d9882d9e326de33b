"""Resolving: which of the nodes that were met are stored already, and ids for those that are not.

With 256 bits the token tells. Shorter tokens collide, so there nodes are compared by what they are
made of: label and inputs, by id, level by level. Nodes with one token and other inputs stay two.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from whence.trace.seal.work import Work, union

_EDGE = "input, label, idx AS index, derived, times, contributes"


class Resolver:
    """Gives nodes their ids; `nodes` and `edges` are then what has to be written, as SQL."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.nodes: str | None = None
        """id, label, digest"""
        self.edges: str | None = None
        """input, label, index, derived, times, contributes"""
        self.ids: str | None = None
        """What stands behind FROM: f, id of every node that is not a leaf."""
        self._apart = False
        """Whether one number for each node tells them apart, which is joined faster than f."""

    def resolve(self) -> None:
        """Compare with what is stored, and number the rest."""
        work = self._work
        if not work.nodes:
            return
        labels = {met.label for met in work.nodes}
        ordered = sorted(labels, key=lambda label: (label.digest, label.form, label.parts))
        numbers = work.ledger.numbers(ordered)
        met = union(
            [
                f"SELECT n.*, {numbers[m.label]} AS label, {m.level} AS level, {m.place} AS e "
                f"FROM ({m.sql}) AS n"
                for m in sorted(work.nodes, key=lambda met: (met.level, met.place))
            ]
        )
        nodes = met
        self._apart = not work.engine.alike(met, "f")
        if not self._apart:
            kept = ", ".join(f"any_value({x}) AS {x}" for x in (*work.hashes[1:], "label"))
            nodes = work.engine.table(
                "nodes",
                f"SELECT f, min(e) AS e, min(level) AS low, max(level) AS level, {kept} "
                f"FROM {met} AS n GROUP BY f",
            )
            nodes = self._in_order(nodes)
        if work.settings.bits == 256:
            self._by_token(nodes)
        else:
            self._by_inputs(nodes)

    def _in_order(self, nodes: str) -> str:
        """The nodes with levels above those of their inputs.

        A place gives the height of its shape. A node that is met in several, of other heights, may
        stand above what is made of it in one of them: where an outer join found no partner, it
        makes no difference how deep the other side is.
        """
        engine = self._work.engine
        several = f"SELECT count(*) FROM {nodes} AS n WHERE low < level"
        if self._work.levels < 2 or not engine.run(several)[0][0]:
            return nodes
        columns = ", ".join(f"n.{x}" for x in (*self._work.hashes, "e", "label"))
        while True:
            above = engine.table(
                "above",
                f"SELECT n.f, max(i.level) + 1 AS level FROM {nodes} AS n "
                f"JOIN {self._met} AS m ON m.d = n.f AND m.e = n.e "
                f"JOIN {nodes} AS i ON i.f = m.f AND i.level >= n.level GROUP BY n.f",
            )
            if not engine.run(f"SELECT count(*) FROM {above} AS a")[0][0]:
                return nodes
            nodes = engine.table(
                "nodes",
                f"SELECT {columns}, coalesce(a.level, n.level) AS level FROM {nodes} AS n "
                f"LEFT JOIN {above} AS a ON a.f = n.f",
            )

    @cached_property
    def _met(self) -> str:
        """The edges that were met, computed once for all levels."""
        return self._work.engine.table("edges", f"SELECT * FROM {union(self._work.edges)} AS m")

    # --- Full tokens ------------------------------------------------------------------------

    def _by_token(self, nodes: str) -> None:
        work = self._work
        new, known = nodes, None
        own = f"f, {work.engine.number.format('f')} AS h" if self._apart else "f"
        if work.ledger.parts("nodes"):
            matched = work.engine.table(
                "matched",
                f"SELECT n.*, s.id AS known FROM {nodes} AS n LEFT JOIN {self._stored_nodes()} "
                "AS s ON s.digest = n.f",
            )
            known = f"SELECT {own}, known AS id FROM {matched} AS n WHERE known IS NOT NULL"
            new = f"(SELECT * FROM {matched} AS n WHERE known IS NULL)"
        numbered, count = work.engine.numbered(
            f"SELECT {own}, e, level, label FROM {new} AS n",
            "" if self._apart and known is None else "level, e, f",
            work.ledger.reserve,
        )
        self.nodes = f"SELECT id, label, f AS digest FROM {numbered} AS n"
        fresh = f"SELECT {'f, h' if self._apart else 'f'}, id FROM {numbered} AS n"
        self.ids = f"({fresh})" if known is None else union([fresh, known])
        if work.edges and count:
            self.edges = self._edges(numbered)

    def _edges(self, numbered: str) -> str:
        """SQL: the edges of new nodes, by ids. A node is met in many places; one tells them."""
        derived, given = "m.d = o.f AND m.e = o.e", "m.f = j.f"
        if self._apart:
            number = self._work.engine.number
            derived, given = f"{number.format('m.d')} = o.h", f"{number.format('m.f')} = j.h"
        deep = self._work.levels > 1
        inner = f" LEFT JOIN {self.ids} AS j ON m.i IS NULL AND {given}" if deep else ""
        return (
            f"SELECT {'coalesce(m.i, j.id)' if deep else 'm.i'} AS input, o.label, "
            f"m.idx AS index, o.id AS derived, m.times, m.contributes "
            f"FROM {union(self._work.edges)} AS m JOIN {numbered} AS o ON {derived}{inner}"
        )

    def _stored_nodes(self) -> str:
        nodes = self._work.engine.stored("nodes", self._work.ledger.parts("nodes"))
        return f"(SELECT id, label, digest FROM {nodes} AS n WHERE label <> 0)"

    # --- Short tokens -----------------------------------------------------------------------

    def _by_inputs(self, nodes: str) -> None:
        engine = self._work.engine
        written: list[str] = []
        edges: list[str] = []
        made: list[str] = []
        levels = engine.run(f"SELECT DISTINCT level FROM {nodes} AS n ORDER BY level")
        for (level,) in levels:
            own = self._own_edges(nodes, level)
            new, known = self._level(nodes, level, own, made)
            made.append(f"SELECT s AS digest, label, id, sig FROM {new} AS n")
            fresh = [f"SELECT f, id FROM {new} AS n"]
            if known is not None:
                fresh.append(f"SELECT f, id FROM {known} AS n")
            if self.ids is not None:
                fresh.append(f"SELECT f, id FROM {self.ids} AS n")
            self.ids = engine.table("ids", " UNION ALL ".join(fresh))
            first = engine.table(
                "first",
                f"SELECT id, any_value(f) AS f, any_value(s) AS s, any_value(label) AS label "
                f"FROM {new} AS n GROUP BY id",
            )
            written.append(f"SELECT id, label, s AS digest FROM {first} AS n")
            if own is not None:
                edges.append(
                    f"SELECT m.*, o.id AS derived, o.label FROM {own} AS m "
                    f"JOIN {first} AS o ON m.d = o.f"
                )
        if written:
            self.nodes = f"SELECT * FROM {union(written)} AS n"
        if edges:
            self.edges = f"SELECT {_EDGE} FROM {union(edges)} AS m"

    def _own_edges(self, nodes: str, level: int) -> str | None:
        """The edges of the nodes of one level, their inputs by id."""
        if not self._work.edges:
            return None
        inner, found = "", "m.i"
        if self.ids is not None:
            inner, found = f" LEFT JOIN {self.ids} AS j ON m.f = j.f", "coalesce(m.i, j.id)"
        return self._work.engine.table(
            "own",
            f"SELECT m.d, {found} AS input, m.idx, m.times, m.contributes "
            f"FROM {self._met} AS m "
            f"JOIN {nodes} AS n ON n.level = {level} AND m.d = n.f AND m.e = n.e{inner}",
        )

    def _level(
        self, nodes: str, level: int, own: str | None, made: Sequence[str]
    ) -> tuple[str, str | None]:
        """New nodes of a level with their ids, and the ids of known ones.

        `made` is SQL that gives what this run has made so far: what builds on the output of an
        earlier run can be there once more, of another height, where all of it is computed.
        """
        work, engine = self._work, self._work.engine
        sig, inputs = "''", ""
        if own is not None:
            sig = "coalesce(g.sig, '')"
            inputs = f" LEFT JOIN ({self._signed(own, 'd')}) AS g ON n.f = g.d"
        signed = engine.table(
            "signed",
            f"SELECT n.f, n.s, n.label, {sig} AS sig FROM {nodes} AS n{inputs} "
            f"WHERE n.level = {level}",
        )
        known = self._known(signed, made)
        new = signed
        if known is not None:
            known = engine.table("known", known)
            new = engine.table(
                "new",
                f"SELECT n.* FROM {signed} AS n LEFT JOIN {known} AS k ON n.f = k.f "
                "WHERE k.f IS NULL",
            )
        numbered, _ = engine.numbered(
            f"SELECT DISTINCT s, label, sig FROM {new} AS n", "s, label, sig", work.ledger.reserve
        )
        same = "n.s = d.s AND n.label = d.label AND n.sig = d.sig"
        with_ids = f"SELECT n.*, d.id FROM {new} AS n JOIN {numbered} AS d ON {same}"
        return engine.table("level", with_ids), known

    def _known(self, signed: str, made: Sequence[str]) -> str | None:
        """SQL: f and id of the nodes that are stored or made, by token, label and inputs."""
        found = [*self._stored(signed), *made]
        if not found:
            return None
        return (
            f"SELECT n.f, min(k.id) AS id FROM {signed} AS n JOIN {union(found)} AS k "
            "ON n.s = k.digest AND n.label = k.label AND n.sig = k.sig GROUP BY n.f"
        )

    def _stored(self, signed: str) -> list[str]:
        """SQL: token, label, id and what they are made of, of stored nodes like these."""
        work, engine = self._work, self._work.engine
        if not work.ledger.parts("nodes"):
            return []
        semi = work.formulas.semi_join
        stored = engine.table(
            "stored",
            f"SELECT n.* FROM {self._stored_nodes()} AS n {semi} {signed} AS w "
            "ON n.digest = w.s AND n.label = w.label",
        )
        sig, inputs = "''", ""
        parts = work.ledger.parts("edges")
        if parts:
            edges = engine.stored("edges", parts)
            own = (
                f"(SELECT derived, input, index AS idx, times, contributes FROM {edges} AS e "
                f"{semi} {stored} AS s ON e.derived = s.id)"
            )
            sig = "coalesce(g.sig, '')"
            inputs = f" LEFT JOIN ({self._signed(own, 'derived')}) AS g ON n.id = g.derived"
        return [f"SELECT n.digest, n.label, n.id, {sig} AS sig FROM {stored} AS n{inputs}"]

    def _signed(self, edges: str, owner: str) -> str:
        """SQL: what each node is made of, in one text: its inputs by id, in order."""
        columns = ("coalesce(idx, -1)", "input", "contributes", "times")
        text = " || ',' || ".join(f"CAST({column} AS STRING)" for column in columns)
        formulas = self._work.formulas
        made = f"hex({formulas.sha_text(formulas.in_order(f'{text} || {chr(39)};{chr(39)}'))})"
        return f"SELECT {owner}, {made} AS sig FROM {edges} AS e GROUP BY {owner}"
