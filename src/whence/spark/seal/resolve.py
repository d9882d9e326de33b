"""Resolving: which of the nodes that were met are stored already, and ids for those that are not.

With 256 bits the token tells. Shorter tokens collide, so there nodes are compared by what they are
made of: label and inputs, by id, level by level. Nodes with one token and other inputs stay two.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from whence.spark.gateway import Gateway
from whence.spark.seal.bags import FEW, Found
from whence.spark.seal.records import EDGES, NODES, segments
from whence.spark.seal.settings import Ledger, Settings

_PART_BITS = 33  # of `monotonically_increasing_id`


class Resolver:
    """Gives nodes their ids; `nodes` and `edges` are then what has to be written."""

    def __init__(self, gateway: Gateway, settings: Settings, ledger: Ledger, found: Found) -> None:
        self._gateway, self._settings, self._ledger = gateway, settings, ledger
        self._found = found
        self._new = 0
        self.nodes: DataFrame | None = None
        """id, label, digest"""
        self.edges: DataFrame | None = None
        """input, label, index, derived, times, contributes"""
        self.ids: DataFrame | None = None
        """f, id of every node that is not a leaf"""

    def resolve(self) -> None:
        """Compare with what is stored, and number the rest."""
        if not self._found.nodes:
            return
        ordered = sorted(self._found.labels, key=lambda label: (label.digest, label.shape))
        numbers = self._ledger.numbers(ordered)
        pairs = [(label.digest, label.shape, number) for label, number in numbers.items()]
        labels = self._gateway.session.createDataFrame(
            pairs, "label STRING, shape STRING, number INT"
        )
        met = reduce(DataFrame.unionByName, self._found.nodes)
        nodes = met.groupBy("f").agg(
            F.min("e").alias("e"),
            F.max("level").alias("level"),
            *(F.first(name).alias(name) for name in ("s", "label", "shape")),
        )
        nodes = nodes.join(F.broadcast(labels), ["label", "shape"]).drop("label", "shape")
        nodes = self._found.keep(nodes)
        if self._settings.bits == 256:
            self._by_token(nodes)
        else:
            self._by_inputs(nodes)

    # --- Full tokens ------------------------------------------------------------------------

    def _by_token(self, nodes: DataFrame) -> None:
        stored = self._stored_nodes()
        new = nodes
        known: DataFrame | None = None
        if stored is not None:
            matched = nodes.join(stored.selectExpr("digest AS f", "id"), "f", "left")
            matched = self._found.keep(matched)
            known = matched.where("id IS NOT NULL").select("f", "id")
            new = matched.where("id IS NULL").drop("id")
        new = self._numbered(new, ["level", "e", "f"])
        self.nodes = new.selectExpr("id", "number AS label", "s AS digest")
        fresh = new.select("f", "id")
        self.ids = fresh if known is None else fresh.unionByName(known)
        self.edges = self._edges(new, self.ids)

    def _numbered(self, new: DataFrame, order: list[str]) -> DataFrame:
        """Ids in this order, by the parts of a sorted frame: no task sees all rows."""
        place = F.monotonically_increasing_id()  # the part, and the row's number in it
        placed = self._found.keep(new.orderBy(*order).withColumn("place", place))
        counts = placed.groupBy(F.expr(f"shiftright(place, {_PART_BITS})").alias("part")).count()
        sizes = {row.part: row["count"] for row in counts.collect()}
        self._new = sum(sizes.values())
        following = self._ledger.reserve(self._new)
        starts = []
        for part in range(max(sizes, default=0) + 1):
            starts.append(f"{following}L")
            following += sizes.get(part, 0)
        row = f"(place & {(1 << _PART_BITS) - 1}L)"
        start = f"array({', '.join(starts)})[CAST(shiftright(place, {_PART_BITS}) AS INT)]"
        return placed.withColumn("id", F.expr(f"{start} + {row}")).drop("place")

    def _edges(self, new: DataFrame, ids: DataFrame) -> DataFrame | None:
        """The edges of new nodes, by ids. A node is met in many frames; one tells its edges."""
        if not self._found.edges:
            return None
        met = reduce(DataFrame.unionByName, self._found.edges)
        owners = new.selectExpr("f AS d", "e", "id AS derived", "number AS label")
        if self._new <= FEW:
            owners = F.broadcast(owners)
        edges = met.join(owners, ["d", "e"])
        inputs = ids.selectExpr("f", "id AS j")
        edges = (
            edges.join(inputs, "f", "left")
            if self._found.levels > 1
            else edges.withColumn("j", F.lit(None).cast("bigint"))
        )
        return edges.selectExpr(
            "coalesce(i, j) AS input", "label", "idx AS index", "derived", "times", "contributes"
        )

    def _stored_nodes(self) -> DataFrame | None:
        parts = self._ledger.parts("nodes")
        if not parts:
            return None
        return segments(self._gateway, NODES, parts).where("label <> 0")

    def _stored_edges(self) -> DataFrame | None:
        parts = self._ledger.parts("edges")
        return segments(self._gateway, EDGES, parts) if parts else None

    # --- Short tokens -----------------------------------------------------------------------

    def _by_inputs(self, nodes: DataFrame) -> None:
        ids: DataFrame | None = None
        written: list[DataFrame] = []
        edges: list[DataFrame] = []
        levels = [row.level for row in nodes.select("level").distinct().collect()]
        for level in sorted(levels):
            new, known, own = self._level(nodes.where(F.col("level") == level), ids)
            fresh = new.select("f", "id").unionByName(known)
            ids = self._found.keep(fresh if ids is None else ids.unionByName(fresh))
            first = new.dropDuplicates(["id"])
            written.append(first.selectExpr("id", "number AS label", "s AS digest"))
            if own is not None:
                owners = first.selectExpr("f AS d", "id AS derived", "number AS label")
                edges.append(own.join(owners, "d"))
        self.ids = ids
        self.nodes = reduce(DataFrame.unionByName, written)
        if edges:
            self.edges = reduce(DataFrame.unionByName, edges).selectExpr(
                "input", "label", "idx AS index", "derived", "times", "contributes"
            )

    def _level(
        self, nodes: DataFrame, ids: DataFrame | None
    ) -> tuple[DataFrame, DataFrame, DataFrame | None]:
        """New nodes with their ids, the ids of known ones, and the edges of all of them."""
        own: DataFrame | None = None
        signed = nodes.withColumn("sig", F.lit(""))
        if self._found.edges:
            met = reduce(DataFrame.unionByName, self._found.edges)
            own = met.join(nodes.selectExpr("f AS d", "e"), ["d", "e"])
            if ids is not None:
                own = own.join(ids.selectExpr("f", "id AS j"), "f", "left")
                own = own.withColumn("i", F.coalesce("i", "j")).drop("j")
            own = self._found.keep(own.withColumnRenamed("i", "input"))
            made = own.groupBy("d").agg(_signature().alias("sig"))
            signed = nodes.join(made, nodes.f == made.d, "left").drop("d")
            signed = signed.withColumn("sig", F.coalesce("sig", F.lit("")))
        signed = self._found.keep(signed)
        known = self._known(signed)
        new = signed
        matched = self._gateway.session.createDataFrame([], "f BINARY, id BIGINT")
        if known is not None:
            matched = self._found.keep(known)
            new = signed.join(matched, "f", "left_anti")
        new = self._found.keep(new)
        different = self._found.keep(new.select("s", "number", "sig").distinct())
        numbered = self._numbered(different, ["s", "number", "sig"])
        new = new.join(numbered, ["s", "number", "sig"])
        return self._found.keep(new), matched, own

    def _known(self, signed: DataFrame) -> DataFrame | None:
        stored, edges = self._stored_nodes(), self._stored_edges()
        if stored is None:
            return None
        wanted = signed.select(F.col("s").alias("digest"), F.col("number").alias("label"))
        stored = stored.join(wanted.distinct(), ["digest", "label"], "left_semi")
        if edges is not None:
            edges = edges.withColumnRenamed("index", "idx").drop("label")
            made = edges.join(stored, edges.derived == stored.id, "left_semi")
            made = made.groupBy("derived").agg(_signature().alias("sig"))
            stored = stored.join(made, stored.id == made.derived, "left").drop("derived")
            stored = stored.withColumn("sig", F.coalesce("sig", F.lit("")))
        else:
            stored = stored.withColumn("sig", F.lit(""))
        stored = stored.selectExpr("digest AS s", "label AS number", "sig", "id")
        return signed.join(stored, ["s", "number", "sig"]).select("f", "id")


def _signature() -> Column:
    """What a node is made of, in one text: its inputs by id, in order."""
    columns = ("coalesce(idx, -1)", "input", "contributes", "times")
    fields = ", ".join(f"CAST({column} AS STRING)" for column in columns)
    return F.expr(f"sha2(array_join(sort_array(collect_list(concat_ws(',', {fields}))), ';'), 256)")
