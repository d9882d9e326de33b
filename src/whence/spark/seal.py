"""Spark as the engine of sealing, for runs that one machine does not hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from whence.algebra.canonical import CHUNK, Column, Dialect, record_columns
from whence.algebra.locators import ROW_BITS, ROW_MASK
from whence.spark.gateway import Gateway, exactly
from whence.spark.rerun import Input

LOCATOR = "__whence_locator"
_ROW_ID = "__row"
_SMALL = 4 << 20
_PART = 32 << 20
_PART_BITS = 33  # of `monotonically_increasing_id`
_FEW_FILES = 8  # so many files can each hold ids of the whole range
# Parts of a file that a look-up can pass over.
_LOOKED_UP = {"parquet.block.row.count.limit": "100000"}
_SCHEMAS = {
    "nodes": "id BIGINT, label INT, digest BINARY",
    "edges": "input BIGINT, label INT, index INT, derived BIGINT, times BIGINT, "
    "contributes BOOLEAN",
    "roots": "row BIGINT, node BIGINT",
}
SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    # A checkpoint of a union can fail over constraints, which are of no use here.
    "spark.sql.constraintPropagation.enabled": "false",
    # The JVM does not compile larger methods, and spelling a row of many columns is one.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}


class SparkEngine:
    """Runs the SQL of sealing on Spark; `read` opens a dataset, `total` is their size in bytes."""

    dialect: Dialect = "spark"
    number = "xxhash64({})"

    def __init__(self, gateway: Gateway, read: Callable[[Any], Input], total: int) -> None:
        self._gateway, self._read = gateway, read
        self._session = gateway.session
        self._names = 0
        for name, value in SETTINGS.items():
            self._session.conf.set(name, value)
        self._fit(total)

    def _fit(self, total: int) -> None:
        """Choose how many parts shuffles have by the bytes at hand, not by measuring each one."""
        parallel = self._session.sparkContext.defaultParallelism
        self._partitions = 1 if total < _SMALL else max(parallel, total // _PART + 1)
        self._session.conf.set("spark.sql.shuffle.partitions", str(self._partitions))
        if total < _SMALL:  # compiling code would take longer than running it
            self._session.conf.set("spark.sql.codegen.wholeStage", "false")
            self._session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")

    def _view(self, stem: str, frame: DataFrame) -> str:
        self._names += 1
        name = f"{stem}_{self._names}"
        frame.createOrReplaceTempView(name)
        return name

    def run(self, sql: str) -> list[Any]:
        """All rows that SQL gives."""
        return [tuple(row) for row in self._session.sql(sql).collect()]

    def table(self, stem: str, sql: str) -> str:
        """A temporary table with the answer to a query, cut off from what made it; its name."""
        return self._view(stem, self._gateway.checkpointed(self._session.sql(sql)))

    def columns(self, dataset: Any) -> list[Column]:
        """Name, stored name and type of each column of a dataset."""
        return record_columns(dataset.schema, dataset.properties)

    def rows(self, dataset: Any) -> str:
        """The rows of a dataset, each with its locator."""
        found = self._read(dataset)
        stored = found.stored
        if stored.kind == "range":
            bounds = stored.properties["range"]
            start, step = bounds["start"], bounds["step"]
            frame = self._session.range(start, start + bounds["rows"] * step, step)
            located = frame.selectExpr("id", f"(id - {start}L) div {step}L {LOCATOR}")
            return self._view("rows", located)
        frame = self._gateway.frame(self._gateway.read_files(list(found.paths), _as_sql(stored)))
        row = "_metadata.row_index"
        if len(stored.files) > 1:
            slot = str(stored.properties["slot"]).format(metadata="_metadata")
            row = f"shiftleft({slot}, {ROW_BITS}) + {row}"
        return self._view("rows", frame.selectExpr("*", f"{row} AS {LOCATOR}"))

    def stored(self, kind: Literal["nodes", "edges", "roots"], paths: Sequence[str]) -> str:
        """What seals wrote, its schema being known."""
        if not paths:
            return self._view(kind, self._session.createDataFrame([], _SCHEMAS[kind]))
        frame = self._session.read.schema(_SCHEMAS[kind]).parquet(*map(exactly, paths))
        return self._view(kind, frame)

    def members(self, paths: Sequence[str]) -> str:
        """Members of groups, told apart by `__row`."""
        row = f"concat(_metadata.file_name, ':', _metadata.row_index) AS {_ROW_ID}"
        frame = self._session.read.parquet(*map(exactly, paths))
        return self._view("members", frame.selectExpr("*", row))

    def listed(self, sql: str) -> str:
        """Items of lists, one row each."""
        return f"({sql})"

    def alike(self, table: str, keys: str) -> bool:
        """Whether rows of a table may have the same keys."""
        return True

    def counted(self, rows: str, keys: str, sql: str) -> str:
        """Different rows, and in `times` how often each occurs."""
        return self.table("counted", sql)

    def bags(self, entries: str, label: str, bits: int, sql: str) -> str:
        """A table with the key and the hashes of each group."""
        return self.table("bags", sql)

    def numbered(self, sql: str, order: str, reserve: Callable[[int], int]) -> tuple[str, int]:
        """Rows with an `id` in this order, by the parts of a sorted frame: no task sees all."""
        place = F.monotonically_increasing_id()  # the part, and the row's number in it
        ordered = self._session.sql(f"{sql} ORDER BY {order}").withColumn("place", place)
        placed = self._gateway.checkpointed(ordered)
        counts = placed.groupBy(F.expr(f"shiftright(place, {_PART_BITS})").alias("part")).count()
        sizes = {row.part: row["count"] for row in counts.collect()}
        following = reserve(sum(sizes.values()))
        starts = []
        for part in range(max(sizes, default=0) + 1):
            starts.append(f"{following}L")
            following += sizes.get(part, 0)
        row = f"(place & {(1 << _PART_BITS) - 1}L)"
        start = f"array({', '.join(starts)})[CAST(shiftright(place, {_PART_BITS}) AS INT)]"
        frame = placed.withColumn("id", F.expr(f"{start} + {row}")).drop("place")
        return self._view("numbered", frame), sum(sizes.values())

    def write(self, sql: str, folder: str, order: Sequence[str]) -> None:
        """Write rows in order, so that their numbers are stored as small differences."""
        frame = self._session.sql(sql)
        if self._partitions == 1:
            frame = frame.coalesce(1)
        elif self._partitions > _FEW_FILES:
            frame = frame.repartitionByRange(order[0])
        self._gateway.write_parquet(frame.sortWithinPartitions(*order), folder, _LOOKED_UP)

    def chunks(self, sql: str) -> list[tuple[int, int, int, bytes]]:
        """Slot, number, rows and Merkle root of each chunk of an output."""
        located = (
            f"SELECT shiftright({LOCATOR}, {ROW_BITS}) AS slot, ({LOCATOR} & {ROW_MASK}L) AS r, "
            f"leaf FROM ({sql}) AS l"
        )
        chunks = (
            f"SELECT slot, r div {CHUNK} AS chunk, count(*) AS n, "
            f"transform(sort_array(collect_list(struct(r, leaf))), x -> x.leaf) AS leaves "
            f"FROM ({located}) AS l GROUP BY slot, r div {CHUNK}"
        )
        found = self.run(f"SELECT slot, chunk, n, {_merkle_root('leaves')} FROM ({chunks}) AS c")
        return [(slot, chunk, n, bytes(root)) for slot, chunk, n, root in found]


def _merkle_root(leaves: str) -> str:
    """SQL: the root over an array of at most `CHUNK` hashes.

    One level up is written once, over a lambda's variable: as nested columns its text would double
    with each level.
    """
    pair = "unhex(sha2(concat(X'01', a[2 * i], a[2 * i + 1]), 256))"
    level = (
        "transform(sequence(0, CAST((size(a) - 1) div 2 AS INT)), "
        f"i -> CASE WHEN 2 * i + 1 < size(a) THEN {pair} ELSE a[2 * i] END)"
    )
    tree = f"aggregate(sequence(1, {CHUNK.bit_length() - 1}), {leaves}, (a, n) -> {level})[0]"
    count = f"unhex(lpad(hex(CAST(size({leaves}) AS BIGINT)), 16, '0'))"
    return f"unhex(sha2(concat(X'02', {count}, {tree}), 256))"


def _as_sql(stored: Any) -> Any:
    """A dataset with the SQL types of user-defined ones, which Spark does not look into."""
    properties = dict(stored.properties)
    if own := properties.get("stored"):
        properties["stored"] = _without_own_types(own)
    schema = json.dumps(_without_own_types(json.loads(stored.schema)))
    return replace(stored, schema=schema, properties=properties)


def _without_own_types(kind: Any) -> Any:
    if isinstance(kind, list):
        return [_without_own_types(inner) for inner in kind]
    if not isinstance(kind, dict):
        return kind
    if kind.get("type") == "udt":
        return _without_own_types(kind["sqlType"])
    return {name: _without_own_types(inner) for name, inner in kind.items()}
