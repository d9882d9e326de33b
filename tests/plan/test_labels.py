"""Labels of operators: what they do counts, the plan they stand in does not."""

import doctest
from collections.abc import Sequence
from typing import Any

import pytest

from whence.plan import Column, Join
from whence.plan.catalyst import types
from whence.plan.catalyst.nodes import Node
from whence.plan.catalyst.scope import Attributes, Names, Places
from whence.plan.catalyst.sql import Writer
from whence.plan.labels import label, text_digest, words

Input = Sequence[tuple[str, int]]
"""The columns of an input: name and expression id."""
SIDES: tuple[Input, Input] = ([("a", 1), ("b", 2)], [("a", 3), ("k#1", 4), ("k#2", 5)])


def column(name: str, key: int) -> Node:
    return Node(
        "AttributeReference", {"name": name, "dataType": "integer", "exprId": {"id": key}}, ()
    )


def literal(value: str, data_type: str = "string") -> Node:
    return Node("Literal", {"value": value, "dataType": data_type}, ())


def variable(name: str, key: int) -> Node:
    return Node("NamedLambdaVariable", {"name": name, "exprId": {"id": key}}, ())


def call(kind: str, /, *children: Node, **fields: Any) -> Node:
    return Node(kind, fields, children)


def writer(inputs: Sequence[Input], aliases: Sequence[str], subqueries: Sequence[str]) -> Writer:
    """The writer of an operator over these inputs, as the reader of plans makes it."""
    attributes = Attributes()
    for alias, columns in zip(aliases, inputs, strict=False):
        attributes.qualifiers.update({key: alias for _, key in columns})
    outputs = [[Column(n, "int", True, attributes.number(key)) for n, key in i] for i in inputs]
    names = Names(attributes, [c for columns in outputs for c in columns])
    ids = dict(enumerate(subqueries, 90))
    places = {key: f"@{len(inputs) + i}" for i, key in enumerate(ids)}
    labels = Writer(Places(attributes, outputs), attributes, places)
    return Writer(names, attributes, ids, labels)


def joined(
    predicate: Node,
    inputs: Sequence[Input] = SIDES,
    aliases: Sequence[str] = (),
    subqueries: Sequence[str] = (),
    kind: Any = "inner",
) -> Join:
    return Join(
        id="join-1",
        node="Join",
        output=(),
        type=kind,
        predicate=writer(inputs, aliases, subqueries).expression(predicate),
    )


def text(predicate: Node, *args: Any) -> str:
    return words(label(joined(predicate, *args)).text).removeprefix("join inner, ")


A_IS_A = call("EqualTo", column("a", 1), column("a", 3))


def test_numbers_of_a_plan_do_not_count() -> None:
    one = label(joined(A_IS_A))
    others: tuple[Input, Input] = ([("a", 41), ("b", 42)], [("a", 43), ("k#1", 44), ("k#2", 45)])
    assert one == label(joined(call("EqualTo", column("a", 41), column("a", 43)), others))
    assert one != label(joined(call("EqualTo", column("a", 3), column("a", 1))))
    assert one != label(joined(A_IS_A, kind="left"))
    assert words(one.text) == "join inner, a@0 = a@1"
    assert text_digest(one.text) == one.digest


@pytest.mark.parametrize("aliases", [("x", "y"), ("p", "q"), ("a", "b"), ("y", "x")])
def test_aliases_do_not_count(aliases: tuple[str, str]) -> None:
    assert joined(A_IS_A, SIDES, aliases).predicate.text == f"{aliases[0]}.a = {aliases[1]}.a"  # type: ignore[union-attr]
    assert text(A_IS_A, SIDES, aliases) == "a@0 = a@1"


def test_aliases_of_a_join_below_do_not_count() -> None:
    """A group by one of two columns of a name, which a join brought together."""
    both: list[Input] = [[("a", 1), ("a", 2)]]
    assert text(column("a", 1), both, ("x",)) == "a@0"
    assert text(column("a", 2), both, ("x",)) == "a@0.1"


