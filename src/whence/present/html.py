"""An answer as HTML: source rows as nested tables, contributing cells dark, influencing lighter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from whence.plan.paths import quote
from whence.present.values import cell as shown
from whence.present.values import count
from whence.trace.answer import Trace
from whence.trace.cells.trees import RowTree, key_step

_STYLE = """
.whence { font: 13px/1.4 sans-serif; color: #222; }
.whence table { border-collapse: collapse; margin: 1px; }
.whence th, .whence td { border: 1px solid #ccc; padding: 1px 5px; text-align: left;
  vertical-align: top; font-weight: normal; }
.whence th { color: #666; background: #f6f6f6; }
.whence td.contributing { background: #1b7837; color: #fff; }
.whence .influencing { background: #a6dba0; }
.whence caption { text-align: left; font-weight: bold; padding: 6px 0 2px; }
.whence .none { color: #aaa; }
"""
_ROWS = 10


def trace_html(trace: Trace, *, rows: int | None = None) -> str:
    """A trace's cells, one table per source; at most `rows` rows of each."""
    limit = _ROWS if rows is None else rows
    blocks = [_source(trace, name, limit) for name in trace]
    legend = (
        '<table><tr><td class="contributing">contributing</td>'
        '<td class="influencing">influencing</td></tr></table>'
    )
    graded = f"{count(trace.rows, 'chosen row')}; {trace.cell_grade}"
    told = [graded, *trace.cell_reasons, *trace.notes]
    notes = "".join(f"<div>{escape(line)}</div>" for line in told)
    return f'<div class="whence"><style>{_STYLE}</style>{notes}{"".join(blocks)}{legend}</div>'


def page(trace: Trace, title: str, *, rows: int | None = None) -> str:
    """The same as a page of its own."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title></head>\n"
        f"<body>{trace_html(trace, rows=rows)}</body></html>\n"
    )


def _source(trace: Trace, name: str, limit: int) -> str:
    trees = trace.trees(name, rows=limit)
    columns = list(dict.fromkeys(part for tree in trees for part in tree.root.below))
    head = "".join(f"<th>{escape(column)}</th>" for column in ("", *columns))
    body = "".join(_row(tree, columns) for tree in trees)
    rows = len(trace[name])
    more = f"<div>… {rows - len(trees)} more rows</div>" if rows > len(trees) else ""
    caption = f"{escape(name)}: {count(rows, 'row')}"
    return f"<table><caption>{caption}</caption><tr>{head}</tr>{body}</table>{more}"


def _row(tree: RowTree, columns: Sequence[str]) -> str:
    roles = _Roles(tree)
    values = {quote(str(name)): value for name, value in tree.values.items()}
    cells = "".join(_cell(roles, column, values.get(column)) for column in columns)
    found = tree.root.cell
    role = f' class="{found["role"]}"' if found else ""
    return f"<tr><th{role}>{tree.row}</th>{cells}</tr>"


class _Roles:
    """Which role the cells of a row have, by their paths; a list's role is that of its items."""

    def __init__(self, tree: RowTree) -> None:
        self._exact: dict[str, str] = {}
        self._others: list[tuple[re.Pattern[str], str]] = []
        pending = [tree.root]
        while pending:
            branch = pending.pop()
            pending += branch.below.values()
            if branch.cell is None:
                continue
            path, role = branch.cell["path"], branch.cell["role"]
            self._exact[path] = role
            pattern = re.escape(path).replace(r"\[\*\]", r"\[\d+\]")
            pattern = pattern.replace(r"\{\}", r"\{'(?:[^']|'')*'\}")
            self._others.append((re.compile(rf"{pattern}(?:[.\[{{].*)?"), role))

    def of(self, path: str) -> str:
        """contributing, influencing, or nothing."""
        if path in self._exact:
            return self._exact[path]
        found = {role for pattern, role in self._others if pattern.fullmatch(path)}
        return "contributing" if "contributing" in found else next(iter(found), "")


def _cell(roles: _Roles, path: str, value: Any) -> str:
    if isinstance(value, Mapping) and value:
        names = [str(name) for name in value]
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = "".join(_cell(roles, f"{path}.{quote(n)}", value[n]) for n in names)
        return f"<td><table><tr>{head}</tr><tr>{body}</tr></table></td>"
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # the entries of a map
        keys = "".join(_cell(roles, f"{path}{{key}}", key) for key, _ in value)
        body = "".join(_cell(roles, f"{path}{key_step(key)}", v) for key, v in value)
        return f"<td><table><tr>{keys}</tr><tr>{body}</tr></table></td>"
    if isinstance(value, list) and value and isinstance(value[0], Mapping | list):
        body = "".join(
            f"<tr><th>{i}</th>{_cell(roles, f'{path}[{i}]', v)}</tr>" for i, v in enumerate(value)
        )
        return f"<td><table>{body}</table></td>"
    if isinstance(value, list) and value:
        body = "".join(_cell(roles, f"{path}[{i}]", v) for i, v in enumerate(value))
        return f"<td><table><tr>{body}</tr></table></td>"
    role = roles.of(path)
    text = '<span class="none">null</span>' if value is None else escape(shown(value))
    return f'<td class="{role}">{text}</td>' if role else f"<td>{text}</td>"
