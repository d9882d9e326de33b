"""TPC-H for the system tests: tables, query texts, and replays in DuckDB."""

import math
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

TABLES = ("lineitem", "orders", "customer", "part", "partsupp", "supplier", "nation", "region")
_FOLDER = Path(__file__).parents[2] / "benchmarks" / "queries"
QUERIES = {path.stem: path.read_text() for path in sorted(_FOLDER.glob("q*.sql"))}
FAILS = "q22"  # an average beside NOT EXISTS: its traces are right and do not replay
EMPTY = "q17"  # no row passes its filters at this scale: a null that comes from nothing
SAMPLE = 10

Row = Mapping[str, Any]


def make_tables(folder: Path, scale: str = "0.01") -> Path:
    """The eight tables, one Parquet file each."""
    command = Path(sys.executable).parent / "tpchgen-cli"
    subprocess.run(
        [str(command), "parquet", "-s", scale, "-o", str(folder)], check=True, capture_output=True
    )
    assert {path.stem for path in folder.glob("*.parquet")} == set(TABLES)
    return folder


def register(spark: Any, folder: Path) -> None:
    for table in TABLES:
        spark.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)


def sampled(rows: Sequence[Row], count: int = SAMPLE) -> list[Row]:
    """Some rows from all over a result: the first, the last, and evenly between."""
    if len(rows) <= count:
        return list(rows)
    return [rows[i * (len(rows) - 1) // (count - 1)] for i in range(count)]


def traced_tables(trace: Any) -> dict[str, Any]:
    """The contributing rows of a trace, by table."""
    return {name: trace[name].to_arrow(role="contributing") for name in trace}


class Second:
    """DuckDB as the second engine: runs a query on only the rows it is given."""

    def __init__(self, folder: Path) -> None:
        self._empty = {
            table: pq.read_schema(folder / f"{table}.parquet").empty_table() for table in TABLES
        }

    def rows(self, sql: str, tables: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        assert set(tables) <= set(TABLES)
        with duckdb.connect() as connection:
            for table in TABLES:
                connection.register(table, tables.get(table, self._empty[table]))
            return connection.execute(sql).fetchall()

    def gives(self, sql: str, tables: Mapping[str, Any], wanted: Row) -> bool:
        """Whether the query on these tables gives a row again."""
        return any(same_row(wanted.values(), other) for other in self.rows(sql, tables))


def same_row(left: Iterable[Any], right: Iterable[Any]) -> bool:
    pairs = list(zip(left, right, strict=True))
    return all(_same(a, b) for a, b in pairs)


def _same(left: Any, right: Any) -> bool:
    """Equal but for the digits that the engines keep of averages and quotients."""
    if isinstance(left, float | Decimal) and right is not None:
        return math.isclose(float(left), float(right), rel_tol=1e-6, abs_tol=1e-5)
    return bool(left == right)


def locators(trace: Any) -> dict[str, list[tuple[str, int, str]]]:
    """File, row and role of all traced rows, by source."""
    return {
        name: sorted((row["file"], row["row"], row["role"]) for row in found)
        for name in trace
        if (found := trace[name].locators().to_pylist())
    }
