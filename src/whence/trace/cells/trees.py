"""Cells of one row as a tree: fields and items under the values that hold them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whence.plan.paths import key_text

_PART = re.compile(r"`(?:[^`]|``)+`|\[[^\]]*\]|\{'(?:[^']|'')*'\}|\{[^}]*\}|[^.\[{]+")
_MARKS = {"contributing": "●", "influencing": "○"}
_WIDEST = 60


@dataclass(slots=True)
class Branch:
    """A value on the way, or a cell."""

    below: dict[str, Branch] = field(default_factory=dict)
    cell: Mapping[str, Any] | None = None


@dataclass(slots=True)
class RowTree:
    """The cells of one row: its file and number, its values, and a tree of what was asked."""

    file: str
    row: int
    values: Mapping[str, Any]
    root: Branch = field(default_factory=Branch)


def parts(path: str) -> list[str]:
    """The steps of a path as it is written.

    >>> parts("user_mentions[2].id_str")
    ['user_mentions', '[2]', 'id_str']
    """
    return _PART.findall(path)


def row_trees(
    cells: Iterable[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]]
) -> list[RowTree]:
    """Cells by row; `rows` are the rows' values, with `_file` and `_row`."""
    trees: dict[tuple[str, int], RowTree] = {}
    for values in rows:
        key = (values["_file"] or "", values["_row"])
        trees[key] = RowTree(*key, values)
    for cell in cells:
        tree = trees.get((cell["file"] or "", cell["row"]))
        if tree is None:
            continue
        at = tree.root
        for part in parts(cell["path"]):
            at = at.below.setdefault(part, Branch())
        at.cell = cell
    return list(trees.values())


def render_trees(source: str, trees: Sequence[RowTree], more: int) -> str:
    """Trees as text: ● contributing, ○ influencing, with values and operators."""
    lines = []
    several = len({tree.file for tree in trees}) > 1
    for tree in trees:
        found = tree.root.cell  # of the row as such, where none of its values counts
        row = f"{source}[{tree.row}]" + (f"  {tree.file}" if several else "")
        lines.append(f"{_MARKS[found['role']]} {row}  {found['role']}" if found else row)
        lines += _lines(tree.root, tree.values, "")
    if more > 0:
        lines.append(f"… {more} more rows")
    return "\n".join(lines)


def _lines(branch: Branch, value: Any, indent: str) -> Iterator[str]:
    last = len(branch.below) - 1
    for number, (name, below) in enumerate(branch.below.items()):
        corner, more = ("└─ ", "   ") if number == last else ("├─ ", "│  ")
        inside = into(value, name)
        yield f"{indent}{corner}{_told(name, below, inside)}"
        yield from _lines(below, inside, indent + more)


def _told(name: str, branch: Branch, value: Any) -> str:
    cell = branch.cell
    if cell is None:
        return name
    shown = "" if name == "[*]" else f" = {_short(value)}"
    told = f"{_MARKS[cell['role']]} {name}{shown}  {cell['role']}"
    if cell["accessed_by"]:
        told += "; read by " + ", ".join(cell["accessed_by"])
    if cell["moved_by"]:
        told += "; moved by " + ", ".join(cell["moved_by"])
    return told


def into(value: Any, step: str) -> Any:
    """What a written step leads to in a row's values; None if it is not there."""
    if step.startswith("[") and isinstance(value, Sequence):
        inner = step[1:-1]
        return value[int(inner)] if inner.isdigit() and int(inner) < len(value) else None
    if step.startswith("{") and isinstance(value, Sequence | Mapping):
        entries = value.items() if isinstance(value, Mapping) else value
        return next((v for k, v in entries if key_step(k) == step), None)
    if isinstance(value, Mapping):
        name = step[1:-1].replace("``", "`") if step.startswith("`") else step
        folded = {str(key).casefold(): held for key, held in value.items()}
        return value.get(name, folded.get(name.casefold()))
    return None


def key_step(key: Any) -> str:
    """The written step to the value under a key of a map, which may be of any type."""
    return key_text(str(key).lower() if isinstance(key, bool) else str(key))


def _short(value: Any) -> str:
    text = " ".join(repr(value).split()) if not isinstance(value, str) else repr(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
