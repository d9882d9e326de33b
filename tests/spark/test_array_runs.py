"""Spark to NumPy to Spark: array runs in the archive, traced end to end, against slow oracles."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from pyspark import cloudpickle
from typer.testing import CliRunner

import whence
import whence.arrays
from whence.cli import app

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])
ROWS = 12


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("array_runs")
    rows = pd.DataFrame(
        {
            "id": range(ROWS),
            "site": [f"s{i % 2}" for i in range(ROWS)],
            "level": [float((i * 17) % 13) for i in range(ROWS)],
            "weight": [1.0 + (i * 5) % 3 for i in range(ROWS)],
        }
    )
    spark.createDataFrame(rows).coalesce(1).write.parquet(str(folder / "levels"))
    return folder


def ids(trace, source="levels", role=None):
    return sorted(row["id"] for row in trace[source].to_pylist(role=role))


@whence.arrays.track
def slopes(level, id):
    """Rise to the row before, and where it was."""
    return {"at": id[1:], "rise": (level[1:] - level[:-1]) * 2}


def blurred(level, weights):
    wide = np.concatenate([level[:1], level, level[-1:]])
    return wide[:-2] * weights[0] + wide[1:-1] * weights[1] + wide[2:] * weights[2]


def first_pipeline(spark, folder):
    return (
        spark.read.parquet(str(folder / "levels"))
        .where("id != 4")
        .selectExpr("id", "site", "level * weight AS scaled")
        .orderBy("id")
    )


def by_hand(rows):
    """The whole pipeline of the test below, in pandas: the result by `at`."""
    kept = rows[rows.id != 4].sort_values("id")
    scaled = (kept.level * kept.weight).to_numpy()
    made = pd.DataFrame({"at": kept.id.to_numpy()[1:], "rise": np.diff(scaled) * 2})
    joined = made.merge(rows, left_on="at", right_on="id")
    return {int(r["at"]): (r["rise"], r["site"]) for _, r in joined.iterrows()}


@pytest.mark.parametrize("mode", ["eager", "auto", "lazy"])
def test_a_pipeline_through_numpy_and_back_is_traced_end_to_end(spark, folder, tmp_path, mode):
    first = whence.capture(first_pipeline(spark, folder), archive=tmp_path, mode=mode, name="first")
    middle = whence.capture_arrays(
        slopes, first.array("scaled"), id=first.array("id"), name="slopes"
    )
    levels = spark.read.parquet(str(folder / "levels"))
    made = middle.output
    last = made.join(levels, made["at"] == levels["id"]).select("at", "rise", "site")
    run = whence.capture(last, archive=tmp_path, mode=mode, name="last")
    rows = pd.read_parquet(folder / "levels")
    expected = by_hand(rows)
    assert {r["at"]: (r["rise"], r["site"]) for r in run.output.collect()} == expected
    behind = {}
    for at in expected if mode == "eager" else [1, 9]:
        trace = run.trace(f"at = {at}")
        assert trace.grade == "exact"
        behind[at] = ids(trace)
        assert behind[at] == [max(i for i in range(at) if i != 4), at]
        asked = run.trace(whence.pattern(f"at = {at}, rise"))
        assert asked.cell_grade == "exact"
        found = asked.cells().to_pylist()
        made = {(c["row"], c["path"]) for c in found if c["role"] == "contributing"}
        assert made == {(at, "id"), *((i, c) for i in behind[at] for c in ("level", "weight"))}
    for source in range(ROWS) if mode == "eager" else [5]:
        moved = set()
        for column in ("level", "weight"):
            other = rows.copy()
            other.loc[source, column] += 3
            found = by_hand(other)
            moved |= {at for at in expected if expected[at] != found.get(at)}
        impact = {r["at"] for r in run.impact("levels", f"id = {source}").to_pylist()}
        assert moved <= impact
        assert {at for at in behind if source in behind[at]} == impact & set(behind)
    check = run.check(4 if mode == "eager" else 1)
    assert check.ok, [r.why for r in check.rows]
    assert not check.guaranteed


def test_an_array_run_is_a_run_like_others(spark, folder, tmp_path):
    first = whence.capture(
        first_pipeline(spark, folder), archive=tmp_path, mode="eager", name="first"
    )
    run = whence.capture_arrays(
        blurred, first.array("scaled"), np.array([0.25, 0.5, 0.25]), name="blurred"
    )
    assert run.columns == ["value"]
    assert run.notes == ("weights is no column of a run: its cells are not traced",)
    scaled = first.to_arrow().column("scaled").to_numpy()
    expected = blurred(scaled, np.array([0.25, 0.5, 0.25]))
    assert run.to_arrow().column("value").to_pylist() == expected.tolist()
    assert [row["value"] for row in run.output.collect()] == expected.tolist()
    trace = run.trace(f"value = {expected[5]}")
    assert trace.how() == "levels[5] + levels[6] + levels[7]"
    cells = trace.array_cells().to_pylist()
    assert {(c["column"], c["input_row"], c["input_column"]) for c in cells} == {
        ("value", f"levels[{i}]", "scaled") for i in (5, 6, 7)
    }
    assert [len(run.impact("levels", f"id = {i}")) for i in (0, 4, 6)] == [2, 0, 3]
    assert whence.open(tmp_path).run("blurred").check(3).ok


def test_the_command_line(spark, folder, tmp_path):
    first = whence.capture(
        first_pipeline(spark, folder), archive=tmp_path, mode="eager", name="first"
    )
    whence.capture_arrays(slopes, first.array("scaled"), first.array("id"), name="slopes")

    def told(*arguments):
        result = CliRunner().invoke(app, [*arguments, "--archive", str(tmp_path)])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert "slopes" in told("runs")
    shown = told("show", "slopes")
    assert "arrayfunction-1" in shown or "slopes" in shown
    traced = told("trace", "slopes", "--where", "at = 7", "--how")
    assert "levels[6] + levels[7]" in traced
    assert "exact" in traced
    cells = json.loads(told("trace", "slopes", "--where", "at = 7", "--cells", "--format", "json"))
    assert [(c["column"], c["input_row"], c["input_column"]) for c in cells["cells"]] == [
        ("at", "levels[7]", "id"),
        ("rise", "levels[6]", "scaled"),
        ("rise", "levels[7]", "scaled"),
    ]
    assert "no step used arrays" in told("trace", "first", "--where", "id = 7", "--cells")
    assert "2 rows" in told("impact", "slopes", "levels", "--where", "id = 6")
    assert "came out again" in told("check", "slopes", "--sample", "2")


@pytest.mark.full
def test_tracing_an_array_run_starts_no_spark(spark, folder, tmp_path):
    first = whence.capture(
        first_pipeline(spark, folder), archive=tmp_path, mode="eager", name="first"
    )
    whence.capture_arrays(slopes, first.array("scaled"), first.array("id"))
    code = (
        "import sys, whence\n"
        f"run = whence.open({str(tmp_path)!r}).run()\n"
        "print(run.trace('at = 7').how(), run.array('rise')[0], 'pyspark' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    how, _, loaded = done.stdout.rpartition(" ")
    assert how.startswith("levels[6] + levels[7]")
    assert loaded.strip() == "False"


def test_several_inputs_and_shapes(spark, folder, tmp_path):
    first = whence.capture(first_pipeline(spark, folder), archive=tmp_path, name="first")
    sites = spark.read.parquet(str(folder / "levels")).groupBy("site").sum("weight").orderBy("site")
    second = whence.capture(sites, archive=tmp_path, name="second")

    def table(level, total, pairs):
        both = np.stack([level, level * total.sum()], axis=1)
        top = np.argsort(level, kind="stable")[::-1][:3]
        return both[top], pairs["site"][top], np.isnan(level[top])

    run = whence.capture_arrays(
        table,
        first.array("scaled"),
        second.array("sum(weight)"),
        {"site": first.array("site")},
        name="table",
    )
    assert run.columns == ["value0", "value1", "value2"]
    rows = run.to_arrow().to_pylist()
    assert run.output.collect()[0]["value0"] == rows[0]["value0"]
    scaled = first.to_arrow().column("scaled").to_numpy()
    best = int(np.argmax(scaled))
    trace = run.trace(f"value1 = '{rows[0]['value1']}' AND value0[0] = {scaled[best]}")
    kept = first.to_arrow().column("id").to_pylist()
    assert ids(trace, role="contributing") == list(range(ROWS))
    found = trace.array_cells().to_pylist()
    own = {c["input_row"] for c in found if c["column"] == "value1" and c["role"] == "contributing"}
    assert own == {f"levels[{kept[best]}]"}


def test_missing_values_and_empty_columns(spark, folder, tmp_path):
    source = spark.read.parquet(str(folder / "levels"))
    gaps = source.selectExpr("id", "CASE WHEN id % 3 = 0 THEN NULL ELSE level END AS level")
    run = whence.capture(gaps.orderBy("id"), archive=tmp_path)
    array = run.array("level")
    assert np.isnan(array).tolist() == [i % 3 == 0 for i in range(ROWS)]

    def filled(level):
        return np.where(np.isnan(level), np.nanmax(level), level)

    made = whence.capture_arrays(filled, array)
    kept = whence.capture_arrays(lambda level: level[~np.isnan(level)], array)
    assert len(kept.to_arrow()) == 8
    assert kept.trace().grade == "exact"
    best = int(np.nanargmax(array))
    traces = [made.trace([{"value": v}]) for v in (made.to_arrow().column("value").to_pylist()[4],)]
    assert ids(traces[0], role="contributing") == [4]
    assert best in ids(made.trace([{"value": float(array[best])}]), role="contributing")
    empty = whence.capture(source.where("id < 0").select("level"), archive=tmp_path)
    nothing = whence.capture_arrays(np.negative, empty.array("level"))
    assert len(nothing.to_arrow()) == 0
    assert nothing.output.collect() == []
    assert len(nothing.trace()) == 0


def test_what_cannot_be_followed_is_a_superset(spark, folder, tmp_path):
    first = whence.capture(first_pipeline(spark, folder), archive=tmp_path)
    run = whence.capture_arrays(lambda a: a * float(a[3]), first.array("scaled"))
    assert run.trace().grade == "superset"
    assert "float()" in run.trace().reasons[0]
    counted = whence.capture_arrays(lambda a: {"a": a, "n": [len(a)] * len(a)}, first.array("id"))
    trace = counted.trace("a = 6")
    assert trace.grade == "superset"
    assert len(trace["levels"]) == ROWS - 1
    listed = whence.capture_arrays(lambda a: {"two": [a[0], a[-1]]}, first.array("id"))
    assert listed.trace("two = 11").grade == "exact"
    assert ids(listed.trace("two = 11")) == [11]


def test_errors_leave_no_run(spark, folder, tmp_path):
    first = whence.capture(first_pipeline(spark, folder), archive=tmp_path, name="first")
    x = first.array("scaled")

    def fails(a):
        np.cumsum(a)
        raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        whence.capture_arrays(fails, x)
    with pytest.raises(whence.ArrayError, match="no column any more"):
        whence.capture_arrays(np.negative, x * 2)
    with pytest.raises(whence.ArrayError, match="only arrays, numbers and text"):
        whence.capture_arrays(lambda a, s: a, x, pd.Series([1]))
    with pytest.raises(whence.ArrayError, match="different numbers of rows"):
        whence.capture_arrays(lambda a: (a, a[1:]), x)
    with pytest.raises(whence.ArrayError, match="complex128"):
        whence.capture_arrays(lambda a: a * 1j, x)
    with pytest.raises(whence.UnknownNameError, match="scaled"):
        first.array("scale")
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 3
    other = whence.capture(first_pipeline(spark, folder), archive=tmp_path / "b")
    with pytest.raises(whence.ArrayError, match="several archives"):
        whence.capture_arrays(np.add, x, other.array("scaled"))
    assert [run.name for run in whence.open(tmp_path).runs()] == ["first"]
    report = whence.open(tmp_path).gc(grace_seconds=0)
    assert not report.failed


def test_array_runs_build_on_array_runs(spark, folder, tmp_path):
    first = whence.capture(first_pipeline(spark, folder), archive=tmp_path, mode="eager")
    second = whence.capture_arrays(np.cumsum, first.array("scaled"))
    third = whence.capture_arrays(lambda total: total[::2], second.array("value"))
    values = third.to_arrow().column("value").to_pylist()
    trace = third.trace([{"value": values[2]}])
    assert ids(trace) == [0, 1, 2, 3, 5]
    operators = {c["operator"] for c in trace.array_cells().to_pylist()}
    assert operators == {"arrayfunction-1"}
