"""Python functions over batches and groups: what they had taken, and rows declared one by one."""

import sys
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.util import PythonEvalType

import whence

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this module
MODES = ["eager", "auto", "lazy"]


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("opaque") / "numbers")
    rows = spark.range(12).selectExpr("id", "id % 3 AS k", "CAST(id * 10 AS DOUBLE) AS v")
    rows.coalesce(1).write.parquet(folder)
    return spark.read.parquet(folder)


def traced(run, **values):
    """Contributing ids behind the row with these values, and the trace."""
    where = " AND ".join(f"{name} = {value}" for name, value in values.items())
    trace = run.trace(where)
    return sorted(row["id"] for row in trace["numbers"].to_pylist()), trace


def add_one(batches):
    for batch in batches:
        yield batch.assign(w=batch.v + 1)


def running_total(batches):
    total = 0.0
    for batch in batches:
        total += batch.v.sum()
        yield pd.DataFrame({"total": [total]})


def same_batches(batches):
    yield from batches


def sum_of_group(group):
    return pd.DataFrame({"k": [group.k.iloc[0]], "s": [group.v.sum()]})


def sum_with_key(key, group):
    return pd.DataFrame({"k": [key[0]], "s": [group.v.sum()]})


def sizes(left, right):
    return pd.DataFrame({"k": [left.k.iloc[0]], "n": [len(left)], "m": [len(right)]})


def arrow_sum(group):
    return pa.table({"k": group["k"][:1], "s": [pc.sum(group["v"]).as_py()]})


def arrow_sum_with_key(key, group):
    return pa.table({"k": [key[0].as_py()], "s": [pc.sum(group["v"]).as_py()]})


def arrow_sizes(key, left, right):
    return pa.table({"k": [key[0].as_py()], "n": [left.num_rows], "m": [right.num_rows]})


def pandas_totals(key: tuple[Any, ...], batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    total = 0.0
    for batch in batches:
        total += batch.v.sum()
        yield pd.DataFrame({"k": [key[0]], "total": [total]})


def arrow_totals(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    total = 0.0
    for batch in batches:
        total += pc.sum(batch["v"]).as_py()
        yield pa.RecordBatch.from_pydict({"k": batch["k"][:1], "total": [total]})


@pytest.mark.parametrize("mode", MODES)
def test_map_in_pandas_takes_all_rows_read_so_far(table, tmp_path, mode):
    frame = table.mapInPandas(add_one, "id long, k long, v double, w double").where("id < 3")
    run = whence.capture(frame, archive=tmp_path, mode=mode)
    assert sorted(run.output.collect()) == sorted(frame.collect())
    found, trace = traced(run, id=1)
    assert 1 in found
    assert trace.grade == "superset"
    assert "add_one" in " ".join(trace.reasons) or "mapbatches" in " ".join(trace.reasons)
    assert run.check(2).ok


def test_a_stateful_function_refers_to_earlier_batches(spark, table, tmp_path):
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "4")
    try:
        frame = table.mapInPandas(running_total, "total double")
        run = whence.capture(frame, archive=tmp_path, mode="eager")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert traced(run, total=60)[0] == [0, 1, 2, 3]
    assert traced(run, total=280)[0] == list(range(8))
    assert traced(run, total=660)[0] == list(range(12))


@pytest.mark.parametrize("mode", MODES)
def test_a_rowwise_function_is_exact(table, tmp_path, mode):
    function = whence.rowwise(lambda batches: add_one(batches))
    frame = table.mapInPandas(function, "id long, k long, v double, w double")
    run = whence.capture(frame, archive=tmp_path, mode=mode)
    found, trace = traced(run, id=5)
    assert found == [5]
    assert trace.grade == "exact"


def test_a_function_wrongly_declared_rowwise_fails(table, tmp_path):
    function = whence.rowwise(lambda batches: running_total(batches))
    frame = table.mapInPandas(function, "total double")
    with pytest.raises(Exception, match="declared rowwise gave 1 rows for 12"):
        whence.capture(frame, archive=tmp_path)
    assert whence.open(tmp_path).runs() == []


@pytest.mark.parametrize("rowwise", [False, True])
def test_map_in_arrow(table, tmp_path, rowwise):
    def doubled(batches):
        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch.column(0)], names=["id"])

    function = whence.rowwise(doubled) if rowwise else doubled
    run = whence.capture(table.mapInArrow(function, "id long"), archive=tmp_path, mode="eager")
    found, trace = traced(run, id=7)
    assert found == ([7] if rowwise else list(range(12)))
    assert trace.grade == ("exact" if rowwise else "superset")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", [sum_of_group, sum_with_key])
