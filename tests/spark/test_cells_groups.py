"""Cells behind values that several rows made: sets, chosen values, windows, joined lists."""

from typing import Any

import pytest
from kit import Workshop
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

import whence

pytestmark = pytest.mark.spark

SCHEMA = (
    "team string, day int, points int, name string, tags array<string>, "
    "marks map<string, int>, grid array<array<int>>"
)
ROWS: list[tuple[Any, ...]] = [
    ("a", 1, 5, "x", ["p", "q"], {"k": 1}, [[1, 2], [3]]),
    ("a", 2, 7, "y", [], {"k": 2, "l": 3}, [[4]]),
    ("a", 3, 7, "x", ["q"], None, []),
    ("a", 4, None, None, None, {}, None),
    ("b", 1, 2, "x", ["p", None], {"l": 4}, [None, [5, None]]),
    ("b", 2, None, "z", ["r"], {"m": None}, [[]]),
]

BY, NEAR = "contributing", "influencing"
Cells = dict[tuple[int, str], str]


@pytest.fixture(scope="module")
def games(workshop: Workshop) -> Any:
    path = str(workshop.folder())
    workshop.session.createDataFrame(ROWS, SCHEMA).coalesce(1).write.parquet(path)
    return workshop.session.read.parquet(path)


def cells(workshop: Workshop, frame: Any, pattern: str, mode: Any = "eager") -> tuple[Cells, Any]:
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    trace = run.trace(whence.pattern(pattern))
    assert trace.rows == 1, trace.output().to_pylist()
    return {(c["row"], c["path"]): c["role"] for c in trace.cells().to_pylist()}, trace


def of(rows: list[int], path: str, role: str) -> Cells:
    return {(row, path): role for row in rows}


def test_an_item_of_a_set_is_that_of_all_rows_that_had_it(workshop, games):
    frame = games.groupBy("team").agg(F.collect_set("name").alias("names"))
    found, trace = cells(workshop, frame, "team = 'a', names[] = 'x'")
    assert trace.grade == "exact"
    assert found == of([0, 2], "name", BY) | of([0, 2], "team", BY)


@pytest.mark.parametrize("mode", ["eager", "auto"])
def test_a_chosen_value_is_that_of_the_rows_that_had_it(workshop, games, mode):
    frame = games.groupBy("team").agg(F.max("points").alias("most"), F.min("day").alias("first"))
    found, trace = cells(workshop, frame, "team = 'a', most", mode)
    assert trace.grade == "exact"
    assert found == (
        of([1, 2], "points", BY)
        | of([1, 2], "team", BY)
        | of([0, 3], "points", NEAR)
        | of([0, 3], "team", NEAR)
    )
    found, trace = cells(workshop, frame, "team = 'b', first", mode)
    assert trace.grade == "exact"
    assert found == (
        of([4], "day", BY) | of([4], "team", BY) | of([5], "day", NEAR) | of([5], "team", NEAR)
    )


@pytest.mark.parametrize("mode", ["eager", "auto", "lazy"])
def test_a_count_of_rows_looks_at_the_keys_of_all_of_them(workshop, games, mode):
    """It is made of no cell, but each of its rows is there because of its key."""
    counts = games.groupBy("team").agg(F.count("*").alias("c"))
    team_a = [row for row, values in enumerate(ROWS) if values[0] == "a"]
    found, trace = cells(workshop, counts, "team = 'a', c", mode)
    assert trace.grade == "exact"
    assert found == of(team_a, "team", BY)
    found, _ = cells(workshop, counts, f"c = {len(team_a)}", mode)
    assert found == of(team_a, "team", NEAR)
    lists = games.groupBy("team").agg(F.collect_list("day").alias("days"), F.count("*").alias("c"))
    found, _ = cells(workshop, lists.where("c > 3").select("days"), "days[1] = 2", mode)
    assert found == of([1], "day", BY) | of(team_a, "team", NEAR)
    joined = games.where("day = 3").select("name", "team").join(counts, "team")
    found, _ = cells(workshop, joined.select("c"), "c", mode)
    assert found == of(team_a, "team", NEAR) | of([2], "day", NEAR)


