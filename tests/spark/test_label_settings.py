"""What makes an expression another one is in its label, also what Spark's JSON does not tell."""

from typing import Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from whence.plan import operators as ops
from whence.plan.catalyst import read_plan
from whence.plan.labels import label
from whence.plan.tree import walk
from whence.spark.normalise import normalise, plan_text

pytestmark = pytest.mark.spark

ROWS = (
    "SELECT id, id % 2 AS g, string(id) AS s, '{}' AS j, timestamp_seconds(id) AS t FROM range(4)"
)
OTHERS = [
    ("listagg(s) WITHIN GROUP (ORDER BY s)", "listagg(s) WITHIN GROUP (ORDER BY s DESC)"),
    (
        "listagg(s) WITHIN GROUP (ORDER BY s NULLS FIRST)",
        "listagg(s) WITHIN GROUP (ORDER BY s NULLS LAST)",
    ),
    ("sum(id)", "try_sum(id)"),
    ("avg(id)", "try_avg(id)"),
    ("sum(int(s))", "sum(try_cast(s AS int))"),
    ("sum(id + 1)", "sum(try_add(id, 1))"),
    ("sum(id - 1)", "sum(try_subtract(id, 1))"),
    ("sum(id * 2)", "sum(try_multiply(id, 2))"),
    ("sum(id / 2)", "sum(try_divide(id, 2))"),
    ("sum(id % 2)", "sum(try_mod(id, 2))"),
    ("approx_count_distinct(id)", "approx_count_distinct(id, 0.01)"),
    ("mode(id)", "mode(id, true)"),
    ("mode(id)", "mode() WITHIN GROUP (ORDER BY id DESC)"),
    ("sum(id * 0.1)", "sum(id * 0.1D)"),
    ("max(int(id) / 3.0)", "max(int(id) / 3.0D)"),
    ("min(string(int(s)))", "min(string(double(int(s))))"),
    ("first(hash(int(s)))", "first(hash(bigint(int(s))))"),
    ("sum(shiftleft(int(s), 40))", "sum(shiftleft(bigint(int(s)), 40))"),
    ("max(to_timestamp(s, 's'))", "max(to_timestamp_ntz(s, 's'))"),
    ("sum(tried(s))", "sum(cast_it(s))"),
    ("max(X'31')", "max(X'32')"),
    ("sum(id) FILTER (WHERE int(s) > 1L)", "sum(id) FILTER (WHERE try_cast(s AS int) > 1L)"),
    ("max(IF(id > 1, 1, id + 1))", "max(IF(id > 1, 1, try_add(id, 1)))"),
    ("max(CASE id WHEN 1 THEN 1 ELSE id + 1 END)", "max(CASE id WHEN 1 THEN 1 ELSE id + 2 END)"),
    ("count_if(s LIKE ANY ('1', '2'))", "count_if(s LIKE ANY ('1, 2'))"),
    ("count_if(s LIKE ANY ('1', '2'))", "count_if(s NOT LIKE ALL ('1', '2'))"),
    ("count_if(s LIKE '1/%' ESCAPE '/')", "count_if(s LIKE '1/%')"),
    ("count_if(s ILIKE '1/%' ESCAPE '/')", "count_if(s ILIKE '1/%')"),
    ("max(from_json(j, 'a int').a)", "max(from_json(j, 'a int', map('mode', 'FAILFAST')).a)"),
    ("max(to_json(struct(t)))", "max(to_json(struct(t), map('timestampFormat', 'yyyy')))"),
    ("max(from_csv(s, 'a int').a)", "max(from_csv(s, 'a int', map('sep', ';')).a)"),
    ("max(timestampadd(HOUR, 1, t))", "max(timestampadd(DAY, 1, t))"),
    ("max(timestampdiff(HOUR, t, t))", "max(timestampdiff(DAY, t, t))"),
    ("max(element_at(array(id), 1))", "max(try_element_at(array(id), 1))"),
    ("max(array(id)[0])", "max(get(array(id), 0))"),
    ("max(to_timestamp(s, 'd'))", "max(try_to_timestamp(s, 'd'))"),
    (
        "max(variant_get(parse_json(j), '$.a', 'int'))",
        "max(variant_get(parse_json(j), '$.a', 'string'))",
    ),
    (
        "sum(struct(id, aggregate(array(id), 0L, (a, x) -> a + x) AS n).n)",
        "sum(struct(id, aggregate(array(id), 0L, (a, x) -> try_add(a, x)) AS n).n)",
    ),
]


def label_of(spark: Any, frame: Any) -> str:
    """The label of a frame's only aggregate, or function of rows."""
    written = frame._jdf.queryExecution().withCachedData()
    text = plan_text(spark, normalise(spark, written))
    kinds = ops.Aggregate | ops.MapBatches | ops.MapGroups
    (found,) = [op for op in walk(read_plan(text)) if isinstance(op, kinds)]
    return label(found).text


def of_sql(spark: Any, expression: str) -> str:
    return label_of(spark, spark.sql(f"SELECT g, {expression} AS x FROM ({ROWS}) GROUP BY g"))


@pytest.fixture(scope="module", autouse=True)
def functions(spark: Any) -> None:
    for name, body in (("tried", "try_cast(x AS INT)"), ("cast_it", "CAST(x AS INT)")):
        made = f"CREATE OR REPLACE TEMPORARY FUNCTION {name}(x STRING) RETURNS INT RETURN {body}"
        spark.sql(made)


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_other_expressions_have_other_labels(spark: Any, one: str, other: str) -> None:
    first, second = of_sql(spark, one), of_sql(spark, other)
    assert first != second
    assert (of_sql(spark, one), of_sql(spark, other)) == (first, second)


