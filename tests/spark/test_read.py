"""Spark plans read into whence's plan: one to one, all of TPC-H, a golden file each."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from golden import check
from whence.plan import Operator, Source, find, render, unsafe_paths, walk
from whence.spark.normalise import normalise, plan_text
from whence.spark.read import Leaf, read_plan, source_names

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parent / "golden"
QUERIES = sorted((Path(__file__).parents[2] / "benchmarks" / "queries").glob("*.sql"))


def normalised(spark: Any, frame: Any) -> Any:
    return normalise(spark, frame._jdf.queryExecution().withCachedData())


def read(spark: Any, frame: Any) -> Operator:
    plan = normalised(spark, frame)
    return read_plan(plan_text(spark, plan), (), plan.schema().json())


def items(seq: Any) -> list[Any]:
    return [seq.apply(i) for i in range(seq.size())]


def nodes(plan: Any) -> list[Any]:
    """A Spark plan in the order of `walk`."""
    inner = [*items(plan.subqueries()), *items(plan.children())]
    return [plan, *(node for each in inner for node in nodes(each))]


def assert_aligned(node: Any, operator: Operator) -> None:
    """Walk both trees side by side."""
    assert node.getClass().getSimpleName().rstrip("$") == operator.node
    children, subqueries = items(node.children()), items(node.subqueries())
    assert len(children) == len(operator.children)
    assert len(subqueries) == len(operator.subqueries)
    names = [attribute.name() for attribute in items(node.output())]
    assert names == [column.name for column in operator.output]
    for each, attribute in zip(operator.output, items(node.output()), strict=True):
        assert each.type in ("?", attribute.dataType().simpleString()), (operator.id, each)
    for child, found in zip(children, operator.children, strict=True):
        assert_aligned(child, found)
    for plan, found in zip(subqueries, operator.subqueries, strict=True):
        assert_aligned(plan, found)


def test_all_queries_are_there() -> None:
    assert len(QUERIES) == 22


@pytest.mark.parametrize("query", QUERIES, ids=lambda path: path.stem)
def test_tpch(spark: Any, tpch: Path, query: Path) -> None:
    frame = spark.sql(query.read_text(encoding="utf-8"))
    plan = normalised(spark, frame)
    text = plan_text(spark, plan)
    operator = read_plan(text, (), plan.schema().json())
    assert_aligned(plan, operator)
    assert "outer(" not in plan.toString()
    assert source_names(operator) == tuple(found.name for found in find(operator, Source))
    assert all(column.type != "?" for column in operator.output)
    ids = [each.id for each in walk(operator)]
    assert [int(each.rpartition("-")[2]) for each in ids] == list(range(1, len(ids) + 1))
    unsafe = "".join(
        f"unsafe: {', '.join(path)}\n" for path in unsafe_paths(operator, one_row=True)
    )
    check(GOLDEN / "tpch" / f"{query.stem}.txt", render(operator) + unsafe)


def test_the_text_is_that_of_to_json(spark: Any, tpch: Path) -> None:
    plan = normalised(spark, spark.table("lineitem").filter("l_comment = 'ä €'"))
    assert json.loads(plan_text(spark, plan)) == json.loads(plan.toJSON())


def test_leaves_fill_in_what_the_text_does_not_say(spark: Any, tpch: Path) -> None:
    plan = normalised(spark, spark.table("region").join(spark.table("nation")))
    text = plan_text(spark, plan)
    leaves = (Leaf("region", "parquet", "/data/region"), Leaf("", "parquet", "/data/nation"))
    found = [each for each in walk(read_plan(text, leaves)) if not each.children]
    assert [(s.name, s.format, s.location) for s in found] == [
        ("region", "parquet", "/data/region"),
        ("nation", "parquet", "/data/nation"),
    ]
    with pytest.raises(ValueError, match="2 sources"):
        read_plan(text, (Leaf("region"),))


FIXTURES = Path(__file__).parents[1] / "plan" / "fixtures"
TWEETS = (
    "text string, user struct<id_str: string, name: string>, "
    "user_mentions array<struct<id_str: string, name: string>>, retweet_cnt int"
)


def tweets(spark: Any) -> Any:
    """The running example of the structural provenance model: authors and the mentioned."""
    spark.createDataFrame([], TWEETS).createOrReplaceTempView("tweets")
    return spark.sql("""
        SELECT user, collect_list(tweet) AS tweets FROM (
          SELECT struct(user.id_str, user.name) AS user, struct(text) AS tweet FROM tweets
          WHERE retweet_cnt = 0
          UNION ALL
          SELECT struct(m_user.id_str, m_user.name), struct(text) FROM tweets
          LATERAL VIEW explode(user_mentions) AS m_user)
        GROUP BY user""")


@pytest.mark.parametrize("name", ["tweets", "q22"])
def test_fixtures_are_what_spark_writes(spark: Any, tpch: Path, name: str) -> None:
    query = tweets(spark) if name == "tweets" else spark.sql(QUERIES[21].read_text("utf-8"))
    text = plan_text(spark, normalised(spark, query))
    path = FIXTURES / f"{name}.json"
    if os.environ.get("WHENCE_WRITE_GOLDEN"):
        path.write_text(json.dumps(slim(json.loads(text)), separators=(",", ":")) + "\n", "utf-8")
    assert read_plan(path.read_text("utf-8")) == read_plan(text)


NOISE = {"jvmId", "metadata", "explicitMetadata", "nonInheritableMetadataKeys", "storage", "schema"}


def slim(value: Any) -> Any:
    """A plan's JSON without what is never read."""
    if isinstance(value, list):
        return [slim(each) for each in value]
    if isinstance(value, dict):
        return {k: slim(v) for k, v in value.items() if k not in NOISE}
    return value
