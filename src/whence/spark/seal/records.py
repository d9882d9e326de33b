"""Stored datasets as frames: rows with their locators, and the records that are hashed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from whence.algebra.canonical import record_columns, row_sql
from whence.algebra.locators import ROW_BITS, ROW_MASK
from whence.spark.gateway import Gateway
from whence.spark.seal import sql
from whence.spark.seal.settings import FileRange, Scheme
from whence.spark.stored import Stored

LOCATOR = "__locator"
NODES = "id BIGINT, label INT, digest BINARY"
EDGES = "input BIGINT, label INT, index INT, derived BIGINT, times BIGINT, contributes BOOLEAN"
ROOTS = "row BIGINT, node BIGINT"


def segments(gateway: Gateway, schema: str, paths: Sequence[str]) -> DataFrame:
    """What earlier seals wrote, its schema being known."""
    if not paths:
        return gateway.session.createDataFrame([], schema)
    return gateway.session.read.schema(schema).parquet(*paths)


def located(gateway: Gateway, stored: Stored, paths: Sequence[str]) -> DataFrame:
    """The rows of a dataset, each with its locator."""
    if stored.kind == "range":
        bounds = stored.properties["range"]
        end = bounds["start"] + bounds["rows"] * bounds["step"]
        frame = gateway.session.range(bounds["start"], end, bounds["step"])
        return frame.selectExpr("id", f"(id - {bounds['start']}L) div {bounds['step']}L {LOCATOR}")
    frame = gateway.frame(gateway.read_files(list(paths), stored))
    row = "_metadata.row_index"
    if len(stored.files) > 1:
        slot = str(stored.properties["slot"]).format(metadata="_metadata")
        row = f"shiftleft({slot}, {ROW_BITS}) + {row}"
    return frame.selectExpr("*", f"{row} AS {LOCATOR}")


def record_hash(stored: Stored) -> str:
    """SQL: the SHA-256 of a row's canonical bytes."""
    found = record_columns(stored.schema, stored.properties)
    listed = [(name, f"`{stored_name}`", kind) for name, stored_name, kind in found]
    return sql.sha(f"CAST({row_sql(listed, 'spark')} AS BINARY)")


def node_ids(ranges: Sequence[FileRange]) -> str:
    """SQL: the node id that belongs to a locator."""
    row = f"({LOCATOR} & {ROW_MASK}L)"
    return f"{by_file(ranges, lambda found: f'{found.start}L')} + {row}"


def by_file(ranges: Sequence[FileRange], value: Any) -> str:
    """SQL: a value that depends on the file of a locator."""
    if len(ranges) == 1:
        return str(value(ranges[0]))
    pairs = ", ".join(f"{found.slot}L, {value(found)}" for found in ranges)
    return f"map({pairs})[shiftright({LOCATOR}, {ROW_BITS})]"


def source_hash(stored: Stored, scheme: Scheme, ranges: Sequence[FileRange]) -> str:
    """SQL: the full hash of a source row under a token scheme."""
    if scheme == "value" or stored.kind == "range":
        return sql.value(record_hash(stored))
    tag = "O" if scheme == "origin" else "C"

    def start(found: FileRange) -> str:
        uri = found.uri.encode()
        about = f"i{found.modified};" if scheme == "origin" else f"s64:{found.digest}"
        return sql.binary(tag.encode() + b"s%d:%s" % (len(uri), uri) + about.encode())

    row = f"({LOCATOR} & {ROW_MASK}L)"
    index = f"CAST(concat('i', CAST({row} AS STRING), ';') AS BINARY)"
    return sql.sha(sql.joined([by_file(ranges, start), index]))