LOOKED_AT = {
    "count of a column": "SELECT count(*) AS c FROM (SELECT name FROM t WHERE points > 5)",
    "count over a window": "SELECT count(*) AS c FROM (SELECT row_number() OVER (ORDER BY 1) "
    "FROM t WHERE points > 5)",
    "count of a union": "SELECT count(*) AS c FROM (SELECT day FROM t WHERE points > 5 "
    "UNION ALL SELECT day FROM t WHERE points > 10)",
    "cross join": "SELECT 1 AS c FROM (SELECT 1) CROSS JOIN (SELECT name FROM t WHERE points > 5)",
    "exists": "SELECT 1 AS c FROM (SELECT 1) WHERE EXISTS (SELECT 1 FROM t WHERE points > 5)",
    "whether it exists": "SELECT EXISTS (SELECT 1 FROM t WHERE points > 5) AS c",
}


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_filter_below_what_no_cell_is_taken_of(workshop, games, name, mode):
    games.createOrReplaceTempView("t")
    frame = workshop.session.sql(LOOKED_AT[name])
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    found = run.trace(whence.pattern("c")).cells().to_pylist()
    assert {(c["row"], c["path"]): c["role"] for c in found} == of([1, 2], "points", NEAR)


EVERY = list(range(len(ROWS)))
BARE = {
    "count": ("SELECT count(*) AS c FROM t", of(EVERY, "", NEAR)),
    "rows of a constant": ("SELECT DISTINCT 1 AS c FROM t", of(EVERY, "", NEAR)),
    "exists": (
        "SELECT 1 AS c FROM (SELECT 1) WHERE EXISTS (SELECT 1 FROM t)",
        of(EVERY, "", NEAR),
    ),
    "count in a window": (
        "SELECT day AS c, count(*) OVER () AS n FROM t",
        of([3], "day", BY) | of([row for row in EVERY if row != 3], "", NEAR),
    ),
    "scalar subquery": (
        "SELECT day + (SELECT count(*) FROM t) AS c FROM t WHERE team = 'b' AND points IS NOT NULL",
        None,
    ),
    "cross join with some": (
        "SELECT l.day AS c FROM (SELECT * FROM t WHERE points = 5) AS l CROSS JOIN t AS r",
        None,
    ),
}


@pytest.mark.parametrize("mode", ["eager", "auto", "lazy"])
@pytest.mark.parametrize("name", BARE)
def test_rows_of_which_no_cell_was_looked_at_are_there(workshop, games, name, mode):
    """Without them the value would be another, or not there."""
    games.createOrReplaceTempView("t")
    sql, expected = BARE[name]
    run = whence.capture(
        workshop.session.sql(sql), archive=workshop.folder(), mode=mode, progress=False
    )
    asked = "n, c = 4" if name == "count in a window" else "c"
    trace = run.trace(whence.pattern(asked))
    listed = trace.cells().to_pylist()
    found = {(c["row"], c["path"]): c["role"] for c in listed}
    assert trace.grade == "exact"
    assert {row for row, _ in found} == set(EVERY)
    if expected is not None:
        assert found == expected
    bare = [c for c in listed if not c["path"]]
    assert bare
    assert not any(c["accessed_by"] or c["moved_by"] for c in bare)
    (source,) = trace
    tree = trace.tree(source, rows=len(ROWS))
    for cell in bare:
        assert f"○ {source}[{cell['row']}]  influencing" in tree.splitlines()
    assert '<th class="influencing">' in trace._repr_html_()


def test_values_taken_by_another_column(workshop, games):
    frame = games.groupBy("team").agg(F.max_by("name", "points").alias("best"))
    found, trace = cells(workshop, frame, "team = 'b', best")
    assert trace.grade == "exact"
    assert {key for key, role in found.items() if role == BY} == {(4, "name"), (4, "team")}
    assert found[4, "points"] == NEAR


