"""Cells and nested items: against tagged values, and by running pipelines on what was named."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import cells_oracle as oracle
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit import MODES, Workshop
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import whence

pytestmark = pytest.mark.spark

SCHEMA = (
    "text string, n int, user struct<id: string, name: string, seen: array<int>>, "
    "mentions array<struct<id: string, name: string, tags: array<string>>>"
)


def user(name: str | None, *seen: int) -> dict[str, Any] | None:
    return None if name is None else {"id": name, "name": name * 2, "seen": list(seen)}


def mention(name: str | None, *tags: str | None) -> dict[str, Any]:
    return {"id": name, "name": None if name is None else name * 2, "tags": list(tags)}


ROWS: list[dict[str, Any]] = [
    {"text": "one", "n": 0, "user": user("a", 1, 2), "mentions": [mention("b", "x"), mention("a")]},
    {"text": "two", "n": 0, "user": user("a"), "mentions": []},
    {"text": "two", "n": 1, "user": user("a", 3), "mentions": None},
    {"text": None, "n": 0, "user": user("b"), "mentions": [mention("a", "x", None, "y")]},
    {"text": "four", "n": None, "user": user(None), "mentions": [mention(None), mention("b")]},
    {"text": "five", "n": 0, "user": user("b", 7), "mentions": [mention("a"), mention("a", "z")]},
]


def write(workshop: Workshop, rows: list[dict[str, Any]]) -> DataFrame:
    """The rows as a Parquet file, in their order."""
    path = str(workshop.folder())
    frame = workshop.session.createDataFrame(rows, SCHEMA)
    frame.coalesce(1).write.parquet(path)
    return workshop.session.read.parquet(path)


def cells(trace: Any, rows: list[dict[str, Any]]) -> tuple[set[oracle.Tag], set[oracle.Tag]]:
    """What a trace says, leaf by leaf: a list stands for all that is in it."""
    found: dict[str, set[oracle.Tag]] = {"contributing": set(), "influencing": set()}
    for cell in trace.cells().to_pylist():
        pattern = re.escape(cell["path"]).replace(r"\[\*\]", r"\[\d+\]")
        tree = oracle.tagged(cell["row"], rows[cell["row"]], "")
        for tag in oracle.tags(tree):
            if re.fullmatch(rf"{pattern}(?:[.\[].*)?", tag[1]) or _inside(cell["path"], tag[1]):
                found[cell["role"]].add(tag)
    return found["contributing"], found["influencing"] - found["contributing"]


def _inside(path: str, leaf: str) -> bool:
    """Whether a path leads into a value that is null."""
    return path.startswith((f"{leaf}.", f"{leaf}["))


def nested(frame: DataFrame) -> DataFrame:
    """Authors, and those they mention, with the texts they are in."""
    authors = frame.where("n = 0").select("text", F.col("user.id").alias("id"))
    mentioned = frame.select("text", F.explode("mentions").alias("m")).select(
        "text", F.col("m.id").alias("id")
    )
    both = authors.union(mentioned).select(F.struct("text").alias("t"), F.struct("id").alias("u"))
    return both.groupBy("u").agg(F.collect_list("t").alias("ts"))


def oracle_nested(rows: list[oracle.Row]) -> list[oracle.Row]:
    authors = oracle.select(oracle.where(rows, "n", _zero), text="text", id="user.id")
    exploded = oracle.explode(rows, "mentions", "m")
    both = oracle.union(authors, oracle.select(exploded, text="text", id="m.id"))
    made = oracle.select(both, t={"text": "text"}, u={"id": "id"})
    return oracle.collect(made, "u", "t", "ts")


def _zero(value: Any) -> Any:
    return None if value is None else value == 0


PIPELINES: dict[str, tuple[Any, Any]] = {
    "select": (
        lambda f: f.select("text", F.struct("user.name", "n").alias("s")),
        lambda r: oracle.select(r, text="text", s={"name": "user.name", "n": "n"}),
    ),
    "computed": (
        lambda f: f.select(F.upper("text").alias("t"), (F.col("n") + 1).alias("m")),
        lambda r: oracle.select(
            r,
            t=(lambda v: v and v.upper(), "text"),
            m=(lambda v: None if v is None else v + 1, "n"),
        ),
    ),
    "filter": (
        lambda f: f.where("n = 0").select("user", "mentions"),
        lambda r: oracle.select(oracle.where(r, "n", _zero), user="user", mentions="mentions"),
    ),
    "explode": (
        lambda f: f.select("text", F.explode("mentions").alias("m")).select("text", "m.name", "m"),
        lambda r: oracle.select(
            oracle.explode(r, "mentions", "m"), text="text", name="m.name", m="m"
        ),
    ),
    "explode twice": (
        lambda f: (
            f.select("text", F.explode("mentions").alias("m"))
            .select("text", F.explode("m.tags").alias("tag"))
            .where("tag is not null")
        ),
        lambda r: oracle.select(
            oracle.where(
                oracle.explode(oracle.explode(r, "mentions", "m"), "m.tags", "tag"),
                "tag",
                lambda v: v is not None,
            ),
            text="text",
            tag="tag",
        ),
    ),
    "collect": (nested, oracle_nested),
    "collect nulls": (
        lambda f: f.groupBy("n").agg(F.collect_list("text").alias("texts")),
        lambda r: oracle.collect(r, "n", "text", "texts"),
    ),
}


def questions(row: oracle.Row) -> list[tuple[str, list[tuple[str, list[Any]]]]]:
    """Every value in a row, and pairs of them, as patterns and as steps."""
    found = []
    for column, tree in row.columns.items():
        for path, _ in oracle.walk(tree, column):
            steps = [
                int(part[1:-1]) if part.startswith("[") else part
                for part in re.findall(r"\[\d+\]|[^.\[]+", path)[1:]
            ]
            found.append((path, [(column, steps)]))
    return found + [
        (f"{a}, {b}", [*x, *y])
        for (a, x), (b, y) in itertools.pairwise(found)
        if x[0][0] != y[0][0]
    ]


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, "eager") for name in PIPELINES),
        *(("collect", mode) for mode in MODES[1:]),
        *(("explode twice", mode) for mode in MODES[1:]),
    ],
)
def test_cells(workshop: Workshop, name: str, mode: str) -> None:
    pipeline, slow = PIPELINES[name]
    check(workshop, pipeline, slow, ROWS, mode)


def check(workshop: Workshop, pipeline: Any, slow: Any, rows: list[Any], mode: str) -> None:
    frame = pipeline(write(workshop, rows))
    expected = slow(oracle.source(rows))
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    got = [r.asDict(recursive=True) for r in run.output.collect()]
    assert sorted(map(repr, got)) == sorted(repr(_plain(row)) for row in expected)
    asked = dict(question for row in expected for question in questions(row))
    most = 25 if mode == "eager" else 3
    every = list(asked.items())[:: len(asked) // most + 1]
    for text, chosen in every:
        trace = run.trace(whence.pattern(text))
        assert cells(trace, rows) == together(expected, chosen), (text, mode)
        assert trace.grade == "exact", trace.reasons


def together(rows: list[oracle.Row], chosen: Any) -> Any:
    """The answer for all rows that a pattern without conditions matches."""
    by: set[Any] = set()
    near: set[Any] = set()
    for row in rows:
        if all(_is_there(row.columns[column], steps) for column, steps in chosen):
            one, other = oracle.answer(row, chosen)
            by |= one
            near |= other
    return by, near - by


def _is_there(tree: Any, steps: list[Any]) -> bool:
    for step in steps:
        if isinstance(tree, oracle.Leaf):
            return isinstance(step, str)
        if isinstance(step, int) and step >= len(tree):
            return False
        tree = tree[step]
    return True


def _plain(row: oracle.Row) -> dict[str, Any]:
    return {name: oracle.plain(tree) for name, tree in row.columns.items()}


def test_running_example(workshop: Workshop, tmp_path: Path) -> None:
    """The seed's example, from a JSON file: table 1, figure 1, table 2, figure 4."""
    lp, ls, jm = (
        {"id_str": "lp", "name": "Lisa Paul"},
        {"id_str": "ls", "name": "Lauren Smith"},
        {"id_str": "jm", "name": "John Miller"},
    )
    tweets = [
        ("Hello @ls @jm @ls", lp, [ls, jm, ls], 0),
        ("Hello World", lp, [], 0),
        ("Hello World", lp, [], 0),
        ("This is me @jm", jm, [jm], 0),
        ("Hello @lp", jm, [lp], 1),
    ]
    names = ("text", "user", "user_mentions", "retweet_cnt")
    lines = [json.dumps(dict(zip(names, tweet, strict=True))) for tweet in tweets]
    (tmp_path / "tweets.json").write_text("\n".join(lines))
    frame = workshop.session.read.schema(
        "text string, user struct<id_str: string, name: string>, "
        "user_mentions array<struct<id_str: string, name: string>>, retweet_cnt int"
    ).json(str(tmp_path / "tweets.json"))
    authors = frame.where("retweet_cnt = 0").select("text", "user.id_str", "user.name")
    mentioned = frame.select("text", F.explode("user_mentions").alias("m")).select(
        "text", "m.id_str", "m.name"
    )
    both = authors.union(mentioned).select(
        F.struct("text").alias("tweet"), F.struct("id_str", "name").alias("user")
    )
    result = both.groupBy("user").agg(F.collect_list("tweet").alias("tweets"))
    for mode in MODES:
        run = whence.capture(result, archive=tmp_path / mode, mode=mode, progress=False)
        trace = run.trace(whence.pattern("//id_str = 'lp', tweets[text = 'Hello World']{2}"))
        assert trace.grade == "exact"
        assert list(trace) == ["tweets"]
        roles = {(c["row"], c["path"]): c["role"] for c in trace.cells().to_pylist()}
        assert roles == {
            (row, path): role
            for row in (1, 2)
            for path, role in [
                ("text", "contributing"),
                ("user.id_str", "contributing"),
                ("user.name", "influencing"),
                ("retweet_cnt", "influencing"),
            ]
        }
        kinds = {
            c["path"]: ([o.split("-")[0] for o in c["accessed_by"]], len(c["moved_by"]))
            for c in trace.cells().to_pylist()
        }
        assert kinds["user.name"] == (["aggregate"], 2)
        assert kinds["retweet_cnt"] == (["filter"], 0)


