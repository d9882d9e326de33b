"""Write the classes that Spark loads to a file that other JVMs start from, in half the time.

classes.py FILE

A JVM that cannot use the file (another Java, another Spark) starts as if it were not there.
"""

import os
import sys
import tempfile
from pathlib import Path

from conftest import JVM_OPTIONS


def main(file: str) -> None:
    os.environ["SPARK_SUBMIT_OPTS"] = f"{JVM_OPTIONS} -XX:ArchiveClassesAtExit={file}.new"
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
    Path(f"{file}.new").rename(file)


if __name__ == "__main__":
    main(sys.argv[1])
