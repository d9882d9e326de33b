"""Labels: what names an operator in tokens, whatever the run, the machine and the plan around it.

A label covers the operator's own expressions and the digests of the user code in them. What belongs
to one plan is left out: column numbers, aliases, the ids of subqueries. `a#12` and `t1.a` become
`a@0`, a column of the first input. The plan's reader writes the texts so, from Spark's expressions:
text that was written for people does not tell a name from a number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whence.plan import operators as ops
from whence.plan.operators import AggregateCall, Expression, Operator, WindowCall


@dataclass(frozen=True, slots=True)
class Label:
    """An operator as tokens know it: what is said of it, as JSON, and the digest of that."""

    digest: str
    text: str


def text_digest(text: str) -> str:
    """The digest of a label's text."""
    return hashlib.sha256(b"whence operator 1\n" + text.encode()).hexdigest()


def words(text: str) -> str:
    """A label's text for people.

    >>> words('{"code":[],"expressions":["inner","a = b",false],"operator":"join","role":""}')
    'join inner, a = b'
    """
    try:
        found = json.loads(text)
        parts = [found["operator"], found["role"], _words(found["expressions"])]
    except (ValueError, KeyError, TypeError):
        return text
    return " ".join(str(part) for part in parts if part)


def label(operator: Operator, code: Sequence[str] = (), role: str = "") -> Label:
    """The label of an operator whose user code has these digests.

    `role` tells the nodes of one operator apart: `members` are the group that its row joins.
    """
    described = {
        "operator": operator.kind,
        "role": role,
        "expressions": _described(operator),
        "code": list(code),
    }
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return Label(text_digest(text), text)


def _described(operator: Operator) -> list[Any]:
    match operator:
        case ops.Join(type=kind, predicate=predicate, single=single):
            return [kind, None if predicate is None else _text(predicate), single]
        case ops.Aggregate(keys=keys, aggregates=calls):
            return [
                [_text(key) for key in keys],
                [[_text(c), c.distinct, c.filter and _text(c.filter)] for c in calls],
            ]
        case ops.Window(partition=partition, order=order, functions=functions):
            return [
                [_text(key) for key in partition],
                [key.label for key in order],
                [[_text(call), call.frame] for call in functions],
            ]
        case ops.Generate(generator=generator, outer=outer):
            return [_text(generator), outer]
        case ops.Filter(predicate=predicate):
            return [_text(predicate)]
        case ops.Sort(order=order):
            return [key.label for key in order]
        case ops.Project(projections=projections):
            return [
                _text(p) for p in projections if "PythonUDF" in p.functions or operator.subqueries
            ]
        case ops.Except(all=every) | ops.Intersect(all=every):
            return [every]
        case ops.MapBatches():
            return _declared(operator)
        case ops.MapGroups(keys=keys):
            return [*_declared(operator), [_text(key) for key in keys]]
        case ops.MapCogroups(left_keys=left, right_keys=right):
            return [*_declared(operator), *([_text(key) for key in keys] for keys in (left, right))]
        case ops.Source(name=name):
            return [name]
        case _:
            return []


def _declared(operator: ops.MapBatches | ops.MapGroups | ops.MapCogroups) -> list[Any]:
    """How a function of rows is called, and what it is said to give."""
    return [operator.form, [f"{column.name} {column.type}" for column in operator.output]]


def _text(part: Expression | AggregateCall | WindowCall) -> str:
    return part.label or part.text


def _words(value: Any) -> str:
    """The expressions on one line, for people."""
    if isinstance(value, list):
        return ", ".join(text for item in value if (text := _words(item)))
    return "" if value is None or isinstance(value, bool) else str(value)
