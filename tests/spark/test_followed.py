"""Python functions that use tracked arrays: traced by cells, against slow oracles."""

import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F  # noqa: N812

import whence
import whence.arrays

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this module
MODES = ["eager", "auto", "lazy"]
ROWS = 14


def values(row):
    return float((row * 37) % 11) - 4.0


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("followed") / "readings")
    rows = pd.DataFrame(
        {
            "id": range(ROWS),
            "k": [f"s{i % 3}" for i in range(ROWS)],
            "x": [values(i) if i != 9 else None for i in range(ROWS)],
            "n": [(i * 5) % 7 for i in range(ROWS)],
        }
    )
    spark.createDataFrame(rows).coalesce(1).write.parquet(folder)
    return spark.read.parquet(folder)


def ids(trace, role=None):
    if "readings" not in trace:
        return []
    return sorted(row["id"] for row in trace["readings"].to_pylist(role=role))


def cells(trace):
    """Row, column and role of all cells of the readings behind an answer."""
    found = [c for c in trace.cells().to_pylist() if c["source"] == "readings"]
    return {(c["row"], c["path"], c["role"]) for c in found}


# --- Functions ----------------------------------------------------------------------------------


@whence.arrays.track
def running_range(n):
    return np.maximum.accumulate(n) - np.minimum.accumulate(n)


@whence.arrays.track
def neighbours(n):
    padded = np.concatenate([[0], n, [0]])
    return padded[:-2] + padded[2:]


@whence.arrays.track
def in_order(a):
    order = np.argsort(a, kind="stable")
    return order, a[order]


def by_neighbours(pdf):
    return pdf.assign(y=neighbours(pdf["n"].to_numpy()))[["id", "k", "y"]]


def sorted_group(key, pdf):
    order, n = in_order(pdf["n"].to_numpy())
    return pd.DataFrame({"k": key[0], "id": pdf["id"].to_numpy()[order], "n": n})


def one_row(pdf):
    x = pdf["x"].to_numpy()
    top = np.nanargmax(x)
    return pd.DataFrame({"k": [pdf.k.iloc[0]], "top": [x[top]], "all": [running_range(x[:1])[0]]})


def ranges_in_batches(batches):
    for batch in batches:
        yield pd.DataFrame({"id": batch.id, "r": running_range(batch["n"].to_numpy())})


def half_known(pdf):
    y = neighbours(pdf["n"].to_numpy())
    return pd.DataFrame({"id": pdf.id, "y": y, "rows": len(pdf)})


def joined_sides(left, right):
    shift = neighbours(right["n"].to_numpy())[:1].sum()
    return pd.DataFrame({"id": left.id, "y": left["n"].to_numpy() + shift})


def steered(pdf):
    n = pdf["n"].to_numpy()
    y = neighbours(n) if n[-1] > 2 else n
    return pd.DataFrame({"id": pdf.id, "y": y})


# --- Oracle ---------------------------------------------------------------------------------------


@whence.arrays.track
def against_the_mean(pdf):
    """Only pandas, and marked itself."""
    odd = (pdf.id % 2).rename("odd")
    y = pdf.n.groupby(odd).transform("mean") - pdf.n
    return pd.DataFrame({"id": pdf.id, "y": y, "kind": "mean"})


def output(rows, function, kind):
    """The rows a function gives, by plain pandas: groups in order, or one batch; `id` first."""
    if kind == "batches":
        found = list(function(iter([rows.copy()])))
    else:
        found = []
        for key, group in rows.groupby("k", sort=True):
            plain = group.reset_index(drop=True)
            found.append(function((key,), plain) if kind == "keyed" else function(plain))
    return pd.concat(found, ignore_index=True)


def moved_by(rows, function, kind, source):
    """Ids of output rows that change when `n` of one source row does."""
    before = output(rows, function, kind).set_index("id")
    moved = set()
    for by in (1, 40, -40):
        other = rows.copy()
        other.loc[source, "n"] += by
        after = output(other, function, kind).set_index("id")
        for row in before.index:
            if row not in after.index or not before.loc[row].equals(after.loc[row]):
                moved.add(int(row))
    return moved


CASES = [
    (by_neighbours, "groups", "id long, k string, y long"),
    (sorted_group, "keyed", "k string, id long, n long"),
    (steered, "groups", "id long, y long"),
    (ranges_in_batches, "batches", "id long, r long"),
    (against_the_mean, "groups", "id long, y double, kind string"),
]


def applied(table, function, kind, schema):
    if kind == "batches":
        return table.coalesce(1).mapInPandas(function, schema)
    return table.groupBy("k").applyInPandas(function, schema)