def test_apply_in_pandas_takes_the_group(table, tmp_path, mode, function):
    frame = table.groupBy("k").applyInPandas(function, "k long, s double")
    run = whence.capture(frame, archive=tmp_path, mode=mode)
    assert sorted(run.output.collect()) == sorted(frame.collect())
    found, trace = traced(run, k=1)
    assert found == [1, 4, 7, 10]
    assert trace.grade == "superset"
    assert run.check(3).ok


@pytest.mark.parametrize("function", [arrow_sum, arrow_sum_with_key])
def test_apply_in_arrow_takes_the_group(table, tmp_path, function):
    frame = table.groupBy("k").applyInArrow(function, "k long, s double")
    run = whence.capture(frame, archive=tmp_path, mode="eager")
    assert sorted(run.output.collect()) == sorted(frame.collect())
    found, trace = traced(run, k=1)
    assert found == [1, 4, 7, 10]
    assert trace.grade == "superset"
    assert run.check(3).ok


def test_a_rowwise_function_over_groups_of_arrow(table, tmp_path):
    function = whence.rowwise(lambda group: group.select(["id", "k"]))
    run = whence.capture(
        table.groupBy("k").applyInArrow(function, "id long, k long"), archive=tmp_path, mode="eager"
    )
    found, trace = traced(run, id=5)
    assert found == [5]
    assert trace.grade == "exact"


@pytest.mark.skipif(
    not hasattr(PythonEvalType, "SQL_GROUPED_MAP_PANDAS_ITER_UDF"),
    reason="this Spark hands groups to functions whole",
)
@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_groups_in_batches_take_what_was_read_so_far(spark, table, tmp_path, kind):
    """Batches of three: the four rows of a group come as three and one."""
    grouped, schema = table.groupBy("k"), "k long, total double"
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "3")
    try:
        if kind == "pandas":
            frame = grouped.applyInPandas(pandas_totals, schema)
        else:
            frame = grouped.applyInArrow(arrow_totals, schema)
        plain = sorted(frame.collect())
        run = whence.capture(frame, archive=tmp_path, mode="eager")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert sorted(run.output.collect()) == plain
    assert len(plain) == 6
    assert traced(run, k=1, total=120)[0] == [1, 4, 7]
    assert traced(run, k=1, total=220)[0] == [1, 4, 7, 10]


def test_below_a_join_and_an_aggregate(table, tmp_path):
    sums = table.groupBy("k").applyInPandas(sum_of_group, "k long, s double")
    frame = table.where("id < 6").join(sums, "k").groupBy("k").agg({"s": "max", "id": "count"})
    run = whence.capture(frame, archive=tmp_path, mode="eager")
    assert traced(run, k=2)[0] == [2, 5, 8, 11]
    assert len(run.impact("numbers", "id = 8")) == 1


def test_cogroup_takes_both_groups(table, tmp_path):
    other = table.where("id < 5")
    frame = (
        table.groupBy("k")
        .cogroup(other.groupBy("k"))
        .applyInPandas(sizes, "k long, n long, m long")
    )
    run = whence.capture(frame, archive=tmp_path, mode="eager")
    assert sorted(run.output.collect()) == sorted(frame.collect())
    trace = run.trace("k = 2")
    assert trace.how() == ("(numbers[2] + numbers[5] + numbers[8] + numbers[11])·numbers[2]")
    assert trace.grade == "superset"


def test_cogroup_of_arrow_takes_both_groups(table, tmp_path):
    sides = table.groupBy("k").cogroup(table.where("id < 5").groupBy("k"))
    frame = sides.applyInArrow(arrow_sizes, "k long, n long, m long")
    run = whence.capture(frame, archive=tmp_path, mode="eager")
    assert sorted(run.output.collect()) == sorted(frame.collect())
    trace = run.trace("k = 2")
    assert trace.how() == ("(numbers[2] + numbers[5] + numbers[8] + numbers[11])·numbers[2]")
    assert trace.grade == "superset"


def test_batches_of_an_empty_input(table, tmp_path):
    frame = table.where("id < 0").mapInPandas(add_one, "id long, k long, v double, w double")
    run = whence.capture(frame, archive=tmp_path, mode="eager")
    assert run.to_arrow().num_rows == 0
    assert run.trace().rows == 0
