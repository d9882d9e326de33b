"""Bags: the hashes of groups from their members, and what was met on the way."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from whence.spark.seal import sql
from whence.spark.seal.settings import NewLabel, Settings

CONTRIBUTES = "__contributes"
FEW = 200_000
"""So many rows are handed to every task rather than moved to where they are needed."""


@dataclass(slots=True)
class Found:
    """Nodes and edges as they were met: frames with known columns.

    nodes: f, s, label (its digest), shape, level, e (number of the frame they come from)
    edges: d (full hash of the derived), e, f, i (of the input), idx, times, contributes
    """

    nodes: list[DataFrame] = field(default_factory=list)
    edges: list[DataFrame] = field(default_factory=list)
    labels: set[NewLabel] = field(default_factory=set)
    levels: int = 0
    met: int = 0

    def number(self) -> int:
        """A number for a place where nodes are met."""
        self.met += 1
        return self.met

    @staticmethod
    def keep(frame: DataFrame) -> DataFrame:
        """The frame, computed once and cut off from what made it.

        Frames build on one another many times over: with all that is behind each in its plan,
        plans would grow without bound.
        """
        return frame.localCheckpoint()


@dataclass(frozen=True, slots=True)
class BagHashes:
    """Hashes the groups of one label."""

    found: Found
    settings: Settings
    label: NewLabel

    def of(self, members: DataFrame, name: str, level: int) -> DataFrame:
        """Key (`k`), full hash and token of each group; nodes and edges are read off on the way.

        `members` has the group's key in `k` and the columns of the part `name`.
        """
        self.found.labels.add(self.label)
        entries = self._entries(members, name)
        hashes = self.found.keep(self._hashed(entries))
        bits = self.settings.bits
        e = self.found.number()
        first = hashes.groupBy("f").agg(F.min("k").alias("k"), F.first("s").alias("s"))
        self.found.nodes.append(
            first.selectExpr(
                "f",
                "f AS s" if bits == 256 else "s",
                f"'{self.label.digest}' AS label",
                f"'{self.label.shape}' AS shape",
                f"{level} AS level",
                f"{e} AS e",
            )
        )
        owners = first.selectExpr("f AS d", "k")
        if hashes.count() <= FEW:
            owners = F.broadcast(owners)
        owned = entries.join(owners, "k")
        self.found.edges.append(
            owned.selectExpr(
                "d",
                f"{e} AS e",
                "f",
                "i",
                "CAST(NULL AS INT) AS idx",
                "times",
                f"{CONTRIBUTES} AS contributes",
            )
        )
        return hashes

    def _entries(self, members: DataFrame, name: str) -> DataFrame:
        """The different members of each group, with how often each occurs."""
        short = {} if self.settings.bits == 256 else {"s": f"`{name}s`"}
        token = short.get("s", f"`{name}f`")
        columns = {"byte": f"substring({token}, 1, 1)", "f": f"`{name}f`", **short}
        columns |= {"i": f"`{name}i`", CONTRIBUTES: CONTRIBUTES}
        there = members.where(f"`{name}f` IS NOT NULL")
        entries = there.selectExpr("k", *(f"{e} AS {c}" for c, e in columns.items()))
        entries = entries.repartition("k", "byte")
        counted = entries.groupBy("k", *columns).agg(F.count(F.lit(1)).alias("times"))
        return self.found.keep(counted)

    def _hashed(self, entries: DataFrame) -> DataFrame:
        bits, digest = self.settings.bits, self.label.digest
        suffixes = ["f"] if bits == 256 else ["f", "s"]
        lists = [
            F.collect_list(F.expr(sql.entry(x, CONTRIBUTES, "times"))).alias(f"{x}s")
            for x in suffixes
        ]
        buckets = entries.groupBy("k", "byte").agg(*lists)
        hashed = buckets.selectExpr(
            "k", *(f"concat(byte, {sql.bucket(f'{x}s')}) AS {x}b" for x in suffixes)
        )
        gathered = hashed.groupBy("k").agg(
            *(F.collect_list(f"{x}b").alias(f"{x}s") for x in suffixes)
        )
        short = "CAST(NULL AS BINARY)"
        if bits != 256:
            short = sql.shortened(sql.bag(digest, "ss"), bits)
        return gathered.selectExpr("k", f"{sql.bag(digest, 'fs')} AS f", f"{short} AS s")
