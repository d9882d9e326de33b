"""Bad input gets a clear error, which is always whence's own, and nothing is lost."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812
from shop import TOTALS, write_shop

import whence
from whence.errors import (
    ArchiveError,
    FormatError,
    SelectionError,
    SourceChangedError,
    SourceError,
    UnknownNameError,
    UnsupportedError,
)

pytestmark = pytest.mark.spark
MODES = ("eager", "lazy", "auto")
SPARKS_OWN = (PySparkException, Py4JJavaError)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_shop(tmp_path / "shop")


@pytest.fixture
def totals(spark: Any, shop: Path) -> Any:
    """The pipeline of these tests, over a source of its own."""
    spark.read.parquet(str(shop / "orders.parquet")).createOrReplaceTempView("orders")
    return spark.sql(TOTALS)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture(scope="module")
def asked(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run that tests ask wrong questions of, and change nothing in."""
    folder = tmp_path_factory.mktemp("asked")
    source = write_shop(folder / "shop") / "orders.parquet"
    spark.read.parquet(str(source)).createOrReplaceTempView("orders")
    return whence.capture(spark.sql(TOTALS), name="totals", archive=folder / "a", mode="eager")


def runs(archive: Path) -> list[str]:
    return [run.name for run in whence.open(archive).runs()] if archive.exists() else []


# --- Names ----------------------------------------------------------------------------------

WRONG_NAMES: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "run": (lambda run: run.archive.run("totls"), "totls", "'totals'"),
    "source of an impact": (lambda run: run.impact("ordesr"), "ordesr", "'orders'"),
    "source of a trace": (lambda run: run.trace()["ordesr"], "ordesr", "'orders'"),
    "column": (lambda run: run.trace("totl > 1"), "totl", "'total'"),
    "column of rows": (lambda run: run.trace([{"totl": 1}]), "totl", "'total'"),
    "column of a source": (
        lambda run: run.impact("orders", "custmer = 1"),
        "custmer",
        "'customer'",
    ),
    "Column": (lambda run: run.trace(F.col("totl") > 1), "totl", "'total'"),
}


@pytest.mark.parametrize("kind", WRONG_NAMES)
def test_an_unknown_name_is_answered_with_the_nearest(asked, kind):
    ask, wrong, near = WRONG_NAMES[kind]
    with pytest.raises(UnknownNameError) as caught:
        ask(asked)
    assert wrong in str(caught.value)
    assert near in str(caught.value)


# --- Selections and arguments ---------------------------------------------------------------

MALFORMED = (
    "total =",
    "total > < 3",
    "total = 'abc",
    "(total = 1",
    "",
    "SELECT 1",
    "total = 1; DROP TABLE orders",
    "total = (SELECT max(total) FROM orders)",
    "sum(total) > 1",
    "no_such_function(total) = 1",
    "total = 'abc'",
    "total.part = 1",
    "total = 1 -- and so on\n)",
)


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_sql(asked, text):
    with pytest.raises(SelectionError):
        asked.trace(text)


@pytest.mark.parametrize(
    "selection", [3.5, 7, object(), b"total", [1, 2], [{}], [{"total": object()}]]
)
def test_a_selection_of_a_wrong_type(asked, selection):
    with pytest.raises(SelectionError):
        asked.trace(selection)


@pytest.mark.parametrize("nothing", [[], pd.DataFrame({"total": []}), pa.table({"customer": []})])
def test_no_rows_are_a_selection_too(asked, nothing):
    trace = asked.trace(nothing)
    assert trace.rows == 0
    assert len(trace["orders"]) == 0


def test_no_rows_of_an_unknown_column(asked):
    with pytest.raises(whence.UnknownNameError, match="did you mean 'total'"):
        asked.trace(pd.DataFrame({"totl": []}))


def test_a_source_that_gave_nothing_is_empty(asked):
    trace = asked.trace("customer < 0")
    assert trace["orders"].to_pylist() == []
    assert len(trace["orders"]) == 0
    with pytest.raises(whence.UnknownNameError, match="did you mean 'orders'"):
        trace["order"]


def test_rows_of_a_wrong_type(asked):
    with pytest.raises(SelectionError):
        asked.trace([{"total": {"not": "a number"}}])


