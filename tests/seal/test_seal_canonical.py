"""Canonical bytes in Spark, DuckDB and Python: three ways, one spelling."""

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from whence.algebra.canonical import row_sql

sys.path.append(str(Path(__file__).parents[1] / "archive"))
from canonical_bytes import encode_rows
from test_archive_canonical import TYPES

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EXAMPLES = int(os.environ.get("WHENCE_CANONICAL_EXAMPLES", "2"))

# Every type Spark writes to Parquet, at its edges.
HARD = """
SELECT * FROM VALUES
 (1, -1L, 1.5D, float(0.1), 1.50BD, CAST(0.0000001 AS DECIMAL(38,10)), 'hé', X'00ff', true,
  DATE'2020-01-01', TIMESTAMP'2020-01-01 00:00:00Z', TIMESTAMP_NTZ'2020-01-01 00:00:00.123456',
  INTERVAL '3 04:05:06.789' DAY TO SECOND, INTERVAL '1-2' YEAR TO MONTH, array(1, null),
  map('b', 1, 'a', CAST(null AS INT)), named_struct('x', 1, 'y', array(named_struct('z', 'q'))),
  map(1.5BD, array(map('k', -0.0D)))),
 (null, 9223372036854775807L, -0.0D, float('NaN'), -0.10BD,
  CAST(12345678901234567890.5 AS DECIMAL(38,10)), '', X'', false, DATE'0001-01-01',
  TIMESTAMP'9999-12-31 23:59:59.999999Z', TIMESTAMP_NTZ'1900-01-01 00:00:00',
  INTERVAL '-3 04:05:06' DAY TO SECOND, INTERVAL '-1-2' YEAR TO MONTH, array(), map(),
  named_struct('x', CAST(null AS INT), 'y', array()), null),
 (2147483647, 0L, 4.9e-324D, float('-Infinity'), 100.00BD, CAST(0 AS DECIMAL(38,10)), 'a;b:c',
  null, null, null, null, null, null, null, null, null, null, map()),
 (7, 0L, 1e300D, float('1e-45'), 0.00BD, CAST(-100 AS DECIMAL(38,10)), '😀', null, null,
  DATE'9999-12-31', TIMESTAMP'1582-10-04 00:00:00Z', null, null, null, array(1, 2, 3),
  map('', 1), named_struct('x', 2, 'y', array(null, named_struct('z', null))),
  map(2.0BD, array(map('k', 1.0D / 3, 'j', 1e-310D))))
 AS t(i, l, d, f, dec, dec2, s, b, bo, da, ts, nt, dti, ymi, arr, m, st, deep)
"""
DIGESTS = [
    "387637b7332cc4ae5a6169b95bd9c9f6cc41e985b0b43d6c1d10c851e3fc0647",
    "f5beee88432e1a94abb82c0359b40aed420e2a40bceef66a5e751d8e65539072",
    "ac588a2ba4bea4a58112b7f92d8b17804d90009db667d058ddd3753a78b3cb4f",
    "1970436d05ae7d84b3573ef54ed9c0cb12b8ba0e7d6b7694d10bc4b1c8a79922",
]


@pytest.fixture(scope="module")
def utc(spark: Any) -> Any:
    """A session set as sealing sets its own."""
    from whence.spark.gateway import Gateway
    from whence.spark.seal import SETTINGS

    session = Gateway(spark).session
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    return session


def three_ways(session: Any, path: Path) -> list[list[bytes]]:
    frame = session.read.parquet(str(path))
    fields = json.loads(frame.schema.json())["fields"]
    in_spark = row_sql([(f["name"], f"`{f['name']}`", f["type"]) for f in fields], "spark")
    in_duckdb = row_sql([(f["name"], f'"{f["name"]}"', f["type"]) for f in fields], "duckdb")
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")
    table = pq.read_table(path, coerce_int96_timestamp_unit="us")
    files = f"{path}/*.parquet" if path.is_dir() else str(path)
    found = connection.execute(f"SELECT {in_duckdb} FROM read_parquet('{files}')").fetchall()
    rows = frame.selectExpr(f"CAST({in_spark} AS BINARY) AS b").collect()
    return [
        [bytes(row.b) for row in rows],
        [row.encode() for (row,) in found],
        encode_rows([(f["name"], table.column(f["name"]), f["type"]) for f in fields]),
    ]


def test_hard_values(utc: Any, tmp_path: Path) -> None:
    path = tmp_path / "hard"
    utc.sql(HARD).coalesce(1).write.parquet(str(path))
    spark, duck, python = three_ways(utc, path)
    assert spark == python
    assert duck == python
    assert [hashlib.sha256(row).hexdigest() for row in python] == DIGESTS


@settings(
    deadline=None,
    max_examples=EXAMPLES,
    phases=(Phase.explicit, Phase.generate),  # to shrink, a Spark job per try takes too long
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_any_values(utc: Any, tmp_path: Path, data: st.DataObject) -> None:
    size = 8
    columns = {}
    for name, (_, arrow, values) in TYPES.items():
        drawn = data.draw(st.lists(st.none() | values, min_size=size, max_size=size))
        columns[name] = pa.array(drawn, arrow)
    path = tmp_path / "any.parquet"
    pq.write_table(pa.table(columns), path)
    spark, duck, python = three_ways(utc, path)
    assert spark == python
    assert duck == python
