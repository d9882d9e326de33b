"""Sealing what sources are in practice: older files, other schemas, several names, many steps."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import whence
from whence.archive.proof import to_text
from whence.errors import ProofError, SelectionError, UnknownNameError, UnsupportedError

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def captured(frame: Any, archive: Path, name: str | None = None, seal: bool = True) -> whence.Run:
    run = whence.capture(frame, name=name, archive=archive, mode="eager", progress=False)
    if seal:
        run.seal(progress=False)
    return run


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which engine seals."""
    if request.param == "spark":
        monkeypatch.setattr("whence.sealing.SMALL_BYTES", -1)
    return str(request.param)


def all_well(run: whence.Run) -> str:
    """The canonical bytes of the run's only source row, after all was looked at."""
    found = run.archive.sealed.verify(tokens=True)
    assert found.ok, found.findings
    (shown,) = whence.verify_proof(run.prove(None)).inputs
    assert shown is not None
    return str(shown.text).partition(":")[2][43:]


def test_schemas_with_more_than_the_file(spark: Any, tmp_path: Path, engine: str) -> None:
    data = str(tmp_path / "data")
    row = "SELECT 1 AS id, named_struct('a', 1) AS s, array(named_struct('a', 2), null) AS l"
    spark.sql(row).coalesce(1).write.parquet(data)
    schema = (
        "id int, z string, s struct<a: int, b: array<int>>, "
        "l array<struct<a: int, c: struct<x: date>>>, m map<string, struct<q: int>>"
    )
    run = captured(spark.read.schema(schema).parquet(data), tmp_path / "archive")
    text = all_well(run)
    assert text.startswith("i1;n;r2:")
    assert text.endswith("i2;n;n;n;")
    unread = captured(
        spark.read.schema("more int, id int").parquet(data).select("id"), tmp_path / "b"
    )
    assert all_well(unread) == "n;i1;"


def test_text_that_a_file_calls_bytes(spark: Any, tmp_path: Path, engine: str) -> None:
    (tmp_path / "data").mkdir()
    table = pa.table({"s": pa.array(["hé".encode()], pa.binary())})
    pq.write_table(table, tmp_path / "data" / "part.parquet")
    frame = spark.read.schema("s string").parquet(str(tmp_path / "data"))
    assert all_well(captured(frame, tmp_path / "archive")) == "s3:hé"


@pytest.mark.parametrize(
    ("interval", "spelling"),
    [("'7' YEAR", "y84;"), ("'-5' MONTH", "y-5;"), ("'-7-3' YEAR TO MONTH", "y-87;")],
)
def test_intervals(spark: Any, tmp_path: Path, engine: str, interval: str, spelling: str) -> None:
    run = captured(spark.sql(f"SELECT INTERVAL {interval} AS y"), tmp_path)
    assert str(whence.verify_proof(run.prove(None)).row).endswith(spelling)


@pytest.fixture
def legacy(spark: Any) -> Iterator[None]:
    """Files are written as Spark 2 wrote them."""
    names = ("datetimeRebaseModeInWrite", "int96RebaseModeInWrite")
    for name in names:
        spark.conf.set(f"spark.sql.parquet.{name}", "LEGACY")
    yield
    for name in names:
        spark.conf.unset(f"spark.sql.parquet.{name}")


@pytest.mark.parametrize(
    "value",
    [
        "date'1200-02-28'",
        "timestamp'1850-01-01 00:00:00'",
        "array(named_struct('d', date'0901-02-28'))",
    ],
)
@pytest.mark.usefixtures("legacy")
def test_days_of_another_calendar(spark: Any, tmp_path: Path, engine: str, value: str) -> None:
    """Readers do not agree what they are, so that tokens would not be the same everywhere."""
    spark.sql(f"SELECT {value} AS d").coalesce(1).write.parquet(str(tmp_path / "old"))
    run = captured(spark.read.parquet(str(tmp_path / "old")), tmp_path / "archive", seal=False)
    with pytest.raises(UnsupportedError, match=r"source 'old': .* the calendar of Spark 2"):
        run.seal(progress=False)