@pytest.mark.parametrize("frame", [None, 42, "SELECT 1", [1], pd.DataFrame({"a": [1]})])
def test_capture_of_what_is_no_frame(archive, frame):
    with pytest.raises(SelectionError, match="Spark DataFrame"):
        whence.capture(frame, archive=archive)
    assert not archive.exists()


@pytest.mark.parametrize("mode", ["fast", None, 1, "EAGER", ["eager"]])
def test_a_mode_that_is_none(totals, archive, mode):
    with pytest.raises(SelectionError, match="'eager', 'lazy' or 'auto'"):
        whence.capture(totals, archive=archive, mode=mode)
    assert not archive.exists()


@pytest.mark.parametrize("name", ["", "latest", 7])
def test_a_name_that_a_run_cannot_have(totals, archive, name):
    with pytest.raises(whence.WhenceError):
        whence.capture(totals, archive=archive, name=name)
    assert runs(archive) == []


@pytest.mark.parametrize("limit", ["1 MB", 1.5, object()])
def test_a_limit_that_is_no_number(totals, archive, limit):
    with pytest.raises(SelectionError, match="list_below"):
        whence.capture(totals, archive=archive, list_below=limit)
    assert runs(archive) == []


def test_an_archive_of_a_wrong_type(totals):
    with pytest.raises(whence.WhenceError):
        whence.capture(totals, archive=42)


def test_a_check_of_a_wrong_size(asked):
    with pytest.raises(SelectionError):
        asked.check(sample="many")


def test_a_frame_of_spark_connect(archive):
    """Told by where its class comes from: making a real one takes a server."""
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(UnsupportedError, match=r"Spark Connect.*classic session"):
        whence.capture(frame, archive=archive)


@pytest.mark.parametrize("mode", MODES)
def test_a_streaming_frame(spark, archive, mode):
    frame = spark.readStream.format("rate").load().where("value > 1")
    with pytest.raises(UnsupportedError, match="foreachBatch"):
        whence.capture(frame, archive=archive, mode=mode)
    assert runs(archive) == []


# --- The archive ----------------------------------------------------------------------------


def test_no_archive_there(tmp_path):
    with pytest.raises(ArchiveError, match="no archive"):
        whence.open(tmp_path / "nowhere")


def test_a_folder_that_is_no_archive(tmp_path):
    with pytest.raises(ArchiveError, match="not an archive"):
        whence.open(tmp_path)


def test_a_file_that_is_no_archive(tmp_path, totals):
    (tmp_path / "file").write_text("text")
    for use in (whence.open, lambda path: whence.capture(totals, archive=path)):
        with pytest.raises(ArchiveError, match="is a file"):
            use(tmp_path / "file")


def test_an_archive_of_a_newer_format(totals, archive):
    whence.capture(totals, archive=archive, mode="eager")
    with sqlite3.connect(archive / "catalog.sqlite") as catalog:
        catalog.execute("UPDATE format SET version = 99")
    catalog.close()
    before = sorted(archive.rglob("*"))
    for use in (whence.open, lambda path: whence.capture(totals, archive=path)):
        with pytest.raises(FormatError, match="newer whence"):
            use(archive)
    assert sorted(archive.rglob("*")) == before


