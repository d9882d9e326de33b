"""Aggregates of every family, distinct, having, grouping sets, pivot: against the oracle."""

from typing import Any

import oracle
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import ANY_MODE, FULL, MODES, TABLES, Pipeline, assert_output, check, few, traced
from oracle import (
    average,
    collected,
    count,
    count_distinct,
    distinct,
    extreme_by,
    first,
    group,
    grouping_sets,
    join,
    largest,
    last,
    mode,
    project,
    select,
    smallest,
    total,
    where,
)
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType

import whence
from whence.spark.gateway import Gateway

pytestmark = pytest.mark.spark

K = {"k": "k"}


def more(values: dict[str, Any]) -> Any:
    """`a.b` > 0."""
    return None if values["a.b"] is None else values["a.b"] > 0


def equal(left: dict[str, Any], right: dict[str, Any]) -> Any:
    return None if left["k"] is None or right["j"] is None else left["k"] == right["j"]


def by_key(text: str, **aggregates: oracle.Aggregate) -> Pipeline:
    return Pipeline(f"SELECT k, {text} FROM t GROUP BY k", lambda t, u: group(t, K, **aggregates))


def overall(text: str, **aggregates: oracle.Aggregate) -> Pipeline:
    return Pipeline(f"SELECT {text} FROM t", lambda t, u: group(t, {}, **aggregates))


@F.pandas_udf(LongType())  # type: ignore[call-overload]
def entries(values: pd.Series) -> int:
    return len(values)


def _entries(column: str) -> Any:
    return entries(F.col(column)).alias("n")


def _arrow_total(s: Any) -> Any:
    def total(values: pa.Array) -> int:
        return len(values) - int(values.null_count)

    known = F.arrow_udf(total, LongType())  # type: ignore[call-overload]
    return s.table("t").groupBy("k").agg(known(F.col("`a.b`")).alias("n"))


