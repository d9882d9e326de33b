"""Joins of every type and condition, against the oracle."""

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import ANY_MODE, FULL, TABLES, Pipeline, T, U, check, few
from oracle import join, project, select, where

pytestmark = pytest.mark.spark


def equal(left: dict[str, Any], right: dict[str, Any]) -> Any:
    return None if left["k"] is None or right["j"] is None else left["k"] == right["j"]


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left["k"] == right["j"]


def between(left: dict[str, Any], right: dict[str, Any]) -> Any:
    if left["a.b"] is None or right["y"] is None:
        return None
    return left["a.b"] <= right["y"] and left["a.b"] + 2 > right["y"]


def _compare(test: Any, one: Any, other: Any) -> Any:
    return None if one is None or other is None else test(one, other)


def other_value(left: dict[str, Any], right: dict[str, Any]) -> Any:
    return equal(left, right) and _compare(operator.ne, left["a.b"], right["y"])


def smaller(left: dict[str, Any], right: dict[str, Any]) -> Any:
    other_key = _compare(operator.ne, right["j"], 2)
    return _compare(operator.lt, right["y"], left["a.b"]) and other_key


def either(left: dict[str, Any], right: dict[str, Any]) -> Any:
    return equal(left, right) or _compare(operator.eq, left["a.b"], right["y"])


def always(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return True


def _two_sided(how: str, on: str, condition: Any) -> Pipeline:
    return Pipeline(
        f"SELECT k, `a.b`, `select`, j, y FROM t {how.upper()} JOIN u {on}",
        lambda t, u: join(t, select(u, j="j", y="y"), how, condition, (T, U[:2])),
    )


def _one_sided(how: str, on: str, condition: Any) -> Pipeline:
    return Pipeline(
        f"SELECT * FROM t LEFT {how.upper()} JOIN u {on}",
        lambda t, u: join(t, u, how, condition),
    )


PIPELINES = {
    "inner": _two_sided("inner", "ON k = j", equal),
    "left": _two_sided("left", "ON k = j", equal),
    "right": _two_sided("right", "ON k = j", equal),
    "full": _two_sided("full", "ON k = j", equal),
    "cross": _two_sided("cross", "", always),
    "null-safe": _two_sided("full", "ON k <=> j", same),
    "range condition": _two_sided("inner", "ON `a.b` <= y AND `a.b` + 2 > y", between),
    "full range condition": _two_sided("full", "ON `a.b` <= y AND `a.b` + 2 > y", between),
    "semi": _one_sided("semi", "ON k = j", equal),
    "semi null-safe": _one_sided("semi", "ON k <=> j", same),
    "semi range": _one_sided("semi", "ON `a.b` <= y AND `a.b` + 2 > y", between),
    "semi equal and unequal": _one_sided("semi", "ON k = j AND NOT (y = `a.b`)", other_value),
    "semi smaller": _one_sided("semi", "ON y < `a.b` AND j != 2", smaller),
    "semi either": _one_sided("semi", "ON k = j OR `a.b` = y", either),
    "existence equal and unequal": Pipeline(
        "SELECT k, EXISTS (SELECT 1 FROM u WHERE j = k AND y != `a.b`) AS e FROM t",
        lambda t, u: project(join(t, u, "existence", other_value), {"k": "k", "e": "exists"}),
    ),
    "semi without condition": _one_sided("semi", "", always),
    "anti": _one_sided("anti", "ON k = j", equal),
    "anti range": _one_sided("anti", "ON `a.b` <= y AND `a.b` + 2 > y", between),
    "self": Pipeline(
        "SELECT a.k, b.`select` FROM t a JOIN t b ON a.k = b.k",
        lambda t, u: project(
            join(
                select(t, k="k"),
                project(t, {"j": "k", "select": "select"}),
                "inner",
                equal,
            ),
            {"k": "k", "select": "select"},
        ),
    ),
    "existence": Pipeline(
        "SELECT k, `a.b` FROM t WHERE `a.b` = 1 OR EXISTS (SELECT 1 FROM u WHERE j = k)",
        lambda t, u: project(
            where(
                join(t, u, "existence", equal),
                lambda r: r["exists"] or r["a.b"] == 1,
            ),
            {"k": "k", "a.b": "a.b"},
        ),
    ),
    "semi over join": Pipeline(
        "SELECT k, j, y FROM t JOIN u ON k = j LEFT SEMI JOIN t AS s ON s.`a.b` = y",
        lambda t, u: select(
            join(
                join(t, u, "inner", equal),
                project(t, {"k2": "k", "z": "a.b"}),
                "semi",
                lambda a, b: None if a["y"] is None or b["z"] is None else a["y"] == b["z"],
            ),
            k="k",
            j="j",
            y="y",
        ),
    ),
    "join over semi": Pipeline(
        "SELECT k, `select`, y FROM (SELECT * FROM t LEFT SEMI JOIN u ON k = j) JOIN u ON k = j",
        lambda t, u: project(
            join(join(t, u, "semi", equal), u, "inner", equal),
            {"k": "k", "select": "select", "y": "y"},
        ),
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_join(workshop: Any, name: str) -> None:
    check(workshop, PIPELINES[name], FULL)


@pytest.mark.slow
@few
@given(name=st.sampled_from(sorted(PIPELINES)), tables=TABLES, mode=ANY_MODE)
def test_join_any(workshop: Any, name: str, tables: Any, mode: str) -> None:
    check(workshop, PIPELINES[name], tables, [mode])