def test_a_filtered_sum_takes_the_rows_that_pass(workshop, games):
    frame = games.groupBy("team").agg(F.expr("sum(points) FILTER (WHERE day < 3)").alias("early"))
    found, trace = cells(workshop, frame, "team = 'a', early")
    assert trace.grade == "exact"
    assert {key for key, role in found.items() if role == BY} == {
        *((row, path) for row in (0, 1) for path in ("points", "team"))
    }
    assert found[2, "day"] == NEAR
    assert (2, "points") not in found


def test_a_choice_by_data_says_that_it_tells_too_much(workshop, games):
    frame = games.selectExpr("team", "day", "CASE WHEN day > 2 THEN name ELSE team END AS one")
    found, trace = cells(workshop, frame, "day = 1, team = 'a', one")
    assert trace.grade == "superset"
    assert {(path, role) for (_, path), role in found.items()} == {
        ("name", BY),
        ("team", BY),
        ("day", BY),
    }


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_a_branch_of_a_union_without_rows_says_nothing(workshop, games, mode):
    known = games.where("day = 1").selectExpr("team", "name AS one")
    other = games.where("day = 2").selectExpr("team", "if(points > 5, name, team) AS one")
    found, trace = cells(workshop, known.union(other), "team = 'a', one = 'x'", mode)
    assert trace.grade == "exact"
    assert found == of([0], "team", BY) | of([0], "name", BY) | of([0], "day", NEAR)
    _, trace = cells(workshop, known.union(other), "team = 'a', one = 'y'", mode)
    assert trace.grade == "superset"


def test_a_python_function_says_that_it_tells_too_much(workshop, games):
    pair = F.udf(lambda day, name: (day, name), "struct<day: int, name: string>")
    frame = games.where("day = 3").select(pair("day", "name").alias("p"), "team")
    found, trace = cells(workshop, frame, "p.name")
    assert trace.grade == "superset"
    assert found == of([2], "day", BY) | of([2], "name", BY)
    _, trace = cells(workshop, frame, "team")
    assert trace.grade == "exact"


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_the_start_and_the_end_of_a_session_are_those_of_all_its_rows(workshop, games, mode):
    games.selectExpr("name", "make_timestamp(2024, 1, 1, day, 0, 0) AS at").where(
        "name = 'x'"
    ).createOrReplaceTempView("visits")
    frame = workshop.session.sql(
        "SELECT session_window.start AS start, collect_list(name) AS names "
        "FROM visits GROUP BY session_window(at, '150 minutes')"
    )
    rows = [0, 2, 4]
    found, trace = cells(workshop, frame, "start, names[0]", mode)
    assert trace.grade == "exact"
    assert {key for key, role in found.items() if role == BY} >= of(rows, "day", BY).keys()
    found, _ = cells(workshop, frame, "names[0]", mode)
    assert len({row for row, _ in found}) == 1


GROUPED: dict[str, tuple[tuple[str, ...], list[int]]] = {
    "level = 0, team = 'a', name = 'x'": (("team", "name"), [0, 2]),
    "level = 1, team = 'a'": (("team",), [0, 1, 2, 3]),
    "level = 3": ((), EVERY),
}


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize("asked", GROUPED)
def test_columns_that_a_grouping_set_leaves_out_do_not_matter(workshop, games, asked, mode):
    games.createOrReplaceTempView("t")
    frame = workshop.session.sql(
        "SELECT team, name, sum(day) AS days, grouping_id() AS level "
        "FROM t GROUP BY ROLLUP(team, name)"
    )
    keys, rows = GROUPED[asked]
    expected = of(rows, "day", BY)
    for key in keys:
        expected |= of(rows, key, BY)
    found, trace = cells(workshop, frame, f"{asked}, days", mode)
    assert (found, trace.grade) == (expected, "exact")


def test_a_chosen_value_beside_a_sum_says_that_it_tells_too_much(workshop, games):
    frame = games.groupBy("team").agg(F.max("points").alias("most"), F.sum("day").alias("days"))
    found, trace = cells(workshop, frame, "team = 'a', most")
    assert trace.grade == "superset"
    assert any("not taken" in reason for reason in trace.reasons)
    assert {row for row, path in found if path == "points"} == {0, 1, 2, 3}


