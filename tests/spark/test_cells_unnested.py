"""Cells behind what generators take out of lists, and behind the rows of lists without items."""

from typing import Any

import pytest
from kit import Workshop

import whence

pytestmark = pytest.mark.spark

ROWS = [
    {"id": 1, "xs": [5, 6], "m": {"k": 1}, "ls": [{"n": 7, "ts": []}]},
    {"id": 2, "xs": [], "m": {}, "ls": []},
    {"id": 3, "xs": None, "m": None, "ls": None},
]
SCHEMA = "id int, xs array<int>, m map<string, int>, ls array<struct<n: int, ts: array<int>>>"
OUTER = {
    "explode": ("SELECT id, explode_outer(xs) AS x FROM t", "xs"),
    "posexplode": ("SELECT id, posexplode_outer(xs) AS (p, x) FROM t", "xs"),
    "map": ("SELECT id, explode_outer(m) AS (k, x) FROM t", "m"),
    "inline": ("SELECT id, n AS x, ts FROM t LATERAL VIEW OUTER inline(ls) v AS n, ts", "ls"),
    "changed": ("SELECT id, explode_outer(transform(xs, v -> v + 1)) AS x FROM t", "xs"),
    "joined": (
        "SELECT t.id, x FROM t JOIN (SELECT id, explode_outer(xs) AS x FROM t) USING (id)",
        "xs",
    ),
}


def table(workshop: Workshop) -> None:
    path = str(workshop.folder())
    workshop.session.createDataFrame(ROWS, SCHEMA).coalesce(1).write.parquet(path)
    workshop.session.read.parquet(path).createOrReplaceTempView("t")


def capture(workshop: Workshop, sql: str, mode: str = "eager") -> Any:
    frame = workshop.session.sql(sql)
    return whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)


def cells(trace: Any) -> set[tuple[int, str, str]]:
    return {(c["row"], c["path"], c["role"]) for c in trace.cells().to_pylist()}


@pytest.mark.parametrize(
    ("name", "mode"), [*((name, "eager") for name in OUTER), ("explode", "lazy")]
)
def test_a_list_without_items_is_behind_its_row(workshop: Workshop, name: str, mode: str) -> None:
    sql, whole = OUTER[name]
    table(workshop)
    run = capture(workshop, sql, mode)
    for id_ in (2, 3):
        wanted = {(id_ - 1, "id", "contributing"), (id_ - 1, whole, "contributing")}
        for trace in (run.trace(f"id = {id_}"), run.trace(whence.pattern(f"id = {id_}, x"))):
            assert (cells(trace), trace.cell_grade) == (wanted, "exact")
            assert f"● {whole} = " in trace.tree("t")
            assert trace._repr_html_()
    asked = cells(run.trace(whence.pattern("id = 3")))
    assert asked == {(2, "id", "contributing"), (2, whole, "influencing")}
    full = {path for row, path, _ in cells(run.trace(whence.pattern("id = 1, x"))) if row == 0}
    assert full and whole not in full  # told item by item


@pytest.mark.parametrize("generator", ["explode(xs) v AS x", "posexplode(xs) v AS p, x"])
def test_a_list_without_items_is_behind_its_group(workshop: Workshop, generator: str) -> None:
    table(workshop)
    sql = f"SELECT id, max(x) AS x FROM t LATERAL VIEW OUTER {generator} GROUP BY id"
    run = capture(workshop, sql)
    for id_ in (2, 3):
        wanted = {(id_ - 1, "id", "contributing"), (id_ - 1, "xs", "contributing")}
        assert cells(run.trace(f"id = {id_}")) == wanted


def test_a_list_of_which_only_the_items_count(workshop: Workshop) -> None:
    table(workshop)
    made = "transform(zip_with(xs, array(id), (x, y) -> y), v -> 1)"
    run = capture(workshop, f"SELECT id, explode_outer({made}) AS x FROM t")
    for id_, behind in ((1, {"xs[0]", "xs[1]"}), (3, {"xs"})):
        trace = run.trace(whence.pattern(f"id = {id_}"))
        influencing = {path for _, path, role in cells(trace) if role == "influencing"}
        assert (influencing, trace.grade) == (behind, "exact")


def test_lists_without_items_inside_others(workshop: Workshop) -> None:
    table(workshop)
    run = capture(
        workshop,
        "SELECT id, n, t FROM t LATERAL VIEW OUTER inline(ls) v AS n, ts "
        "LATERAL VIEW OUTER explode(ts) w AS t",
    )
    found = [cells(run.trace(whence.pattern(f"id = {id_}, t"))) for id_ in (1, 2)]
    own, none = ({(path, role) for _, path, role in each if path != "id"} for each in found)
    assert own >= {("ls[0].ts", "contributing")}
    assert none == {("ls", "contributing")}