def test_names_are_not_numbers() -> None:
    """`k#1` is a name, whatever column has the number 1."""
    first, second = (call("EqualTo", column("a", 1), column(f"k#{n}", 3 + n)) for n in (1, 2))
    assert text(first) == "a@0 = `k#1`"
    assert text(second) == "a@0 = `k#2`"
    quoted: list[Input] = [[("it's", 1), ("a@0", 2)], [("x.y", 3)]]
    for name, key, shown in (("it's", 1, "`it's`"), ("a@0", 2, "`a@0`"), ("x.y", 3, "`x.y`")):
        for value in ("z#1", "x.y", "it's", "a@0"):
            found = text(call("EqualTo", column(name, key), literal(value)), quoted, ("x", "y"))
            assert found == f"{shown} = '{value.replace(chr(39), 2 * chr(39))}'"


def test_ids_of_subqueries_do_not_count() -> None:
    found = call("LessThan", column("b", 2), call("ScalarSubquery", exprId={"id": 91}))
    assert text(found, SIDES, (), ["aggregate-4", "aggregate-7"]) == "b < (subquery @3)"
    assert text(found, SIDES, (), ["aggregate-5", "limit-9"]) == "b < (subquery @3)"


def test_names_of_lambda_variables_do_not_count() -> None:
    """Spark counts them up: the same query has others when it is built once more."""

    def every(name: str, inner: Node) -> str:
        body = call("LessThan", inner, column("b", 2))
        return text(
            call("ArrayForAll", column("b", 2), call("LambdaFunction", body, variable(name, 8)))
        )

    assert every("x_1", variable("x_1", 8)) == "forall(b, $0 -> $0 < b)"
    assert every("x_7", variable("x_7", 8)) == every("b", variable("b", 8))
    assert every("b", column("b", 2)) != every("b", variable("b", 8))


def test_lambdas_inside_lambdas_tell_their_variables_apart() -> None:
    outer, inner = variable("x", 8), variable("x", 9)

    def nested(first: Node, second: Node) -> str:
        body = call("LambdaFunction", call("LessThan", first, second), inner)
        within = call("ArrayExists", outer, body)
        return text(call("ArrayExists", column("b", 2), call("LambdaFunction", within, outer)))

    assert nested(outer, inner) == "exists(b, $0 -> exists($0, $1 -> $0 < $1))"
    assert nested(inner, outer) != nested(outer, inner)


def test_settings_of_functions_count() -> None:
    first = call("First", column("b", 2), ignoreNulls=False)
    assert text(first) == "first(b)"
    assert text(call("First", column("b", 2), ignoreNulls=True)) == "first(b, ignoreNulls => TRUE)"
    struct = {"type": "struct", "fields": [{"name": "p", "type": "integer"}]}
    parsed = call("JsonToStructs", column("b", 2), schema=struct)
    assert text(parsed) == "from_json(b, schema => struct<p:int>)"


@pytest.mark.parametrize(
    ("old", "new", "shown", "labelled"),
    [
        ("integer", "long", "v", "CAST(v AS bigint)"),
        ("integer", "double", "v", "CAST(v AS double)"),
        ("float", "double", "v", "CAST(v AS double)"),
        ("long", "decimal(20,0)", "v", "CAST(v AS decimal(20,0))"),
        ("decimal(10,2)", "decimal(12,3)", "v", "CAST(v AS decimal(12,3))"),
        ("long", "double", "v", "CAST(v AS double)"),
        ("integer", "float", "v", "CAST(v AS float)"),
        ("decimal(10,2)", "double", "v", "CAST(v AS double)"),
        ("long", "decimal(10,0)", "v", "CAST(v AS decimal(10,0))"),
        ("decimal(10,2)", "decimal(10,0)", *["CAST(v AS decimal(10,0))"] * 2),
        ("double", "long", *["CAST(v AS bigint)"] * 2),
    ],
)
def test_casts_count_even_those_that_people_are_not_shown(
    old: str, new: str, shown: str, labelled: str
) -> None:
    reference = Node("AttributeReference", {"name": "v", "dataType": old, "exprId": {"id": 2}}, ())
    found = joined(call("Cast", reference, dataType=new)).predicate
    assert found is not None
    assert (found.text, found.label or found.text) == (shown, labelled)


def test_docstrings_of_types() -> None:
    assert doctest.testmod(types) == (0, 2)


def test_user_code_and_roles_count() -> None:
    join = joined(A_IS_A)
    assert len({label(join), label(join, ["00"]), label(join, [], "members")}) == 3


def test_labels_are_the_same_everywhere() -> None:
    """Checked in: they must not change with versions, machines or processes."""
    assert label(joined(A_IS_A)).digest == (
        "dcee0cdbbe08ff7766b16ebc194423b9b3690241ed9e7df33387e607ccd0ee6f"
    )