def test_each_window_function_has_its_own_frame(workshop, games):
    order = Window.partitionBy("team").orderBy("day")
    frame = games.select(
        "team",
        "day",
        F.sum("points").over(order.rowsBetween(-1, 0)).alias("two"),
        F.lead("name").over(order).alias("next"),
    )
    found, trace = cells(workshop, frame, "team = 'a', day = 2, two")
    assert trace.grade == "exact"
    assert {key for key, role in found.items() if role == BY and key[1] == "points"} == {
        (0, "points"),
        (1, "points"),
    }
    found, trace = cells(workshop, frame, "team = 'a', day = 2, next")
    assert trace.grade == "exact"
    assert {key for key, role in found.items() if key[1] == "name" and role == BY} == {(2, "name")}
    assert not {key for key in found if key[1] == "points"}


TAKEN = {
    "max(points) OVER (PARTITION BY team)": ([1, 2], [0, 3]),
    "first_value(points) OVER (PARTITION BY team ORDER BY day)": ([0], [1, 2]),
    "last_value(points, true) OVER (PARTITION BY team ORDER BY points ROWS UNBOUNDED PRECEDING)": (
        [1, 2], [0, 3]),
    "max(struct(day, points)) OVER (PARTITION BY team ORDER BY -day).points": ([3], [2]),
    "first_value(cast(points as string)) OVER (PARTITION BY team ORDER BY day)": ([0], [1, 2]),
    "nth_value(points, 2) OVER (PARTITION BY team ORDER BY day)": ([1, 2], [0]),
    "min(points) OVER (PARTITION BY team ORDER BY day ROWS 1 PRECEDING)": ([1, 2], []),
    "lag(points) IGNORE NULLS OVER (PARTITION BY team ORDER BY day DESC)": ([], [0, 1, 2, 3]),
    "sum(points) FILTER (WHERE day < 3) OVER (PARTITION BY team)": ([0, 1], []),
    "max(points) FILTER (WHERE day > 3) OVER (PARTITION BY team)": ([], [0, 1, 2, 3]),
}  # fmt: skip
"""Of the row of team a on day 3: rows whose points were taken, and those that were looked at."""


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_a_value_that_a_window_took_is_that_of_the_rows_that_had_it(workshop, games, mode):
    columns = [F.expr(text).alias(f"c{i}") for i, text in enumerate(TAKEN)]
    frame = games.select("team", "day", *columns)
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    for i, (text, (taken, looked)) in enumerate(TAKEN.items()):
        trace = run.trace(whence.pattern(f"team = 'a', day = 3, c{i}"))
        points = [c for c in trace.cells().to_pylist() if c["path"] == "points"]
        found = {role: {c["row"] for c in points if c["role"] == role} for role in (BY, NEAR)}
        assert found[BY] == set(taken), text
        assert found[NEAR] == set(looked), text


ELSEWHERE = {
    "lag(name) OVER (PARTITION BY team ORDER BY day)": {"name": 0},
    "lead(points) OVER (PARTITION BY team ORDER BY day)": {"points": 2},
    "lead(points, 2) OVER (PARTITION BY team ORDER BY day)": {"points": 3},
    "lag(struct(name, points)) OVER (PARTITION BY team ORDER BY day).points": {"points": 0},
    "get(get(lag(grid) OVER (PARTITION BY team ORDER BY day), 0), 1)": {"grid[0][1]": 0},
    "lag(name, 4) OVER (PARTITION BY team ORDER BY day)": {},
    "first_value(name) OVER (PARTITION BY team ORDER BY day ROWS BETWEEN 1 FOLLOWING AND 1 "
    "FOLLOWING)": {"name": 2},
    "sum(points) OVER (PARTITION BY team ORDER BY day ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING)": {
        "points": 0},
    "max(points) OVER (PARTITION BY team ORDER BY day ROWS BETWEEN 1 FOLLOWING AND 1 FOLLOWING)": {
        "points": 2},
}  # fmt: skip
"""Of the row of team a on day 2, whose own values are not in the frame: what is behind a value."""


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_a_row_that_is_not_in_its_frame_is_not_looked_into(workshop, games, mode):
    columns = [F.expr(text).alias(f"c{i}") for i, text in enumerate(ELSEWHERE)]
    frame = games.select("team", "day", *columns)
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    for i, (text, wanted) in enumerate(ELSEWHERE.items()):
        trace = run.trace(whence.pattern(f"team = 'a', day = 2, c{i}"))
        found = {(c["row"], c["path"]): c["role"] for c in trace.cells().to_pylist()}
        told = {cell: role for cell, role in found.items() if cell[1] not in ("team", "day")}
        assert told == {(row, path): BY for path, row in wanted.items()}, text
        assert (found[1, "team"], found[1, "day"], trace.grade) == (BY, BY, "exact"), text


