"""The way into Spark: plans and expressions of its JVM, frames over plans, and files."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import unquote

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from whence.errors import CaptureError, UnsupportedError
from whence.spark.jvm.errors import is_stopped, spark_errors
from whence.spark.jvm.plans import Plans
from whence.spark.jvm.values import Expression, Plan
from whence.spark.stored import Stored

T = TypeVar("T")
_NESTED_PRUNING = (
    "spark.sql.optimizer.nestedSchemaPruning.enabled",
    "spark.sql.optimizer.expression.nestedPruning.enabled",
)
# Set in a session of our own beside the user's. Timestamps that DuckDB reads as Spark means them;
# one file per task, which tells the order of the files.
_SETTINGS = {
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.sources.useV1SourceList": "parquet",  # others have no `_metadata`
}
# Lists are collected in a hash map of at most so many groups; beyond, Spark sorts all rows first.
_HASHED_GROUPS = "spark.sql.objectHashAggregate.sortBased.fallbackThreshold"
_FEW_GROUPS, _MANY_GROUPS = "128", "65536"  # Spark's own, and where memory is ample
# Without it times are told to the millisecond.
_WHOLE_TIMES = (
    "map('timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
)
# Spark takes a join for as large as the product of its sides. A size of a hundred digits, as Spark
# spells it, means nothing.
_ENDLESS = re.compile(r"E\+\d{3,} B")
_PATTERN = re.compile(r"[\\{}\[\]*?]")
# How files are written. The catalog tells what is whole, so no file needs to.
_WRITTEN = {
    "compression": "zstd",
    "parquet.writer.version": "v2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


def exactly(path: str) -> str:
    """A path as Spark's readers take it for itself and not for a pattern of many.

    >>> print(exactly("/data/a[1]/*.parquet"))
    /data/a\\[1\\]/\\*.parquet
    """
    return _PATTERN.sub(r"\\\g<0>", path)


def plain_schema(schema: str) -> str:
    """A schema without what is told of its columns: by it Spark would pad text of CHAR columns.

    `_metadata`, once stored, is a column like any other. Collations are a part of the type.
    """
    found = json.loads(schema)
    for field in found["fields"]:
        kept = {k: v for k, v in field["metadata"].items() if k == "__COLLATIONS"}
        field["metadata"] = kept
    return json.dumps(found)


def struct_of(schema: str) -> StructType:
    """The type that a schema's JSON stands for; from text, since Spark changes what it reads."""
    return StructType.fromJson(json.loads(schema))


