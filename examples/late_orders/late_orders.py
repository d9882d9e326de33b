"""Which orders came late, and which rows say so? SQL on TPC-H tables, captured and traced.

Run it with `make demo`, or `python examples/late_orders/late_orders.py`. It makes its own data.
"""

import os
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import whence

DATA = Path("data/tpch-0.01")
ARCHIVE = Path("provenance")
TABLES = ("customer", "orders", "lineitem")
ORDER = "o_orderkey = 7"

LATE_ORDERS = """
SELECT o_orderkey, c_name, o_orderdate,
       count(*) AS late_items,
       sum(l_extendedprice) AS late_value,
       max(datediff(l_receiptdate, l_commitdate)) AS days_late
FROM customer
JOIN orders ON o_custkey = c_custkey
JOIN lineitem ON l_orderkey = o_orderkey
WHERE l_receiptdate > l_commitdate
GROUP BY o_orderkey, c_name, o_orderdate
HAVING count(*) >= 2
ORDER BY days_late DESC, o_orderkey
"""


def main() -> None:
    make_tables()
    spark = start_spark()
    for table in TABLES:
        spark.read.parquet(str(DATA / f"{table}.parquet")).createOrReplaceTempView(table)

    say("A query, as anybody would write it")
    print(LATE_ORDERS.strip())
    late = spark.sql(LATE_ORDERS)

    say("The same rows as ever, captured with where they came from")
    run = whence.capture(late, name="late-orders", archive=ARCHIVE, mode="eager")
    run.output.show(5)

    say(f"Where does the row with {ORDER} come from?")
    trace = run.trace(ORDER)
    print(rows_of(trace.output()))
    for source, rows in trace.items():
        print(f"\n{source}: {len(rows)} of {run_rows(rows)} rows")
        print(rows_of(rows.to_arrow()))
    print(f"\nThe answer is {trace.grade}.")

    say("How were they combined?  (· used together, + added up)")
    print(trace.how())

    say("Is it true?  Run the query again on only the traced rows, for 5 sampled results")
    check = run.check(sample=5)
    for result in check.rows:
        print(f"{'same' if result.ok else 'DIFFERENT'}  {result.row} {result.why}".rstrip())
    spark.stop()

    say("What to try next (none of these starts Spark)")
    print(next_steps())
    if not check.ok:
        sys.exit(1)


def make_tables() -> None:
    """TPC-H at scale 0.01: 1,500 customers, 15,000 orders, 60,175 items."""
    if all((DATA / f"{table}.parquet").exists() for table in TABLES):
        return
    tool = Path(sys.executable).with_name("tpchgen-cli")
    command = [str(tool), "parquet", "-s", "0.01", "-o", str(DATA), "--overwrite"]
    subprocess.run([*command, "--tables", ",".join(TABLES)], check=True, stdout=sys.stderr)


def start_spark() -> SparkSession:
    """A local session that keeps quiet."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("late-orders")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session
