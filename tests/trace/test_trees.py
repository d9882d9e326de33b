"""Cells of a row as a tree, on a terminal and in HTML, with keys of maps of any spelling."""

import pytest

from whence.present.html import _row
from whence.trace.cells.trees import into, parts, render_trees, row_trees

VALUES = {
    "_file": "f",
    "_row": 3,
    "m": [("it's", {"a": 1}), ("b}[0].c", {"a": 2}), ("plain", {"a": 3})],
    "n": [(True, 4), (False, 5)],
}


def cell(path: str, role: str = "contributing") -> dict[str, object]:
    return {
        "file": "f",
        "row": 3,
        "path": path,
        "role": role,
        "accessed_by": [],
        "moved_by": ["project-1"],
    }


@pytest.mark.parametrize(
    ("path", "steps", "value"),
    [
        ("m{'it''s'}.a", ["m", "{'it''s'}", "a"], 1),
        ("m{'b}[0].c'}.a", ["m", "{'b}[0].c'}", "a"], 2),
        ("m{'plain'}", ["m", "{'plain'}"], {"a": 3}),
        ("n{'true'}", ["n", "{'true'}"], 4),
        ("m{'none'}.a", ["m", "{'none'}", "a"], None),
    ],
)
def test_a_path_leads_to_its_value(path: str, steps: list[str], value: object) -> None:
    assert parts(path) == steps
    at: object = VALUES
    for step in steps:
        at = into(at, step)
    assert at == value


def test_a_value_in_a_map_is_shown_with_its_role() -> None:
    (tree,) = row_trees([cell("m{'it''s'}.a"), cell("n{}", "influencing")], [VALUES])
    assert "● a = 1  contributing; moved by project-1" in render_trees("t", [tree], 0)
    shown = _row(tree, ["m", "n"])
    assert shown.count('<td class="contributing">1</td>') == 1
    assert shown.count("contributing") == 1
    for value in (4, 5):
        assert f'<td class="influencing">{value}</td>' in shown
    assert shown.count("influencing") == 2


def test_keys_have_a_role_of_their_own() -> None:
    (tree,) = row_trees([cell("n{key}", "influencing")], [VALUES])
    assert _row(tree, ["n"]).count('<td class="influencing">') == 2
