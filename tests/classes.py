"""Write what lets the JVMs of the tests start sooner and do less, beside the environment's Python.

The classes that Spark loads, in a file that other JVMs start from in half the time; one that cannot
use it (another Java, another Spark) starts as if it were not there. And a jar that comes first on
their class path and holds no default settings of the services of Hadoop that no test uses: seven
hundred settings are sent with every task otherwise.
"""

import os
import sys
import tempfile
import zipfile
from pathlib import Path

from conftest import CLASSES, DEFAULTS, JVM_OPTIONS

SERVICES = ("hdfs", "mapred", "yarn")


def main() -> None:
    with zipfile.ZipFile(DEFAULTS, "w") as jar:
        for service in SERVICES:
            jar.writestr(f"{service}-default.xml", "<configuration/>")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path {DEFAULTS} pyspark-shell"
    os.environ["SPARK_SUBMIT_OPTS"] = f"{JVM_OPTIONS} -XX:ArchiveClassesAtExit={CLASSES}.new"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    import whence

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory() as folder:
        session.range(100).selectExpr("id", "id % 7 AS k").write.parquet(f"{folder}/t")
        session.read.parquet(f"{folder}/t").createOrReplaceTempView("t")
        frame = session.sql(
            "SELECT k, count(*) AS n, rank() OVER (ORDER BY k) AS r FROM t JOIN t AS u "
            "USING (id, k) WHERE id > (SELECT min(id) FROM t) GROUP BY k ORDER BY k"
        )
        whence.capture(frame, archive=f"{folder}/archive", mode="eager").output.collect()
        session.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    Path(f"{CLASSES}.new").rename(CLASSES)


if __name__ == "__main__":
    main()