def test_a_damaged_catalog(totals, archive):
    whence.capture(totals, archive=archive, mode="eager")
    (archive / "catalog.sqlite").write_bytes(b"no SQLite here" * 1000)
    with pytest.raises(ArchiveError, match="damaged"):
        whence.open(archive).runs()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garble(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


DAMAGES = (truncate, garble, Path.unlink)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("part", ["output", "groups"])
def test_damaged_files_of_the_archive(spark, totals, archive, damage, part):
    joined = spark.table("orders").join(totals, "customer")
    run = whence.capture(joined, archive=archive, mode="eager")
    store, step = run.archive.store, run.stored.steps[-1]
    (dataset,) = {"output": [step.output], "groups": step.groups}[part]
    for path in store.file_paths(store.dataset(dataset)):
        damage(Path(path))
    opened = whence.open(archive).run(run.id)
    for ask in (opened.trace, lambda: opened.trace("id = 1"), lambda: opened.impact("orders")):
        with pytest.raises(ArchiveError):
            ask()


def test_a_damaged_plan(totals, archive):
    run = whence.capture(totals, archive=archive, mode="lazy")
    with sqlite3.connect(archive / "catalog.sqlite") as catalog:
        catalog.execute("UPDATE attachments SET content = x'00ff00ff'")
    catalog.close()
    with pytest.raises(whence.WhenceError):
        whence.open(archive).run(run.id).trace()


# --- Sources --------------------------------------------------------------------------------


def rewrite(path: Path) -> None:
    shutil.copy(path.with_name("customers.parquet"), path)


def touch(path: Path) -> None:
    os.utime(path, (1, 1))


CHANGES = (rewrite, touch, truncate, Path.unlink)


@pytest.mark.parametrize("change", CHANGES)
def test_a_source_that_changed_after_an_eager_capture(totals, shop, archive, change):
    run = whence.capture(totals, archive=archive, mode="eager")
    before = run.trace("customer = 1")["orders"].locators().to_pylist()
    change(shop / "orders.parquet")
    trace = whence.open(archive).run(run.id).trace("customer = 1")
    assert trace["orders"].locators().to_pylist() == before
    assert len(trace["orders"]) == len(before)
    for ask in (
        trace["orders"].to_arrow,
        trace["orders"].to_pandas,
        lambda: run.impact("orders", "id = 1"),
        lambda: run.check(sample=1),
    ):
        with pytest.raises(SourceChangedError, match=r"orders\.parquet"):
            ask()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mode", ["lazy", "auto"])
def test_a_source_that_changed_before_running_again(totals, shop, archive, change, mode):
    run = whence.capture(totals, archive=archive, mode=mode, list_below=0)
    rows = run.to_arrow()
    change(shop / "orders.parquet")
    with pytest.raises(SourceChangedError, match=r"orders\.parquet"):
        run.trace("customer = 1")
    assert run.to_arrow() == rows


def test_a_source_that_rotted_unnoticed(totals, shop, archive):
    """Same size, same time, other bytes: reading it fails, and whence says so."""
    run = whence.capture(totals, archive=archive, mode="eager")
    path = shop / "orders.parquet"
    moment = path.stat().st_mtime_ns
    garble(path)
    os.utime(path, ns=(moment, moment))
    trace = run.trace("customer = 1")
    assert len(trace["orders"])
    with pytest.raises(SourceError, match="orders"):
        trace["orders"].to_arrow()
    with pytest.raises(SourceError, match="orders"):
        run.impact("orders", "id = 1")


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("mode", MODES)
def test_a_source_that_cannot_be_read(spark, shop, archive, damage, mode):
    """Spark's own error, as it is without whence; or whence's, where whence is first to look."""
    path = shop / "orders.parquet"
    frame = spark.read.parquet(str(path)).groupBy("customer").sum("amount")
    damage(path)
    with pytest.raises(SPARKS_OWN) as plain:
        frame.collect()
    with pytest.raises((type(plain.value), SourceError)):
        whence.capture(frame, archive=archive, mode=mode)
    assert runs(archive) == []


# --- The pipeline's own errors --------------------------------------------------------------


def fail(value):
    raise ValueError(f"no use for {value}")


def failing(spark: Any) -> dict[str, Any]:
    orders = spark.table("orders")
    return {
        "division by zero": spark.sql("SELECT id, amount / (id - id) AS x FROM orders"),
        "cast": spark.sql("SELECT CAST(concat('a', id) AS int) AS x FROM orders"),
        "overflow": spark.sql("SELECT sum(9223372036854775807) AS x FROM orders"),
        "raise_error": orders.select(F.raise_error(F.lit("stop here")).alias("x")),
        "two rows": spark.sql("SELECT (SELECT id FROM orders) AS x FROM orders"),
        "udf": orders.select(F.udf(fail, "int")("id").alias("x")),
    }


KINDS = ("division by zero", "cast", "overflow", "raise_error", "two rows", "udf")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
def test_the_pipelines_own_error(spark, totals, archive, kind, mode):
    frame = failing(spark)[kind]
    with pytest.raises(SPARKS_OWN) as plain:
        frame.collect()
    with pytest.raises(SPARKS_OWN) as captured:
        whence.capture(frame, archive=archive, mode=mode)
    assert type(captured.value) is type(plain.value)
    if isinstance(plain.value, PySparkException):
        assert captured.value.getCondition() == plain.value.getCondition()
    assert runs(archive) == []
    assert list((archive / "datasets").iterdir()) == []