def test_a_default_of_a_window_is_that_of_the_row(workshop, games):
    frame = games.selectExpr(
        "team", "day", "lag(points, 1, day) OVER (PARTITION BY team ORDER BY name, day) AS before"
    )
    found, trace = cells(workshop, frame, "team = 'b', day = 1, before = 1")
    assert (found[4, "day"], trace.grade) == (BY, "superset")


PICKED = {
    "transform(collect_list(struct(points, day)), y -> y.points)[0]": {"points"},
    "transform(collect_list(day), y -> y * 2)[1]": {"day"},
    "collect_list(struct(points, name)).name[1]": {"name"},
    "zip_with(collect_list(day), collect_list(name), (p, q) -> concat(p, q))[0]": {"day", "name"},
    "arrays_zip(collect_list(day), collect_list(name))[0]['0']": {"day"},
    "CAST(collect_list(day) AS array<string>)[0]": {"day"},
    "transform(collect_set(day), y -> y + 1)[0]": {"day"},
    "collect_list(array(day, points))[0][1]": {"points"},
    "collect_list(transform(array(day), y -> y + 1))[0][0]": {"day"},
    "collect_set(array(day, points))[0][0]": {"day"},
    "map_from_entries(collect_list(struct(day, name)))[1]": {"name"},
}


def test_one_item_of_a_collected_list_says_that_all_members_count(workshop, games):
    columns = [F.expr(text).alias(f"c{i}") for i, text in enumerate(PICKED)]
    frame = games.where("team = 'a' and day < 4").groupBy("team").agg(*columns)
    for i, (text, wanted) in enumerate(PICKED.items()):
        found, trace = cells(workshop, frame.select("team", f"c{i}"), f"team = 'a', c{i}")
        by = {cell for cell, role in found.items() if role == BY and cell[1] != "team"}
        assert by == {(row, path) for row in (0, 1, 2) for path in wanted}, text
        assert trace.grade == "superset", text
    whole = games.groupBy("team").agg(F.expr("transform(collect_list(day), y -> y + 1)").alias("l"))
    _, trace = cells(workshop, whole, "team = 'a', l")
    assert trace.grade == "exact"


def test_rows_that_tie_at_the_edge_of_a_frame(workshop, games):
    """Which of them was before the row is not known, so the answer says that it holds too much."""
    frame = games.where("points is not null").selectExpr(
        "team", "day", "lag(day) OVER (PARTITION BY team ORDER BY points) AS before"
    )
    run = whence.capture(frame, archive=workshop.folder(), mode="eager", progress=False)
    later = run.output.where("team = 'a' and before is not null").collect()
    for _, day, before in later:
        trace = run.trace(whence.pattern(f"team = 'a', day = {day}, before"))
        found = {c["row"] for c in trace.cells().to_pylist() if c["path"] == "day"}
        ties = before != 1
        assert {before - 1} <= found
        assert trace.grade == ("superset" if ties else "exact")
        assert any("tie at the edge" in reason for reason in trace.reasons) == ties
        assert run.trace(f"team = 'a' and day = {day}").grade == trace.grade


