"""DuckDB and Spark seal alike: one text of SQL, the same nodes, edges and roots."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from seal_kit import SHAPES, write_sources

import whence
from whence import sealing
from whence.spark.gateway import Gateway, exactly
from whence.trace.seal import duck

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FEW = {
    # A union of a window, of items of groups and of an unpivot: most forms meet in one run.
    "most": f"SELECT id, run FROM ({SHAPES['window']}) UNION ALL "
    "SELECT item, n FROM (SELECT area, count(*) AS n, flatten(collect_list(items)) AS all "
    "FROM sales GROUP BY area) LATERAL VIEW explode(all) AS item UNION ALL "
    "SELECT v, 0 FROM sales UNPIVOT (v FOR w IN (id, amount))",
    "semi": SHAPES["semi"],
}
# A group of the subquery is a member of several groups of the semi join.
FEW["nested"] = (
    "SELECT * FROM sales AS s WHERE EXISTS (SELECT 1 FROM (SELECT area, min(amount) AS low "
    "FROM sales GROUP BY area) AS g WHERE g.low < s.amount)"
)


def sealed(place: Path, **settings: Any) -> tuple[Any, Any, Any]:
    """All nodes and edges by token, and what the seals say of outputs, of an archive's runs."""
    archive = whence.open(place)
    for run in archive.runs():
        run.seal(**settings)
    archive = whence.open(place)
    table = archive.sealed.table
    nodes = table.engine.run(f"SELECT id, label, lower(hex(digest)) FROM {table.nodes} AS n")
    tokens = {row[0]: row[2] for row in nodes}
    edges = table.engine.run(
        f"SELECT input, label, index, derived, times, contributes FROM {table.edges} AS e"
    )
    assert archive.sealed.verify(tokens=True).findings == []
    named = [(tokens[i], label, x, tokens[d], t, c) for i, label, x, d, t, c in edges]
    roots = [seal.sections["output"] for seal in archive.sealed.seals()]
    return sorted(tokens.values()), sorted(named, key=repr), roots


def both(spark: Any, folder: Path, queries: dict[str, str], mode: Any, bits: int) -> None:
    write_sources(spark, folder)
    for name, query in queries.items():
        whence.capture(spark.sql(query), name=name, archive=folder / "duck", mode=mode)
    shutil.copytree(folder / "duck", folder / "spark")
    duck = sealed(folder / "duck", bits=bits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealing, "SMALL_BYTES", -1)
        assert sealed(folder / "spark", bits=bits) == duck


@pytest.mark.parametrize("bits", [8, 256])
def test_entries_in_several_goes_give_the_same(spark: Any, tmp_path: Path, bits: int) -> None:
    """Groups of many members are hashed by parts of them, one after another.

    Of 8 bits, members with one token differ in how often they are there.
    """
    rows = spark.range(0, 600, 1, 2).selectExpr("id % 3 AS g", "(id * id) DIV 700 AS id")
    rows.write.parquet(str(tmp_path / "n"))
    spark.read.parquet(str(tmp_path / "n")).createOrReplaceTempView("n")
    query = "SELECT g, sum(id), collect_list(g % 2) FROM n GROUP BY g"
    whence.capture(spark.sql(query), name="q", archive=tmp_path / "once", mode="eager")
    shutil.copytree(tmp_path / "once", tmp_path / "often")
    once = sealed(tmp_path / "once", bits=bits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duck, "_AT_ONCE", 50)
        assert sealed(tmp_path / "often", bits=bits) == once


@pytest.fixture
def like_patterns(spark: Any, tmp_path: Path) -> tuple[Any, Path]:
    """A source and an archive in folders whose names look like patterns."""
    source = tmp_path / "s[1]*"
    spark.range(0, 6, 1, 2).selectExpr("id % 3 AS g", "id").write.parquet(str(source))
    return spark.read.parquet(exactly(str(source))), tmp_path / "a[1] {b}*"


def test_folders_whose_names_look_like_patterns(like_patterns: tuple[Any, Path]) -> None:
    source, place = like_patterns
    assert whence.capture(source, archive=place, mode="eager").output.count() == 6


@pytest.mark.full
def test_sealing_in_folders_whose_names_look_like_patterns(
    like_patterns: tuple[Any, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, place = like_patterns
    whence.capture(source, name="rows", archive=place, mode="eager")
    sums = source.groupBy("g").sum("id")
    assert whence.capture(sums, name="sums", archive=place, mode="lazy").output.count() == 3
    shutil.copytree(place, tmp_path / "plain")
    duck = sealed(tmp_path / "plain", bits=8)
    monkeypatch.setattr(sealing, "SMALL_BYTES", -1)
    assert sealed(place, bits=8) == duck


def test_no_size_is_endless(spark: Any) -> None:
    # Spark takes a join for as large as the product of its sides: digits double with each of these.
    gateway = Gateway(spark)
    found = gateway.session.range(5).selectExpr("id", "id * 2 AS twice")
    for _ in range(12):
        other = found.withColumnRenamed("twice", "again")
        found = gateway.checkpointed(found.join(other, "id").select("id", "twice"))
        size = found._jdf.queryExecution().optimizedPlan().stats().simpleString()
        assert len(size) < 40
        assert int(size.partition("E+")[2].partition(" ")[0] or 0) < 500
    assert sorted(map(tuple, found.collect())) == [(i, 2 * i) for i in range(5)]


def test_both_give_the_same(spark: Any, tmp_path: Path) -> None:
    both(spark, tmp_path, {"most": FEW["most"]}, "eager", 256)


@pytest.mark.full
@pytest.mark.parametrize("bits", [8, 256])
@pytest.mark.parametrize("mode", ["lazy", "auto", "eager"])
def test_both_give_the_same_for_every_shape(
    spark: Any, tmp_path: Path, mode: str, bits: int
) -> None:
    both(spark, tmp_path, SHAPES | FEW, mode, bits)
