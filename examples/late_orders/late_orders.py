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
ARCHIVE = "provenance"
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

# The tables, and the columns of each that are shown below.
TABLES = {
    "customer": ["c_custkey", "c_name", "c_mktsegment"],
    "orders": ["o_orderkey", "o_custkey", "o_orderdate", "o_orderstatus"],
    "lineitem": ["l_linenumber", "l_commitdate", "l_receiptdate", "l_extendedprice"],
}


def main() -> None:
    make_tables()
    spark = start_spark()
    for table in TABLES:
        spark.read.parquet(str(DATA / f"{table}.parquet")).createOrReplaceTempView(table)

    say("A query, as anyone would write it")
    print(LATE_ORDERS.strip())
    late = spark.sql(LATE_ORDERS)

    say("Captured: the same rows as ever, kept with where each came from")
    run = whence.capture(late, name="late-orders", archive=ARCHIVE, mode="eager")
    run.output.show(5)

    say(f"Where does the row with {ORDER} come from?")
    trace = run.trace(ORDER)
    print(trace.output().to_pandas().to_string(index=False))
    for source, rows in trace.items():
        print(f"\nfrom {source}")
        print(rows.to_pandas()[TABLES[source]].to_string(index=False))
    print(f"\nThis answer is {trace.grade}; a replay is {trace.replays}.")

    say("How were they combined?  · is used together, + is added up; the numbers are rows")
    print(trace.how())

    say("Is that so?  The query again, on only the traced rows, for 5 results")
    check = run.check(sample=5)
    for result in check.rows:
        print("same" if result.ok else f"DIFFERENT ({result.why})", *result.row.values())
    spark.stop()

    say("What to try next")
    print(next_steps())
    sys.exit(0 if check.ok else 1)


def make_tables() -> None:
    """TPC-H at scale 0.01: 1,500 customers, 15,000 orders, 60,175 items."""
    if all((DATA / f"{table}.parquet").exists() for table in TABLES):
        return
    tool = Path(sys.executable).with_name("tpchgen-cli")
    if not tool.exists():
        sys.exit("tpchgen-cli is needed to make the tables: pip install tpchgen-cli")
    options = ["parquet", "-q", "-s", "0.01", "--overwrite", "--tables", ",".join(TABLES)]
    subprocess.run([tool, *options, "-o", DATA], check=True)


def start_spark() -> SparkSession:
    """A local session that keeps quiet."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).resolve().with_name("conf")))
    return (
        SparkSession.builder.master("local[2]")
        .appName("late-orders")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


def say(title: str) -> None:
    print(f"\n\033[1m{title}\033[0m\n" if sys.stdout.isatty() else f"\n{title}\n")


def next_steps() -> str:
    """Commands that work as they stand, from the folder in which this was run."""
    command = Path(sys.executable).with_name("whence")
    try:
        shown = command.relative_to(Path.cwd())
    except ValueError:
        shown = command
    return "\n".join(
        f"  {shown} {arguments}"
        for arguments in (
            "runs",
            "show late-orders",
            f'trace late-orders --where "{ORDER}" --how',
            'trace late-orders --where "days_late > 115" --source lineitem --format csv',
            'impact late-orders customer --where "c_custkey = 392"',
            "check late-orders --sample 3        # this one starts Spark",
        )
    )


if __name__ == "__main__":
    main()