@pytest.mark.usefixtures("legacy")
def test_days_on_which_calendars_agree(spark: Any, tmp_path: Path, engine: str) -> None:
    spark.sql("SELECT date'1990-02-28' AS d").coalesce(1).write.parquet(str(tmp_path / "new"))
    run = captured(spark.read.parquet(str(tmp_path / "new")), tmp_path / "archive")
    assert all_well(run) == "D7363;"


def test_a_source_by_every_name_that_runs_have_for_it(spark: Any, tmp_path: Path) -> None:
    place = tmp_path / "archive"
    for folder, columns in (("n1", []), ("n2", ["id * 3 AS x"])):
        path = str(tmp_path / folder / "people")
        spark.range(5).selectExpr("id", "id % 2 AS k", *columns).coalesce(1).write.parquet(path)
    first, second = (spark.read.parquet(str(tmp_path / n / "people")) for n in ("n1", "n2"))
    captured(first.groupBy("k").count(), place, "a")
    captured(second.groupBy("k").count(), place, "b")
    first.createOrReplaceTempView("folks")
    captured(spark.sql("SELECT max(id) AS m FROM folks"), place, "c")
    archive = whence.open(place)
    for name in ("people", "folks"):
        found = archive.uses(name, "id = 3")
        assert {use.name for use in found} >= {"a", "c"}
        assert found.unseen == ()
    assert {use.name for use in archive.uses("people", "id = 3")} == {"a", "b", "c"}
    assert {node.row for node in archive.sealed.find(source="people")} == set(range(5))
    with pytest.raises(UnknownNameError, match="'folks', 'people'"):
        archive.uses("persons", "id = 3")
    run, again = archive.run("a"), archive.run("c")
    assert [found.name for found in run.sources()] == ["people"]
    assert len(run.impact("people", "id = 3")) == 1
    assert list(run.trace()) == ["people"]
    assert list(again.trace()) == ["folks"]
    with pytest.raises(UnknownNameError):
        again.impact("people", "id = 3")


def test_a_row_on_the_way_is_no_row_of_the_result(spark: Any, tmp_path: Path) -> None:
    """What a run left out cannot be shown as its result with the seal of the run."""

    def same(batches: Any) -> Any:
        yield from batches

    values = "SELECT * FROM VALUES (1, 'keep'), (2, 'drop') AS t(a, b)"
    spark.sql(values).coalesce(1).write.parquet(str(tmp_path / "t"))
    every = spark.read.parquet(str(tmp_path / "t")).mapInPandas(same, "a int, b string")
    whole = captured(every, tmp_path / "archive")
    kept = captured(every.where("b = 'keep'"), tmp_path / "archive")
    assert len(kept.stored.steps) > 1
    dropped, honest = (json.loads(p) for p in (whole.prove("b = 'drop'"), kept.prove("a = 1")))
    dropped["seal"] = honest["seal"]
    with pytest.raises(ProofError, match="a step on the way"):
        whence.verify_proof(to_text(dropped))
    whence.verify_proof(to_text(honest))


