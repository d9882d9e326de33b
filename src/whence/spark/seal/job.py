"""The sealing job: steps in order, nodes and edges written once, the output's Merkle chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from whence.algebra.canonical import CHUNK
from whence.algebra.locators import ROW_BITS, ROW_MASK
from whence.algebra.witness import (
    Group,
    Members,
    Row,
    Witness,
    children,
    slots,
)
from whence.errors import EngineError
from whence.spark.gateway import Gateway
from whence.spark.rerun import Input
from whence.spark.seal import sql
from whence.spark.seal.bags import Found
from whence.spark.seal.derivation import Nesting
from whence.spark.seal.evaluate import ROW, Evaluator
from whence.spark.seal.leaves import Leaves
from whence.spark.seal.records import EDGES, LOCATOR, NODES, ROOTS, located, record_hash, segments
from whence.spark.seal.resolve import Resolver
from whence.spark.seal.settings import Ledger, SealedStep, SealStep, Settings

_SMALL = 4 << 20
_PART = 32 << 20
# Parts of a file that a look-up can pass over.
_LOOKED_UP = {"parquet.block.row.count.limit": "100000"}
_FEW_FILES = 8  # so many files can each hold ids of the whole range
SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    # A checkpoint of a union can fail over constraints, which are of no use here.
    "spark.sql.constraintPropagation.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class Sealed:
    """What was written: folders, None where there was nothing to write."""

    nodes: str | None
    edges: str | None
    uses: str | None
    steps: tuple[SealedStep, ...]


class SealJob:
    """Seals the steps of one run."""

    def __init__(
        self,
        gateway: Gateway,
        settings: Settings,
        ledger: Ledger,
        progress: Callable[[str], None],
    ) -> None:
        self._gateway, self._settings, self._ledger = gateway, settings, ledger
        self._progress = progress
        for name, value in SETTINGS.items():
            gateway.session.conf.set(name, value)
        self._found = Found()
        self._leaves = Leaves(gateway, settings, ledger)
        self._tables: dict[str, DataFrame] = {}
        self._levels: dict[str, int] = {}
        self._partitions = 1

    def run(self, steps: Sequence[SealStep]) -> Sealed:
        """Hash, compare with what is stored, and write what is new."""
        self._fit(steps)
        self._progress("hashing source rows")
        prepared = [self._prepared(step) for step in steps]
        self._add_leaves(steps, prepared)
        self._progress("hashing derivations")
        outputs = [
            self._step(step, shape, rows)
            for step, (shape, rows) in zip(steps, prepared, strict=True)
        ]
        self._progress("comparing with what is stored")
        resolver = Resolver(self._gateway, self._settings, self._ledger, self._found)
        resolver.resolve()
        self._progress("writing nodes and edges")
        nodes = self._written_nodes(resolver)
        edges = uses = None
        if resolver.edges is not None:
            edges = self._write(resolver.edges, "edges", "derived", "index", "input")
            indexed = segments(self._gateway, EDGES, [edges]).select("input", "derived")
            uses = self._write(indexed, "uses", "input", "derived")
        done = [
            self._sealed(step, frame, part, resolver)
            for step, (frame, part) in zip(steps, outputs, strict=True)
        ]
        return Sealed(nodes, edges, uses, tuple(done))

    def _written_nodes(self, resolver: Resolver) -> str | None:
        parts = [frame for frame in (self._leaves.new, resolver.nodes) if frame is not None]
        if not parts:
            return None
        nodes = reduce(DataFrame.unionByName, parts)
        return self._write(nodes, "nodes", "id")

    def _write(self, frame: DataFrame, kind: str, *order: str) -> str:
        """Write a frame in order, so that its numbers are stored as small differences."""
        folder = self._ledger.folder(kind)
        if self._partitions == 1:
            frame = frame.coalesce(1)
        elif self._partitions > _FEW_FILES:
            frame = frame.repartitionByRange(order[0])
        self._gateway.write_parquet(frame.sortWithinPartitions(*order), folder, _LOOKED_UP)
        return folder

    def _fit(self, steps: Sequence[SealStep]) -> None:
        """Choose how many parts shuffles have by the bytes at hand, not by measuring each one."""
        stored = [s.output for s in steps] + [i.stored for s in steps for i in s.datasets.values()]
        total = sum(dataset.bytes for dataset in stored)
        parallel = self._gateway.session.sparkContext.defaultParallelism
        self._partitions = 1 if total < _SMALL else max(parallel, total // _PART + 1)
        self._leaves.small = self._partitions == 1
        conf = self._gateway.session.conf
        conf.set("spark.sql.shuffle.partitions", str(max(self._partitions, 1)))
        if total < _SMALL:  # compiling code would take longer than running it
            conf.set("spark.sql.codegen.wholeStage", "false")
            conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")

    # --- A step -----------------------------------------------------------------------------

    def _prepared(self, step: SealStep) -> tuple[Witness, DataFrame]:
        """The shape of a step's witnesses, and the rows that hold them."""
        if step.lazy is not None:
            return step.lazy.shape.element, self._lazy_rows(step)
        output = located(self._gateway, step.output, step.paths)
        return step.shape, output.withColumnRenamed(LOCATOR, ROW)

    def _step(self, step: SealStep, shape: Witness, rows: DataFrame) -> tuple[DataFrame, str]:
        """The output rows with their node."""
        nesting = Nesting(step.plan, step.inputs, step.code)
        evaluator = Evaluator(
            self._gateway,
            self._settings,
            step,
            nesting,
            {**self._leaves.tables, **self._tables},
            self._leaves.few,
            self._levels,
            self._found,
        )
        wanted = [f"`{name}`" for name in dict.fromkeys((ROW, *slots(shape)))]
        scope = rows.selectExpr(*wanted)
        frame, part, level = evaluator.scope(scope, nesting.whole(shape), keep=True)
        if step.lazy is not None:
            frame = self._paired(step, frame, part)
        token = f"`{part}f`" if self._settings.bits == 256 else f"`{part}s`"
        table = frame.selectExpr(
            f"{ROW} AS {LOCATOR}", f"`{part}f` AS f", f"{token} AS s", f"`{part}i` AS i"
        )
        self._tables[step.output.id] = table
        self._levels[step.output.id] = level
        return self._tables[step.output.id], part

    def _add_leaves(
        self, steps: Sequence[SealStep], prepared: Sequence[tuple[Witness, DataFrame]]
    ) -> None:
        """Hash the source rows that any step uses: once, and equal ones together."""
        used: dict[str, list[DataFrame]] = {}
        known: dict[str, Input] = {}
        made = {step.output.id for step in steps}
        for step, (shape, rows) in zip(steps, prepared, strict=True):
            known.update(step.datasets)
            self._collect(step, shape, rows, used, set())
        inputs: dict[str, Input] = {}
        locators: dict[str, DataFrame] = {}
        for dataset, frames in used.items():
            if dataset in made:
                continue
            found = known[dataset]
            stored = self._ledger.roots(dataset) if found.stored.kind == "output" else None
            if stored is not None:
                self._tables[dataset] = self._earlier(stored)
                continue
            inputs[dataset] = found
            locators[dataset] = reduce(DataFrame.unionAll, frames)
        self._leaves.add(inputs, locators)

    def _earlier(self, roots: Sequence[str]) -> DataFrame:
        """The rows of a sealed output with their nodes, as stored."""
        rows = segments(self._gateway, ROOTS, roots)
        nodes = segments(self._gateway, NODES, self._ledger.parts("nodes")).select("id", "digest")
        joined = rows.join(nodes, rows.node == nodes.id, "left").drop("id")
        if not self._settings.leaf_digests:
            joined = self._with_leaf_digests(joined)
        full = "digest" if self._settings.bits == 256 else "unhex(sha2(CAST(node AS STRING), 256))"
        return joined.selectExpr(
            f"row AS {LOCATOR}",
            f"CASE WHEN node IS NOT NULL THEN {full} END AS f",
            "digest AS s",
            "node AS i",
        )

    def _with_leaf_digests(self, rows: DataFrame) -> DataFrame:
        """Rows of an output that are source rows have no stored token: it is computed again."""
        rows = rows.localCheckpoint()
        bare = rows.where("node IS NOT NULL AND digest IS NULL").select("node").distinct()
        ids = [row.node for row in bare.collect()]
        if not ids:
            return rows
        found = [self._leaves.recomputed(*place, ids) for place in self._ledger.locate(ids)]
        none = self._gateway.session.createDataFrame([], "g BINARY, j BIGINT")
        short = sql.shortened("g", self._settings.bits)
        union = reduce(DataFrame.unionByName, found, none)
        again = union.selectExpr("j AS id", f"{short} AS again").localCheckpoint()
        if again.count() < len(ids):
            raise EngineError(
                "source rows behind an earlier run are changed or gone, and this archive stores no "
                "digests of them (leaf_digests=False), so what builds on it cannot be sealed"
            )
        joined = rows.join(again, rows.node == again.id, "left")
        return joined.selectExpr("row", "node", "coalesce(digest, again) AS digest")

    def _collect(
        self,
        step: SealStep,
        shape: Witness,
        rows: DataFrame,
        used: dict[str, list[DataFrame]],
        seen: set[str],
    ) -> None:
        """The locators that a shape reads, by dataset."""
        match shape:
            case Row(slot, source):
                locators = rows.where(f"`{slot}` IS NOT NULL").selectExpr(f"`{slot}` AS {LOCATOR}")
                used.setdefault(step.inputs[source], []).append(locators)
            case Members(slot=slot, element=element):
                if shape.is_bare:
                    inner = rows.selectExpr(f"explode(`{slot}`) AS `{slots(element)[0]}`")
                else:
                    inner = rows.selectExpr(f"inline(`{slot}`)")
                self._collect(step, element, inner, used, seen)
            case Group(_, operator):
                if operator not in seen:
                    seen.add(operator)
                    files, group = step.groups(operator)
                    members = self._gateway.session.read.parquet(*files)
                    self._collect(step, group.element, members, used, seen)
            case _:
                for child in children(shape):
                    self._collect(step, child, rows, used, seen)

    # --- Runs without witnesses -------------------------------------------------------------

    def _lazy_rows(self, step: SealStep) -> DataFrame:
        assert step.lazy is not None
        members = self._gateway.session.read.parquet(*step.lazy.members)
        return members.selectExpr(
            "*", f"concat(kid, ':', _metadata.file_name, ':', _metadata.row_index) AS {ROW}"
        )

    def _paired(self, step: SealStep, frame: DataFrame, part: str) -> DataFrame:
        """Output rows with a witness each; equal rows take those that were found in any order."""
        assert step.lazy is not None
        rows = self._gateway.session.read.parquet(step.lazy.rows)
        within = Window.partitionBy("kid")
        rows = rows.withColumn("n", F.row_number().over(within.orderBy("locator")))
        found = frame.withColumn("kid", F.expr(f"CAST(split({ROW}, ':')[0] AS BIGINT)"))
        order = within.orderBy(F.col(f"`{part}f`").asc_nulls_first(), ROW)
        found = found.withColumn("n", F.row_number().over(order)).drop(ROW)
        paired = self._found.keep(
            rows.withColumnRenamed("locator", ROW).join(found, ["kid", "n"], "left")
        )
        (lost,) = paired.selectExpr(f"count_if(`{part}f` IS NULL)").first() or (0,)
        if lost and slots(step.lazy.shape.element):
            raise EngineError(
                f"{lost} rows of the output did not come out again when the pipeline was run "
                "to find their inputs, so this run cannot be sealed; capture it with mode='eager'"
            )
        return paired

    # --- The output -------------------------------------------------------------------------

    def _sealed(
        self, step: SealStep, table: DataFrame, part: str, resolver: Resolver
    ) -> SealedStep:
        """Which node each row is, written; and the Merkle chunks of rows and tokens."""
        nodes = table
        if resolver.ids is not None:
            ids = resolver.ids.selectExpr("f", "id AS j")
            nodes = table.join(ids, "f", "left")
        else:
            nodes = table.withColumn("j", F.lit(None).cast("bigint"))
        nodes = nodes.selectExpr(LOCATOR, "s", "coalesce(i, j) AS node")
        listed = nodes.selectExpr(f"{LOCATOR} AS row", "node")
        folder = self._write(listed, "roots", "row")
        output = located(self._gateway, step.output, step.paths)
        rows = output.selectExpr(LOCATOR, f"{record_hash(step.output)} AS h")
        leaf = sql.sha(sql.joined(["X'00'", "h", sql.optional("s")]))
        leaves = rows.join(nodes, LOCATOR, "left").selectExpr(
            f"shiftright({LOCATOR}, {ROW_BITS}) AS slot",
            f"({LOCATOR} & {ROW_MASK}L) AS r",
            f"{leaf} AS leaf",
        )
        chunks = leaves.groupBy("slot", F.expr(f"r div {CHUNK}").alias("chunk")).agg(
            F.sort_array(F.collect_list(F.struct("r", "leaf"))).alias("rows"),
            F.count(F.lit(1)).alias("n"),
        )
        root = sql.merkle_root("transform(rows, x -> x.leaf)")
        found = chunks.selectExpr("slot", "chunk", "n", f"{root} AS root").collect()
        position = {file.slot: number for number, file in enumerate(step.output.files)}
        found.sort(key=lambda row: (position[row.slot], row.chunk))
        return SealedStep(folder, sum(row.n for row in found), [bytes(row.root) for row in found])