ON_TOP = {
    "the least": "SELECT n, text AS t FROM tweets WHERE n IS NOT NULL ORDER BY t DESC LIMIT 3",
    "after some": "SELECT text AS t FROM tweets WHERE text > 'a' ORDER BY t LIMIT 2 OFFSET 1",
    "of groups": "SELECT n, max(text) AS t FROM tweets GROUP BY n ORDER BY t LIMIT 2",
    "within": "SELECT t FROM (SELECT text AS t FROM tweets ORDER BY n, text LIMIT 4) WHERE t > 'f'",
}


@pytest.mark.parametrize("name", ON_TOP)
def test_cells_of_rows_that_a_limit_kept(workshop: Workshop, name: str) -> None:
    write(workshop, ROWS).createOrReplaceTempView("tweets")
    frame = workshop.session.sql(ON_TOP[name])
    found = []
    for mode in MODES:
        run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
        trace = run.trace(whence.pattern("t is not null"))
        cells = sorted((c["row"], c["path"], c["role"]) for c in trace.cells().to_pylist())
        rows = run.trace("t is not null")["tweets"].locators()["row"].to_pylist()
        assert {row for row, *_ in cells} == set(rows)
        found.append((trace.grade, cells))
    assert found == found[:1] * len(MODES)


def test_paths_are_spelled_as_in_the_source(workshop: Workshop) -> None:
    frame = write(workshop, ROWS).selectExpr("USER.ID AS i", "Mentions.NAME AS names", "USER")
    run = whence.capture(frame, archive=workshop.folder(), progress=False)
    for text, told in [("i = 'b'", "user.id"), ("names", "mentions[*].name"), ("//Seen", "user")]:
        paths = {c["path"] for c in run.trace(whence.pattern(text)).cells().to_pylist()}
        assert any(path.startswith(told) for path in paths), (text, paths)
        assert paths == {path.lower() for path in paths}