AGGREGATES = {
    "sum, count, avg": by_key(
        "sum(`a.b`), count(*), count(`select`), avg(`a.b`)",
        a=total("a.b"),
        b=count(),
        c=count("select"),
        d=average("a.b"),
    ),
    "count distinct": by_key("count(DISTINCT `a.b`)", a=count_distinct("a.b")),
    "count distinct of two": Pipeline(
        "SELECT k, count(DISTINCT `a.b`), count(DISTINCT `select`), max(`a.b`) FROM t GROUP BY k",
        lambda t, u: group(
            t, K, a=count_distinct("a.b"), b=count_distinct("select"), c=largest("a.b")
        ),
    ),
    "collections": by_key(
        "sort_array(collect_list(`a.b`)) AS l, sort_array(collect_set(`select`)) AS s",
        a=collected("a.b"),
        b=collected("select", once=True),
    ),
    "min": by_key("min(`a.b`)", a=smallest("a.b")),
    "max": by_key("max(`select`)", a=largest("select")),
    "min and max": by_key("min(`a.b`), max(`select`)", a=smallest("a.b"), b=largest("select")),
    "max inside an expression": Pipeline(
        "SELECT k, max(`a.b`) + 1 FROM t GROUP BY k",
        lambda t, u: project(
            group(t, K, a=largest("a.b")),
            {"k": "k", "b": lambda r: None if r["a"] is None else r["a"] + 1},
        ),
    ),
    "min beside sum": by_key("min(`a.b`), sum(`a.b`)", a=smallest("a.b"), b=total("a.b")),
    "first": by_key("first(`a.b`)", a=first("a.b")),
    "first without nulls": by_key("first(`a.b`, true)", a=first("a.b", ignore_nulls=True)),
    "last": by_key("last(`a.b`)", a=last("a.b")),
    "any value": by_key("any_value(`a.b`)", a=first("a.b")),
    "min by": Pipeline(
        "SELECT j, min_by(tags, y) FROM (SELECT DISTINCT j, y, tags FROM u WHERE y > 0) GROUP BY j",
        lambda t, u: group(
            distinct(where(u, lambda r: None if r["y"] is None else r["y"] > 0)),
            {"j": "j"},
            a=extreme_by("tags", "y", min),
        ),
    ),
    "max by": Pipeline(
        "SELECT k, max_by(s, n) FROM (SELECT k, min(`select`) AS s, coalesce(`a.b`, 9) AS n "
        "FROM t GROUP BY k, coalesce(`a.b`, 9)) GROUP BY k",
        lambda t, u: group(
            group(
                t,
                {"k": "k", "n": lambda r: 9 if r["a.b"] is None else r["a.b"]},
                s=smallest("select"),
            ),
            K,
            a=extreme_by("s", "n", max),
        ),
    ),
    "mode": by_key("mode(`a.b`, true)", a=mode("a.b")),
    "filter clause": by_key("sum(`a.b`) FILTER (WHERE `a.b` > 0)", a=total("a.b", more)),
    "filter clauses": by_key(
        "count(*) FILTER (WHERE `a.b` > 0), max(`select`) FILTER (WHERE `a.b` > 0), min(`a.b`)",
        a=count(None, more),
        b=largest("select", more),
        c=smallest("a.b"),
    ),
    "filter beside plain": by_key(
        "sum(`a.b`) FILTER (WHERE `a.b` > 0), count(*)", a=total("a.b", more), b=count()
    ),
    "global": overall("sum(`a.b`), count(*)", a=total("a.b"), b=count()),
    "global max": overall("max(`a.b`)", a=largest("a.b")),
    "global of nothing": Pipeline(
        "SELECT count(*), max(k) FROM t WHERE k > 99",
        lambda t, u: group([], {}, a=count(), b=largest("k")),
    ),
    "having": Pipeline(
        "SELECT k, count(*) FROM t GROUP BY k HAVING max(`a.b`) > 1",
        lambda t, u: select(
            where(
                group(t, K, a=count(), b=largest("a.b")),
                lambda r: None if r["b"] is None else r["b"] > 1,
            ),
            k="k",
            a="a",
        ),
    ),
    "group by expression": Pipeline(
        "SELECT k + 1 AS n, sum(`a.b`) FROM t GROUP BY k + 1",
        lambda t, u: group(
            t, {"n": lambda r: None if r["k"] is None else r["k"] + 1}, a=total("a.b")
        ),
    ),
    "sum of max": Pipeline(
        "SELECT sum(m) FROM (SELECT k, max(`a.b`) AS m FROM t GROUP BY k)",
        lambda t, u: group(group(t, K, m=largest("a.b")), {}, a=total("m")),
    ),
    "max of sum": Pipeline(
        "SELECT max(m) FROM (SELECT k, sum(`a.b`) AS m FROM t GROUP BY k)",
        lambda t, u: group(group(t, K, m=total("a.b")), {}, a=largest("m")),
    ),
    "pandas": Pipeline(
        lambda s: s.table("t").groupBy("k").agg(_entries("`a.b`")),
        lambda t, u: group(t, K, n=count()),
    ),
    "pandas over all": Pipeline(
        lambda s: s.table("t").agg(_entries("`a.b`")), lambda t, u: group(t, {}, n=count())
    ),
    **(
        {"arrow": Pipeline(_arrow_total, lambda t, u: group(t, K, n=count("a.b")))}
        if hasattr(F, "arrow_udf")  # Spark 4.1 and newer
        else {}
    ),
    "pandas over max, summed": Pipeline(
        lambda s: (
            s.sql("SELECT k, `select`, max(`a.b`) AS m FROM t GROUP BY k, `select`")
            .groupBy("k")
            .agg(_entries("m"))
            .agg(F.sum("n"))
        ),
        lambda t, u: group(
            group(group(t, {"k": "k", "select": "select"}, m=largest("a.b")), K, n=count()),
            {},
            a=total("n"),
        ),
    ),
    "joined aggregate": Pipeline(
        "SELECT j, y, m FROM u JOIN (SELECT k, max(`a.b`) AS m FROM t GROUP BY k) ON j = k",
        lambda t, u: select(
            join(group(t, K, m=largest("a.b")), u, "inner", equal), j="j", y="y", m="m"
        ),
    ),
    "aggregate of join": Pipeline(
        "SELECT k, sum(y) FROM t LEFT JOIN u ON k = j GROUP BY k",
        lambda t, u: group(
            join(t, u, "left", equal, (("k", "a.b", "select"), ("j", "y", "tags"))),
            K,
            a=total("y"),
        ),
    ),
}