def test_a_window_that_takes_a_row_by_another_column(workshop, games):
    windows = ["(PARTITION BY team)", "(PARTITION BY team ORDER BY day ROWS 1 PRECEDING)"]
    frame = games.selectExpr(
        "team", "day", *(f"min_by(name, points) OVER {w} AS one{i}" for i, w in enumerate(windows))
    )
    for column, taken, looked in (("one0", {0}, {1, 2, 3}), ("one1", {0}, {1})):
        found, trace = cells(workshop, frame, f"team = 'a', day = 2, {column}")
        assert trace.grade == "exact"
        names = {row: role for (row, path), role in found.items() if path == "name"}
        assert {row for row, role in names.items() if role == BY} == taken
        assert {row for row, role in names.items() if role == NEAR} == looked


def test_a_map_that_a_window_took_says_that_it_tells_too_much(workshop, games):
    text = "first_value(marks) OVER (PARTITION BY team ORDER BY day) AS one"
    frame = games.selectExpr("team", "day", text)
    _, trace = cells(workshop, frame, "team = 'a', day = 2, one")
    assert trace.grade == "superset"
    assert any("not taken" in reason for reason in trace.reasons)


@pytest.mark.parametrize("mode", ["eager", "auto"])
def test_an_item_of_a_list_that_was_joined(workshop, games, mode):
    lists = games.groupBy("team").agg(F.collect_list("points").alias("all"))
    frame = games.where("day = 1").select("team", "name").join(lists, "team")
    found, trace = cells(workshop, frame, "team = 'a', all[1]", mode)
    assert trace.grade == "exact"
    assert {key for key, role in found.items() if role == BY} >= {(1, "points")}
    assert {row for row, path in found if path == "points"} == {1}


@pytest.mark.parametrize("mode", ["eager", "auto"])
def test_a_list_that_is_unnested_again(workshop, games, mode):
    lists = games.groupBy("team").agg(F.collect_list(F.struct("name", "day")).alias("all"))
    frame = lists.select("team", F.explode("all").alias("one")).where("one.day = 2")
    found, trace = cells(workshop, frame, "team = 'a', one.name", mode)
    assert trace.grade == "exact"
    assert {key for key in found if key[1] in ("name", "day")} == {(1, "name"), (1, "day")}
    assert found[1, "name"] == BY
    assert found[1, "day"] == NEAR


def test_lists_of_lists(workshop, games):
    frame = games.select("team", "day", "grid")
    found, trace = cells(workshop, frame, "team = 'a', day = 1, grid[0][1]")
    assert trace.grade == "exact"
    assert found == {(0, "team"): BY, (0, "day"): BY, (0, "grid[0][1]"): BY}
    rows = frame.select("team", "day", F.explode("grid").alias("line"))
    items = rows.select("team", "day", F.explode("line").alias("item"))
    found, trace = cells(workshop, items, "team = 'b', item = 5")
    assert trace.grade == "exact"
    assert found[4, "grid[1][0]"] == BY
    assert {path: role for (_, path), role in found.items() if role == NEAR} == {"grid[1]": NEAR}


def test_values_in_maps(workshop, games):
    frame = games.select("team", "day", "marks", F.col("marks")["l"].alias("l"))
    found, trace = cells(workshop, frame, "team = 'a', day = 2, marks.k")
    assert trace.grade == "exact"
    assert found[1, "marks{'k'}"] == BY
    found, _ = cells(workshop, frame, "team = 'a', day = 2, l")
    assert found[1, "marks{'l'}"] == BY
    assert (1, "marks{'k'}") not in found


