"""Operators that keep rows what they are: select, filter, sort, limit, sample, UDFs, unions."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import ANY_MODE, FULL, MODES, TABLES, Pipeline, check, few
from oracle import (
    Row,
    Table,
    group,
    join,
    nulls_first,
    order_by,
    project,
    select,
    total,
    union,
    where,
    with_column,
)
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType

import whence

pytestmark = pytest.mark.spark

AS_IS = {"k": "k", "a.b": "a.b", "select": "select"}


def plus_one(values: dict[str, Any]) -> Any:
    return None if values["a.b"] is None else values["a.b"] + 1


def everything(values: dict[str, Any]) -> Any:
    return nulls_first(values["k"], values["a.b"], values["select"])


def sampled(workshop: Any, t: Table, **options: Any) -> Table:
    """The sampled rows as Spark itself tells them, by their place in the file."""
    metadata = workshop.frames["t"].select("_metadata.row_index").sample(seed=3, **options)
    return [t[row[0]] for row in metadata.collect()]


ROWS = {
    "select": Pipeline(
        "SELECT `select`, `a.b` + 1 AS `b c`, 7 AS seven FROM t",
        lambda t, u: project(t, {"select": "select", "b c": plus_one, "seven": lambda r: 7}),
    ),
    "withColumn": Pipeline(
        lambda s: s.table("t").withColumn("a.b", F.col("`a.b`") + 1).withColumn("from", F.lit(1)),
        lambda t, u: with_column(
            project(t, {"k": "k", "a.b": plus_one, "select": "select"}), "from", lambda r: 1
        ),
    ),
    "filter": Pipeline(
        "SELECT * FROM t WHERE `a.b` > 0 OR `select` = ''",
        lambda t, u: where(
            t, lambda r: (r["a.b"] is not None and r["a.b"] > 0) or r["select"] == ""
        ),
    ),
    "empty result": Pipeline("SELECT * FROM t WHERE k > 99", lambda t, u: []),
    "sort": Pipeline(
        "SELECT * FROM t ORDER BY k, `a.b`, `select`",
        lambda t, u: order_by(t, everything),
        ordered=True,
    ),
    "sort and limit": Pipeline(
        "SELECT k, `a.b` FROM t ORDER BY k, `a.b`, `select` LIMIT 3",
        lambda t, u: project(order_by(t, everything)[:3], {"k": "k", "a.b": "a.b"}),
        ordered=True,
    ),
    "offset": Pipeline(
        "SELECT * FROM t ORDER BY k, `a.b`, `select` LIMIT 3 OFFSET 2",
        lambda t, u: order_by(t, everything)[2:5],
        ordered=True,
    ),
    "repartition": Pipeline(lambda s: s.table("t").repartition(3, "k").coalesce(1), lambda t, u: t),
    "hints": Pipeline("SELECT /*+ REPARTITION(2) */ k FROM t", lambda t, u: select(t, k="k")),
    "observe": Pipeline(
        lambda s: s.table("t").observe("seen", F.count(F.lit(1)).alias("n")), lambda t, u: t
    ),
}

UNIONS = {
    "union all": Pipeline(
        "SELECT k, `a.b` FROM t UNION ALL SELECT j, y FROM u",
        lambda t, u: union(
            project(t, {"k": "k", "a.b": "a.b"}), project(u, {"k": "j", "a.b": "y"})
        ),
    ),
    "union by name": Pipeline(
        lambda s: s.table("t").unionByName(
            s.table("u").selectExpr("y AS `a.b`", "j AS k", "1 AS more"), allowMissingColumns=True
        ),
        lambda t, u: union(
            project(t, {**AS_IS, "more": lambda r: None}),
            project(u, {"k": "j", "a.b": "y", "select": lambda r: None, "more": lambda r: 1}),
        ),
    ),
    "union of a table with itself": Pipeline(
        "SELECT k FROM t WHERE k = 1 UNION ALL SELECT k FROM t UNION ALL SELECT 1",
        lambda t, u: [
            *select(where(t, lambda r: r["k"] == 1), k="k"),
            *select(t, k="k"),
            *ONE,
        ],
    ),
    "union of joins and groups": Pipeline(
        "SELECT k, sum(`a.b`) AS s FROM t GROUP BY k UNION ALL "
        "SELECT k, y FROM t JOIN u ON k = j UNION ALL SELECT j, y FROM u",
        lambda t, u: _mixed(t, u),
    ),
}


def _mixed(t: Table, u: Table) -> Table:

    joined = join(t, u, "inner", lambda a, b: a["k"] is not None and a["k"] == b["j"])
    return [
        *group(t, {"k": "k"}, s=total("a.b")),
        *select(joined, k="k", s="y"),
        *select(u, k="j", s="y"),
    ]


ONE = [Row({"k": 1})]


@F.udf(LongType())
def doubled(value):  # type: ignore[no-untyped-def]
    return None if value is None else 2 * value


@F.pandas_udf(LongType())  # type: ignore[call-overload]
def tripled(values: pd.Series) -> pd.Series:
    return values * 3


FUNCTIONS = {
    "python udf": Pipeline(
        lambda s: s.table("t").where(doubled("`a.b`") > 1).select("k", doubled("`a.b`").alias("d")),
        lambda t, u: project(
            where(t, lambda r: r["a.b"] is not None and r["a.b"] > 0),
            {"k": "k", "d": lambda r: r["a.b"] * 2},
        ),
    ),
    "pandas udf": Pipeline(
        lambda s: s.table("t").where("`a.b` IS NOT NULL").select("k", tripled("`a.b`").alias("d")),
        lambda t, u: project(
            where(t, lambda r: r["a.b"] is not None), {"k": "k", "d": lambda r: r["a.b"] * 3}
        ),
    ),
}

EVERY = {**ROWS, **UNIONS, **FUNCTIONS}


@pytest.mark.parametrize("name", ROWS)
def test_rows(workshop: Any, name: str) -> None:
    check(workshop, ROWS[name], FULL)


@pytest.mark.parametrize("name", UNIONS)
def test_union(workshop: Any, name: str) -> None:
    check(workshop, UNIONS[name], FULL)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(workshop: Any, name: str) -> None:
    check(workshop, FUNCTIONS[name], FULL)


@pytest.mark.parametrize("mode", MODES)
def test_time_and_user_of_the_run(workshop: Any, mode: str) -> None:
    """What is run again later has the time and the user of the run that it explains."""
    workshop.views(FULL)
    frame = workshop.session.sql(
        "SELECT k, current_timestamp() AS at, current_date() AS day, current_user() AS who, "
        "(SELECT max(now()) FROM u) AS then, count(*) AS n "
        "FROM t WHERE localtimestamp() > timestamp_ntz'2000-01-01' GROUP BY k"
    )
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    trace = run.trace("k = 1")
    assert trace.grade == "exact"
    assert len(trace["t"].locators()) == sum(row["k"] == 1 for row in FULL["t"])
    assert run.check(sample=3 if mode == "eager" else 1).ok


@pytest.mark.parametrize("mode", MODES)
def test_an_ordered_result_in_many_files_is_read_in_its_order(
    workshop: Any, mode: str, tmp_path: Path
) -> None:
    session, partitions = workshop.session, "spark.sql.shuffle.partitions"
    before = session.conf.get(partitions)
    session.conf.set(partitions, "7")
    try:
        ordered = session.range(70).orderBy(F.desc("id"))
        # An unnested row keeps its place.
        frame = ordered.select("id", F.explode(F.array("id")).alias("again"))
        run = whence.capture(frame, archive=tmp_path, mode=mode, progress=False)
    finally:
        session.conf.set(partitions, before)
    assert len(list(tmp_path.glob("datasets/*/*.parquet"))) == 7
    down = list(range(69, -1, -1))
    assert run.to_arrow()["id"].to_pylist() == down
    assert [row["id"] for row in run.output.collect()] == down
    assert [row["row"] for row in run.trace([{"id": 7}])["range"].locators().to_pylist()] == [7]


@pytest.mark.parametrize("mode", MODES)
def test_numbered_rows(workshop: Any, mode: str) -> None:
    """`zipWithIndex`, and the index of pandas on Spark: a row's number depends on those before."""
    workshop.views(FULL)
    table = workshop.session.table("t").where("k IS NOT NULL")
    if mode == "auto":
        table = table.groupBy("k").count()
    frame = getattr(table, "zipWithIndex", lambda: table.pandas_api().to_spark("index"))()
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    plain = frame.collect()
    assert sorted(map(str, run.output.collect())) == sorted(map(str, plain))
    trace = run.trace("k = 2")
    assert (trace.grade, trace.replays) == ("exact", "not guaranteed")
    wanted = [i for i, row in enumerate(FULL["t"]) if row["k"] == 2]
    assert trace["t"].locators()["row"].to_pylist() == wanted
    check = run.check(sample=len(plain))
    assert not check.guaranteed
    assert any(row.ok for row in check.rows)  # the first row is the first one again