DISTINCTS = {
    "distinct": Pipeline("SELECT DISTINCT * FROM t", lambda t, u: distinct(t)),
    "distinct of a column": Pipeline(
        "SELECT DISTINCT k FROM t", lambda t, u: distinct(select(t, k="k"))
    ),
    "drop duplicates": Pipeline(
        lambda s: s.table("t").select("k", "`a.b`").dropDuplicates(["k"]),
        lambda t, u: _first_rows(project(t, {"k": "k", "a.b": "a.b"})),
    ),
    "joined distinct": Pipeline(
        "SELECT y, k FROM u JOIN (SELECT DISTINCT k FROM t) ON j = k",
        lambda t, u: select(join(distinct(select(t, k="k")), u, "inner", equal), y="y", k="k"),
    ),
}


def _first_rows(table: oracle.Table) -> oracle.Table:
    """One row per key, the first: rows equal to it contribute, the others of the key influence."""
    result = []
    for row in group(table, K):
        members = [m for m in table if m.by <= row.by]
        chosen = [m.values == members[0].values for m in members]
        result.append(oracle.gather(members[0].values, members, chosen))
    return result


def _sets(keys: list[str]) -> list[tuple[str, ...]]:
    return [tuple(keys[:i]) for i in range(len(keys), -1, -1)]


SETS = {
    "rollup": Pipeline(
        "SELECT k, `select`, sum(`a.b`) FROM t GROUP BY ROLLUP (k, `select`)",
        lambda t, u: grouping_sets(t, ["k", "select"], _sets(["k", "select"]), a=total("a.b")),
    ),
    "cube": Pipeline(
        "SELECT k, `select`, count(*) FROM t GROUP BY CUBE (k, `select`)",
        lambda t, u: grouping_sets(
            t, ["k", "select"], [("k", "select"), ("k",), ("select",), ()], a=count()
        ),
    ),
    "grouping sets": Pipeline(
        "SELECT k, `select`, max(`a.b`) FROM t GROUP BY GROUPING SETS ((k), (`select`))",
        lambda t, u: grouping_sets(t, ["k", "select"], [("k",), ("select",)], a=largest("a.b")),
    ),
    "rollup in the API": Pipeline(
        lambda s: s.table("t").rollup("k").agg(F.max("`a.b`")),
        lambda t, u: grouping_sets(t, ["k"], [("k",), ()], a=largest("a.b")),
    ),
}


def is_text(text: str) -> Any:
    return lambda values: values["select"] == text


PIVOTS = {
    "pivot sum": Pipeline(
        lambda s: s.table("t").groupBy("k").pivot("select", ["x", "y"]).sum("`a.b`"),
        lambda t, u: group(t, K, x=total("a.b", is_text("x")), y=total("a.b", is_text("y"))),
    ),
    "pivot max": Pipeline(
        lambda s: s.table("t").groupBy("k").pivot("select", ["x", "y"]).agg(F.max("`a.b`")),
        # Spark aggregates by key and text first: what is under a text is there, null or not.
        lambda t, u: group(
            group(t, {"k": "k", "select": "select"}, m=largest("a.b")),
            K,
            x=total("m", is_text("x")),
            y=total("m", is_text("y")),
        ),
    ),
    "pivot of text": Pipeline(
        "SELECT * FROM (SELECT k, `a.b`, `select` FROM t) "
        "PIVOT (max(`select`) FOR `a.b` IN (1, 2))",
        lambda t, u: group(
            t,
            K,
            x=largest("select", lambda r: r["a.b"] == 1),
            y=largest("select", lambda r: r["a.b"] == 2),
        ),
    ),
}


@pytest.mark.full
def test_lists_that_come_out_in_another_order(workshop: Any) -> None:
    """Spark promises no order of collected values: running again may give another."""
    session, partitions = workshop.session, "spark.sql.shuffle.partitions"
    session.range(90).selectExpr("id % 3 AS k", "id % 60 AS id").createOrReplaceTempView("many")
    query = "SELECT k, collect_list(id) AS ids FROM (SELECT DISTINCT k, id FROM many) GROUP BY k"
    frame = session.sql(query)
    run = whence.capture(frame, archive=workshop.folder(), mode="lazy", progress=False)
    stored = {row["k"]: row["ids"] for row in run.to_arrow().to_pylist()}
    before = session.conf.get(partitions)
    session.conf.set(partitions, "7")
    try:
        again = {row["k"]: row["ids"] for row in session.sql(query).collect()}
        assert again != stored
        trace = run.trace("k = 1")
        assert trace.grade == "exact"
        assert sorted(trace["range"].locators()["row"].to_pylist()) == list(range(1, 90, 3))
        assert run.check(sample=2).ok
        first = run.trace(whence.pattern("k = 1, ids[0]"))  # the first that is stored
        behind = [row for row in range(1, 90, 3) if row % 60 == stored[1][0]]
        assert again[1][0] != stored[1][0] and first.grade == "exact"
        assert sorted({cell["row"] for cell in first.cells().to_pylist()}) == behind
    finally:
        session.conf.set(partitions, before)


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregate(workshop: Any, name: str) -> None:
    check(workshop, AGGREGATES[name], FULL)


