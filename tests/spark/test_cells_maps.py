"""Entries of maps that functions changed, in and below generators, against changed input cells.

Where all cells that are not told have other values, a row must still come out as it did. Of a value
that is told exactly, every contributing cell must change it.
"""

import itertools
import random
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit import EXAMPLES, Workshop

import whence

pytestmark = pytest.mark.spark


SCHEMA = (
    "id int, x int, s string, m map<string, int>, m2 map<string, int>, none map<string, int>, "
    "lm array<map<string, int>>, mm map<string, map<string, int>>, st struct<m: map<string, int>>, "
    "names array<string>, ns array<int>, ml map<string, array<int>>, "
    "ms map<string, struct<n: int>>, ls array<struct<m: map<string, int>>>"
)
ROW: dict[str, Any] = {
    "id": 0,
    "x": 501,
    "s": "p",
    "m": {"c": 301, "d": 302, "e": 304},
    "m2": {"f": 311, "c": 312},
    "none": None,
    "lm": [{"s": 701}, {"t": 702, "c": 703}],
    "mm": {"p": {"g": 801, "c": 802}, "q": {"i": 804}},
    "st": {"m": {"c": 901, "j": 902}},
    "names": ["h", "i"],
    "ns": [601, 602],
    "ml": {"c": [611, 612], "q": [614]},
    "ms": {"y": {"n": 621}, "c": {"n": 622}},
    "ls": [{"m": {"r": 631, "c": 632}}, {"m": {"a": 634, "b": 635}}],
}
# Of these the place of each entry is known, and of those below not.
KNOWN = (
    "m",
    "m2",
    "st.m",
    "lm[1]",
    "mm['p']",
    "element_at(lm, 2)",
    "ls[1].m",
    "transform_values(ml, (k, v) -> v[0])",
    "transform_values(ms, (k, v) -> v.n)",
)
OTHERS = (
    "get(lm, x - 500)",
    "element_at(lm, -1)",
    "mm[s]",
    "coalesce(none, m2)",
    "if(x > 1, m, m2)",
    "if(x > 1, m2, m)",
    "get(filter(lm, y -> size(y) > 1), 0)",
    "map_from_arrays(names, ns)",
    "get(ls.m, x - 500)",
    "transform_values(map_filter(ml, (k, v) -> size(v) > 1), (k, v) -> v[1])",
    "transform_values(map_filter(ms, (k, v) -> k = 'c'), (k, v) -> v.n)",
    "map_filter(transform_values(ms, (k, v) -> v.n), (k, v) -> v > 621)",
    "transform_values(map_concat(ml, map('u', ns)), (k, v) -> v[0])",
    "map('c', x, 'b', ns[0])",
)
KEEPING = (
    "{0}",
    "transform_values({0}, (k, v) -> v + 1)",
    "CAST(CAST({0} AS map<string, bigint>) AS map<string, int>)",
    "named_struct('a', {0}).a",
)
CHANGING = (
    "map_filter({0}, (k, v) -> v % 2 = 0)",
    "map_filter({0}, (k, v) -> k <> 'c')",
    "map_concat(map('z', x), {0})",
    "map_concat({0}, map('w', 5))",
    "map_zip_with({0}, m2, (k, v, w) -> coalesce(v, w))",
    "map_zip_with(m2, {0}, (k, v, w) -> coalesce(w, 7))",
    "transform_keys({0}, (k, v) -> concat(k, 'z'))",
    "transform_keys(map_filter({0}, (k, v) -> k = 'c'), (k, v) -> 'one')",
    "map_from_entries(filter(map_entries({0}), e -> e.value > 302))",
    "map_from_arrays(map_keys({0}), map_values({0}))",
    "coalesce({0}, m)",
    "if(x > 900, m, {0})",
    "get(array({0}, m2), x - 501)",
    "coalesce(none, {0})",
)
FORMS = (
    "SELECT id, explode({0}) AS (k, v) FROM t",
    "SELECT id, k, v FROM t LATERAL VIEW posexplode({0}) q AS p, k, v",
    "SELECT id, k, v FROM t LATERAL VIEW OUTER explode({0}) q AS k, v",
    "SELECT id, q.key AS k, q.value AS v FROM t, LATERAL explode({0}) q",
    "SELECT id, inline(map_entries({0})) AS (k, v) FROM t",
    "SELECT id, k, v FROM (SELECT id, {0} AS f FROM t) LATERAL VIEW explode(f) q AS k, v",
    "SELECT id, explode(f.g) AS (k, v) FROM (SELECT id, named_struct('g', {0}) AS f FROM t)",
    "SELECT id, k, sum(v) AS v FROM t LATERAL VIEW explode({0}) q AS k, v GROUP BY k, id",
    "SELECT id, k, get(l, 0) AS v FROM (SELECT id, k, collect_list(v) AS l FROM "
    "(SELECT id, explode({0}) AS (k, v) FROM t) GROUP BY k, id)",
)
# Of a map that came out of another list or map.
INNER = (
    "SELECT id, k, v FROM t LATERAL VIEW explode(lm) o AS n LATERAL VIEW explode({0}) q AS k, v",
    "SELECT id, k, v FROM t LATERAL VIEW explode(mm) o AS a, n LATERAL VIEW explode({0}) q AS k, v",
    "SELECT id, k, v FROM (SELECT id, explode(filter(lm, y -> true)) AS n, m2, m, none, x FROM t) "
    "LATERAL VIEW explode({0}) q AS k, v",
    "SELECT id, k, v FROM t LATERAL VIEW inline(ls) o AS n LATERAL VIEW explode({0}) q AS k, v",
    "SELECT id, k, v FROM t LATERAL VIEW explode(map_filter(mm, (k, v) -> k = 'p')) o AS a, n "
    "LATERAL VIEW OUTER explode({0}) q AS k, v",
)
_FORMS = itertools.cycle((*FORMS[:4], FORMS[5]))
TOLD_EXACTLY = [next(_FORMS).format(base) for base in KNOWN]
TOLD_EXACTLY += [FORMS[i].format(KEEPING[1].format(base)) for i, base in enumerate(KNOWN[2:4])]
TOLD_EXACTLY += [form.format("n") for form in INNER[:2]]
TOGETHER = 8
STRUCT = re.compile(r"|st|ls\[\d\]|ms\{'\w'\}")