NAMES = st.sampled_from(["a", "b", None])
ROW = st.fixed_dictionaries(
    {
        "text": st.sampled_from(["one", "two", None]),
        "n": st.sampled_from([0, 0, 1, None]),
        "user": st.none() | st.builds(user, NAMES, st.integers(0, 3)),
        "mentions": st.none()
        | st.lists(st.builds(mention, NAMES, st.sampled_from(["x", "y", None])), max_size=3),
    }
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["collect", "explode twice", "collect nulls"])
@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(rows=st.lists(ROW, min_size=1, max_size=5))
def test_any_rows(workshop: Workshop, name: str, rows: Any) -> None:
    pipeline, slow = PIPELINES[name]
    check(workshop, pipeline, slow, rows, "eager")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("usr.id", "did you mean 'user'"),
        ("user.ids", "did you mean"),
        ("text[0]", "no list"),
        ("user = 1", "cannot be compared"),
        ("text = ", "at character 8"),
        ("n where 'length('", "cannot read"),
    ],
)
def test_patterns_that_do_not_fit(workshop: Workshop, text: str, told: str) -> None:
    run = whence.capture(write(workshop, ROWS).select("*"), archive=workshop.folder())
    with pytest.raises(whence.SelectionError, match=told):
        run.trace(whence.pattern(text))


def test_a_pattern_that_matches_nothing_says_so(workshop: Workshop) -> None:
    run = whence.capture(write(workshop, ROWS).select("*"), archive=workshop.folder())
    for text in ("text = 'nine'", "mentions[9]", "mentions[id = 'a']{5}"):
        trace = run.trace(whence.pattern(text))
        assert (trace.rows, len(trace), trace.cells().num_rows) == (0, 0, 0)
        assert any("matches nothing" in note for note in trace.notes)


def test_rows_may_be_known_better_than_their_cells(workshop: Workshop) -> None:
    """Which of two values a CASE took is told by data: the row is exact, its cells are not."""
    frame = write(workshop, ROWS).selectExpr("CASE WHEN n = 0 THEN text ELSE user.name END AS v")
    run = whence.capture(frame, archive=workshop.folder(), progress=False)
    trace = run.trace()
    assert (trace.grade, trace.reasons) == ("exact", ())
    assert trace.cell_grade == "superset"
    assert "which of several values was taken" in trace.cell_reasons[0]
    assert trace.cell_reasons[0] in trace._repr_html_()
    asked = run.trace(whence.pattern("v"))
    assert asked.grade == asked.cell_grade == "superset"
    assert asked.reasons == asked.cell_reasons
