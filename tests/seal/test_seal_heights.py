"""A node that a run meets in several places, of other heights: one node, after all its inputs."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from seal_kit import write_sources

import whence

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TOTALS = "SELECT n AS amount, count(*) AS n FROM (SELECT area, count(*) AS n FROM sales "
TOTALS += "GROUP BY area) GROUP BY n"


def whole(place: Path) -> whence.Archive:
    """The archive, every token in it computed again and no derivation in it twice."""
    archive = whence.open(place)
    assert archive.sealed.verify(tokens=True).findings == []
    table = archive.sealed.table
    made: dict[int, list[Any]] = {}
    for derived, *edge in table.engine.run(
        f"SELECT derived, label, index, input, times FROM {table.edges} AS e ORDER BY ALL"
    ):
        assert edge[2] < derived
        made.setdefault(derived, []).append(tuple(edge))
    assert len({tuple(edges) for edges in made.values()}) == len(made)
    (counted,) = table.engine.run(f"SELECT count(*), count(DISTINCT id) FROM {table.nodes} AS n")
    assert counted[0] == counted[1]
    return archive


def test_a_partner_that_is_missing_has_no_height(spark: Any, tmp_path: Path) -> None:
    """Without partner both joins make the same node, and only one of them is grouped."""
    write_sources(spark, tmp_path)
    joined = "SELECT s.id, x.n FROM sales AS s LEFT JOIN {} AS x ON s.amount = x.amount"
    plain = "(SELECT amount, id AS n FROM sales WHERE id > 9)"
    query = f"SELECT id, max(n) AS n FROM ({joined.format(plain)}) GROUP BY id UNION ALL "
    query += joined.format(f"({TOTALS})")
    whence.capture(spark.sql(query), name="q", archive=tmp_path / "256", mode="eager")
    shutil.copytree(tmp_path / "256", tmp_path / "64")
    for bits in (64, 256):
        place = tmp_path / str(bits)
        whence.open(place).run("q").seal(bits=bits)
        shown = whence.verify_proof(whole(place).run("q").prove("id = 2"))
        assert len(shown.inputs) == 1


@pytest.mark.full
@pytest.mark.parametrize("bits", [64, 256])
def test_what_an_earlier_run_made_and_the_same_computed_again(
    spark: Any, tmp_path: Path, bits: int
) -> None:
    write_sources(spark, tmp_path)
    place = tmp_path / "archive"
    first = whence.capture(spark.sql(TOTALS), name="first", archive=place, mode="eager")
    first.seal(bits=bits)
    first.output.createOrReplaceTempView("totals")
    top = "SELECT amount, max(n) AS n FROM {} GROUP BY amount"
    query = f"SELECT min(n) AS n FROM ({top.format('totals')}) UNION ALL "
    query += f"SELECT n FROM ({top.format(f'({TOTALS})')})"
    whence.capture(spark.sql(query), name="second", archive=place, mode="eager", seal=True)
    archive = whole(place)
    assert len([n for n in archive.sealed.find(form="bag") if "max(n" in n.text]) == 2


@pytest.mark.parametrize("scheme", ["origin", pytest.param("content", marks=pytest.mark.full)])
def test_one_file_in_two_sources(spark: Any, tmp_path: Path, scheme: str) -> None:
    """Read as a folder and by itself, its rows are the same nodes, stored once."""
    write_sources(spark, tmp_path)
    (file,) = (tmp_path / "sales").glob("*.parquet")
    spark.read.parquet(str(file)).createOrReplaceTempView("alone")
    query = "SELECT s.id FROM sales AS s JOIN alone AS a USING (id)"
    run = whence.capture(spark.sql(query), archive=tmp_path / "archive", mode="eager")
    run.seal(scheme=scheme, bits=128)
    assert len(whole(tmp_path / "archive").sealed.find(form="source")) == 5


@pytest.mark.parametrize("bits", [8, pytest.param(256, marks=pytest.mark.full)])
def test_a_join_of_no_rows(spark: Any, tmp_path: Path, bits: int) -> None:
    write_sources(spark, tmp_path)
    query = "SELECT r.seqid FROM ref AS r JOIN sales AS s ON r.sequence = s.area"
    run = whence.capture(spark.sql(query), archive=tmp_path / "archive", mode="eager")
    run.seal(bits=bits)
    assert whole(tmp_path / "archive").sealed.find() == []
