"""Cells and rows that only have to be there, and those that need not be."""

from typing import Any

import pytest
from kit import Workshop

import whence

pytestmark = pytest.mark.spark

LEFT = [(1, "x", (1,)), (2, "y", (2,)), (None, "z", None)]
RIGHT = [(1, "bx", 10), (1, "by", 20), (3, "bz", 30)]
SUMS = "(SELECT k, sum(length(a)) AS m FROM l GROUP BY k) AS x"
LISTS = "(SELECT k, collect_list(struct(b, e)) AS x FROM r GROUP BY k)"
BY, NEAR = "contributing", "influencing"
Cells = set[tuple[str, int, str, str]]
CASES: dict[str, tuple[str, str, Cells]] = {
    "a side filled with nulls beside a group whose key is null": (
        f"SELECT y.k, x.m FROM {SUMS} FULL JOIN (SELECT k, sum(e) AS s FROM r GROUP BY k) AS y "
        "ON x.k = y.k",
        "k = 3, m",
        {("r", 2, "k", BY)},
    ),
    "the same beside rows": (
        f"SELECT y.b, x.m FROM {SUMS} FULL JOIN r AS y ON x.k = y.k",
        "b = 'bz', m",
        {("r", 2, "b", BY), ("r", 2, "k", NEAR)},
    ),
    "the item of a collected list that the pipeline takes": (
        f"SELECT k, get(x, 1).e AS e FROM {LISTS}",
        "k = 1, e",
        {("r", 0, "k", NEAR), ("r", 1, "e", BY), ("r", 1, "k", BY)},
    ),
    "the item that the pattern asks for": (
        "SELECT k, collect_list(struct(b, e)) AS x FROM r GROUP BY k",
        "k = 1, x[1].e",
        {("r", 1, "e", BY), ("r", 1, "k", BY)},
    ),
    "a subquery beside a count": (
        "SELECT (SELECT count(*) FROM r) AS n, count(*) AS m FROM l",
        "n",
        {("r", row, "", NEAR) for row in range(3)},
    ),
    "a count beside a subquery": (
        "SELECT count(*) + (SELECT max(e) FROM r) AS n FROM l",
        "n",
        {("l", row, "", NEAR) for row in range(3)}
        | {("r", 0, "e", NEAR), ("r", 1, "e", NEAR), ("r", 2, "e", BY)},
    ),
    "one row, whatever is counted": (
        "SELECT a FROM l CROSS JOIN (SELECT count(*) AS n FROM r)",
        "a = 'x'",
        {("l", 0, "a", BY)},
    ),
    "whether a row exists, not asked": (
        "SELECT a, EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND e > 10) AS f FROM l",
        "a = 'x'",
        {("l", 0, "a", BY)},
    ),
    "whether a row exists, asked": (
        "SELECT a, EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND e > 10) AS f FROM l",
        "a = 'x', f",
        {("l", 0, "a", BY), ("l", 0, "k", BY), ("r", 1, "k", BY), ("r", 1, "e", NEAR)},
    ),
}


@pytest.fixture(scope="module")
def tables(workshop: Workshop) -> Any:
    for name, rows, schema in (
        ("l", LEFT, "k int, a string, n struct<p: int>"),
        ("r", RIGHT, "k int, b string, e int"),
    ):
        path = str(workshop.folder())
        workshop.session.createDataFrame(rows, schema).coalesce(1).write.parquet(path)
        workshop.session.read.parquet(path).createOrReplaceTempView(name)
    return workshop.session


def asked(workshop: Workshop, frame: Any, pattern: str, mode: str = "eager") -> Cells:
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    trace = run.trace(whence.pattern(pattern))
    assert (trace.rows, trace.grade) == (1, "exact")
    return {(c["source"], c["row"], c["path"], c["role"]) for c in trace.cells().to_pylist()}


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize("name", CASES)
def test_what_has_to_be_there(workshop: Workshop, tables: Any, name: str, mode: str) -> None:
    sql, pattern, expected = CASES[name]
    assert asked(workshop, tables.sql(sql), pattern, mode) == expected


NAMES = "(SELECT k, collect_list(b) AS x FROM r GROUP BY k)"
EARLIER = {("r", 0, "b", NEAR), ("r", 0, "k", NEAR), ("r", 1, "b", BY)}
PLACES = {
    "an item of what may be null": (f"SELECT k, get(x, 1) AS v FROM {NAMES}", "k = 1, v", BY),
    "a position": (
        f"SELECT k, p, v FROM {NAMES} LATERAL VIEW posexplode(x) t AS p, v",
        "v = 'by', p",
        NEAR,
    ),
    "a filter by position": (
        f"SELECT k, v FROM {NAMES} LATERAL VIEW posexplode(x) t AS p, v WHERE p = 1",
        "k = 1, v",
        BY,
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_what_comes_before_an_item(workshop: Workshop, tables: Any, name: str) -> None:
    sql, pattern, key = PLACES[name]
    assert asked(workshop, tables.sql(sql), pattern) == EARLIER | {("r", 1, "k", key)}


def test_positions_of_a_list_of_a_source(workshop: Workshop, tables: Any) -> None:
    path = str(workshop.folder())
    tables.createDataFrame([([5, 6, 7],)], "xs array<int>").coalesce(1).write.parquet(path)
    tables.read.parquet(path).createOrReplaceTempView("lists")
    frame = tables.sql("SELECT x, p FROM lists LATERAL VIEW posexplode(xs) t AS p, x")
    item = ("lists", 0, "xs[1]", BY)
    assert asked(workshop, frame, "x = 6") == {item}
    assert asked(workshop, frame, "x = 6, p") == {item, ("lists", 0, "xs[0]", NEAR)}
    ones = tables.sql(
        "SELECT p, o FROM lists LATERAL VIEW posexplode(transform(xs, x -> 1)) t AS p, o"
    )
    assert asked(workshop, ones, "p = 1, o") >= {("lists", 0, "xs[0]", NEAR)}


def test_a_field_is_in_a_struct_that_has_to_be_there(workshop: Workshop, tables: Any) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    rows = tables.table("l")
    one = rows.select("a", F.col("n").withField("w", F.col("k") + 1).alias("n"))
    expected = {("l", 0, "a", BY), ("l", 0, "k", BY)}
    assert asked(workshop, one, "a = 'x', n.w") == expected | {("l", 0, "n.p", NEAR)}
    chain = F.col("n").withField("w", F.lit(1)).dropFields("p").withField("z", F.col("k"))
    more = rows.select("a", chain.alias("n"))
    assert asked(workshop, more, "a = 'x', n.z") == expected | {("l", 0, "n.p", NEAR)}
    never_null = rows.select("a", F.struct("k").withField("w", F.col("k") + 1).alias("n"))
    assert asked(workshop, never_null, "a = 'x', n.w") == expected