def test_sealing_what_is_sealed_writes_nothing(spark: Any, tmp_path: Path) -> None:
    run = captured(spark.range(3).groupBy().count(), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    seal = whence.open(tmp_path).run().seal(progress=False)
    assert seal.id == run.archive.sealed.seal_of(run.stored).id
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert run.archive.sealed.verify().notes == []


def test_what_is_inside_a_common_derivation_is_not_told_beside_it(
    spark: Any, tmp_path: Path
) -> None:
    for name, column in (("n", "id"), ("n2", "CASE WHEN id = 39 THEN 99 ELSE id END AS id")):
        frame = spark.range(40).selectExpr(column).coalesce(1)
        frame.write.parquet(str(tmp_path / name))
        spark.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
        sums = spark.sql(f"SELECT id, sum(id) OVER (ORDER BY id) AS s FROM {name}")
        captured(sums, tmp_path / "archive", name)
    archive = whence.open(tmp_path / "archive")
    found = archive.run("n").compare(archive.run("n2"))
    for node in found.common:
        inside = {inner.id for inner, _ in archive.sealed.closure([node.id])} - {node.id}
        assert not inside & {other.id for other in found.common}
    assert found.common
    assert found.left


@pytest.mark.parametrize(
    ("kind", "values", "spelling"),
    [
        ("", ("1.5", "2"), "f0x1.8p0;"),
        ("string", ("1", "2"), "s1:1"),
        ("string", ("2020-01-01", "2020-01-02"), "s10:2020-01-01"),
        ("decimal(5,2)", ("1.50", "2"), "d1.5;"),
        ("int", ("01", "__HIVE_DEFAULT_PARTITION__"), "i1;"),
        ("timestamp", ("2020-01-01 00%3A00%3A00", "2020-01-02 00%3A00%3A00"), "t1577836800000000;"),
    ],
)
def test_partitions_have_the_types_of_the_schema(
    spark: Any, tmp_path: Path, engine: str, kind: str, values: tuple[str, ...], spelling: str
) -> None:
    """What their folders look like is no matter."""
    for i, value in enumerate(values):
        folder = tmp_path / "data" / f"k={value}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [i]}), folder / "part.parquet")
    reader = spark.read.schema(f"id long, k {kind}") if kind else spark.read
    frame = reader.parquet(str(tmp_path / "data")).where("id = 0")
    assert all_well(captured(frame, tmp_path / "archive")) == f"i0;{spelling}"


def test_types_of_users(spark: Any, tmp_path: Path, engine: str) -> None:
    linalg = pytest.importorskip("pyspark.ml.linalg")
    rows = [(1, linalg.Vectors.dense([1.0]))]
    spark.createDataFrame(rows, ["id", "v"]).coalesce(1).write.parquet(str(tmp_path / "data"))
    run = captured(spark.read.parquet(str(tmp_path / "data")).select("id"), tmp_path / "archive")
    assert all_well(run).startswith("i1;r4:")


def test_sources_of_one_name_in_runs_that_build_on_others(spark: Any, tmp_path: Path) -> None:
    for name, parts in (("n1", 2), ("n2", 3)):
        frame = spark.range(6).selectExpr("id", f"id % {parts} AS k").coalesce(1)
        frame.write.parquet(str(tmp_path / name / "people"))
    one, two = (spark.read.parquet(str(tmp_path / n / "people")) for n in ("n1", "n2"))
    place = tmp_path / "archive"
    first = captured(one.where("id < 5"), place, seal=False)
    second = captured(first.output.groupBy("k").count(), place, seal=False)
    other = two.withColumnRenamed("id", "k2")
    third = captured(second.output.join(other, "k"), place, seal=False)
    places = {found.name: found.location for found in third.sources() if found.kind == "source"}
    assert list(places) == ["people"]
    assert places["people"].endswith("n2/people")
    assert set(third.trace()) == {"people", "people-2"}
    assert len(third.trace()["people"]) == 4
    assert len(third.impact("people", "id = 0")) == 1
    assert len(third.impact("people-2", "id = 0")) == 2


def a_key(path: Path) -> Path:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    text = Ed25519PrivateKey.generate().private_bytes(encoding, form, serialization.NoEncryption())
    path.write_bytes(text)
    return path


def test_the_head_of_a_sealed_run_with_another_key(spark: Any, tmp_path: Path) -> None:
    right, wrong = a_key(tmp_path / "right"), a_key(tmp_path / "wrong")
    signed, plain = tmp_path / "signed", tmp_path / "plain"
    run = captured(spark.range(3).groupBy().count(), signed, seal=False)
    run.seal(key=right, progress=False)
    (signed / "head.json").unlink()
    with pytest.raises(SelectionError, match="with another key"):
        run.seal(key=wrong, progress=False)
    assert not (signed / "head.json").exists()
    run.seal(key=right, progress=False)
    assert run.archive.sealed.verify().ok
    other = captured(spark.range(3).groupBy().count(), plain)
    (plain / "head.json").unlink()
    with pytest.raises(SelectionError, match="without a signature"):
        other.seal(key=right, progress=False)
    other.seal(progress=False)
    assert other.archive.sealed.verify().ok


def test_a_signed_seal_over_a_run_that_builds_on_an_unsigned_one(
    spark: Any, tmp_path: Path
) -> None:
    key = a_key(tmp_path / "key")
    first = captured(spark.range(3).selectExpr("id", "id % 2 AS k"), tmp_path / "archive")
    second = captured(first.output.groupBy("k").count(), tmp_path / "archive", seal=False)
    second.seal(key=key, progress=False)
    assert second.archive.sealed.verify().ok
