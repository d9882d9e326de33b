"""What makes an expression another one is in its label, also what Spark's JSON does not tell."""

from typing import Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from whence.plan import operators as ops
from whence.plan.catalyst import read_plan
from whence.plan.labels import label
from whence.plan.tree import walk
from whence.spark.normalise import normalise, plan_text
from whence.spark.untold import is_suspect

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
    text = plan_text(spark, normalise(spark, written), is_suspect(spark, written))
    kinds = ops.Aggregate | ops.MapBatches | ops.MapGroups
    (found,) = [op for op in walk(read_plan(text)) if isinstance(op, kinds)]
    return label(found).text


def of_sql(spark: Any, expression: str) -> str:
    return label_of(spark, spark.sql(f"SELECT g, {expression} AS x FROM ({ROWS}) GROUP BY g"))


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_other_expressions_have_other_labels(spark: Any, one: str, other: str) -> None:
    first, second = of_sql(spark, one), of_sql(spark, other)
    assert first != second
    assert (of_sql(spark, one), of_sql(spark, other)) == (first, second)


def test_labels_of_what_is_far_behind_in_a_long_list(spark: Any) -> None:
    """Spark cuts long texts off, as people read them."""
    length = spark.conf.get("spark.sql.debug.maxToStringFields")
    many = ", ".join(f"'f{i}', id" for i in range(40))
    one, other = (
        of_sql(spark, f"max(named_struct({many}, 'last', {last}))")
        for last in ("int(s)", "try_cast(s AS int)")
    )
    assert one != other
    assert spark.conf.get("spark.sql.debug.maxToStringFields") == length


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
