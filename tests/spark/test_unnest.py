"""explode and friends, lateral views, stack, inline, unpivot: against the oracle."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import ANY_MODE, FULL, TABLES, Pipeline, check, few
from oracle import (
    Table,
    Values,
    collected,
    count,
    explode,
    group,
    join,
    largest,
    project,
    select,
    unpivot,
    where,
    with_scalar,
)
from pyspark.sql import functions as F  # noqa: N812

import whence

pytestmark = pytest.mark.spark


def tags(values: Values) -> Any:
    return [(tag,) for tag in values["tags"] or []]


def numbered_tags(values: Values) -> Any:
    return list(enumerate(values["tags"] or []))


def pairs(values: Values) -> Any:
    return [(values["j"], "a"), (values["y"], "b")]


def unpivoted(session: Any) -> Any:
    frame = session.table("u").selectExpr("j", "y", "CAST(j AS BIGINT) AS i")
    return frame.unpivot("j", ["y", "i"], "variable", "value")


def oracle_unpivoted(t: Table, u: Table) -> Table:
    return unpivot(project(u, {"j": "j", "y": "y", "i": "j"}), ["j"], ["y", "i"])


PIPELINES = {
    "explode": Pipeline(
        "SELECT j, explode(tags) AS tag FROM u",
        lambda t, u: select(explode(u, tags, ["tag"]), j="j", tag="tag"),
    ),
    "explode_outer": Pipeline(
        "SELECT j, explode_outer(tags) AS tag FROM u",
        lambda t, u: select(explode(u, tags, ["tag"], outer=True), j="j", tag="tag"),
    ),
    "posexplode": Pipeline(
        "SELECT j, posexplode(tags) FROM u",
        lambda t, u: select(explode(u, numbered_tags, ["pos", "col"]), j="j", pos="pos", col="col"),
    ),
    "posexplode_outer": Pipeline(
        lambda s: s.table("u").select("y", F.posexplode_outer("tags")),
        lambda t, u: select(
            explode(u, numbered_tags, ["pos", "col"], outer=True), y="y", pos="pos", col="col"
        ),
    ),
    "lateral view": Pipeline(
        "SELECT j, tag FROM u LATERAL VIEW explode(tags) AS tag",
        lambda t, u: select(explode(u, tags, ["tag"]), j="j", tag="tag"),
    ),
    "lateral view outer": Pipeline(
        "SELECT j, tag, other FROM u LATERAL VIEW OUTER explode(tags) AS tag "
        "LATERAL VIEW explode(array(1, 2)) AS other",
        lambda t, u: select(
            explode(explode(u, tags, ["tag"], outer=True), lambda r: [(1,), (2,)], ["other"]),
            j="j",
            tag="tag",
            other="other",
        ),
    ),
    "explode a map": Pipeline(
        "SELECT k, explode(map('p', `a.b`, 'q', 1)) FROM t",
        lambda t, u: select(
            explode(t, lambda r: [("p", r["a.b"]), ("q", 1)], ["key", "value"]),
            k="k",
            key="key",
            value="value",
        ),
    ),
    "inline": Pipeline(
        "SELECT j, inline(array(struct(j AS a, 'a' AS b), struct(CAST(y AS INT) AS a, 'b' AS b))) "
        "FROM u",
        lambda t, u: project(explode(u, pairs, ["n", "s"]), {"j": "j", "n": "n", "s": "s"}),
    ),
    "inline_outer": Pipeline(
        "SELECT y, inline_outer(transform(tags, x -> struct(x, j))) FROM u",
        lambda t, u: select(
            explode(u, lambda r: [(x, r["j"]) for x in r["tags"] or []], ["a", "b"], outer=True),
            y="y",
            a="a",
            b="b",
        ),
    ),
    "stack": Pipeline(
        "SELECT y, stack(2, j, 'a', CAST(y AS INT), 'b') FROM u",
        lambda t, u: project(explode(u, pairs, ["n", "s"]), {"y": "y", "n": "n", "s": "s"}),
    ),
    "unpivot": Pipeline(unpivoted, oracle_unpivoted),
    "filter over unpivot": Pipeline(
        lambda s: unpivoted(s).where("value > 0").select("j", "value"),
        lambda t, u: select(
            where(oracle_unpivoted(t, u), lambda r: r["value"] is not None and r["value"] > 0),
            j="j",
            value="value",
        ),
    ),
    "group over unpivot": Pipeline(
        lambda s: unpivoted(s).groupBy("variable").agg(F.max("value").alias("m")),
        lambda t, u: group(oracle_unpivoted(t, u), {"variable": "variable"}, m=largest("value")),
    ),
    "scalar over unpivot": Pipeline(
        lambda s: (
            unpivoted(s).createOrReplaceTempView("unpivoted"),
            s.sql("SELECT k, 0 + (SELECT max(value) FROM unpivoted) AS m FROM t WHERE k = 1"),
        )[1],
        lambda t, u: select(
            with_scalar(
                where(t, lambda r: r["k"] == 1),
                "m",
                group(oracle_unpivoted(t, u), {}, m=largest("value")),
            ),
            k="k",
            m="m",
        ),
    ),
    "group over explode": Pipeline(
        "SELECT tag, count(*) FROM (SELECT explode(tags) AS tag FROM u) GROUP BY tag",
        lambda t, u: group(explode(u, tags, ["tag"]), {"tag": "tag"}, a=count()),
    ),
    "explode a collected list": Pipeline(
        "SELECT k, explode(l) AS n FROM (SELECT k, collect_list(`a.b`) AS l FROM t GROUP BY k)",
        lambda t, u: select(
            explode(
                group(t, {"k": "k"}, l=collected("a.b")), lambda r: [(x,) for x in r["l"]], ["n"]
            ),
            k="k",
            n="n",
        ),
    ),
    "semi join over explode": Pipeline(
        "SELECT j, tag FROM (SELECT j, explode(tags) AS tag FROM u) LEFT SEMI JOIN t ON j = k",
        lambda t, u: select(
            join(
                explode(u, tags, ["tag"]),
                t,
                "semi",
                lambda a, b: a["j"] is not None and a["j"] == b["k"],
            ),
            j="j",
            tag="tag",
        ),
    ),
    "semi join over stack": Pipeline(
        "SELECT j, n FROM (SELECT j, stack(2, 1, 1) AS n FROM u) LEFT SEMI JOIN t ON j = k",
        lambda t, u: select(
            join(
                explode(u, lambda r: [(1,), (1,)], ["n"]),
                t,
                "semi",
                lambda a, b: a["j"] is not None and a["j"] == b["k"],
            ),
            j="j",
            n="n",
        ),
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_unnest(workshop: Any, name: str) -> None:
    check(workshop, PIPELINES[name], FULL)


@pytest.mark.slow
@few
@given(name=st.sampled_from(sorted(PIPELINES)), tables=TABLES, mode=ANY_MODE)
def test_any_tables(workshop: Any, name: str, tables: Any, mode: str) -> None:
    check(workshop, PIPELINES[name], tables, [mode])


def test_python_table_functions(workshop: Any) -> None:
    @F.udtf(returnType="x int")
    class Twice:
        def eval(self, number):  # type: ignore[no-untyped-def]
            yield (number,)
            yield (number,)

    @F.udtf(returnType="x int")
    class Total:
        def __init__(self) -> None:
            self.total = 0

        def eval(self, number):  # type: ignore[no-untyped-def]
            self.total += number

        def terminate(self):  # type: ignore[no-untyped-def]
            yield (self.total,)

    session = workshop.session
    session.udtf.register("twice", Twice)
    session.udtf.register("total", Total)
    workshop.views({"t": [], "u": [{"j": 1, "y": 5, "tags": []}, {"j": 2, "y": 6, "tags": []}]})
    frame = session.sql("SELECT z.x FROM u, LATERAL twice(j) z")
    run = whence.capture(frame, archive=workshop.folder(), mode="eager", progress=False)
    assert run.trace("x = 2")["u"].locators()["row"].to_pylist() == [1]
    with pytest.raises(whence.UnsupportedError, match=r"total.*state.*mapInPandas"):
        frame = session.sql("SELECT z.x FROM u, LATERAL total(j) z")
        whence.capture(frame, archive=workshop.folder(), progress=False)
