"""Scalar, IN and EXISTS subqueries, correlated or not: against the oracle."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import ANY_MODE, FULL, TABLES, Pipeline, check, few
from oracle import (
    Values,
    average,
    count,
    distinct,
    group,
    join,
    largest,
    project,
    select,
    smallest,
    total,
    union,
    where,
    with_column,
    with_scalar,
)

pytestmark = pytest.mark.spark

T = ("k", "a.b", "select")


def equal(left: Values, right: Values) -> Any:
    return left["k"] is not None and left["k"] == right["j"]


def always(left: Values, right: Values) -> bool:
    return True


def less(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a < b


def not_in(left: Values, right: Values) -> bool:
    """What stands in the way of `k NOT IN (…)`: an equal value, or one that may be equal."""
    return left["k"] is None or right["j"] is None or left["k"] == right["j"]


def keys(table: Any) -> Any:
    return project(table, {name: name for name in T})


def lateral(t: Any, u: Any) -> Any:
    """What the rows of t have in common that the subquery looks at is where it begins."""
    seen = distinct(project(t, {"c": "k", "d": "a.b"}))
    matching = join(seen, u, "inner", lambda a, b: equal({"k": a["c"]}, b))
    both = union(select(matching, v="y", c="c", d="d"), select(seen, v="d", c="c", d="d"))
    same = join(t, both, "inner", lambda a, b: (a["k"], a["a.b"]) == (b["c"], b["d"]))
    return select(same, k="k", v="v")


PIPELINES = {
    "union in a lateral subquery": Pipeline(
        "SELECT k, v FROM t, LATERAL (SELECT y AS v FROM u WHERE j = k UNION ALL SELECT `a.b`)",
        lateral,
    ),
    "scalar": Pipeline(
        "SELECT k, (SELECT max(y) FROM u) AS m FROM t",
        lambda t, u: select(with_scalar(t, "m", group(u, {}, m=largest("y"))), k="k", m="m"),
    ),
    "scalar in filter": Pipeline(
        "SELECT * FROM t WHERE `a.b` < (SELECT avg(y) FROM u)",
        lambda t, u: keys(
            where(
                with_scalar(t, "m", group(u, {}, m=average("y"))),
                lambda r: less(r["a.b"], r["m"]),
            )
        ),
    ),
    "scalar of a row": Pipeline(
        "SELECT k, (SELECT y FROM u WHERE j = 4) AS m FROM t",
        lambda t, u: select(
            with_scalar(t, "m", select(where(u, lambda r: r["j"] == 4)[:1], y="y")), k="k", m="m"
        ),
    ),
    "scalar twice": Pipeline(
        "SELECT k, (SELECT count(*) FROM u) AS m FROM t WHERE `a.b` < (SELECT max(y) FROM u)",
        lambda t, u: select(
            where(
                with_scalar(
                    with_scalar(t, "m", group(u, {}, m=count())), "n", group(u, {}, n=largest("y"))
                ),
                lambda r: less(r["a.b"], r["n"]),
            ),
            k="k",
            m="m",
        ),
    ),
    "scalar in having": Pipeline(
        "SELECT k, sum(`a.b`) AS s FROM t GROUP BY k HAVING sum(`a.b`) > (SELECT min(y) FROM u)",
        lambda t, u: _having(t, u),
    ),
    "scalar over a join": Pipeline(
        "SELECT k, (SELECT count(*) FROM t JOIN u ON k = j) AS m FROM t",
        lambda t, u: select(
            with_scalar(t, "m", group(join(t, u, "inner", equal), {}, m=count())), k="k", m="m"
        ),
    ),
    "correlated scalar": Pipeline(
        "SELECT k, (SELECT max(y) FROM u WHERE j = k) AS m FROM t",
        lambda t, u: select(
            join(t, group(u, {"j": "j"}, m=largest("y")), "left", equal, ((), ("j", "m"))),
            k="k",
            m="m",
        ),
    ),
    "correlated count": Pipeline(
        "SELECT k, (SELECT count(*) FROM u WHERE j = k) AS m FROM t",
        lambda t, u: select(
            with_column(
                join(t, group(u, {"j": "j"}, m=count()), "left", equal, ((), ("j", "m"))),
                "m",
                lambda r: r["m"] or 0,
            ),
            k="k",
            m="m",
        ),
    ),
    "in": Pipeline(
        "SELECT * FROM t WHERE k IN (SELECT j FROM u)", lambda t, u: join(t, u, "semi", equal)
    ),
    "not in": Pipeline(
        "SELECT * FROM t WHERE k NOT IN (SELECT j FROM u WHERE y = 0)",
        lambda t, u: join(t, where(u, lambda r: r["y"] == 0), "anti", not_in),
    ),
    "exists": Pipeline(
        "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE j = k AND y >= 1)",
        lambda t, u: join(t, where(u, lambda r: r["y"] is not None and r["y"] >= 1), "semi", equal),
    ),
    "exists uncorrelated": Pipeline(
        "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE y = 1)",
        lambda t, u: join(t, where(u, lambda r: r["y"] == 1), "semi", always),
    ),
    "not exists": Pipeline(
        "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE j = k)",
        lambda t, u: join(t, u, "anti", equal),
    ),
    "not exists uncorrelated": Pipeline(
        "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE y = 77)", lambda t, u: t
    ),
    "in as a column": Pipeline(
        "SELECT k, EXISTS (SELECT 1 FROM u WHERE j = k) AS e FROM t",
        lambda t, u: select(join(t, u, "existence", equal), k="k", e="exists"),
    ),
    "in over an aggregate": Pipeline(
        "SELECT * FROM t WHERE k IN (SELECT j FROM u GROUP BY j HAVING count(*) > 1)",
        lambda t, u: join(
            t, where(group(u, {"j": "j"}, n=count()), lambda r: r["n"] > 1), "semi", equal
        ),
    ),
    "exists in exists": Pipeline(
        "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE j = k AND EXISTS "
        "(SELECT 1 FROM t AS s WHERE s.`a.b` = y))",
        lambda t, u: join(
            t,
            join(
                u,
                t,
                "semi",
                lambda a, b: a["y"] is not None and a["y"] == b["a.b"],
            ),
            "semi",
            equal,
        ),
    ),
    "cte used twice": Pipeline(
        "WITH c AS (SELECT k, sum(`a.b`) AS s FROM t GROUP BY k) "
        "SELECT k, s FROM c WHERE s = (SELECT max(s) FROM c)",
        lambda t, u: _top(t),
    ),
}


def _having(t: Any, u: Any) -> Any:

    grouped = group(t, {"k": "k"}, s=total("a.b"))
    beside = with_scalar(grouped, "m", group(u, {}, m=smallest("y")))
    return select(where(beside, lambda r: less(r["m"], r["s"])), k="k", s="s")


def _top(t: Any) -> Any:
    sums = group(t, {"k": "k"}, s=total("a.b"))
    beside = with_scalar(sums, "m", group(sums, {}, m=largest("s")))
    return select(where(beside, lambda r: r["s"] is not None and r["s"] == r["m"]), k="k", s="s")


@pytest.mark.parametrize("name", PIPELINES)
def test_subquery(workshop: Any, name: str) -> None:
    check(workshop, PIPELINES[name], FULL)


# A scalar subquery of a row fails if there are two, as it may with any tables.
ALWAYS = [name for name in PIPELINES if name != "scalar of a row"]


@pytest.mark.slow
@few
@given(name=st.sampled_from(sorted(ALWAYS)), tables=TABLES, mode=ANY_MODE)
def test_any_tables(workshop: Any, name: str, tables: Any, mode: str) -> None:
    check(workshop, PIPELINES[name], tables, [mode])
