"""Text and paths of single expressions, written as small trees."""

from typing import Any

import pytest

from whence.plan.catalyst.evaluate import Evaluator
from whence.plan.catalyst.flow import _moves, _Place
from whence.plan.catalyst.nodes import Node
from whence.plan.catalyst.scope import Attributes, Names
from whence.plan.catalyst.sql import Writer
from whence.plan.paths import Path

STRUCT = {
    "type": "struct",
    "fields": [{"name": "x", "type": "integer"}, {"name": "y", "type": "string"}],
}
TYPES = {
    "a": "integer",
    "b": "string",
    "s": STRUCT,
    "xs": {"type": "array", "elementType": "integer"},
    "ss": {"type": "array", "elementType": STRUCT},
    "m": {"type": "map", "keyType": "string", "valueType": "integer"},
}
IDS = {name: i for i, name in enumerate(TYPES)}


def column(name: str) -> Node:
    fields = {"name": name, "dataType": TYPES[name], "exprId": {"id": IDS[name]}}
    return Node("AttributeReference", fields, ())


def literal(value: Any, data_type: str = "integer") -> Node:
    return Node("Literal", {"value": value, "dataType": data_type}, ())


def call(kind: str, /, *children: Node, **fields: Any) -> Node:
    return Node(kind, fields, children)


def variable(name: str, key: int, data_type: Any = "integer") -> Node:
    return Node(
        "NamedLambdaVariable", {"name": name, "dataType": data_type, "exprId": {"id": key}}, ()
    )


X = variable("x", 100, STRUCT)
A, B, S, XS, SS, M = (column(name) for name in TYPES)


def field(of: Node, name: str, ordinal: int = 0) -> Node:
    return call("GetStructField", of, name=name, ordinal=ordinal)


def lambda_of(body: Node, *arguments: Node) -> Node:
    return call("LambdaFunction", body, *arguments)


def named(**parts: Node) -> Node:
    pairs = [each for name, part in parts.items() for each in (literal(name, "string"), part)]
    return call("CreateNamedStruct", *pairs)


BIG = call("GreaterThan", field(X, "x"), literal("1"))
CASES = [
    (call("Add", A, call("Multiply", A, literal("2"))), "a + a * 2", ["o <- f(a)"]),
    (call("Multiply", call("Add", A, A), literal("2")), "(a + a) * 2", ["o <- f(a)"]),
    (call("Subtract", A, call("Subtract", A, A)), "a - (a - a)", ["o <- f(a)"]),
    (
        call("And", call("Or", B, B), call("Not", call("EqualTo", A, A))),
        "(b OR b) AND a != a",
        ["o <- f(b, a)"],
    ),
    (
        call("EqualTo", call("GreaterThan", A, A), literal("false", "boolean")),
        "(a > a) = FALSE",
        ["o <- f(a)"],
    ),
    (literal("it's", "string"), "'it''s'", ["o <- f(∅)"]),
    (literal(None), "NULL", ["o <- f(∅)"]),
    (literal("14", "interval month"), "INTERVAL '14' MONTH", ["o <- f(∅)"]),
    (call("Cast", A, dataType="long"), "a", ["o <- f(a)"]),
    (call("Cast", B, dataType="long"), "CAST(b AS bigint)", ["o <- f(b)"]),
    (field(named(p=A, q=S), "q", 1), "named_struct('p', a, 'q', s).q", ["o <- s"]),
    (field(named(q=A, Q=S), "Q", 1), "named_struct('q', a, 'Q', s).Q", ["o <- s"]),
    (named(p=A, q=field(S, "y", 1)), "named_struct('p', a, 'q', s.y)", ["o.p <- a", "o.q <- s.y"]),
    (call("GetArrayItem", XS, literal("2")), "xs[2]", ["o <- xs[2]"]),
    (call("GetArrayItem", XS, A), "xs[a]", ["o <- xs[] by a [any]"]),
    (call("GetMapValue", M, literal("k", "string")), "m['k']", ["o <- m{'k'}"]),
    (
        call("ArrayTransform", SS, lambda_of(named(z=field(X, "y", 1), w=A), X)),
        "transform(ss, x -> named_struct('z', x.y, 'w', a))",
        ["o[].z <- ss[].y", "o[].w <- a by ss[]"],
    ),
    (
        call("ArrayFilter", SS, lambda_of(BIG, X)),
        "filter(ss, x -> x.x > 1)",
        ["o[] <- ss[] by ss[].x [any]"],
    ),
    (call("ArrayExists", SS, lambda_of(BIG, X)), "exists(ss, x -> x.x > 1)", ["o <- f(ss[].x)"]),
    (
        call("CaseWhen", call("IsNull", A), B, field(S, "y", 1)),
        "CASE WHEN a IS NULL THEN b ELSE s.y END",
        ["o <- b, s.y by a"],
    ),
    (
        call("UpdateFields", S, call("WithField", A, name="z"), call("DropField", name="x")),
        "s.withField('z', a).dropFields('x')",
        ["o.y <- s.y", "o.z <- a by s"],
    ),
    (call("PythonUDF", A, B, name="f"), "f(a, b)", ["o <- ⊥(a, b)"]),
    (
        named(p=call("PythonUDF", A, name="f"), q=B),
        "named_struct('p', f(a), 'q', b)",
        ["o.p <- ⊥(a)", "o.q <- b"],
    ),
    (call("Upper", call("PythonUDF", B, name="f")), "upper(f(b))", ["o <- ⊥(b)"]),
    (call("CollectList", S), "collect_list(s)", ["o[] <- s [witness]"]),
    (call("CollectSet", A), "collect_set(a)", ["o[] <- a [any]"]),
    (call("MaxBy", S, A), "max_by(s, a)", ["o <- s by a"]),
    (call("Flatten", call("CreateArray", XS, XS)), "flatten(array(xs, xs))", ["o[] <- xs[] [any]"]),
]


@pytest.mark.parametrize(("expression", "text", "moves"), CASES, ids=[case[1] for case in CASES])
def test_expression(expression: Node, text: str, moves: list[str]) -> None:
    attributes = Attributes(types={IDS[name]: found for name, found in TYPES.items()})
    writer = Writer(Names(attributes, ()), attributes, {})
    assert writer.text(expression) == text
    inputs = {IDS[name]: Path(IDS[name], name, (), 0) for name in TYPES}
    shape = Evaluator(inputs, {}, attributes.types).shape(expression)
    assert [str(move) for move in _moves(_Place(Path(9, "o")), shape)] == moves


def test_each_argument_is_evaluated_once() -> None:
    text = B
    for _ in range(60):
        text = call("Concat", text, B)
    inputs = {IDS[name]: Path(IDS[name], name, (), 0) for name in TYPES}
    shape = Evaluator(inputs, {}, {IDS["b"]: "string"}).shape(text)
    assert [str(move) for move in _moves(_Place(Path(9, "o")), shape)] == ["o <- f(b)"]
