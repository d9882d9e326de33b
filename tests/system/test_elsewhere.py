"""Sources and functions that driver and executors must share; `test_cluster` runs it."""

import json
import os

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812
from tpch_kit import locators, sampled

import whence

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.full]


@pytest.fixture(scope="module")
def events(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    lines = [json.dumps({"k": i % 5, "v": i}) for i in range(200)]
    for part in range(4):
        (folder / f"{part}.json").write_text("\n".join(lines[part::4]) + "\n")
    return spark.read.json(str(folder))


@pytest.fixture(scope="module")
def frames(spark, events):
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


def test_the_work_is_done_by_the_workers(spark):
    spark.range(10).count()
    infos = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    assert spark.sparkContext.master == os.environ.get("WHENCE_TEST_MASTER", "local[2]")
    assert len(list(infos)) - 1 == int(os.environ.get("WHENCE_TEST_EXECUTORS", "0"))


@pytest.mark.parametrize(
    ("name", "mode"),
    [("json", "lazy"), ("memory", "auto"), ("udf", "lazy"), ("window", "auto"), ("range", "lazy")],
)
def test_other_sources(frames, tmp_path, name, mode):
    frame = frames[name]
    runs = [whence.capture(frame, archive=tmp_path, mode=m, list_below=0) for m in ("eager", mode)]
    rows = sampled(runs[0].to_arrow().to_pylist(), 3)
    plain = sorted(frame.collect())
    assert sorted(runs[0].output.collect()) == plain
    for run in runs:
        assert sorted(run.to_arrow().to_pylist(), key=str) == sorted(map(dict_of, plain), key=str)
        assert run.output.schema == frame.schema
    traces = [locators(run.trace(rows)) for run in runs]
    assert traces[0]
    assert traces[0] == traces[1]
    if name in ("memory", "udf"):
        assert runs[0].check(sample=1).ok


def dict_of(row):
    return row.asDict()