def test_entries_of_unnested_maps(workshop, games):
    """A value is named by its key in the source, or by what a map was made of."""
    rows = games.select("team", "day", F.explode("marks").alias("mark", "got"))
    lists = rows.groupBy("team").agg(F.collect_list("got").alias("all"))
    for frame, pattern in [(rows, "day = 2, mark = 'l', got = 3"), (lists, "all = 3")]:
        found, trace = cells(workshop, frame, pattern)
        assert trace.grade == "exact"
        values = {cell for cell, role in found.items() if role == BY and "'" in cell[1]}
        assert values == {(1, "marks{'l'}")}
    made = games.select(
        "team",
        F.create_map(F.lit("z"), "points", F.lit("one"), F.lit(1), F.lit("b"), "day").alias("both"),
    )
    split = made.select("team", F.explode("both").alias("name", "value"))
    found, trace = cells(workshop, split, "team = 'b', name = 'b', value = 1")
    assert trace.grade == "exact"
    assert {cell for cell, role in found.items() if role == BY} == {(4, "team"), (4, "day")}
    kept = games.selectExpr("team", "day", "map_filter(marks, (k, v) -> v > 2) AS marks")
    left = kept.select("team", "day", F.explode("marks").alias("mark", "got"))
    found, trace = cells(workshop, left, "day = 2, got = 3")
    assert trace.grade == "superset", "which entry of the source it was is not kept"
    assert found[1, "marks{}"] == BY
    assert not any("'" in path or "[" in path for _, path in found)


def test_stacked_values(workshop, games):
    stack = "stack(3, 'day', day, 'points', points, 'none') AS (what, value)"
    frame = games.selectExpr("team", "day", stack)
    found, trace = cells(workshop, frame, "team = 'a', day = 2, what = 'points', value")
    assert trace.grade == "exact"
    assert found == of([1], "points", BY) | of([1], "team", BY) | of([1], "day", BY)
    found, trace = cells(workshop, frame.select("what", "value"), "what = 'day', value = 4")
    assert trace.grade == "exact"
    assert found == of([3], "day", BY)


def test_unpivoted_values(workshop, games):
    """Each row of an unpivot knows which column it has its value of, also below other operators."""
    wide = games.select("team", "day", "points", (F.col("day") * 2).alias("double"))
    long = wide.unpivot(["team", "day"], ["day", "points", "double"], "what", "value")
    for column, behind in (("points", "points"), ("double", "day")):
        chosen = f"team = 'a', day = 2, what = '{column}', value"
        for mode in ("eager", "lazy"):
            found, trace = cells(workshop, long, chosen, mode)
            assert trace.grade == "exact"
            assert found == of([1], "team", BY) | of([1], "day", BY) | of([1], behind, BY)
    few = long.where("value = 4 AND what <> 'double'").select("what", "value")
    found, trace = cells(workshop, few, "what, value")
    assert (found, trace.grade) == (of([3], "day", BY), "exact")
    grouped = long.groupBy("team").agg(F.collect_list("value").alias("values"))
    found, trace = cells(workshop, grouped, "team = 'b', values[] = 2")
    behind = {(row, path) for (row, path), role in found.items() if path != "team"}
    assert behind == {(4, "points"), (4, "day"), (5, "day")}  # 2 points, twice day 1, and day 2
    assert trace.grade == "exact"
    other = games.where("day = 1 AND team = 'b'").select("team", F.col("name").alias("who"))
    joined = long.where("what = 'double' AND day = 1").join(other, "team").select("who", "value")
    found, trace = cells(workshop, joined, "value")
    assert (found[4, "day"], trace.grade) == (BY, "exact")
    assert (4, "points") not in found


def test_lists_and_maps_that_are_unnested_where_they_are_made(workshop, games):
    one_of_two = F.when(F.col("points") > 6, F.col("day")).otherwise(F.size("grid"))
    items = ["points", F.lit(0), F.size("tags"), one_of_two]
    named = [part for i, item in enumerate(items) for part in (F.lit(f"v{i}"), item)]
    frames = [
        games.select("team", "day", F.posexplode(F.array(*items)).alias("at", "value")),
        games.select("team", "day", F.explode(F.create_map(*named)).alias("at", "value")),
    ]
    for frame, first, last in zip(frames, ("0", "'v0'"), ("2", "'v2'"), strict=True):
        own = {(0, "team"), (0, "day")}
        found, trace = cells(workshop, frame, f"team = 'a', day = 1, at = {first}, value")
        assert trace.grade == "exact"
        assert {cell for cell, role in found.items() if role == BY} == {*own, (0, "points")}
        found, trace = cells(workshop, frame, f"team = 'a', day = 1, at = {last}, value")
        assert trace.grade == "exact"
        assert {cell for cell, role in found.items() if role == BY} == {*own, (0, "tags")}
    found, trace = cells(workshop, frames[0], "team = 'a', day = 1, at = 3, value")
    assert trace.grade == "superset", "a choice is one, also in a list"
    assert found[0, "points"] == NEAR
    found, trace = cells(workshop, frames[0], "team = 'a', day = 1, at = 1, value")
    assert trace.grade == "exact"
    assert found == dict.fromkeys([(0, "team"), (0, "day")], BY)


