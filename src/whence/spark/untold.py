"""What the JSON of a plan does not tell of its expressions: Spark writes null where it cannot say.

That are ways to take what there is no value for (`try_cast`, `try_add`), options (of `from_json`),
lists of words (`LIKE ANY`), and the letter of an ESCAPE. Each is asked for with several calls to
the JVM, and few plans have any, so it is first looked for in the plan's own text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from whence.plan.catalyst.nodes import is_tree
from whence.spark.jvm.plans import Plans

_SOUGHT = r"\btry_|ESCAPE '|\bilike\("
_LENGTH = "spark.sql.debug.maxToStringFields"
_MODES = ("evalMode", "evalContext")
_ALWAYS = frozenset(("options", "patterns"))
_HAVE = re.compile(r'\.(?:\w+ToStructs|StructsTo\w+|SchemaOf\w+|(?:Not)?Like(?:All|Any))"')
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_Json = list[dict[str, Any]]


def is_suspect(session: Any, plan: Any) -> bool:
    """Whether a plan, as it was written, has a way of trying or an ESCAPE somewhere."""
    jvm = session._jvm
    conf = session._jsparkSession.sessionState().conf()
    own = str(conf.getConfString(_LENGTH)) if conf.contains(_LENGTH) else None
    conf.setConfString(_LENGTH, str(2**31 - 1))  # else long lists are cut off
    try:
        text = jvm.java.lang.StringBuilder().append(plan)
    finally:
        if own is None:
            conf.unsetConf(_LENGTH)
        else:
            conf.setConfString(_LENGTH, own)
    return bool(jvm.java.util.regex.Pattern.compile(_SOUGHT).matcher(text).find())


def told(session: Any, plan: Any, text: str, suspect: bool) -> str:
    """The JSON of a plan with what it does not tell."""
    if not suspect and str(session.conf.get("spark.sql.ansi.enabled")).lower() == "false":
        for name in _MODES:
            text = text.replace(f'"{name}":null', f'"{name}":"LEGACY"')
    if not suspect and not _HAVE.search(text):
        return text
    items = json.loads(text)
    _Lacks(frozenset(_SAID) if suspect else _ALWAYS).fill(items, plan)
    return json.dumps(items)


class _Lacks:
    """Fills in the fields of some names that are null."""

    def __init__(self, asked: frozenset[str]) -> None:
        self._asked = asked

    def fill(self, items: _Json, plan: Any) -> None:
        """Ask a plan for what its JSON lacks; a loop, since plans may be deep."""
        pending: list[tuple[_Json, int, Any]] = [(items, 0, plan)]
        while pending:
            items, place, node = pending.pop()
            item = items[place]
            names = [name for name in item if name not in ("class", "num-children")]
            lacking = self._own(item)
            for number, name in enumerate(names):
                if name in lacking:
                    item[name] = _SAID[name](node)
                elif self._in(item[name]):
                    pending += self._inside(item[name], node.productElement(number))
            at = place + 1
            for number in range(item["num-children"]):
                end = _end(items, at)
                if any(map(self._has, items[at:end])):
                    pending.append((items, at, node.children().apply(number)))
                at = end

    def _has(self, item: dict[str, Any]) -> bool:
        return bool(self._own(item)) or any(map(self._in, item.values()))

    def _own(self, item: dict[str, Any]) -> list[str]:
        """What a node lacks itself, if it is an expression."""
        if not item["class"].startswith(_EXPRESSIONS):
            return []
        return [name for name in self._asked if name in item and item[name] is None]

    def _in(self, value: Any) -> bool:
        """Whether there are trees in a value that lack something."""
        if is_tree(value):
            return any(map(self._has, value))
        return isinstance(value, list) and any(map(self._in, value))

    def _inside(self, value: Any, found: Any) -> Iterator[tuple[_Json, int, Any]]:
        """The trees in a value that lack something, beside what they are in the JVM."""
        if is_tree(value):
            yield value, 0, found
            return
        for number, inner in enumerate(value):
            if self._in(inner):
                yield from self._inside(inner, found.apply(number))


def _end(items: _Json, place: int) -> int:
    """Where the tree that begins at a place ends; a tree is a list in pre-order."""
    open_ = 1
    while open_:
        open_ += items[place]["num-children"] - 1
        place += 1
    return place


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


_SAID: dict[str, Callable[[Any], str | None]] = {
    "evalMode": lambda node: _mode(node.evalMode()),
    "evalContext": lambda node: _mode(node.evalContext().evalMode()),
    "options": _options,
    "patterns": _patterns,
    "escapeChar": _escape,
}
"""Fields that Spark leaves null in JSON, and how they are asked for."""