NOT_TOLD = [
    "SELECT a.id FROM v a JOIN v b ON a.i = try_cast(b.s AS int)",
    "SELECT a.id FROM v a JOIN v b ON a.s LIKE ANY ('1', '2') AND a.id = b.i",
    "SELECT a.id FROM v a JOIN v b ON from_json(a.j, 'a int').a = b.id",
    "SELECT a.id FROM v a LEFT SEMI JOIN v b ON try_add(a.i, 1) = b.id AND a.s LIKE '1' ESCAPE '/'",
    "SELECT sum(id) FILTER (WHERE s LIKE ANY ('1', '2')) FROM v",
    "SELECT window(t, '10 minutes').start AS w, try_sum(i) FROM v GROUP BY 1",
    "SELECT a.id FROM v a WHERE EXISTS (SELECT 1 FROM v b WHERE b.id = try_add(a.i, 1))",
    "SELECT a.id, (SELECT sum(b.i) FROM v b WHERE b.id = a.i) AS x FROM v a",
    "SELECT id FROM v WHERE i IN (SELECT try_add(i, 1) FROM v) AND s ILIKE '1/' ESCAPE '/'",
    "SELECT id, (SELECT try_sum(i) FROM v) AS x FROM v",
    "SELECT id, sum(try_add(i, 1)) OVER (ORDER BY CASE WHEN i > 1 THEN id ELSE i + 1 END) FROM v",
    "SELECT a.id FROM v a JOIN v b ON a.id = b.id AND binary(a.s) != X'31' AND a.s != 'x'",
]


def labels_of(spark: Any, frame: Any) -> list[str]:
    written = frame._jdf.queryExecution().withCachedData()
    text = plan_text(spark, normalise(spark, written))
    return [label(op).text for op in walk(read_plan(text))]


@pytest.mark.parametrize("query", NOT_TOLD)
def test_what_json_does_not_tell_wherever_it_stands(spark: Any, query: str) -> None:
    rows = ROWS.replace("id,", "id, int(id) AS i,", 1)
    spark.sql(rows).createOrReplaceTempView("v")
    found = [labels_of(spark, spark.sql(query)) for _ in range(2)]
    assert found[0] == found[1]
    assert "[B@" not in "".join(found[0])


def test_ansi_is_that_of_the_expression(spark: Any) -> None:
    """A view and a frame keep how they were made, whatever the session is at their capture."""
    spark.sql(ROWS).createOrReplaceTempView("v")
    query = "SELECT g, sum(int(s)) AS x FROM v GROUP BY g"
    try:
        spark.conf.set("spark.sql.ansi.enabled", "false")
        spark.sql(f"CREATE OR REPLACE TEMP VIEW loose AS {query}")
        made = spark.sql(query)
        off, of_view = labels_of(spark, made), labels_of(spark, spark.table("loose"))
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert labels_of(spark, made) == off
    assert labels_of(spark, spark.table("loose")) == of_view
    assert set(off) & set(of_view)
    again = [text for text in labels_of(spark, spark.sql(query)) if "aggregate" in text]
    assert again
    assert not set(again) & set(off)


def test_operators_that_call_user_code_tell_all_of_their_expressions(spark: Any) -> None:
    """They make nodes, which selections and filters do not by themselves."""
    frame, yes = spark.sql(ROWS), F.udf(lambda x: True, "boolean")
    for one, other in (("int(s) > 0", "try_cast(s AS int) > 0"), OTHERS_OF_WORDS):
        for use in (
            lambda text: frame.where(F.expr(text) & yes("id")),
            lambda text: frame.select(yes(F.expr(text))),
            lambda text: frame.orderBy(yes("id"), F.expr(text)),
        ):
            assert labels_of(spark, use(one)) != labels_of(spark, use(other))


OTHERS_OF_WORDS = ("s LIKE ANY ('1', '2')", "s LIKE ANY ('1', '3')")


def test_functions_have_no_names_in_labels(spark: Any) -> None:
    frame = spark.sql(ROWS)
    one, other = (F.udf(lambda x: x, "long"), F.udf(lambda x: x, "long"))
    one.__name__ = "something"
    found = [label_of(spark, frame.groupBy("g").agg(F.max(each("id")))) for each in (one, other)]
    assert found[0] == found[1]


def test_labels_without_ansi_and_in_other_time_zones(spark: Any) -> None:
    arithmetic, clock, plain = "sum(int(s) + 1)", "max(hour(t)), max(date(t))", "max(length(s))"
    before = [of_sql(spark, text) for text in (arithmetic, clock, plain)]
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.ansi.enabled", "false")
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        after = [of_sql(spark, text) for text in (arithmetic, clock, plain)]
        tried = of_sql(spark, "sum(try_add(int(s), 1))")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert [a == b for a, b in zip(after, before, strict=True)] == [False, False, True]
    assert tried not in (before[0], after[0])


def test_what_a_function_is_said_to_give(spark: Any) -> None:
    frame = spark.sql(ROWS)

    def same(group: Any) -> Any:
        return group

    def rows(batches: Any) -> Any:
        yield from batches

    scalar = [
        label_of(spark, frame.groupBy("g").agg(F.max(F.udf(lambda x: x, kind)("id"))))
        for kind in ("long", "string")
    ]
    batches = [
        label_of(spark, frame.select("id").mapInPandas(rows, "id long")),
        label_of(spark, frame.select("id").mapInPandas(rows, "id double")),
        label_of(spark, frame.select("id").mapInArrow(rows, "id long")),
    ]
    groups = [
        label_of(spark, frame.select("g", "id").groupBy("g").applyInPandas(same, f"g long, id {t}"))
        for t in ("long", "double")
    ]
    for found in (scalar, batches, groups):
        assert len(set(found)) == len(found)