@pytest.mark.parametrize(("function", "kind", "schema"), CASES, ids=[c[0].__name__ for c in CASES])
def test_changing_a_source_row_moves_only_rows_and_cells_it_is_behind(
    table, tmp_path, function, kind, schema
):
    frame = applied(table, function, kind, schema)
    run = whence.capture(frame, archive=tmp_path, mode="eager")
    assert sorted(map(tuple, run.output.collect())) == sorted(map(tuple, frame.collect()))
    rows = table.toPandas()
    known = {}
    for row in range(ROWS):
        trace = run.trace(f"id = {row}")
        assert trace.cell_grade == "exact"
        known[row] = {(at, path) for at, path, _ in cells(trace)}
        assert not any(path == "x" for _, path in known[row])  # none of them looks at it
    for source in range(0, ROWS, 2):
        impact = run.impact("readings", f"id = {source}")
        assert impact.grade == "exact"
        moved = moved_by(rows, function, kind, source)
        assert moved <= {r["id"] for r in impact.to_pylist()}
        assert all((source, "n") in known[row] for row in moved)
    everything = run.trace()
    assert everything.grade == "exact"
    # What steered it is left out of a replay, and groups are chosen by what is looked at.
    assert run.check(4).ok or function in (steered, against_the_mean)


@pytest.mark.parametrize("mode", MODES)
def test_neighbours_in_a_group_are_traced_in_every_mode(table, tmp_path, mode):
    frame = applied(table, *CASES[0][:1], "groups", CASES[0][2])
    run = whence.capture(frame, archive=tmp_path, mode=mode)
    trace = run.trace("id = 6")
    assert ids(trace) == [3, 6, 9]
    assert trace.grade == "exact"
    assert trace.reasons == ()
    assert trace.replays == "not guaranteed"
    assert trace.how() == "readings[3] + readings[6] + readings[9]"
    assert [r["id"] for r in run.impact("readings", "id = 0").to_pylist()] == [0, 3]
    again = whence.open(tmp_path).run()
    assert ids(again.trace("id = 13")) == [10, 13]


def test_cells_name_rows_and_columns(table, tmp_path):
    frame = applied(table, by_neighbours, "groups", CASES[0][2])
    run = whence.capture(frame, archive=tmp_path)
    found = run.trace("id = 6").array_cells().to_pylist()
    pairs = {(c["column"], c["input_row"], c["input_column"]) for c in found}
    assert pairs == {
        ("id", "readings[6]", "id"),
        ("k", "readings[6]", "k"),
        ("y", "readings[3]", "n"),
        ("y", "readings[9]", "n"),
    }
    assert {c["role"] for c in found} == {"contributing"}
    assert {c["operator"] for c in found} == {"mapgroups-1"}


def test_patterns_go_through_functions(table, tmp_path):
    """Only the cells that were used, and the keys of the rows that they are in."""
    frame = applied(table, by_neighbours, "groups", CASES[0][2])
    run = whence.capture(frame.selectExpr("id", "y * 2 AS z").where("z > -99"), archive=tmp_path)
    trace = run.trace(whence.pattern("id = 6, z"))
    assert (trace.grade, trace.cell_reasons) == ("exact", ())
    assert cells(trace) == {
        (6, "id", "contributing"),
        (3, "n", "contributing"),
        (9, "n", "contributing"),
        *((row, "k", "influencing") for row in (3, 6, 9)),
    }


def test_cells_of_two_sides(table, tmp_path):
    grouped = table.where("id < 9").groupBy("k")
    frame = table.groupBy("k").cogroup(grouped).applyInPandas(joined_sides, "id long, y long")
    run = whence.capture(frame, archive=tmp_path, mode="eager")
    trace = run.trace("id = 10")
    assert trace.cell_grade == "exact"
    assert {cell for cell in cells(trace) if cell[1] != "k"} == {
        (10, "id", "contributing"),
        (10, "n", "contributing"),
        (4, "n", "contributing"),
        (4, "id", "influencing"),  # the filter
    }


