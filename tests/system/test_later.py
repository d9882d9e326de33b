"""A run is asked in another process: its plan is put together again by another JVM."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.full]

# Both JVMs number attributes from 0: those of the stored plan meet new ones with the same numbers.
QUERY = """
SELECT a1, name, a2, sum(amount) AS total FROM customers, orders
WHERE key = customer AND a7 < 9 GROUP BY a1, name, a2
"""
START = """
import sys
from local_session import new_session
import whence
folder = sys.argv[1]
spark = new_session("local[2]")
"""
CAPTURE = """
for table in ("orders", "customers"):
    spark.read.parquet(f"{folder}/{table}.parquet").createOrReplaceTempView(table)
whence.capture(spark.sql(sys.argv[2]), archive=f"{folder}/archive", mode="auto", list_below=0)
"""
ASK = """
trace = whence.open(f"{folder}/archive").run().trace("a1 = 2 AND name = 'c4' AND a2 = 3")
print([row["id"] for row in trace["orders"].to_pylist()])
"""


def run(script: str, *arguments: str) -> str:
    command = [sys.executable, "-c", START + script, *arguments]
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=here
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_stored_plan_runs_in_another_jvm(tmp_path: Path) -> None:
    ids = range(60)
    attributes = {f"a{i}": [(j * 7 + i) % 13 for j in ids] for i in range(40)}
    own = {"customer": [j * j % 7 for j in ids], "id": list(ids), "amount": [j % 9 for j in ids]}
    orders = pa.table({**attributes, **own})
    pq.write_table(orders, tmp_path / "orders.parquet")
    customers = pa.table({"key": list(range(7)), "name": [f"c{i}" for i in range(7)]})
    pq.write_table(customers, tmp_path / "customers.parquet")
    run(CAPTURE, str(tmp_path), QUERY)
    found = run(ASK, str(tmp_path))
    wanted = [
        row["id"]
        for row in orders.to_pylist()
        if (row["a1"], row["a2"], row["customer"]) == (2, 3, 4) and row["a7"] < 9
    ]
    assert wanted
    assert found.splitlines()[-1] == str(wanted)
