"""EXCEPT and INTERSECT, plain and ALL, against the oracle."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import ANY_MODE, FULL, TABLES, Pipeline, check, few
from oracle import (
    Row,
    Table,
    count,
    distinct,
    group,
    intersect,
    join,
    project,
    select,
    subtract,
    union,
)

pytestmark = pytest.mark.spark


def _pair(t: Table, u: Table) -> tuple[Table, Table]:
    return project(t, {"k": "k", "a.b": "a.b"}), project(u, {"k": "j", "a.b": "y"})


def _set(word: str, function: Any, *, all: bool = False) -> Pipeline:
    return Pipeline(
        f"SELECT k, `a.b` FROM t {word} SELECT j, y FROM u",
        lambda t, u: function(*_pair(t, u), all=all),
    )


def _keys(t: Table, u: Table) -> tuple[Table, Table]:
    return select(t, k="k"), select(u, k="j")


PIPELINES = {
    "intersect": _set("INTERSECT", intersect),
    "intersect all": _set("INTERSECT ALL", intersect, all=True),
    "except": _set("EXCEPT", subtract),
    "except all": _set("EXCEPT ALL", subtract, all=True),
    "except all of keys": Pipeline(
        "SELECT k FROM t EXCEPT ALL SELECT j FROM u",
        lambda t, u: subtract(*_keys(t, u), all=True),
    ),
    "intersect all of keys": Pipeline(
        "SELECT k FROM t INTERSECT ALL SELECT j FROM u",
        lambda t, u: intersect(*_keys(t, u), all=True),
    ),
    "minus with itself": Pipeline(
        "SELECT k FROM t WHERE `a.b` = 1 EXCEPT SELECT k FROM t WHERE `a.b` = 2",
        lambda t, u: subtract(
            select([r for r in t if r["a.b"] == 1], k="k"),
            select([r for r in t if r["a.b"] == 2], k="k"),
        ),
    ),
    "group over intersect all": Pipeline(
        "SELECT k, count(*) FROM (SELECT k FROM t INTERSECT ALL SELECT j FROM u) GROUP BY k",
        lambda t, u: group(intersect(*_keys(t, u), all=True), {"k": "k"}, a=count()),
    ),
    "join over except all": Pipeline(
        "SELECT k, y FROM (SELECT k FROM t EXCEPT ALL SELECT 2) JOIN u ON k = j",
        lambda t, u: select(
            join(
                subtract(select(t, k="k"), [Row({"k": 2})], all=True),
                u,
                "inner",
                lambda a, b: a["k"] is not None and a["k"] == b["j"],
            ),
            k="k",
            y="y",
        ),
    ),
    "union distinct": Pipeline(
        "SELECT k, `a.b` FROM t UNION SELECT j, y FROM u",
        lambda t, u: distinct(union(*_pair(t, u))),
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_set(workshop: Any, name: str) -> None:
    check(workshop, PIPELINES[name], FULL)


@pytest.mark.slow
@few
@given(name=st.sampled_from(sorted(PIPELINES)), tables=TABLES, mode=ANY_MODE)
def test_any_tables(workshop: Any, name: str, tables: Any, mode: str) -> None:
    check(workshop, PIPELINES[name], tables, [mode])