@pytest.mark.parametrize("mode", MODES)
def test_random_values_are_traced_but_not_replayed(workshop: Any, mode: str) -> None:
    workshop.views(FULL)
    frame = workshop.session.table("t").withColumn("r", F.rand()).where("r >= 0")
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    trace = run.trace("k = 2")
    assert (trace.grade, trace.replays) == ("exact", "not guaranteed")
    assert [row["row"] for row in trace["t"].locators().to_pylist()] == [4]


@pytest.mark.parametrize("replacement", [False, True])
def test_sample(workshop: Any, replacement: bool) -> None:
    options = {"withReplacement": replacement, "fraction": 0.7}
    pipeline = Pipeline(
        lambda s: s.table("t").sample(seed=3, **options),
        lambda t, u: sampled(workshop, t, **options),
    )
    check(workshop, pipeline, FULL)


def test_semi_join_over_sample_with_replacement(workshop: Any) -> None:
    """Rows that were drawn twice stay two rows."""

    options = {"withReplacement": True, "fraction": 2.0}
    pipeline = Pipeline(
        lambda s: (
            s.table("t").sample(seed=3, **options).join(s.table("u"), F.expr("k = j"), "left_semi")
        ),
        lambda t, u: join(
            sampled(workshop, t, **options),
            u,
            "semi",
            lambda a, b: a["k"] is not None and a["k"] == b["j"],
        ),
    )
    check(workshop, pipeline, FULL)


@pytest.mark.slow
@few
@given(name=st.sampled_from(sorted(EVERY)), tables=TABLES, mode=ANY_MODE)
def test_any_tables(workshop: Any, name: str, tables: Any, mode: str) -> None:
    check(workshop, EVERY[name], tables, [mode])
