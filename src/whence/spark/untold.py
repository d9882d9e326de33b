"""What the JSON of a plan does not tell of its expressions: Spark writes null where it cannot say.

That are ways to take what there is no value for (ANSI or not, `try_add`), options (of
`from_json`), lists of words (`LIKE ANY`), the letter of an ESCAPE, and bytes. They are asked for
where labels need them: in the operators that make nodes. Each takes some calls to the JVM.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

from py4j.protocol import Py4JError

from whence.plan.catalyst.nodes import is_tree
from whence.spark.jvm.plans import Plans

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_LABELLED = frozenset(("Join", "Aggregate", "Window", "Generate"))
_Json = list[dict[str, Any]]


def told(plan: Any, text: str) -> str:
    """The JSON of a plan with what it does not tell; as it is, if that cannot be found out."""
    items: _Json = json.loads(text)
    try:
        return json.dumps(items) if _filled(items, plan) else text
    except Py4JError:
        return text


def _filled(items: _Json, plan: Any) -> bool:
    """Ask a plan for what its JSON lacks; whether it told. A loop, since plans may be deep."""
    told_any = False
    pending = [(_Tree(items, False), 0, plan)]
    while pending:
        tree, place, node = pending.pop()
        item = tree.items[place]
        labelled = tree.labelled[place]
        lacking = _own(item, labelled)
        names = [name for name in item if name not in ("class", "num-children")]
        for number, name in enumerate(names):
            if name in lacking:
                item[name] = _SAID[name](node)
                told_any = told_any or item[name] is not None
            elif _lacks(item[name], labelled):
                pending += _inside(item[name], node.productElement(number), labelled)
        pending += tree.below(place, node)
    return told_any


class _Tree:
    """A tree in pre-order, and which parts of it lack something."""

    def __init__(self, items: _Json, labelled: bool) -> None:
        self.items = items
        self.labelled = [_is_labelled(item, labelled) for item in items]
        wants = (_has(item, own) for item, own in zip(items, self.labelled, strict=True))
        self._before = list(accumulate(wants, initial=0))

    @property
    def lacks(self) -> bool:
        """Whether any of its nodes lacks something."""
        return self._before[-1] > 0

    def below(self, place: int, node: Any) -> Iterator[tuple[_Tree, int, Any]]:
        """The children of a node in which something is lacking."""
        at = place + 1
        for number in range(self.items[place]["num-children"]):
            end = self._end(at)
            if self._before[end] > self._before[at]:
                yield self, at, node.children().apply(number)
            at = end

    def _end(self, place: int) -> int:
        """Where the part that begins at a place ends."""
        left = 1
        while left:
            left += self.items[place]["num-children"] - 1
            place += 1
        return place


def _is_labelled(item: dict[str, Any], inside: bool) -> bool:
    """Whether a node is an operator that has a label, or in an expression of one."""
    name = str(item["class"])
    if name.startswith(_EXPRESSIONS):
        return inside
    return name.rsplit(".", 1)[-1] in _LABELLED or _calls(item)


def _calls(item: dict[str, Any]) -> bool:
    """Whether an operator calls user code or has subqueries, so that it makes nodes."""
    text = json.dumps(item)
    return 'UDF"' in text or '"plan": [' in text


def _own(item: dict[str, Any], labelled: bool) -> list[str]:
    """What an expression lacks itself."""
    if not item["class"].startswith(_EXPRESSIONS):
        return []
    if item["class"].endswith(".Literal"):
        is_bytes = item.get("dataType") == "binary" and item.get("value") is not None
        return ["value"] if is_bytes else []
    if not labelled:
        return []
    return [name for name in _ASKED if name in item and item[name] is None]


def _has(item: dict[str, Any], labelled: bool) -> bool:
    return bool(_own(item, labelled)) or any(_lacks(v, labelled) for v in item.values())


def _lacks(value: Any, labelled: bool) -> bool:
    """Whether there are trees in a value that lack something."""
    if is_tree(value):
        return _Tree(value, labelled).lacks
    return isinstance(value, list) and any(_lacks(inner, labelled) for inner in value)


def _inside(value: Any, found: Any, labelled: bool) -> Iterator[tuple[_Tree, int, Any]]:
    """The trees in a value that lack something, beside what they are in the JVM."""
    if is_tree(value):
        optional = str(found.getClass().getName()) == "scala.Some"
        yield _Tree(value, labelled), 0, found.get() if optional else found
        return
    for number, inner in enumerate(value):
        if _lacks(inner, labelled):
            yield from _inside(inner, found.apply(number), labelled)


def _mode(mode: Any) -> str | None:
    """How an expression is evaluated; what is usual is not said."""
    text = str(mode.toString())
    return None if text == "ANSI" else text


def _options(node: Any) -> str:
    pairs = Plans.items(node.options().toSeq())
    return json.dumps(sorted((str(pair._1()), str(pair._2())) for pair in pairs))


def _patterns(node: Any) -> str:
    return json.dumps([str(pattern.toString()) for pattern in Plans.items(node.patterns())])


def _escape(node: Any) -> str | None:
    found = str(node.escapeChar())
    return None if found == "\\" else found


def _bytes(node: Any) -> str:
    return bytes(node.value()).hex().upper()


_SAID: dict[str, Callable[[Any], str | None]] = {
    "evalMode": lambda node: _mode(node.evalMode()),
    "evalContext": lambda node: _mode(node.evalContext().evalMode()),
    "options": _options,
    "patterns": _patterns,
    "escapeChar": _escape,
    "value": _bytes,
}
"""Fields that Spark does not write into JSON, and how they are asked for."""
_ASKED = tuple(name for name in _SAID if name != "value")
