"""Bags: the hashes of groups from their members, and what was met on the way."""

from __future__ import annotations

from dataclasses import dataclass

from whence.trace.seal.formulas import entry, shortened
from whence.trace.seal.settings import NewLabel
from whence.trace.seal.work import CONTRIBUTES, Met, Work


@dataclass(frozen=True, slots=True)
class BagHashes:
    """Hashes the groups of one label."""

    work: Work
    label: NewLabel

    def of(self, members: str, name: str, level: int) -> str:
        """A table with key (`k`), full hash and token of each group; nodes and edges are noted.

        `members` has the group's key in `k` and the columns of the part `name`.
        """
        work = self.work
        entries = self._entries(members, name)
        hashes = work.engine.bags(
            entries, self.label.digest, work.settings.bits, self._hashed(entries)
        )
        place = work.place()
        columns = ", ".join(work.hashes)
        work.nodes.append(Met(f"SELECT {columns} FROM {hashes} AS h", self.label, level, place))
        # Of groups with the same members, one tells the edges.
        first = f"(SELECT f AS d, any_value(k) AS k FROM {hashes} AS h GROUP BY f)"
        work.edges.append(
            f"SELECT o.d, {place} AS e, n.f, n.i, CAST(NULL AS INT) AS idx, n.times, "
            f"n.{CONTRIBUTES} AS contributes FROM {entries} AS n "
            f"JOIN {first} AS o ON n.k IS NOT DISTINCT FROM o.k"
        )
        return hashes

    def _entries(self, members: str, name: str) -> str:
        """The different members of each group, with how often each occurs."""
        columns = ", ".join(f"{name}{x} AS {x}" for x in self.work.suffixes)
        keys = ", ".join(("k", CONTRIBUTES, *self.work.hashes))
        rows = f"SELECT k, {CONTRIBUTES}, {columns} FROM {members} AS m WHERE {name}f IS NOT NULL"
        counted = (
            f"SELECT {keys}, bool_or(l) AS l, max(i) AS i, count(*) AS times "
            f"FROM ({rows}) AS m GROUP BY {keys}"
        )
        return self.work.engine.counted(rows, keys, counted)

    def _hashed(self, entries: str) -> str:
        """SQL: the hashes of each group."""
        formulas, bits, hashes = self.work.formulas, self.work.settings.bits, self.work.hashes
        byte = f"left(hex({self.work.token}), 2)"
        listed = [f"{entry(x, CONTRIBUTES, 'l', 'times')} AS {x}e" for x in hashes]
        marked = f"SELECT k, {byte} AS b, {', '.join(listed)} FROM {entries} AS n"
        bucketed = [f"b || {formulas.bucket(f'{x}e')} AS {x}b" for x in hashes]
        buckets = f"SELECT k, {', '.join(bucketed)} FROM ({marked}) AS n GROUP BY k, b"
        full = {x: formulas.bag(self.label.digest, f"{x}b") for x in hashes}
        tokens = [f"{full['f']} AS f"]
        if bits != 256:
            tokens.append(f"{shortened(full['s'], bits)} AS s")
        return f"SELECT k, {', '.join(tokens)} FROM ({buckets}) AS b GROUP BY k"