def queries() -> list[str]:
    """Each base, function and form at least once, and functions in others."""
    pick = random.Random(EXAMPLES)
    forms, inner = itertools.cycle(FORMS), itertools.cycle(INNER)
    bases = itertools.cycle((*KNOWN, *OTHERS))
    functions = (*KEEPING, *CHANGING)
    made = [next(forms).format(each.format(next(bases))) for each in functions * 2]
    made += [next(forms).format(each) for each in OTHERS]
    made += [next(inner).format(each.format("n")) for each in functions]
    for _ in range(10 * EXAMPLES):
        outer, inside = pick.sample(functions, 2)
        made.append(next(forms).format(outer.format(inside.format(next(bases)))))
    return list(dict.fromkeys(made))


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Values that have nothing inside, and keys of maps, with their paths."""
    match value:
        case dict() if not STRUCT.fullmatch(path):
            yield path + "{key}", tuple(value)
            for key, inner in value.items():
                yield from leaves(inner, f"{path}{{'{key}'}}")
        case dict():
            for name, inner in value.items():
                yield from leaves(inner, f"{path}.{name}" if path else name)
        case list():
            for i, inner in enumerate(value):
                yield from leaves(inner, f"{path}[{i}]")
        case _:
            yield path, value


LEAVES = [path for path, value in leaves(ROW) if path != "id" and value is not None]

PLACES = [*LEAVES, "id", "none{key}", "none{'c'}"]


def covers(cell: str, leaf: str) -> bool:
    """Whether a cell of an answer stands for a leaf: `lm[*]{}` for `lm[0]{'s'}`."""
    mine, its = _steps(cell), _steps(leaf)
    return len(mine) <= len(its) and all(map(_meets, mine, its))


def _steps(path: str) -> list[str]:
    return path.replace(".", "\0.").replace("[", "\0[").replace("{", "\0{").split("\0")


def _meets(mine: str, its: str) -> bool:
    any_item = mine == "[*]" and its.startswith("[")
    return mine == its or any_item or (mine == "{}" and its.startswith("{'"))


def changed(paths: set[str], by: int, value: Any = ROW, path: str = "") -> Any:
    """The row with other values at some leaves, and other keys of entries that have no others."""
    match value:
        case dict() if not STRUCT.fullmatch(path):
            made = {}
            for key, inner in value.items():
                entry = f"{path}{{'{key}'}}"
                free = len(paths) == 1 or paths.issuperset(leaf for leaf, _ in leaves(inner, entry))
                again = "z" if free and path + "{key}" in paths else ""
                made[key + again] = changed(paths, by, inner, entry)
            return made
        case dict():
            return {
                name: changed(paths, by, inner, f"{path}.{name}" if path else name)
                for name, inner in value.items()
            }
        case list():
            return [changed(paths, by, each, f"{path}[{i}]") for i, each in enumerate(value)]
        case int() if path in paths:
            return value + by if by else None
        case str() if path in paths:
            return value + "z"
        case _:
            return value


class Sweep:
    """Queries in one capture, and what other rows give."""

    def __init__(self, workshop: Workshop, made: list[str], mode: str = "eager") -> None:
        self._session = workshop.session
        self._made = made
        path = str(workshop.folder())
        self._session.createDataFrame([ROW], SCHEMA).write.parquet(path)
        self._session.read.parquet(path).createOrReplaceTempView("t")
        every = [f"SELECT 'e{i}' AS e, k, v FROM ({query})" for i, query in enumerate(made)]
        frame = self._session.sql(" UNION ALL ".join(every))
        self.run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
        found = self.run.to_arrow().to_pylist()
        self.rows = [(r["e"], r["k"], r["v"]) for r in found if r["v"] is not None]

    def query(self, e: str) -> str:
        return self._made[int(e[1:])]

    def given(self, rows: list[dict[str, Any]]) -> dict[int, set[tuple[str, str, int]]]:
        """What each of some rows gives, by its number."""
        numbered = [{**row, "id": i} for i, row in enumerate(rows)]
        frame = self._session.createDataFrame(numbered, SCHEMA)
        frame.createOrReplaceTempView("t")
        every = [
            f"SELECT id, 'e{i}' AS e, k, v FROM ({query})" for i, query in enumerate(self._made)
        ]
        found: dict[int, set[tuple[str, str, int]]] = {i: set() for i in range(len(rows))}
        for row in self._session.sql(" UNION ALL ".join(every)).collect():
            found[row["id"]].add((row["e"], row["k"], row["v"]))
        return found

    def told(self, row: tuple[str, str, int]) -> tuple[Any, dict[str, str]]:
        """The trace of a value, and the role of each cell."""
        e, k, v = row
        trace = self.run.trace(whence.pattern(f"e = '{e}', k = '{k}', v = {v}"))
        return trace, {cell["path"]: cell["role"] for cell in trace.cells().to_pylist()}


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_what_is_not_told_of_a_map_does_not_matter(workshop: Workshop, mode: str) -> None:
    every = random.Random(1).sample(queries(), TOGETHER)
    check(Sweep(workshop, every if mode == "eager" else every[:2], mode))


@pytest.mark.full
def test_what_is_not_told_of_any_map_does_not_matter(workshop: Workshop) -> None:
    every = queries()
    for at in range(0, len(every), TOGETHER):
        check(Sweep(workshop, every[at : at + TOGETHER]))


def check(sweep: Sweep) -> None:
    asked, others = [], []
    for row in sweep.rows:
        trace, cells = sweep.told(row)
        says = (sweep.query(row[0]), row, cells)
        assert all(any(covers(c, leaf) for leaf in PLACES) for c in cells), says
        free = {leaf for leaf in LEAVES if not any(covers(c, leaf) for c in cells)}
        by = {c for c, role in cells.items() if role == "contributing"}
        own = {leaf for leaf in LEAVES if any(covers(c, leaf) for c in by)}
        for change in (1000, -1000, 0):
            asked.append((row, says, True))
            others.append(changed(free, change))
        for leaf in own if trace.cell_grade == "exact" else ():
            asked.append((row, (*says, leaf), False))
            others.append(changed({leaf}, 1000))
    given = sweep.given(others)
    for i, (row, says, stays) in enumerate(asked):
        assert (row in given[i]) == stays, (says, others[i])


def test_entries_whose_place_is_known_are_told_alone(workshop: Workshop) -> None:
    sweep = Sweep(workshop, TOLD_EXACTLY)
    for row in sweep.rows:
        trace, cells = sweep.told(row)
        says = (sweep.query(row[0]), row, cells, trace.reasons)
        values = [path for path in cells if not path.endswith("{key}") and "{" in path]
        changed_once = "v + 1" in says[0]
        (leaf,) = (path for path, value in leaves(ROW) if value == row[2] - changed_once)
        assert values == [leaf], says
        assert trace.cell_grade == "exact", says


CHANGED_IN_GENERATORS = {
    "map_filter(m, (k, v) -> v > 301)": ("v = 304", {"m{}"}),
    "map_concat(map('z', 5), m)": ("v = 301", {"m{}"}),
    "map_zip_with(m2, m, (k, v, w) -> coalesce(w, v))": ("v = 304", {"m{}", "m2{}"}),
    "transform_values(map_filter(m, (k, v) -> k <> 'c'), (k, v) -> v)": ("v = 304", {"m{}"}),
    "map_filter(transform_values(m, (k, v) -> v), (k, v) -> k <> 'c')": ("v = 304", {"m{}"}),
    "lm[x - 500]": ("v = 703", {"lm[*]{}"}),
    "element_at(lm, -1)": ("v = 703", {"lm[*]{}"}),
    "map_filter(lm[1], (k, v) -> k = 'c')": ("v = 703", {"lm[1]{}"}),
    "if(x > 1, m, m2)": ("v = 304", {"m{'e'}", "m2"}),
    "coalesce(none, m)": ("v = 304", {"m{'e'}", "none"}),
}


def test_a_changed_map_says_no_places(workshop: Workshop) -> None:
    sweep = Sweep(workshop, [FORMS[0].format(each) for each in CHANGED_IN_GENERATORS])
    for i, (asked, wanted) in enumerate(CHANGED_IN_GENERATORS.values()):
        trace = sweep.run.trace(whence.pattern(f"e = 'e{i}', {asked}"))
        cells = trace.cells().to_pylist()
        by = {cell["path"] for cell in cells if cell["role"] == "contributing"}
        assert (by, trace.cell_grade) == (wanted, "superset"), sweep.query(f"e{i}")
        assert "t[0]" in trace.tree("t") and trace._repr_html_()


KEYED = {
    "map(1.0D, x, 2.0D, ns[0])[1]": ({"x"}, "exact"),
    "map(1.5BD, x, 2BD, ns[0])[2BD]": ({"ns[0]"}, "exact"),
    "map(1e20D, x, 2D, ns[0])[1e20BD]": ({"x"}, "exact"),
    "map(true, x, false, ns[0])[true]": ({"x"}, "exact"),
    "map(DATE'2024-01-02', x, DATE'2024-01-03', ns[0])['2024-01-03']": ({"ns[0]"}, "exact"),
    "map(TIMESTAMP'2024-01-02 00:00:00', x)[DATE'2024-01-02']": ({"x"}, "superset"),
    "map(X'61', x, X'62', ns[0])[X'61']": ({"x", "ns[0]"}, "superset"),
}


@pytest.mark.parametrize("above", ["SELECT {0} AS v FROM t", "SELECT m{1} AS v FROM ({2})"])
def test_keys_are_found_however_they_are_written(workshop: Workshop, above: str) -> None:
    path = str(workshop.folder())
    workshop.session.createDataFrame([ROW], SCHEMA).write.parquet(path)
    workshop.session.read.parquet(path).createOrReplaceTempView("t")
    made = []
    for each in KEYED:
        whole, _, key = each.rpartition("[")
        made.append(above.format(each, f"[{key}", f"SELECT {whole} AS m FROM t"))
    every = " UNION ALL ".join(f"SELECT {i} AS i, v FROM ({sql})" for i, sql in enumerate(made))
    run = whence.capture(workshop.session.sql(every), archive=workshop.folder(), progress=False)
    for i, (wanted, grade) in enumerate(KEYED.values()):
        trace = run.trace(whence.pattern(f"i = {i}, v"))
        by = {c["path"] for c in trace.cells().to_pylist() if c["role"] == "contributing"}
        assert (by, trace.cell_grade) == (wanted, grade), made[i]


def test_entries_of_a_source_that_is_no_longer_what_it_was(workshop: Workshop) -> None:
    folder = workshop.folder()
    frame = workshop.session.createDataFrame([ROW], SCHEMA).coalesce(1)
    frame.write.parquet(str(folder))
    kept = workshop.session.read.parquet(str(folder)).selectExpr("id", "explode(m) AS (k, v)")
    run = whence.capture(kept, archive=workshop.folder(), mode="eager", progress=False)
    (file,) = folder.glob("*.parquet")
    pq.write_table(pa.table({"id": [1, 2]}), file)
    trace = run.trace(whence.pattern("v = 302"))
    cells = {cell["path"]: cell["role"] for cell in trace.cells().to_pylist()}
    assert cells == {"m{key}": "influencing", "m{}": "contributing"}
    assert trace.cell_grade == "superset"
    assert any("entries of its maps" in reason for reason in trace.cell_reasons)


@pytest.mark.parametrize("zoned", [True, False])
def test_keys_that_are_times_have_one_name(workshop: Workshop, zoned: bool) -> None:
    folder = workshop.folder()
    folder.mkdir()
    kind = pa.map_(pa.timestamp("us", tz="UTC" if zoned else None), pa.list_(pa.int32()))
    times = [datetime(2024, 1, 2, 3, 4, n) for n in range(2)]
    rows = pa.array([[(times[0], [7, 8]), (times[1], [9])]], kind)
    pq.write_table(pa.table({"m": rows}), folder / "times.parquet")
    frame = workshop.session.read.parquet(str(folder / "times.parquet"))
    opened = frame.selectExpr("explode(m) AS (k, v)")
    asked = (
        (frame, "m.`2024-01-02 03:04:00` = 8"),
        (frame, "m.* = 8"),
        (opened, "v = 8"),
        (opened.selectExpr("explode(v) AS i"), "i = 8"),
    )
    for pipeline, text in asked:
        run = whence.capture(pipeline, archive=workshop.folder(), progress=False)
        cells = run.trace(whence.pattern(text)).cells().to_pylist()
        by = [cell["path"] for cell in cells if cell["role"] == "contributing"]
        assert by == ["m{'2024-01-02 03:04:00'}[1]"], (text, cells)
