"""Labels: what names an operator in tokens, whatever the run, the machine and the plan around it.

A label covers the operator's own expressions and the digests of the user code in them. What belongs
to one plan is left out: column numbers, and the aliases that tell a join's sides apart. `a#12` and
`t1.a` become `a@0`, a column of the first input.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whence.plan import operators as ops
from whence.plan.operators import Operator
from whence.plan.tree import walk

_QUOTED = re.compile(r"('(?:[^']|'')*')")
_NUMBER = re.compile(r"#(\d+)\b")
_QUALIFIED = re.compile(r"\b([A-Za-z_]\w*)\.([A-Za-z_]\w*)\b")


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
    rewrite = _Rewriter(operator)
    described = {
        "operator": operator.kind,
        "role": role,
        "expressions": rewrite.values(_described(operator)),
        "code": list(code),
    }
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return Label(text_digest(text), text)


def _described(operator: Operator) -> list[Any]:
    match operator:
        case ops.Join(type=kind, predicate=predicate, single=single):
            return [kind, None if predicate is None else predicate.text, single]
        case ops.Aggregate(keys=keys, aggregates=calls):
            return [
                [key.text for key in keys],
                [[c.text, c.distinct, c.filter and c.filter.text] for c in calls],
            ]
        case ops.Window(partition=partition, order=order, functions=functions):
            return [
                [key.text for key in partition],
                [str(key) for key in order],
                [[call.text, call.frame] for call in functions],
            ]
        case ops.Generate(generator=generator, outer=outer):
            return [generator.text, outer]
        case ops.Filter(predicate=predicate):
            return [predicate.text]
        case ops.Project(projections=projections):
            return [
                p.text for p in projections if "PythonUDF" in p.functions or operator.subqueries
            ]
        case ops.Except(all=every) | ops.Intersect(all=every):
            return [every]
        case ops.MapGroups(keys=keys):
            return [[key.text for key in keys]]
        case ops.MapCogroups(left_keys=left, right_keys=right):
            return [[key.text for key in left], [key.text for key in right]]
        case ops.Source(name=name):
            return [name]
        case _:
            return []


class _Rewriter:
    """Takes out of texts what belongs to one plan."""

    def __init__(self, operator: Operator) -> None:
        self._places: dict[str, str] = {}
        inputs = (*operator.inputs, operator)
        for position, side in enumerate(inputs):
            taken: dict[str, int] = {}
            for column in side.output:
                order = taken.get(column.name, 0)
                taken[column.name] = order + 1
                place = f"@{position}" + (f".{order}" if order else "")
                self._places.setdefault(str(column.number), place)
        self._sides = _sides(operator) if isinstance(operator, ops.Join) else {}

    def values(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.values(item) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        parts = _QUOTED.split(text)
        return "".join(part if part.startswith("'") else self._plain(part) for part in parts)

    def _plain(self, text: str) -> str:
        text = _NUMBER.sub(lambda found: self._places.get(found[1], ""), text)
        return _QUALIFIED.sub(self._unqualified, text)

    def _unqualified(self, found: re.Match[str]) -> str:
        side = self._sides.get((found[1], found[2]))
        return found[0] if side is None else f"{found[2]}@{side}"


def _sides(join: ops.Join) -> dict[tuple[str, str], int]:
    """Which input a qualified name in a join's condition belongs to, where that is certain.

    An alias is the name of a view or source below one side only; or the other of two aliases under
    which a column that both sides have once is named. An outer query can rename either side.
    """
    outputs = [[column.name for column in child.output] for child in join.children]
    names = [
        {op.name for op in walk(c) if isinstance(op, ops.View | ops.Source)} for c in join.children
    ]
    text = "" if join.predicate is None else "".join(_QUOTED.split(join.predicate.text)[::2])
    aliases: dict[str, list[str]] = {}
    for alias, column in _QUALIFIED.findall(text):
        once = all(output.count(column) == 1 for output in outputs)
        if once and alias not in aliases.setdefault(column, []):
            aliases[column].append(alias)
    sides: dict[tuple[str, str], int] = {}
    for column, found in aliases.items():
        if any(alias in output for alias in found for output in outputs):
            continue  # it may be a struct, and the column its field
        known = {a: int(a in names[1]) for a in found if (a in names[0]) != (a in names[1])}
        if len(found) == 2 and len(known) == 1:
            ((alias, side),) = known.items()
            known[next(a for a in found if a != alias)] = 1 - side
        if len(found) <= 2 and len(set(known.values())) == len(known):
            sides.update({(alias, column): side for alias, side in known.items()})
    return sides


def _words(value: Any) -> str:
    """The expressions on one line, for people."""
    if isinstance(value, list):
        return ", ".join(text for item in value if (text := _words(item)))
    return "" if value is None or isinstance(value, bool) else str(value)