def test_cells_beside_rows_that_no_function_gave(spark, table, tmp_path):
    """An outer join, a union, and items of one row: what was told goes with the row."""
    made = applied(table, by_neighbours, "groups", CASES[0][2]).where("id < 9")
    joined = table.selectExpr("id AS own").join(made, made["id"] == F.col("own"), "left")
    listed = joined.select("own", F.explode(F.array("y")).alias("v"))
    both = listed.unionByName(table.selectExpr("id + 100 AS own", "n AS v"))
    run = whence.capture(both, archive=tmp_path, mode="eager")
    trace = run.trace(whence.pattern("own = 6, v"))
    assert (trace.cell_grade, trace.cell_reasons) == ("exact", ())
    made = {cell[:2] for cell in cells(trace) if cell[2] == "contributing"}
    assert made == {(6, "id"), (3, "n"), (9, "n")}
    none = run.trace(whence.pattern("own = 9, v"))  # the join found nothing
    assert none.cell_grade == "exact"
    assert {cell[:2] for cell in cells(none) if cell[2] == "contributing"} == {(9, "id")}
    other = run.trace(whence.pattern("own = 109, v"))
    assert {cell[:2] for cell in cells(other)} == {(9, "id"), (9, "n")}


def test_cells_of_a_doubtful_row_are_all_that_the_function_took(table, tmp_path):
    run = whence.capture(
        applied(table, half_known, "groups", "id long, y long, rows long"), archive=tmp_path
    )
    trace = run.trace(whence.pattern("id = 6, y"))
    assert trace.cell_grade == "superset"
    paths = {path for _, path, _ in cells(trace)}
    assert paths == {"id", "k", "x", "n"}
    assert {row for row, _, _ in cells(trace)} == {0, 3, 6, 9, 12}


def test_influence_is_told_apart(table, tmp_path):
    frame = applied(table, steered, "groups", "id long, y long")
    run = whence.capture(frame, archive=tmp_path)
    trace = run.trace("id = 1")
    assert ids(trace, "contributing") == [1]
    assert ids(trace, "influencing") == [13]


def test_one_row_per_group_and_missing_values(table, tmp_path):
    frame = applied(table, one_row, "groups", "k string, top double, all double")
    run = whence.capture(frame, archive=tmp_path)
    rows = table.toPandas()
    for key, group in rows.groupby("k"):
        trace = run.trace(f"k = '{key}'")
        assert trace.grade == "exact"
        best = int(group.loc[group.x.idxmax(), "id"])
        assert best in ids(trace, "contributing")
        assert set(ids(trace)) == set(group.id.tolist())
    assert run.check(3).ok


def test_a_column_that_is_not_followed_makes_it_a_superset(table, tmp_path):
    frame = applied(table, half_known, "groups", "id long, y long, rows long")
    run = whence.capture(frame, archive=tmp_path)
    trace = run.trace("id = 6")
    assert ids(trace) == [0, 3, 6, 9, 12]
    assert trace.grade == "superset"
    assert trace.reasons == (
        "mapgroups-1: half_known: column 'rows' is not made of tracked values",
    )
    assert run.impact("readings", "id = 0").grade == "superset"
    found = {(c["column"], c["input_column"]) for c in trace.array_cells().to_pylist()}
    assert found == {("id", "id"), ("y", "n"), ("rows", "*")}


def test_the_grade_is_that_of_the_chosen_rows(table, tmp_path):
    def sometimes(pdf):
        y = neighbours(pdf["n"].to_numpy())
        if pdf.k.iloc[0] == "s1":
            y = y + float(pdf["n"].max())
        return pd.DataFrame({"id": pdf.id, "y": y})

    run = whence.capture(
        table.groupBy("k").applyInPandas(sometimes, "id long, y double"), archive=tmp_path
    )
    assert run.trace("id = 6").grade == "exact"
    doubtful = run.trace("id = 4")
    assert doubtful.grade == "superset"
    assert "float()" in doubtful.reasons[0]
    assert run.trace().grade == "superset"