class Gateway(Plans):
    """Spark's JVM, through a session of our own that shares the user's context and cache."""

    total_job_seconds = 0.0
    """Time spent in Spark's jobs, over all gateways of the process; benchmarks read it."""

    def __init__(self, session: SparkSession) -> None:
        jvm = getattr(session, "_jvm", None)
        if jvm is None:
            raise UnsupportedError(
                "this is a Spark Connect session, whose plans cannot be read from here; "
                "run the pipeline in a classic session (SparkSession.builder.master(...))"
            )
        if is_stopped(session):
            raise CaptureError("the Spark session was stopped; run again in a new session")
        super().__init__(jvm, session._jsparkSession.cloneSession())
        self.session = SparkSession(session.sparkContext, self._java)
        for key, value in _SETTINGS.items():
            self._java.conf().set(key, value)

    def expect(self, size: int) -> None:
        """Let lists of many groups be collected without sorting, if all that is read is small.

        What is hashed cannot be spilled to disk. Parquet of `size` bytes, unpacked, must therefore
        fit into the memory of one executor. A limit that the user has set is left as it is.
        """
        conf = self._java.conf()
        if conf.get(_HASHED_GROUPS) in (_FEW_GROUPS, _MANY_GROUPS):
            fits = size * 4 <= self._executor_memory()
            conf.set(_HASHED_GROUPS, _MANY_GROUPS if fits else _FEW_GROUPS)

    def _executor_memory(self) -> int:
        context = self.session.sparkContext
        if str(context.master).startswith("local"):
            return int(self.jvm.java.lang.Runtime.getRuntime().maxMemory())
        text = context.getConf().get("spark.executor.memory", "1g")
        return int(self.jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(text))

    @property
    def version(self) -> str:
        """Spark's version."""
        return str(self.session.version)

    # --- File systems -----------------------------------------------------------------------

    def _file_system(self, path: Any) -> Any:
        return path.getFileSystem(self._java.sessionState().newHadoopConf())

    def hadoop_stat(self, uri: str) -> tuple[int, int]:
        """Size and modification time in milliseconds, of a file on any file system."""
        path = self.jvm.org.apache.hadoop.fs.Path(self.jvm.java.net.URI(uri))
        found = self._file_system(path).getFileStatus(path)
        return int(found.getLen()), int(found.getModificationTime())

    def hadoop_list(self, folder: str) -> list[tuple[str, int, int]]:
        """Name, size and modification time of the files in a folder on any file system."""
        path = self.jvm.org.apache.hadoop.fs.Path(folder)
        return [
            (str(f.getPath().getName()), int(f.getLen()), int(f.getModificationTime()))
            for f in self._file_system(path).listStatus(path)
        ]

    # --- Frames -----------------------------------------------------------------------------

    def analysed(self, frame: DataFrame) -> Plan:
        """The resolved plan of a frame, with cached parts shown as such."""
        return frame._jdf.queryExecution().withCachedData()

    def frame(self, plan: Plan) -> DataFrame:
        """The DataFrame of a plan."""
        return self.frame_in(plan, self.session)

    def frame_in(self, plan: Plan, session: SparkSession) -> DataFrame:
        """The DataFrame of a plan, in a session that the user has."""
        return DataFrame(self._classes.dataset.ofRows(session._jsparkSession, plan), session)

    def checkpointed(self, frame: DataFrame) -> DataFrame:
        """A frame computed and cut off from what made it.

        Spark keeps the size that it expected. Over joins of joins that gets a number of millions
        of digits, and planning takes minutes; then the rows alone are kept.
        """
        found = frame.localCheckpoint()
        execution = found._jdf.queryExecution()
        if not _ENDLESS.search(execution.optimizedPlan().stats().simpleString()):
            return found
        bare = self._java.internalCreateDataFrame(execution.toRdd(), found._jdf.schema(), False)
        return DataFrame(bare, self.session)

    def read_parquet(self, folder: str, schema: str) -> Plan:
        """The relation over a folder of Parquet files with a schema given as JSON."""
        plain = plain_schema(schema)
        frame = self.session.read.schema(struct_of(plain)).parquet(exactly(folder))
        return self._exactly_typed(frame, plain)

    def _exactly_typed(self, frame: DataFrame, schema: str) -> Plan:
        """The relation of a frame over files, its columns typed as they were written.

        Spark takes every column and item read from files to be nullable, whatever the schema says.
        """
        relation = frame._jdf.queryExecution().analyzed()
        wanted = {f.name(): f for f in self.struct_type(schema).fields()}
        columns = [
            a.withDataType(wanted[a.name()].dataType()) if a.name() in wanted else a
            for a in self.output(relation)
        ]
        return self.with_arguments(relation, {1: self.seq(columns)})

    def read_files(self, paths: Sequence[str], stored: Stored) -> Plan:
        """The relation over some Parquet files of a dataset."""
        own = stored.properties.get("stored")
        plain = plain_schema(json.dumps(own) if own else stored.schema)
        reader = self.session.read.schema(struct_of(plain))
        if stored.properties.get("partitions"):
            reader = reader.option("basePath", stored.properties.get("base", stored.location))
        if stored.kind == "source":
            # Spark names files as URIs, and reads names that are not.
            paths = [unquote(path) for path in paths]
        frame = reader.parquet(*map(exactly, paths))
        return self._exactly_typed(frame, plain)

    def renamed(self, plan: Plan, wanted: Sequence[Any]) -> Plan:
        """A plan's columns, found by name, under the identities of the wanted ones; else null."""
        have = {str(a.name()): a for a in self.output(plan)}
        columns = [
            self.alias(have.get(str(w.name())) or self.null(w.dataType()), w.name(), w.exprId())
            for w in wanted
        ]
        return self.project(columns, plan)

    def write_parquet(
        self, frame: DataFrame, folder: str, options: Mapping[str, str] | None = None
    ) -> None:
        """Write a frame so that locators take little space: delta encoding, zstd."""
        writer = frame.write.options(**_WRITTEN, **(options or {}))
        with self.job():
            try:
                writer.parquet(folder)
            except Exception as error:
                if "INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND" not in str(error):
                    raise
                self._write_unpruned(writer, folder)

    @contextmanager
    def job(self) -> Iterator[None]:
        """A Spark job, whose time is counted."""
        started = time.monotonic()
        try:
            yield
        finally:
            Gateway.total_job_seconds += time.monotonic() - started

    @contextmanager
    def beside(self, work: Callable[[], T]) -> Iterator[Future[T]]:
        """What the driver can do while Spark's jobs run, in a thread of its own."""

        def act() -> T:
            self.jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(self._java)
            return work()

        with ThreadPoolExecutor(max_workers=1) as pool:
            yield pool.submit(act)

    def _write_unpruned(self, writer: Any, folder: str) -> None:
        """Once more, reading nested columns whole.

        Spark's pruning of nested columns around generators loses one of several fields in some
        plans, and then fails.
        """
        before = {key: self._java.conf().get(key) for key in _NESTED_PRUNING}
        for key in before:
            self._java.conf().set(key, "false")
        try:
            writer.mode("overwrite").parquet(folder)
        finally:
            for key, value in before.items():
                self._java.conf().set(key, value)

    def content_digest(self, folder: str, schema: str) -> str:
        """A digest of the rows in a folder and of their places, computed by Spark."""
        frame = self.session.read.schema(struct_of(schema)).parquet(exactly(folder))
        columns = ", ".join(f"`{name}`" for name in frame.columns)
        row = (
            f"to_json(struct({columns}), {_WHOLE_TIMES}), "
            "_metadata.file_block_start, _metadata.row_index"
        )
        found = frame.selectExpr(
            "count(*)", f"bit_xor(xxhash64('a', {row}))", f"bit_xor(xxhash64('b', {row}))"
        ).first()
        return f"content:{found[0]}:{found[1] or 0:x}:{found[2] or 0:x}:{schema}"

    def values(self, rows: Sequence[Sequence[str]], schema: StructType) -> Plan:
        """A relation of SQL literals."""
        names = [f"v{i}" for i in range(len(schema.fields))]
        listed = ", ".join(f"({', '.join(row)})" for row in rows)
        casts = ", ".join(
            f"CAST({n} AS {f.dataType.simpleString()}) AS `{f.name}`"
            for n, f in zip(names, schema.fields, strict=True)
        )
        text = f"SELECT {casts} FROM VALUES {listed} AS t({', '.join(names)})"
        if not rows:
            nulls = ", ".join(f"NULL AS {n}" for n in names)
            text = f"SELECT {casts} FROM (SELECT {nulls}) WHERE false"
        return self.session.sql(text)._jdf.queryExecution().analyzed()

    def named(self, plan: Plan, names: Sequence[str]) -> Plan:
        """The plan's columns, by position, under other names."""
        pairs = zip(self.output(plan), names, strict=True)
        return self.project([self.alias(a, n) for a, n in pairs], plan)

    def collect(self, plan: Plan) -> list[list[Any]]:
        """The rows of a plan, as lists of plain values."""
        plan.setAnalyzed()
        frame = self.frame(plan)
        if not frame.columns:
            return [[] for _ in range(frame.count())]
        columns = [column.to_pylist() for column in frame.toArrow().columns]
        return [list(row) for row in zip(*columns, strict=True)]


__all__ = [
    "Expression",
    "Gateway",
    "JavaObject",
    "Plan",
    "is_stopped",
    "plain_schema",
    "spark_errors",
    "struct_of",
]
