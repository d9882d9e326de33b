"""Every kind of pipeline: read one to one, golden text with paths, and the same rows."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cases import TABLES, cases
from test_read import assert_aligned, items, nodes, normalised

from golden import check
from whence.errors import UnsupportedError
from whence.plan import Generate, Operator, find, render, walk
from whence.spark.normalise import normalise, plan_text
from whence.spark.read import read_plan

pytestmark = pytest.mark.spark
GOLDEN = Path(__file__).parent / "golden"
CASES = cases()


@pytest.fixture(scope="module")
def tables(spark: Any) -> Iterator[Any]:
    for statement in TABLES.split(";"):
        spark.sql(statement)
    spark.conf.set("spark.sql.adaptive.enabled", "true")  # else Spark drops a hint
    yield spark
    spark.conf.set("spark.sql.adaptive.enabled", "false")


@pytest.mark.parametrize("name", CASES)
def test_case(tables: Any, name: str) -> None:
    frame = CASES[name](tables)
    plan = normalised(tables, frame)
    operator = read_plan(plan_text(tables, plan), (), plan.schema().json())
    assert_aligned(plan, operator)
    for node, found in zip(nodes(plan), walk(operator), strict=True):
        assert found.deterministic == all(e.deterministic() for e in items(node.expressions()))
        wanted = {reference.name() for reference in items(node.references().toSeq())}
        assert wanted <= {column.name for column in found.output} | named(found), found.id
    check(GOLDEN / "cases" / f"{name}.txt", render(operator, paths=True))


def named(operator: Operator) -> set[str]:
    """The columns that some path of an operator names."""
    moved = {path.name for m in operator.moves for path in (*m.inputs, *m.influences)}
    return moved | {path.name for path in operator.reads}


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_the_normalised_plan_gives_the_same_rows(tables: Any, name: str) -> None:
    frame = CASES[name](tables)
    plan = normalised(tables, frame)
    again = tables._jvm.org.apache.spark.sql.classic.Dataset.ofRows(tables._jsparkSession, plan)
    assert rows(again) == rows(frame._jdf)


def rows(frame: Any) -> Counter[str]:
    return Counter(frame.toDF().toJSON().collectAsList())


REFUSED = {
    "recursion": (
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) "
        "SELECT * FROM r",
        r"UnionLoop \(at Project > UnionLoop\); recursive queries",
    ),
    "transform": (
        "SELECT TRANSFORM(a, b) USING 'cat' FROM t",
        "ScriptTransformation .*mapInPandas",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused_by_name(tables: Any, name: str) -> None:
    text, message = REFUSED[name]
    plan = normalised(tables, tables.sql(text))
    with pytest.raises(UnsupportedError, match=message):
        read_plan(plan_text(tables, plan))


def test_a_stream_is_refused_with_advice(tables: Any) -> None:
    frame = tables.readStream.format("rate").load().filter("value > 1")
    plan = normalise(tables, frame._jdf.queryExecution().analyzed())
    with pytest.raises(UnsupportedError, match=r"stream \(at Filter > .*foreachBatch"):
        read_plan(plan_text(tables, plan))


def test_a_python_table_function_is_an_opaque_generator(tables: Any) -> None:
    from pyspark.sql import functions as f

    class Twice:
        def eval(self, number):  # type: ignore[no-untyped-def]
            yield (number,)
            yield (number,)

    frame = f.udtf(Twice, returnType="n int")(f.lit(1))
    plan = normalised(tables, frame)
    operator = read_plan(plan_text(tables, plan))
    assert_aligned(plan, operator)
    (generate,) = find(operator, Generate)
    assert generate.function == "PythonUDTF"
    assert [move.how for move in generate.moves] == ["undefined"]


def test_a_session_variable_is_a_constant_of_the_plan(tables: Any) -> None:
    tables.sql("DECLARE OR REPLACE VARIABLE floor INT = 2")
    plan = normalised(tables, tables.sql("SELECT a FROM t WHERE a > floor"))
    operator = read_plan(plan_text(tables, plan))
    assert_aligned(plan, operator)
    assert "a > floor" in render(operator)


def test_a_cached_frame_is_a_source(tables: Any) -> None:
    frame = tables.table("u").filter("a > 1").cache()
    try:
        plan = normalised(tables, frame.select("a"))
        operator = read_plan(plan_text(tables, plan))
        assert_aligned(plan, operator)
        assert render(operator) == "project-1  a\n└─ source-2  source-2 (cached)\n"
    finally:
        frame.unpersist()


def test_a_table_names_its_source(tables: Any) -> None:
    tables.sql("CREATE TABLE IF NOT EXISTS kept (k INT) USING parquet")
    try:
        operator = read_plan(plan_text(tables, normalised(tables, tables.table("kept"))))
        assert render(operator) == "source-1  kept (relation)\n"
    finally:
        tables.sql("DROP TABLE kept")


def test_numbers_and_ids_are_the_same_every_time(tables: Any) -> None:
    for name in ("cte_twice", "self_join", "rollup", "exists_in_exists"):
        first, second = (
            read_plan(plan_text(tables, normalised(tables, CASES[name](tables)))) for _ in range(2)
        )
        assert first == second


@pytest.mark.parametrize(
    "expression", ["rand(1)", "uuid()", "monotonically_increasing_id()", "shuffle(xs)"]
)
def test_what_is_not_deterministic_says_so(tables: Any, expression: str) -> None:
    plan = normalised(tables, tables.sql(f"SELECT {expression} AS r FROM t"))
    assert not read_plan(plan_text(tables, plan)).deterministic


def test_a_deep_plan_is_read(tables: Any) -> None:
    text = " OR ".join(f"a = {i}" for i in range(1500))
    frame = tables.table("t").filter(text)
    for i in range(60):
        frame = frame.filter(f"a > {i}").limit(1000)
    plan = normalised(tables, frame)
    assert len(list(walk(read_plan(plan_text(tables, plan))))) > 180