def test_batches_of_a_partition_are_told_apart(spark, table, tmp_path):
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "5")
    try:
        frame = applied(table, ranges_in_batches, "batches", "id long, r long")
        run = whence.capture(frame, archive=tmp_path, mode="eager")
        assert sorted(run.output.collect()) == sorted(frame.collect())
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    for row in range(ROWS):
        trace = run.trace(f"id = {row}")
        assert trace.grade == "exact"
        assert ids(trace) == list(range(row // 5 * 5, row + 1))


def test_two_sides(table, tmp_path):
    right = table.where("id < 9")
    frame = (
        table.groupBy("k")
        .cogroup(right.groupBy("k"))
        .applyInPandas(joined_sides, "id long, y long")
    )
    run = whence.capture(frame, archive=tmp_path, mode="eager")
    assert sorted(run.output.collect()) == sorted(frame.collect())
    trace = run.trace("id = 10")
    assert trace.grade == "exact"
    assert ids(trace) == [4, 10]
    assert [r["id"] for r in run.impact("readings", "id = 4").to_pylist()] == [1, 4, 7, 10, 13]
    assert not run.check(4).guaranteed


def test_below_and_above_other_operators(spark, table, tmp_path):
    names = spark.createDataFrame([("s0", "zero"), ("s1", "one")], "k string, name string")
    names.createOrReplaceTempView("names")
    joined = table.where("id > 1").join(spark.table("names"), "k")
    made = joined.groupBy("k").applyInPandas(by_neighbours, "id long, k string, y long")
    frame = made.groupBy("k").max("y")
    plain = sorted(frame.collect())
    known = made.where("k = 's1'").toPandas().sort_values("y")
    assert len(known) == 4
    best = int(known.iloc[-1].id)
    for mode in MODES:
        run = whence.capture(frame, archive=tmp_path / mode, mode=mode)
        assert sorted(run.output.collect()) == plain
        trace = run.trace("k = 's1'")
        assert trace.grade == "exact"
        assert set(ids(trace, "contributing")) >= {best}
        assert len(trace["names"]) == 1
        assert len(run.impact("readings", f"id = {best}")) == 1


def test_empty_groups_are_no_rows(table, tmp_path):
    def picky(pdf):
        if len(pdf) < 5:
            return pd.DataFrame({"id": [], "y": []})
        return pd.DataFrame({"id": pdf.id, "y": neighbours(pdf["n"].to_numpy())})

    frame = table.groupBy("k").applyInPandas(picky, "id long, y long")
    run = whence.capture(frame, archive=tmp_path)
    assert {r["id"] % 3 for r in run.output.collect()} == {0, 1}
    assert ids(run.trace("id = 0")) == [0, 3]
    none = whence.capture(
        table.where("id < 0").groupBy("k").applyInPandas(picky, "id long, y long"),
        archive=tmp_path,
    )
    assert len(none.trace()) == 0


def test_an_error_is_the_functions_own_and_leaves_no_run(table, tmp_path):
    def fails(pdf):
        if pdf["id"].max() > 12:
            raise ValueError("sensor is broken")
        return pd.DataFrame({"id": pdf.id, "y": neighbours(pdf["n"].to_numpy())})

    with pytest.raises(Exception, match="sensor is broken"):
        whence.capture(table.groupBy("k").applyInPandas(fails, "id long, y long"), archive=tmp_path)
    assert whence.open(tmp_path).runs() == []


def test_functions_that_fail_on_tracked_columns_stay_supersets(table, tmp_path):
    def picky(pdf):
        n = pdf["n"].to_numpy()
        if type(n) is not np.ndarray:
            raise TypeError("only plain arrays here")
        return pd.DataFrame({"id": pdf.id, "y": neighbours(n)})

    run = whence.capture(
        table.groupBy("k").applyInPandas(picky, "id long, y long"), archive=tmp_path
    )
    trace = run.trace("id = 6")
    assert ids(trace) == [0, 3, 6, 9, 12]
    assert trace.grade == "superset"
    assert "only plain arrays here" in trace.reasons[0]


@pytest.mark.parametrize("follow", [True, False])
def test_results_without_column_names(table, tmp_path, follow):
    def unnamed(pdf):
        n = pdf["n"].to_numpy()
        return pd.DataFrame({0: pdf["id"].to_numpy(), 1: neighbours(n) if follow else n})

    def plain(pdf):
        return pd.DataFrame({0: pdf["id"].to_numpy(), 1: pdf["n"].to_numpy()})

    frame = table.groupBy("k").applyInPandas(unnamed if follow else plain, "id long, y long")
    run = whence.capture(frame, archive=tmp_path)
    assert sorted(run.output.collect()) == sorted(frame.collect())
    assert ids(run.trace("id = 6")) == ([3, 6, 9] if follow else [0, 3, 6, 9, 12])


@pytest.mark.full
def test_witnesses_are_linear(spark, tmp_path):
    rows = 30_000
    source = str(tmp_path / "readings")
    spark.range(rows).selectExpr("id", "id % 3 AS k", "id * 7 % 101 AS n").coalesce(
        1
    ).write.parquet(source)

    def totals(pdf):
        return pd.DataFrame({"id": pdf.id, "t": running_range(pdf["n"].to_numpy())})

    frame = spark.read.parquet(source).groupBy("k").applyInPandas(totals, "id long, t long")
    run = whence.capture(frame, archive=tmp_path / "archive")
    trace = run.trace("id = 29997")
    assert trace.grade == "exact"
    assert len(trace["readings"]) == rows // 3
    files = list((tmp_path / "archive" / "datasets").rglob("*.parquet"))
    stored = sum(pq.read_metadata(f).serialized_size + f.stat().st_size for f in files)
    assert stored < 60 * rows
