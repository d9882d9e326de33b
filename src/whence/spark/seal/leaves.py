"""Leaves: the source rows that a run uses, hashed, and the node that each of them is.

A row's own id follows from its file and its place in it. Under the value scheme equal rows are one
node: the first one's, or that of the equal row which is stored already.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from whence.spark.gateway import Gateway
from whence.spark.rerun import Input
from whence.spark.seal import sql
from whence.spark.seal.records import LOCATOR, NODES, located, node_ids, segments, source_hash
from whence.spark.seal.settings import FileRange, Ledger, Settings

_BROADCAST = 400_000


class Leaves:
    """The leaf tables of one sealing, by dataset: locator, f (full hash), s (token), i (id)."""

    def __init__(self, gateway: Gateway, settings: Settings, ledger: Ledger) -> None:
        self._gateway, self._settings, self._ledger = gateway, settings, ledger
        self.tables: dict[str, DataFrame] = {}
        self.new: DataFrame | None = None
        self.few: set[str] = set()
        """Datasets of which few rows are used."""
        self.small = False
        """Whether there is so little data that counting costs more than it saves."""

    def add(self, inputs: dict[str, Input], used: dict[str, DataFrame]) -> None:
        """Make the tables of some datasets from the locators that are used."""
        if not inputs:
            return
        counts = self._counts(list(inputs), used)
        tables = {
            dataset: self._hashed(dataset, found, used[dataset], counts[dataset])
            for dataset, found in inputs.items()
        }
        union = None
        for number, table in enumerate(tables.values()):
            part = table.withColumn("d", F.lit(number))
            union = part if union is None else union.unionByName(part)
        assert union is not None
        hashed = union.localCheckpoint()
        moved = self._moved(hashed)
        if moved is not None:
            hashed = hashed.join(moved.withColumnRenamed("i", "j"), "f", "left")
            hashed = hashed.withColumn("i", F.coalesce("j", "i")).drop("j").localCheckpoint()
        for number, dataset in enumerate(tables):
            self.tables[dataset] = hashed.where(F.col("d") == number).drop("d")

    def _counts(self, datasets: list[str], used: dict[str, DataFrame]) -> dict[str, int]:
        """How many locators are used of each dataset, counted in one job."""
        if self.small:
            return dict.fromkeys(datasets, 0)
        marked = [used[d].select(F.lit(number).alias("n")) for number, d in enumerate(datasets)]
        union = reduce(DataFrame.unionByName, marked)
        found = {row.n: row["count"] for row in union.groupBy("n").count().collect()}
        return {dataset: found.get(number, 0) for number, dataset in enumerate(datasets)}

    def _hashed(self, dataset: str, found: Input, used: DataFrame, count: int) -> DataFrame:
        ranges = self._ledger.ranges(dataset)
        frame = located(self._gateway, found.stored, found.paths)
        if count <= _BROADCAST:
            self.few.add(dataset)
            used = F.broadcast(used)
        else:
            used = used.hint("shuffle_hash")
        # Hashed after the rows are chosen; all columns move only where few rows are chosen.
        if count <= _BROADCAST:
            return self._with_hash(frame.join(used, LOCATOR, "left_semi"), found, ranges)
        return self._with_hash(frame, found, ranges).join(used, LOCATOR, "left_semi")

    def _with_hash(self, rows: DataFrame, found: Input, ranges: Sequence[FileRange]) -> DataFrame:
        full = source_hash(found.stored, self._settings.scheme, ranges)
        hashed = rows.selectExpr(LOCATOR, f"{full} AS f", f"{node_ids(ranges)} AS i")
        return hashed.selectExpr(
            LOCATOR, "f", f"{sql.shortened('f', self._settings.bits)} AS s", "i"
        )

    def _moved(self, hashed: DataFrame) -> DataFrame | None:
        """Where a row's node is not its own: full hash and node id. None if there are none."""
        alone = not self._ledger.parts("nodes") or not self._settings.leaf_digests
        if alone and (self._settings.scheme != "value" or self._all_differ(hashed)):
            self._write(hashed)
            return None
        first = hashed.groupBy("f").agg(
            F.min("i").alias("i"), F.first("s").alias("s"), F.count(F.lit(1)).alias("n")
        )
        first = first.localCheckpoint()
        known = self._known(first)
        if known is None:
            self._write(first)
            return first.where("n > 1").select("f", "i")
        fresh = first.join(known, "f", "left_anti")
        self._write(fresh)
        return fresh.where("n > 1").select("f", "i").unionByName(known)

    @staticmethod
    def _all_differ(hashed: DataFrame) -> bool:
        """Whether no two rows are equal, told by a shorter hash of their hashes."""
        short = F.count_distinct(F.xxhash64("f"))
        rows, different = hashed.agg(F.count("f"), short).first() or (0, 0)
        return bool(rows == different)

    def _write(self, fresh: DataFrame) -> None:
        """Note the nodes that are new."""
        if self._settings.leaf_digests:
            rows = fresh.selectExpr("i AS id", "0 AS label", "s AS digest")
            self.new = rows if self.new is None else self.new.unionByName(rows)

    def _known(self, first: DataFrame) -> DataFrame | None:
        """Full hash and node id of the rows that are stored already."""
        parts = self._ledger.parts("nodes")
        if not parts or not self._settings.leaf_digests:
            return None
        nodes = segments(self._gateway, NODES, parts).where("label = 0")
        nodes = nodes.selectExpr("id", "digest AS s")
        if self._settings.bits == 256:
            return first.join(nodes, "s").selectExpr("f", "id AS i")
        pairs = first.join(nodes, "s").select("f", "i", "id").localCheckpoint()
        same = pairs.where("i = id").select("f", "i")
        others = [row.id for row in pairs.where("i <> id").select("id").distinct().collect()]
        for found, ranges in self._ledger.locate(others):
            equal = self.recomputed(found, ranges, others)
            hit = pairs.join(equal, (pairs.f == equal.g) & (pairs.id == equal.j))
            same = same.unionByName(hit.select(pairs.f, pairs.id.alias("i")))
        return same.groupBy("f").agg(F.min("i").alias("i"))

    def recomputed(
        self, found: Input, ranges: Sequence[FileRange], ids: Sequence[int]
    ) -> DataFrame:
        """Full hash and id of stored rows, read again: short tokens alone do not tell."""
        wanted = self._gateway.session.createDataFrame([(i,) for i in ids], "j BIGINT")
        rows = located(self._gateway, found.stored, found.paths)
        hashed = self._with_hash(rows, found, ranges)
        return hashed.selectExpr("f AS g", "i AS j").join(F.broadcast(wanted), "j", "left_semi")
