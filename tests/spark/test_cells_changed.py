"""Expressions over nested values, against what changing each input cell does to the result.

A cell that changes a value must be among those behind it; and of a value that is told exactly,
every contributing cell must change it.
"""

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from kit import Workshop

import whence

pytestmark = pytest.mark.spark

SCHEMA = (
    "id int, a struct<x: int, y: string>, items array<struct<n: int, s: string>>, nums array<int>, "
    "m map<string, int>, deep array<array<int>>, s string, b boolean"
)
ROW = {
    "id": 0,
    "a": {"x": 30, "y": "yy"},
    "items": [{"n": 1, "s": "p"}, {"n": 40, "s": "q"}, {"n": 2, "s": "r"}],
    "nums": [3, 10, 2],
    "m": {"k": 7, "l": 8},
    "deep": [[1, 2], [30]],
    "s": "some,text",
    "b": True,
}
ASKED = 4  # of the values in each result
# Of these every position is known.
EXACT = (
    "transform(items, i -> i.n + 1)",
    "transform(items, i -> struct(upper(i.s) AS s, concat(i.s, a.y) AS c))",
    "transform(transform(items, i -> i.n + 1), x -> x * 2)",
    "transform(items, i -> i.n + 1)[1]",
    "transform(deep, r -> transform(r, c -> c + a.x))",
    "transform(deep, r -> aggregate(r, 0, (t, c) -> t + c))",
    "transform(items, i -> transform(nums, k -> k + i.n))",
    "transform(items, i -> transform(nums, k -> struct(k AS k, i.s AS s)))",
    "transform(nums, k -> items.s)",
    "zip_with(nums, items, (x, y) -> x + y.n)",
    "transform(arrays_zip(nums, items), z -> z.nums + z.items.n)",
    "CAST(nums AS array<string>)",
    "CAST(m AS map<string, string>)",
    "transform_values(m, (k, v) -> v + a.x)",
    "map_zip_with(m, m, (k, v, w) -> v + w)",
    "map('p', a.x, 'q', items[0].n)",
    "map('p', a.x, 'q', items[2].n)['q']",
    "array(struct(a.x AS p), struct(items[1].n AS p))",
    "named_struct('d', transform(items, i -> i.n * 2), 'e', upper(s))",
    "aggregate(nums, 0, (t, i) -> t + i)",
    "aggregate(items, named_struct('t', 0, 'c', ''), (t, i) -> "
    "named_struct('t', t.t + i.n, 'c', concat(t.c, i.s)))",
    "aggregate(items, named_struct('t', 0, 'c', ''), (t, i) -> "
    "named_struct('t', t.t + i.n, 'c', concat(t.c, i.s)), t -> upper(t.c))",
    "elt(2, s, a.y)",
)
# Of these not, or data chooses.
LOOSE = (
    "transform(items, i -> CASE WHEN i.n > 5 THEN i.s ELSE a.y END)",
    "filter(items, i -> i.n > a.x)",
    "transform(filter(items, i -> i.n > 1), i -> upper(i.s))",
    "aggregate(filter(nums, i -> i > 2), 0, (t, i) -> t + i)",
    "transform(nums, (k, p) -> items[p].s)",
    "sort_array(transform(items, i -> i.n + 1))",
    "transform(deep, r -> filter(r, c -> c > 1))",
    "map_filter(m, (k, v) -> v > a.x - 23)",
    "map_concat(m, map('new', a.x))",
    "map(a.y, a.x)",
    "map_from_entries(transform(items, i -> struct(i.s, i.n)))",
    "map_from_arrays(transform(items, i -> i.s), nums)",
    "map_from_entries(arrays_zip(transform(items, i -> i.s), nums))",
    "map_from_entries(zip_with(nums, items, (x, y) -> struct(y.s, x)))",
    "map_from_entries(filter(arrays_zip(transform(items, i -> i.s), nums), z -> true))",
    "map_from_entries(arrays_zip(transform(items, i -> i.s), nums))['q']",
    "aggregate(items, named_struct('p', 0, 'q', 0, 'r', 0), (t, i) -> "
    "named_struct('p', i.n, 'q', t.p, 'r', t.q + a.x))",
    "aggregate(nums, 0, (t, i) -> i)",
    "elt(a.x % 2 + 1, s, a.y)",
    "transform_keys(m, (k, v) -> concat(k, a.y))",
    "m[substring(a.y, 1, 0) || 'k']",
    "deep[size(nums) - 3]",
    "concat(nums, array(a.x))",
    "flatten(deep)",
    "array_remove(items, named_struct('n', 1, 's', 'p')).n",
    "array_union(array(named_struct('n', 1, 's', 'p')), items).n",
    "array_insert(nums, a.x - 29, 5)",
    "array_repeat(s, nums[2])",
)
# Of these some parts are there because others are, whatever those are.
BESIDE = (
    "transform(items, i -> 1)",
    "transform(items, (i, p) -> p)",
    "transform(items, i -> named_struct('n', i.n, 's', s))",
    "transform(transform(items, i -> named_struct('n', i.n, 's', s)), i -> upper(i.s))",
    "zip_with(nums, items, (x, y) -> x)",
    "arrays_zip(nums, items).nums",
    "transform(arrays_zip(nums, items), z -> z.nums + 1)",
    "array_repeat(s, size(nums))",
    "transform(sequence(1, size(nums)), x -> s)",
    "transform_values(m, (k, v) -> 1)",
    "map_zip_with(m, map('k', a.x), (k, v, w) -> w)",
    "size(transform(items, i -> 1))",
    "aggregate(items, 0, (t, i) -> t + 1)",
    "aggregate(items, named_struct('t', 0, 'c', 0), (t, i) -> "
    "named_struct('t', t.t + i.n, 'c', t.c + 1), t -> t.t / t.c)",
    "exists(items, i -> true)",
)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that has nothing inside, with its path."""
    match value:
        case dict():
            for name, inner in value.items():
                yield from leaves(inner, f"{path}.{name}" if path else name)
        case list():
            for i, inner in enumerate(value):
                yield from leaves(inner, f"{path}[{i}]")
        case _:
            yield path, value


def _steps(path: str) -> list[int | str]:
    found = re.findall(r"\[\d+\]|[^.\[\]]+", path)
    return [int(step[1:-1]) if step[0] == "[" else step for step in found]


def at(value: Any, path: str) -> Any:
    """What is at a path, or None."""
    for step in _steps(path):
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def changed(path: str, value: Any) -> dict[str, Any]:
    row = copy.deepcopy(ROW)
    *way, last = _steps(path)
    inner: Any = row
    for step in way:
        inner = inner[step]
    inner[last] = value
    return row


def others(value: Any) -> list[Any]:
    """Other values of the same type."""
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 100, value - 100]
        case _:
            return [f"{value}z", f"a{value}"]


def covers(cell: str, path: str) -> bool:
    """Whether a cell of an answer stands for a leaf."""
    cell = re.sub(r"\{'(\w+)'\}", r".\1", cell)
    pattern = re.escape(cell)
    for mark, meant in (("[*]", r"\[\d+\]"), ("{}", r"\.\w+"), ("{key}", r"\.\w+")):
        pattern = pattern.replace(re.escape(mark), meant)
    return re.fullmatch(rf"{pattern}(?:[.\[].*)?", path) is not None


def computed(workshop: Workshop, expressions: Sequence[str], rows: list[Any]) -> tuple[Any, ...]:
    """A run over `ROW`, what it gave, and what other rows give, by their ids."""
    session, path = workshop.session, str(workshop.folder())
    session.createDataFrame([ROW], SCHEMA).write.parquet(path)
    listed = [f"{text} AS o{i}" for i, text in enumerate(expressions)]
    frame = session.read.parquet(path).selectExpr("id", *listed)
    again = session.createDataFrame(rows, SCHEMA).selectExpr("id", *listed)
    results = {row["id"]: row.asDict(recursive=True) for row in again.collect()}
    run = whence.capture(frame, archive=workshop.folder(), mode="eager", progress=False)
    (whole,) = (row.asDict(recursive=True) for row in run.output.collect())
    return run, whole, results


def test_a_cell_that_changes_a_value_is_behind_it(workshop: Workshop) -> None:
    cases = [(p, v) for p, old in leaves(ROW) if p != "id" for v in others(old)]
    rows = [{**changed(p, v), "id": i} for i, (p, v) in enumerate(cases, 1)]
    expressions = [*EXACT, *LOOSE]
    run, whole, results = computed(workshop, expressions, rows)
    for i, text in enumerate(expressions):
        every = list(leaves(whole[f"o{i}"], f"o{i}"))
        for place, value in every[:: len(every) // ASKED + 1]:
            trace = run.trace(whence.pattern(place))
            cells = trace.cells().to_pylist()
            behind = {
                leaf
                for number, (leaf, _) in enumerate(cases, 1)
                if at(results[number], place) != value
            }
            told = (text, place, cells)
            assert all(any(covers(c["path"], leaf) for c in cells) for leaf in behind), told
            by = [c["path"] for c in cells if c["role"] == "contributing"]
            named = {leaf for leaf, _ in cases if any(covers(c, leaf) for c in by)}
            if text in EXACT:
                assert trace.grade == "exact", (*told, trace.reasons)
            if trace.grade == "exact":
                assert named <= behind, told


def test_a_list_that_has_to_be_there_is_behind_what_is_beside_it(workshop: Workshop) -> None:
    lists = ("items", "nums", "m")
    rows = [{**ROW, name: None, "id": i} for i, name in enumerate(lists, 1)]
    run, whole, results = computed(workshop, BESIDE, rows)
    for i, text in enumerate(BESIDE):
        every = leaves(whole[f"o{i}"], f"o{i}")
        place, value = next((p, v) for p, v in every if v is not None)
        trace = run.trace(whence.pattern(place))
        cells = [c["path"] for c in trace.cells().to_pylist()]
        needed = {n for k, n in enumerate(lists, 1) if at(results[k], place) != value}
        named = {name for name in lists if any(re.match(rf"{name}\b", cell) for cell in cells)}
        assert named == needed, (text, place, cells)
        assert trace.grade == "exact", (text, trace.reasons)
