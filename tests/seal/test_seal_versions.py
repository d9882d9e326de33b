"""Archives of two versions of a source, with digests of its rows and without them."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import whence
from whence.cli import app
from whence.errors import ArchiveError, SelectionError, UnknownNameError

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SUMS = "SELECT k, sum(id) AS n FROM {} GROUP BY k"
FEW = "SELECT * FROM {} WHERE id < 3"


@pytest.fixture(scope="module")
def versions(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files, the second with one row more; the same queries over each, sealed."""
    folder = tmp_path_factory.mktemp("versions")
    for name, rows in (("one", 12), ("two", 13)):
        frame = spark.range(rows).selectExpr("id", "id % 3 AS k").coalesce(1)
        frame.write.parquet(str(folder / name), compression="none")
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    for lean in (False, True):
        place = folder / ("lean" if lean else "full")
        for name in ("one", "two"):
            for query, sql in (("sums", SUMS), ("few", FEW)):
                run = whence.capture(
                    spark.sql(sql.format(name)),
                    name=f"{query} of {name}",
                    archive=place,
                    mode="eager",
                    progress=False,
                )
                run.seal(leaf_digests=not lean, progress=False)
        whence.capture(spark.sql(SUMS.format("one")), name="open", archive=place, progress=False)
    return folder


def texts(nodes: Any) -> list[str]:
    return sorted(node.text.split(",")[0] for node in nodes)


@pytest.mark.parametrize("kind", ["full", "lean"])
def test_equal_rows_of_two_files_are_the_same(versions: Path, kind: str) -> None:
    archive = whence.open(versions / kind)
    few = archive.run("few of one").compare(archive.run("few of two"))
    assert few.same
    assert len(few.common) == 3
    assert len(few.unseen) == 0
    sums = archive.run("sums of one").compare(archive.run("sums of two"))
    # Groups 1 and 2 are the same; of group 0 the rows are, but for the one that only `two` has.
    assert texts(sums.right) == ["aggregate k", "two[12]"]
    assert texts(sums.left) == ["aggregate k"]
    assert texts(sums.parted) == ["aggregate k", "two[12]"]
    assert texts(sums.common) == [*["aggregate k"] * 2, *texts(sums.common)[2:]]
    assert {text.split("[")[1] for text in texts(sums.common)[2:]} == {"0]", "3]", "6]", "9]"}


def test_rows_that_cannot_be_read_again_are_told(versions: Path, tmp_path: Path) -> None:
    copy = tmp_path / "archive"
    shutil.copytree(versions / "lean", copy)
    (part,) = (versions / "two").glob("*.parquet")
    before = part.stat()
    os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
    try:
        archive = whence.open(copy)
        found = archive.run("few of one").compare(archive.run("few of two"))
        asked = ["compare", "few of one", "few of two", "--archive", str(copy)]
        said = CliRunner().invoke(app, asked)
    finally:
        os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not found.same
    assert "has changed since the run was captured" in found.unseen[0]
    assert said.exit_code == 1
    assert "not looked at: source 'two'" in " ".join(said.stdout.split())


@pytest.mark.parametrize("kind", ["full", "lean"])
def test_source_rows_are_found_by_their_source(versions: Path, kind: str) -> None:
    sealed = whence.open(versions / kind).sealed
    found = sealed.find(source="two")
    assert all(node.form == "source" and node.source == "two" for node in found)
    assert 12 in {node.row for node in found}
    assert {node.source for node in sealed.find(form="source")} == {"one", "two"}
    (last,) = [node.id for node in found if node.row == 12]
    assert texts(n for n, depth in sealed.closure([last], "derived") if depth) == ["aggregate k"]
    if kind == "lean":
        # Of groups 1 and 2, which were there already, the rows are those of `one`.
        assert [node.row for node in found] == [0, 1, 2, 3, 6, 9, 12]
        with pytest.raises(SelectionError, match="no digests of source rows"):
            sealed.find(form="source", token="ab")


def test_of_a_run_without_a_seal_nothing_is_said(versions: Path) -> None:
    archive = whence.open(versions / "full")
    for ask in (
        lambda: archive.run("open").nodes(),
        lambda: archive.run("open").compare(archive.run("few of one")),
        lambda: archive.run("few of one").compare(archive.run("open")),
    ):
        with pytest.raises(UnknownNameError, match="sealed run"):
            ask()
    for words in (["nodes", "open"], ["compare", "open", "open"]):
        said = CliRunner().invoke(app, [*words, "--archive", str(versions / "full")])
        assert said.exit_code == 2


@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize("kind", ["full", "lean"])
def test_what_is_changed_in_place_is_not_proven(versions: Path, kind: str, hide: bool) -> None:
    """Also if the source has its size and its time."""
    archive = whence.open(versions / kind)
    (part,) = (versions / "two").glob("*.parquet")
    before, kept = part.stat(), part.read_bytes()
    at = kept.index((12).to_bytes(8, "little"))
    part.write_bytes(kept[:at] + (11).to_bytes(8, "little") + kept[at + 8 :])
    os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns))
    try:
        with pytest.raises(ArchiveError, match="not what was sealed"):
            archive.run("sums of two").prove("k = 0", hide=hide)
    finally:
        part.write_bytes(kept)
        os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert archive.run("sums of two").prove("k = 0", hide=hide)


@pytest.mark.full
def test_what_a_run_takes_is_what_forgetting_it_frees(spark: Any, tmp_path: Path) -> None:
    """About: edges of one run may be stored in fewer bytes than those of another."""
    spark.range(20_000).selectExpr("id", "id % 5 AS k").coalesce(1).write.parquet(
        str(tmp_path / "t")
    )
    spark.read.parquet(str(tmp_path / "t")).createOrReplaceTempView("t")
    place = tmp_path / "archive"
    for name, sql in (
        ("all", "SELECT sum(id) AS n FROM t"),
        ("some", "SELECT k, sum(id) AS n FROM t WHERE id < 5000 GROUP BY k"),
        ("pairs", "SELECT a.id FROM t AS a JOIN t AS b ON a.id = b.id + 1"),
    ):
        whence.capture(spark.sql(sql), name=name, archive=place, progress=False, seal=True)
    for name in ("all", "pairs"):
        archive = whence.open(place)
        used = {use.name: use for use in archive.sealed.usage()}
        before = sum(d.bytes for d in archive.store.datasets() if d.is_own)
        archive.forget([name])
        freed = before - sum(d.bytes for d in whence.open(place).store.datasets() if d.is_own)
        assert freed == pytest.approx(used[name].own, rel=0.2)
