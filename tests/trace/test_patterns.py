"""Patterns as text and from Python: what they mean, and what is said of malformed ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whence
from whence.trace.patterns import Condition, Node, Pattern, anywhere, node, pattern
from whence.trace.patterns.schema import fitting, path_text, routes
from whence.trace.patterns.tree import node_text


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("a", [Node("a")]),
        ("//a", [Node("a", "descendant")]),
        ("a.b", [Node("a", children=(Node("b"),))]),
        ("a//b", [Node("a", children=(Node("b", "descendant"),))]),
        ("a, b", [Node("a"), Node("b")]),
        ("a[2]", [Node("a", position=2)]),
        ("a[2].b", [Node("a", position=2, children=(Node("b"),))]),
        ("a[0][1]", [Node("a", position=0, children=(Node("", position=1),))]),
        ("a[b, c]{2}", [Node("a", times=(2, 2), children=(Node("b"), Node("c")))]),
        ("a[b]{1,3}", [Node("a", times=(1, 3), children=(Node("b"),))]),
        ("a[b]{2,}", [Node("a", times=(2, None), children=(Node("b"),))]),
        ("a[]", [Node("a", times=(1, None))]),
        ("a[] is null", [Node("a", conditions=(Condition("is null"),), times=(1, None))]),
        ("a = 1", [Node("a", conditions=(Condition("=", 1),))]),
        ("a != -1.5", [Node("a", conditions=(Condition("<>", -1.5),))]),
        ("a < 1e+20", [Node("a", conditions=(Condition("<", 1e20),))]),
        ("a = X'0aFF'", [Node("a", conditions=(Condition("=", b"\n\xff"),))]),
        ("a >= 'it''s'", [Node("a", conditions=(Condition(">=", "it's"),))]),
        ("a in (1, 'x', true)", [Node("a", conditions=(Condition("in", (1, "x", True)),))]),
        ("a IS NOT NULL", [Node("a", conditions=(Condition("is not null"),))]),
        ("a where '_ > 2'", [Node("a", conditions=(Condition("where", "_ > 2"),))]),
        ("`a.b`.`c``d`", [Node("a.b", children=(Node("c`d"),))]),
        ("m.7.`-1`", [Node("m", children=(Node("7", children=(Node("-1"),)),))]),
        ("*.id", [Node(None, children=(Node("id"),))]),
        ("in = 1", [Node("in", conditions=(Condition("=", 1),))]),
        ("a = 'x' {2}", [Node("a", conditions=(Condition("=", "x"),), times=(2, 2))]),
    ],
)
def test_text(text, nodes):
    assert list(pattern(text).nodes) == nodes


@pytest.mark.parametrize(
    ("text", "character", "told"),
    [
        ("", 1, "found the end; expected"),
        ("a =", 4, "a text in quotes"),
        ("a[", 3, "a name or a number"),
        ("a b", 3, "found 'b'"),
        ("a = 'x", 5, "a text in quotes"),
        ("a{2", 4, "'}'"),
        ("a..b", 3, "found '.'"),
        ("a, ", 4, "a name"),
        ("a in 3", 6, r"expected '\('"),
        ("a[-1]", 3, "found '-'"),
        ("b[ -12].c", 4, "positions are counted from the front"),
        ("a, 10 = 'x'", 4, "written in backticks: `10`"),
        ("//2020q1", 3, "written in backticks: `2020q1`"),
    ],
)
def test_malformed_text_points_at_the_character(text, character, told):
    with pytest.raises(whence.PatternError, match=told) as caught:
        pattern(text)
    lines = str(caught.value).splitlines()
    assert f"at character {character}:" in lines[0]
    assert lines[2].index("^") == character - 1 + 2


def test_builder_means_the_same_as_text():
    built = pattern(
        anywhere("id_str") == "lp",
        node("tweets").has(node("text") == "Hello World").times(2),
        node("user").child("tags").item(1).isin(["a", "b"]),
        node("n").where("_ > 1"),
    )
    text = (
        "//id_str = 'lp', tweets[text = 'Hello World']{2}, user.tags[1] in ('a', 'b'), "
        "n where '_ > 1'"
    )
    assert built.nodes == pattern(text).nodes


def test_a_pattern_is_text_or_nodes():
    with pytest.raises(whence.PatternError):
        pattern("a", node("b"))
    with pytest.raises(whence.PatternError):
        pattern(3)
    for made in (node, anywhere, node("a").child, node("a").anywhere):
        for name in (7, b"a", ""):
            with pytest.raises(whence.PatternError, match="a name is text"):
                made(name)


def struct(*fields):
    listed = (field if isinstance(field, tuple) else (field, "integer") for field in fields)
    return {"type": "struct", "fields": [{"name": n, "type": t} for n, t in listed]}


@pytest.mark.parametrize(
    ("start", "text", "found"),
    [
        (struct("K", "k"), "K", ["K"]),
        (struct("K", "k"), "k", ["k"]),
        (struct("K", "x"), "k", ["K"]),
        (struct("KEY", "Key"), "key", ["KEY", "Key"]),
        (struct(("s", struct("Id")), ("t", struct("id", "ID"))), "//id", ["s.Id", "t.id"]),
        (struct("K", ("s", struct("k"))), "//k", ["K", "s.k"]),
        (struct("a", "b"), "*", ["a", "b"]),
    ],
)
def test_a_name_is_the_one_that_is_written_else_whatever_its_case(start, text, found):
    assert [path_text(r.steps) for r in routes(start, pattern(text).nodes[0])] == found


@pytest.mark.parametrize("text", ["a", "*", "//a"])
def test_a_name_that_two_columns_have_is_ambiguous(text):
    with pytest.raises(whence.PatternError, match="ambiguous"):
        routes(struct("a", "b", "a"), pattern(text).nodes[0])


MIXED = struct(
    "n",
    ("s", struct("id", ("v", struct("x")))),
    ("l", {"type": "array", "elementType": struct("x", "v", ("s", struct("x")))}),
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("*.id", ["s"]),
        ("*.x", ["l[]"]),
        ("//s.id", ["s"]),
        ("*[0]", ["l[0]"]),
        ("//v = 1", ["l[].v"]),
        ("//v is null", ["s.v", "l[].v"]),
        ("*[v.x]", ["s"]),
        ("//*[s]//x", ["l[]"]),
    ],
)
def test_of_several_meant_those_count_that_can_hold_what_is_asked(text, found):
    assert [path_text(r.steps) for r in fitting(MIXED, pattern(text).nodes[0])] == found


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("*.idd", whence.UnknownNameError, "did you mean 'id'"),
        ("n.x", whence.UnknownNameError, "there are none"),
        ("s[0]", whence.PatternError, "no list to take an item of; this is a struct of id, v"),
        ("s = 1", whence.PatternError, "cannot be compared"),
    ],
)
def test_what_can_be_nowhere_is_refused(text, error, told):
    with pytest.raises(error, match=told):
        fitting(MIXED, pattern(text).nodes[0])


NAMES = st.sampled_from(["a", "b_1", "a.b", "select", "ü", "`"])
VALUES = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.text("a'` ,]", max_size=4),
    st.binary(max_size=3),
)
CONDITIONS = st.one_of(
    st.builds(Condition, st.sampled_from(["=", "<>", "<", ">="]), VALUES),
    st.builds(Condition, st.sampled_from(["is null", "is not null"])),
    st.builds(Condition, st.just("in"), st.lists(VALUES, min_size=1, max_size=3).map(tuple)),
)
TIMES = st.none() | st.tuples(st.integers(0, 3), st.none() | st.integers(3, 5))
NODES = st.recursive(
    st.builds(
        Node,
        NAMES | st.none(),
        st.sampled_from(["child", "descendant"]),
        st.none() | st.integers(0, 9),
        st.lists(CONDITIONS, max_size=1).map(tuple),
        TIMES,
    ),
    lambda below: st.builds(
        Node,
        NAMES,
        st.sampled_from(["child", "descendant"]),
        st.none() | st.integers(0, 9),
        st.just(()),
        TIMES,
        st.lists(below, min_size=1, max_size=2).map(tuple),
    ),
    max_leaves=4,
)


@settings(deadline=None)
@given(st.lists(NODES, min_size=1, max_size=3))
def test_text_of_any_pattern_reads_back(nodes):
    made = Pattern(tuple(nodes))
    assert pattern(str(made)).nodes == made.nodes, node_text(nodes[0])
