"""Patterns as one line of text; the grammar is in the documentation too (docs/cells.md)."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from whence.errors import PatternError
from whence.trace.patterns.tree import Condition, Edge, Node, Pattern

GRAMMAR = r"""
start: node ("," node)*
node: [DEEP] step (link (step | key))* condition? times?
link: "." -> child | DEEP -> descendant
step: (NAME | QUOTED | ANY) bracket* times?
key: INT bracket* times? -> step
bracket: "[" INT "]" -> position
       | "[" "]" -> every
       | "[" node ("," node)* "]" -> inside
times: "{" INT "}" -> exactly
     | "{" INT "," [INT] "}" -> between
condition: COMPARISON literal -> compared
         | IN "(" literal ("," literal)* ")" -> among
         | IS NULL -> null
         | IS NOT NULL -> not_null
         | WHERE STRING -> predicate
literal: STRING -> string
       | BYTES -> binary
       | SIGNED -> number
       | INT -> number
       | TRUE -> true
       | FALSE -> false
DEEP: "//"
ANY: "*"
COMPARISON: "<=" | ">=" | "<>" | "!=" | "=" | "<" | ">"
IN.2: /in\b/i
IS.2: /is\b/i
NOT.2: /not\b/i
NULL.2: /null\b/i
WHERE.2: /where\b/i
TRUE.2: /true\b/i
FALSE.2: /false\b/i
NAME: /[^\W\d][\w$]*/
QUOTED: /`(?:[^`]|``)+`/
STRING: /'(?:[^']|'')*'/
BYTES: /x'(?:[\da-f]{2})*'/i
INT: /\d+/
SIGNED: /-?\d+(?:\.\d+(?:[eE][-+]?\d+)?|[eE][-+]?\d+)|-\d+/
%ignore /\s+/
"""

_WORDS = {
    "NAME": "a name",
    "QUOTED": "a name",
    "ANY": "'*'",
    "DEEP": "'//'",
    "INT": "a number",
    "SIGNED": "a number",
    "STRING": "a text in quotes",
    "BYTES": "bytes as in x'0a'",
    "TRUE": "true",
    "FALSE": "false",
    "COMPARISON": "a comparison",
    "IN": "'in'",
    "IS": "'is'",
    "NOT": "'not'",
    "NULL": "'null'",
    "WHERE": "'where'",
    "COMMA": "','",
    "DOT": "'.'",
    "LSQB": "'['",
    "RSQB": "']'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LPAR": "'('",
    "RPAR": "')'",
    "$END": "the end",
}


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", maybe_placeholders=True)


def parse(text: str) -> Pattern:
    """The pattern that a line of text describes.

    >>> parse("tweets[text = 'x']{2}").nodes[0].times
    (2, 2)
    """
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise PatternError(_message(text, error)) from None
    return Pattern(tuple(_Reader().transform(tree)), text)


def _message(text: str, error: UnexpectedInput) -> str:
    position = len(text) if isinstance(error, UnexpectedEOF) else error.pos_in_stream
    allowed: Any = ()
    if isinstance(error, UnexpectedCharacters):
        allowed = error.allowed
    elif isinstance(error, UnexpectedToken):
        allowed = error.accepts or error.expected
        if error.token.type == "$END":
            position = len(text)
    found = repr(text[position]) if position is not None and position < len(text) else "the end"
    words = sorted({_WORDS.get(name, name) for name in allowed or ()})
    at = len(text) if position is None else position
    expected = ("; expected " + _listed(words) if words else "") + _hint(text, at, words)
    return (
        f"cannot read the pattern at character {at + 1}: found {found}{expected}\n"
        f"  {text}\n  {' ' * at}^"
    )


def _hint(text: str, at: int, words: list[str]) -> str:
    """What may have been meant, if it is plain."""
    if odd := re.match(r"\d[\w$]*", text[at:]) if "a name" in words else None:
        return f"; a name that is not a plain word is written in backticks: `{odd[0]}`"
    if re.search(r"\[\s*$", text[:at]) and re.match(r"-\s*\d", text[at:]):
        return "; positions are counted from the front, beginning with zero"
    return ""


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]


_Part = dict[str, Any]


class _Reader(Transformer[Token, Any]):
    """From the parsed tree to nodes."""

    def start(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def node(self, parts: list[Any]) -> Node:
        deep, first, *rest = parts
        edges: list[Edge] = ["descendant" if deep else "child"]
        steps: list[_Part] = [first]
        conditions: list[Condition] = []
        times = None
        for part in rest:
            if part in ("child", "descendant"):
                edges.append(part)
            elif isinstance(part, Condition):
                conditions.append(part)
            elif isinstance(part, tuple):
                times = part
            elif part is not None:
                steps.append(part)
        made: Node | None = None
        for edge, step in reversed(list(zip(edges, steps, strict=True))):
            made = _node(edge, step, made, tuple(conditions), times)
            conditions, times = [], None
        assert made is not None
        return made

    def child(self, _: list[Token]) -> str:
        return "child"

    def descendant(self, _: list[Token]) -> str:
        return "descendant"

    def step(self, parts: list[Any]) -> _Part:
        name, *rest = parts
        times = next((part for part in rest if isinstance(part, tuple)), None)
        return {"name": name, "brackets": [p for p in rest if isinstance(p, dict)], "times": times}

    def position(self, parts: list[Token]) -> _Part:
        return {"position": int(parts[0])}

    def every(self, _: list[Token]) -> _Part:
        return {"every": True}

    def inside(self, nodes: list[Node]) -> _Part:
        return {"inside": tuple(nodes)}

    def exactly(self, parts: list[Token]) -> tuple[int, int]:
        return int(parts[0]), int(parts[0])

    def between(self, parts: list[Token | None]) -> tuple[int, int | None]:
        low, high = parts
        return int(low or 0), None if high is None else int(high)

    def compared(self, parts: list[Any]) -> Condition:
        sign, value = parts
        return Condition("<>" if sign == "!=" else str(sign), value)  # type: ignore[arg-type]

    def among(self, parts: list[Any]) -> Condition:
        return Condition("in", tuple(parts[1:]))

    def null(self, _: list[Token]) -> Condition:
        return Condition("is null")

    def not_null(self, _: list[Token]) -> Condition:
        return Condition("is not null")

    def predicate(self, parts: list[Token]) -> Condition:
        return Condition("where", _unquoted(parts[1]))

    def string(self, parts: list[Token]) -> str:
        return _unquoted(parts[0])

    def binary(self, parts: list[Token]) -> bytes:
        return bytes.fromhex(parts[0][2:-1])

    def number(self, parts: list[Token]) -> int | float:
        text = str(parts[0])
        return float(text) if "." in text or "e" in text.lower() else int(text)

    def true(self, _: list[Token]) -> bool:
        return True

    def false(self, _: list[Token]) -> bool:
        return False


def _unquoted(token: Token) -> str:
    return str(token)[1:-1].replace("''", "'")


def _node(
    edge: Edge,
    step: _Part,
    below: Node | None,
    conditions: tuple[Condition, ...],
    times: tuple[int, int | None] | None,
) -> Node:
    """A step of a path, with the rest of the path below it."""
    token = step["name"]
    name: str | None = str(token)
    if token.type == "ANY":
        name = None
    elif token.type == "QUOTED":
        name = str(token)[1:-1].replace("``", "`")
    brackets = list(step["brackets"])
    count = times or step["times"]
    return _indexed(name, edge, brackets, below, conditions, count)


def _indexed(
    name: str | None,
    edge: Edge,
    brackets: list[_Part],
    below: Node | None,
    conditions: tuple[Condition, ...],
    times: tuple[int, int | None] | None,
) -> Node:
    """A name with its brackets; a second position goes into the list that is an item."""
    position: int | None = None
    inner: tuple[Node, ...] = ()
    every = False
    while brackets:
        bracket = brackets.pop(0)
        if "inside" in bracket:
            inner += bracket["inside"]
        elif position is not None or every:
            nested = _indexed("", "child", [bracket, *brackets], below, conditions, times)
            return Node(name, edge, position, children=(*inner, nested))
        elif "position" in bracket:
            position = bracket["position"]
        else:
            every = True
    if below is not None:
        inner += (below,)
    if every and times is None and not inner:
        times = (1, None)
    return Node(name, edge, position, conditions, times, inner)
