"""A tracked call as rows: its results as columns, and the input rows behind each output row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from whence.arrays.capture import TrackedFunction, track
from whence.arrays.forms import follow, separable, whole
from whence.arrays.frames.answers import Answer, Part, assembled
from whence.arrays.graph import Edge, Node, doubts, leaves
from whence.arrays.parts import ROLES, cell_by_cell, ranges_between, roles_in
from whence.arrays.provenance import Provenance
from whence.arrays.rowranges import everywhere
from whence.errors import ArrayError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Link:
    """What an input array is: a column (by position) of the rows of a side."""

    side: int
    position: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns by name, what is behind their rows, and the arguments that are not traced."""

    columns: Mapping[str, Array]
    answer: Answer
    loose: tuple[str, ...]


def call_for_rows(
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    link: Callable[[Array], Link | None],
    taken: list[int],
) -> Rows:
    """Run a function of arrays with tracking; `link` tells which columns its arguments are."""
    tracked = function if isinstance(function, TrackedFunction) else track(function)
    result, call = tracked.run(args, kwargs)
    if call.untracked:
        raise ArrayError(
            f"{', '.join(call.untracked)}: only arrays, numbers and text can be traced; give the "
            "columns as arrays (run.array), and other objects with functools.partial"
        )
    columns = named_columns(result)
    links = {name: link(array) for name, array in call.inputs.items()}
    rows = len(next(iter(columns.values())))
    parts: list[Part] = []
    reasons: list[str] = []
    for position, (name, path) in enumerate(zip(columns, _paths(result), strict=True)):
        found = _found(call.answers, path, rows)
        made, why = _column_parts(found, position, links, rows, taken)
        parts += made
        reasons += [f"column {name!r}: {text}" for text in why]
    answer = assembled(rows, taken, parts, list(dict.fromkeys(reasons)))
    return Rows(columns, answer, tuple(name for name, found in links.items() if found is None))


def _paths(result: Any) -> list[str]:
    """Where a tracked call notes the answers for the columns of its result."""
    if hasattr(result, "_fields"):
        return [f".{field}" for field in result._fields]
    if isinstance(result, tuple | list):
        return [f"[{i}]" for i in range(len(result))]
    if isinstance(result, dict):
        return [f"[{name!r}]" for name in result]
    return [""]


def _found(answers: Mapping[str, Provenance], path: str, rows: int) -> Provenance | None:
    """The answer for a column; one that is a list of numbers has an answer for each."""
    if path in answers:
        return answers[path]
    cells = [answers.get(f"{path}[{i}]") for i in range(rows)]
    if any(c is None or c.unknown or c.shape or c.node.op == "constant" for c in cells):
        return None
    known = [c for c in cells if c is not None]
    return Provenance(cell_by_cell([c.node for c in known]), known[0].inputs) if known else None


def named_columns(result: Any) -> dict[str, Array]:
    """The arrays of a result by name; all have as many rows as the first."""
    if hasattr(result, "_fields"):
        items = list(zip(result._fields, result, strict=True))
    elif isinstance(result, tuple | list):
        items = [(f"value{i}", part) for i, part in enumerate(result)]
    elif isinstance(result, dict):
        items = [(str(name), part) for name, part in result.items()]
    else:
        items = [("value", result)]
    columns = {name: np.atleast_1d(np.asarray(part)) for name, part in items}
    sizes = {name: len(array) for name, array in columns.items()}
    if not columns:
        raise ArrayError("the function gave no arrays; a run needs at least one")
    if len(set(sizes.values())) > 1:
        raise ArrayError(f"the results have different numbers of rows: {sizes}")
    return columns


def _column_parts(
    found: Provenance | None,
    position: int,
    links: Mapping[str, Link | None],
    rows: int,
    taken: list[int],
) -> tuple[list[Part], list[str]]:
    if found is None or found.unknown or found.node.op == "constant":
        parts = [Part(position, s, -1, everywhere(rows, 1, n), True) for s, n in enumerate(taken)]
        unknown = found.unknown if found else ""
        return parts, [unknown or "it is not made of tracked values"]
    node = found.node
    parts, reasons = [], list[str]()
    roles = roles_in(node)
    for label in leaves(node):
        link = links[label]
        if link is None:
            continue
        reasons += doubts(node, label)
        for role in roles:
            ranges, why = ranges_between(_by_rows(node, rows), label, role)
            reasons += [why] if why else []
            if len(ranges.out):
                made = ranges.shifted(1)
                parts.append(Part(position, link.side, link.position, made, role == ROLES[0]))
    return parts, reasons


def _by_rows(node: Node, rows: int) -> Node:
    """The result row by row: a row comes from all cells that stand in it."""
    if len(node.shape) <= 1:
        return node

    def rule() -> Any:
        maps = [follow(0, rows), *(whole(size) for size in node.shape[1:])]
        return separable((rows,), node.shape, maps)

    return Node((rows,), [Edge(node, rule)], "rows")
