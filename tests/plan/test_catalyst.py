"""Plans read from stored text, without Spark."""

import json
from pathlib import Path
from typing import Any

import pytest

from golden import check
from whence.errors import UnsupportedError
from whence.plan import Filter, Operator, find, from_json, render, sources, to_json, unsafe_paths
from whence.plan.catalyst import Leaf, read_plan

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = ("q22", "tweets")
EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
PLANS = "org.apache.spark.sql.catalyst.plans.logical."


def fixture(name: str) -> Operator:
    return read_plan((FIXTURES / f"{name}.json").read_text("utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_golden(name: str) -> None:
    operator = fixture(name)
    check(FIXTURES / f"{name}.txt", render(operator, paths=True))
    assert from_json(json.loads(json.dumps(to_json(operator)))) == operator


def test_a_subquery_hangs_on_its_operator() -> None:
    holders = [found for found in find(fixture("q22"), Filter) if found.subqueries]
    (holder,) = holders
    assert f"(subquery {holder.subqueries[0].id})" in holder.predicate.text
    assert [path.input for path in holder.reads] == [0, 0, 1]


def test_an_average_beside_not_exists_does_not_replay() -> None:
    paths = unsafe_paths(fixture("q22"), one_row=True)
    assert paths == (("aggregate-2", "join-5", "aggregate-7"), ("aggregate-2", "join-5"))


def test_leaves_name_sources() -> None:
    text = (FIXTURES / "tweets.json").read_text("utf-8")
    named = read_plan(text, [Leaf("a", "json", "/a"), Leaf("b", "json", "/b")])
    assert [(s.name, s.format, s.location) for s in sources(named)] == [
        ("a", "json", "/a"),
        ("b", "json", "/b"),
    ]


def node(name: str, /, *below: list[dict[str, Any]], **fields: Any) -> list[dict[str, Any]]:
    head = {"class": PLANS + name, "num-children": len(below), **fields}
    return [head, *(each for tree in below for each in tree)]


def test_an_unknown_operator_is_named_with_its_place_and_advice() -> None:
    plan = node("GlobalLimit", node("Teleport", node("OneRowRelation")), limitExpr=[])
    with pytest.raises(UnsupportedError) as caught:
        read_plan(json.dumps(plan))
    assert str(caught.value) == (
        "whence does not know the operator Teleport (at GlobalLimit > Teleport); write its result "
        "to Parquet and read that, so that the trace ends there, or leave it out"
    )


def test_projections_that_spark_left_out_are_not_guessed() -> None:
    plan = node("Expand", node("OneRowRelation"), projections=None, output=[])
    with pytest.raises(UnsupportedError, match="says nothing of its projections"):
        read_plan(json.dumps(plan))


@pytest.mark.parametrize("around", ["root", "array", "map", "struct"])
def test_fields_that_differ_in_case_alone_are_refused(around: str) -> None:
    twins = {"type": "struct", "fields": [{"name": n, "type": "integer"} for n in ("q", "a", "A")]}
    kinds: dict[str, Any] = {
        "root": twins,
        "array": {"type": "array", "elementType": twins},
        "map": {"type": "map", "keyType": "string", "valueType": twins},
        "struct": {"type": "struct", "fields": [{"name": "s", "type": twins}]},
    }
    column = {
        "class": EXPRESSIONS + "AttributeReference",
        "num-children": 0,
        "name": "st",
        "dataType": kinds[around],
        "nullable": True,
        "exprId": {"id": 1},
    }
    plan = node("Project", node("OneRowRelation"), projectList=[[column]])
    with pytest.raises(UnsupportedError, match="'st' holds a struct with the fields 'a' and 'A'"):
        read_plan(json.dumps(plan))


def test_a_subquery_that_is_not_scalar_is_refused() -> None:
    exists = {
        "class": EXPRESSIONS + "Exists",
        "num-children": 0,
        "plan": node("OneRowRelation"),
        "exprId": {"id": 1},
    }
    plan = node("Filter", node("OneRowRelation"), condition=[exists])
    with pytest.raises(UnsupportedError, match=r"Exists \(at Filter\)"):
        read_plan(json.dumps(plan))
