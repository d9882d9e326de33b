"""Spark as the engine of questions over nodes and edges, for archives too big for one machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from whence.spark.gateway import Gateway, exactly


class SparkTables:
    """Runs the SQL of `whence.trace.closure` on Spark."""

    def __init__(self, session: SparkSession) -> None:
        self._gateway = Gateway(session)
        self._session = self._gateway.session
        # A checkpoint of a union can fail over constraints, which are of no use here.
        self._session.conf.set("spark.sql.constraintPropagation.enabled", "false")
        self._names = 0

    def run(self, sql: str) -> list[Any]:
        """All rows that SQL gives."""
        return [tuple(row) for row in self._session.sql(sql).collect()]

    def table(self, stem: str, sql: str) -> str:
        """A temporary table with the answer to a query; its name."""
        self._names += 1
        name = f"{stem}_{self._names}"
        self._gateway.checkpointed(self._session.sql(sql)).createOrReplaceTempView(name)
        return name

    def scan(self, paths: Sequence[str]) -> str:
        """SQL that reads Parquet files, as what stands behind FROM."""
        self._names += 1
        name = f"files_{self._names}"
        self._session.read.parquet(*map(exactly, paths)).createOrReplaceTempView(name)
        return name