def test_positions_of_unnested_items(workshop, games):
    frame = games.select("team", "day", F.posexplode("tags").alias("at", "tag"))
    found, trace = cells(workshop, frame, "team = 'a', day = 1, tag = 'q'")
    assert trace.grade == "exact"
    assert found[0, "tags[1]"] == BY
    assert (0, "tags[0]") not in found


def test_subqueries_beside_aggregates_and_without_conditions(workshop, games):
    games.createOrReplaceTempView("games")
    frame = workshop.session.sql(
        "SELECT *, EXISTS (SELECT 1 FROM games WHERE points > 6) AS some FROM (SELECT team, "
        "count(points) / (SELECT max(day) FROM games) AS share FROM games GROUP BY team)"
    )
    found, _ = cells(workshop, frame, "team = 'b', share")
    by = {cell for cell, role in found.items() if role == BY}
    assert by == {(3, "day"), *((row, path) for row in (4, 5) for path in ("points", "team"))}
    found, _ = cells(workshop, frame, "team = 'b', some")
    assert {cell for cell, role in found.items() if role == BY} == {(4, "team"), (5, "team")}


LEVELS = 8


def nested(level: int, number: int) -> list[dict[str, Any]] | None:
    """A list of structs with lists of structs, to eight levels; some are empty or null."""
    if number % 37 == 36:
        return None
    if number % 41 == 40 or level == 0:
        return []
    below = [2 * number + 1, 2 * number + 2]
    return [{"v": child, "n": nested(level - 1, child)} for child in below]


def tree_type(level: int) -> str:
    inner = tree_type(level - 1) if level > 1 else "array<int>"
    return f"array<struct<v: int, n: {inner}>>"


@pytest.fixture(scope="module")
def trees(workshop: Workshop) -> Any:
    path = str(workshop.folder())
    rows = [(i, nested(LEVELS, i)) for i in range(3)]
    schema = f"id int, tree {tree_type(LEVELS)}"
    workshop.session.createDataFrame(rows, schema).coalesce(1).write.parquet(path)
    return workshop.session.read.parquet(path)


def way(positions: list[int]) -> tuple[str, int]:
    """The path to a value at the bottom of the first row's tree, and the value there."""
    number = 0
    for position in positions:
        number = 2 * number + 1 + position
    return "tree" + ".n".join(f"[{p}]" for p in positions) + ".v", number


@pytest.mark.parametrize("positions", [[0] * 8, [1, 0, 1, 0, 0, 1, 1, 0]])
def test_eight_levels_are_followed_where_they_are(workshop, trees, positions):
    path, number = way(positions)
    frame = trees.select("id", F.struct(F.col("tree").alias("t")).alias("kept"))
    asked = path.replace("tree", "kept.t", 1)
    found, trace = cells(workshop, frame, f"id = 0, {asked} = {number}")
    assert trace.grade == "exact"
    assert found == of([0], path, BY) | of([0], "id", BY)


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_eight_levels_are_unnested_and_collected_again(workshop, trees, mode):
    positions = [1, 0, 1, 0, 0, 1, 1, 0]
    path, number = way(positions)
    frame = trees.select("id", F.explode("tree").alias("x"))
    for _ in range(LEVELS - 1):
        frame = frame.select("id", F.explode("x.n").alias("x"))
    again = frame.groupBy("id").agg(F.collect_list("x.v").alias("bottom"))
    found, _ = cells(workshop, again, f"id = 0, bottom[] = {number}", mode)
    by = {cell for cell, role in found.items() if role == BY}
    assert by == {(0, path), (0, "id")}
