"""Captures in a loop and says so: `ready`, then `begin` and `commit <id> <seconds>` for each.

    capture_worker.py SHOP ARCHIVE COUNT

After `ready` it waits for a line. It is killed in the midst of this, or ends after COUNT captures.
"""

import sys
import time
from typing import Any

from local_session import new_session

import whence

PIPELINE = """
    SELECT id, name, amount, total
    FROM orders
    JOIN customers ON customer = key
    JOIN (SELECT customer AS c, sum(amount) AS total FROM orders GROUP BY customer) ON customer = c
    WHERE amount > (SELECT avg(amount) FROM orders)
"""


def main(shop: str, archive: str, count: str) -> None:
    spark: Any = new_session()
    for table in ("orders", "customers"):
        spark.read.parquet(f"{shop}/{table}.parquet").createOrReplaceTempView(table)
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(count)):
        print("begin", flush=True)
        started = time.monotonic()
        run = whence.capture(spark.sql(PIPELINE), archive=archive, mode="eager")
        print("commit", run.id, time.monotonic() - started, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