@pytest.mark.parametrize("name", DISTINCTS)
def test_distinct(workshop: Any, name: str) -> None:
    check(workshop, DISTINCTS[name], FULL)


@pytest.mark.parametrize("name", SETS)
def test_grouping_sets(workshop: Any, name: str) -> None:
    check(workshop, SETS[name], FULL)


@pytest.mark.parametrize("name", PIVOTS)
def test_pivot(workshop: Any, name: str) -> None:
    check(workshop, PIVOTS[name], FULL)


OTHERS = (
    "stddev(`a.b`), stddev_pop(`a.b`), variance(`a.b`), var_pop(`a.b`), skewness(`a.b`)",
    "kurtosis(`a.b`), corr(`a.b`, k), covar_pop(`a.b`, k), covar_samp(`a.b`, k)",
    "regr_slope(`a.b`, k), regr_r2(`a.b`, k)",
    "percentile(`a.b`, 0.5), median(`a.b`), percentile_approx(`a.b`, 0.5)",
    "percentile_disc(0.5) WITHIN GROUP (ORDER BY `a.b`), approx_count_distinct(`a.b`)",
    "bit_and(`a.b`), bit_or(`a.b`), bit_xor(`a.b`), count_if(`a.b` > 0), sum(DISTINCT `a.b`)",
    "try_sum(`a.b`), try_avg(`a.b`), array_size(array_agg(`a.b`)), histogram_numeric(`a.b`, 3)",
    "listagg(`select`) WITHIN GROUP (ORDER BY `select`)",
)


def test_other_aggregates(workshop: Any) -> None:
    """All rows of a group contribute to aggregates that combine their values."""
    workshop.views(FULL)
    frame = workshop.session.sql(f"SELECT k, {', '.join(OTHERS)} FROM t GROUP BY k")
    rows = frame.collect()
    for each in MODES:
        run = whence.capture(frame, archive=workshop.folder(), mode=each, progress=False)
        assert_output(run, frame, rows, False, each)
        for k in (1, None):
            members = {("t", i) for i, row in enumerate(FULL["t"]) if row["k"] == k}
            assert traced(run.trace(f"k <=> {'NULL' if k is None else k}")) == (members, set())


EVERY = {**AGGREGATES, **DISTINCTS, **SETS, **PIVOTS}


@pytest.mark.slow
@few
@given(name=st.sampled_from(sorted(EVERY)), tables=TABLES, mode=ANY_MODE)
def test_any_tables(workshop: Any, name: str, tables: Any, mode: str) -> None:
    check(workshop, EVERY[name], tables, [mode])


def test_lists_of_many_groups_are_hashed_where_memory_is_ample(spark: Any) -> None:
    limit = "spark.sql.objectHashAggregate.sortBased.fallbackThreshold"
    gateway = Gateway(spark)
    gateway.expect(1_000_000)
    ample = int(gateway.session.conf.get(limit))
    gateway.expect(1 << 50)
    assert int(gateway.session.conf.get(limit)) == int(spark.conf.get(limit)) < ample
    gateway.session.conf.set(limit, "500")  # somebody's own
    gateway.expect(1_000_000)
    assert gateway.session.conf.get(limit) == "500"


def test_a_joined_group_by_an_expression(workshop: Any) -> None:
    workshop.session.range(20).createOrReplaceTempView("many")
    frame = workshop.session.sql(
        "SELECT id, n FROM many JOIN (SELECT id % 3 AS k, count(*) AS n FROM many GROUP BY id % 3) "
        "ON id % 3 = k"
    )
    run = whence.capture(frame, archive=workshop.folder(), mode="eager", progress=False)
    (rows,) = run.trace("id = 4").values()
    assert sorted(rows.locators()["row"].to_pylist()) == list(range(1, 20, 3))
