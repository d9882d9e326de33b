"""A driver on a cluster: captures, traces and replays, and prints what it saw as JSON.

cluster_driver.py MASTER TABLES ARCHIVE
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from local_session import new_session
from tpch_kit import QUERIES, Second, locators, register, sampled, traced_tables

import whence

# Joins, aggregates, semi joins, scalar subqueries and a view.
ALL_MODES = ("q02", "q15", "q20")
SAMPLE = 3


def on_the_cluster(spark: Any) -> dict[str, Any]:
    """Where the driver finds its executors."""
    infos = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return {"master": spark.sparkContext.master, "executors": len(list(infos)) - 1}


def capture(frame: Any, archive: str, modes: tuple[str, ...]) -> dict[str, Any]:
    return {mode: whence.capture(frame, archive=archive, mode=mode, list_below=0) for mode in modes}


def same_output(frame: Any, run: Any, ordered: bool = True) -> bool:
    plain, captured = frame.collect(), run.output.collect()
    if not ordered:
        plain, captured = sorted(plain), sorted(captured)
    return bool(plain == captured) and bool(frame.schema == run.output.schema)


def traces(runs: dict[str, Any], rows: list[Any]) -> dict[str, bool]:
    """Whether all modes give the same trace, and whether that has rows."""
    found = [locators(run.trace(rows)) for run in runs.values()]
    return {"traced": bool(found[0]), "same traces": all(other == found[0] for other in found)}


def query(spark: Any, name: str, second: Second, archive: str) -> dict[str, Any]:
    """One query of TPC-H: its output, its replays in DuckDB, and its traces in the modes."""
    frame = spark.sql(QUERIES[name])
    modes = ("eager", "lazy", "auto") if name in ALL_MODES else ("eager",)
    runs = capture(frame, archive, modes)
    rows = sampled(runs["eager"].to_arrow().to_pylist(), SAMPLE)
    replayed = [
        second.gives(QUERIES[name], traced_tables(runs["eager"].trace([row])), row) for row in rows
    ]
    return {
        "output": all(same_output(frame, run) for run in runs.values()),
        "replayed": replayed,
        "modes": len(modes),
        **traces(runs, rows),
    }


def others(spark: Any, folder: Path) -> dict[str, Any]:
    """Pipelines over other sources, and with Python functions."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    lines = [json.dumps({"k": i % 5, "v": i}) for i in range(200)]
    (folder / "events").mkdir()
    for part in range(4):
        (folder / "events" / f"{part}.json").write_text("\n".join(lines[part::4]) + "\n")
    events = spark.read.json(str(folder / "events"))
    memory = spark.createDataFrame([(i, f"n{i}") for i in range(5)], "k long, name string")
    doubled = F.udf(lambda v: 2 * v, "long")
    rank = F.row_number().over(Window.partitionBy("k").orderBy("v"))
    return {
        "json": events.groupBy("k").agg(F.sum("v").alias("total")),
        "memory": events.join(memory, "k").groupBy("name").count(),
        "udf": events.where("v > 150").select("k", doubled("v").alias("twice")),
        "window": events.withColumn("place", rank).where("place <= 3"),
        "range": spark.range(0, 1000, 3, 4).where("id % 7 = 0").selectExpr("id", "id * id AS q"),
    }


def other(frame: Any, archive: str, mode: str) -> dict[str, Any]:
    runs = capture(frame, archive, ("eager", mode))
    rows = sampled(runs["eager"].to_arrow().to_pylist(), SAMPLE)
    check = runs["eager"].check(sample=SAMPLE)
    return {
        "output": all(same_output(frame, run, ordered=False) for run in runs.values()),
        "replayed": [row.ok for row in check.rows],
        "modes": len(runs),
        **traces(runs, rows),
    }


def main(master: str, tables: str, archive: str) -> None:
    settings = {
        "spark_executor_memory": "512m",
        "spark_executor_cores": "1",
        "spark_executor_extraJavaOptions": os.environ.get("SPARK_DAEMON_JAVA_OPTS", ""),
        "spark_cores_max": "2",
        "spark_scheduler_minRegisteredResourcesRatio": "1.0",
        "spark_scheduler_maxRegisteredResourcesWaitingTime": "180s",
    }
    spark = new_session(master, **settings)
    register(spark, Path(tables))
    second = Second(Path(tables))
    spark.range(10).count()  # waits until both executors have reported
    print("cluster", json.dumps(on_the_cluster(spark)), flush=True)
    for name in QUERIES:
        print(name, json.dumps(query(spark, name, second, archive)), flush=True)
    for number, (name, frame) in enumerate(others(spark, Path(archive).parent).items()):
        mode = ("lazy", "auto")[number % 2]
        print(name, json.dumps(other(frame, archive, mode)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