def test_a_collected_list_without_items(workshop: Workshop) -> None:
    """All rows of its group are behind it: none of them gave an item."""
    table(workshop)
    run = capture(
        workshop,
        "SELECT g, explode_outer(l) AS x FROM "
        "(SELECT id > 1 AS g, collect_list(m['k']) AS l FROM t GROUP BY 1)",
    )
    trace = run.trace(whence.pattern("g = true, x is null"))
    assert trace.grade == "exact"
    by = {(row, path) for row, path, role in cells(trace) if role == "contributing"}
    assert by == {(row, path) for row in (1, 2) for path in ("id", "m{'k'}")}


@pytest.mark.parametrize(
    ("generator", "asked", "behind"),
    [
        ("explode((SELECT collect_list(id) FROM t))", "x = 2", (1, "id")),
        ("explode(array((SELECT max(id) FROM t WHERE id < 3)))", "x = 2", (1, "id")),
        ("explode_outer((SELECT xs FROM t WHERE id = 2))", "x is null", (1, "xs")),
    ],
)
def test_a_subquery_in_a_generator(
    workshop: Workshop, generator: str, asked: str, behind: tuple[int, str]
) -> None:
    table(workshop)
    run = capture(workshop, f"SELECT id, {generator} AS x FROM t")
    trace = run.trace(whence.pattern(f"id = 1, {asked}"))
    by = {(row, path) for row, path, role in cells(trace) if role == "contributing"}
    assert (by, trace.grade) == ({(0, "id"), behind}, "exact")


@pytest.mark.parametrize(
    "moved",
    [
        "reverse(xs)",
        "filter(xs, v -> v > 5)",
        "array_remove(xs, 5)",
        "array_union(xs, xs)",
        "flatten(array(xs, array(9)))",
    ],
)
def test_positions_of_a_list_made_of_others_are_not_theirs(workshop: Workshop, moved: str) -> None:
    table(workshop)
    run = capture(workshop, f"SELECT id, p, x FROM t LATERAL VIEW posexplode({moved}) v AS p, x")
    trace = run.trace(whence.pattern("id = 1, p = 0"))
    assert (0, "xs[0]", "influencing") not in cells(trace)
    assert (0, "xs[*]", "influencing") in cells(trace)
    assert trace.cell_grade == "superset"


@pytest.mark.parametrize("kept", ["xs", "transform(xs, v -> v + 1)", "transform(xs, v -> 1)"])
def test_positions_of_a_list_made_item_by_item_are_the_same(workshop: Workshop, kept: str) -> None:
    table(workshop)
    run = capture(workshop, f"SELECT id, p, x FROM t LATERAL VIEW posexplode({kept}) v AS p, x")
    trace = run.trace(whence.pattern("id = 1, p = 1"))
    looked = {path for _, path, role in cells(trace) if role == "influencing"}
    assert (looked, trace.cell_grade) == ({"xs[0]", "xs[1]"}, "exact")


@pytest.mark.parametrize(
    ("generator", "asked", "behind"),
    [
        ("explode(coalesce(xs, array(id + 10)))", "id = 3, x = 13", {(2, "xs"), (2, "id")}),
        ("explode(coalesce(xs, array(id)))", "id = 1, x = 6", {(0, "xs[1]"), (0, "id")}),
        ("explode(if(id = 3, sequence(1, 2), xs))", "id = 3, x = 2", {(2, "xs"), (2, "id")}),
        (
            "explode(coalesce(get(ls, 5).ts, xs))",
            "id = 1, x = 6",
            {(0, "ls"), (0, "xs[1]"), (0, "id")},
        ),
        ("get(coalesce(xs, array(0, id)), 1)", "id = 3, x = 3", {(2, "xs"), (2, "id")}),
    ],
)
def test_an_item_that_a_list_does_not_have_is_the_whole_list(
    workshop: Workshop, generator: str, asked: str, behind: set[tuple[int, str]]
) -> None:
    """Where data says which of several lists was taken, the others may be shorter, or null."""
    table(workshop)
    run = capture(workshop, f"SELECT id, {generator} AS x FROM t")
    trace = run.trace(whence.pattern(asked))
    found = cells(trace)
    assert {(row, path) for row, path, role in found if role == "contributing"} == behind
    assert not any(path == "xs[0]" for _, path, _ in found)
    assert trace.cell_grade == "superset" and trace.tree("t")


def test_entries_that_are_looked_at_by_key_alone(workshop: Workshop) -> None:
    table(workshop)
    run = capture(
        workshop,
        "SELECT id, transform(map_entries(m), e -> e.key) AS x, "
        "aggregate(map_entries(m), 0, (t, e) -> t + length(e.key)) AS y FROM t",
    )
    for asked in ("x", "y"):
        trace = run.trace(whence.pattern(f"id = 1, {asked}"))
        assert {path for _, path, _ in cells(trace)} == {"id", "m{key}"}
