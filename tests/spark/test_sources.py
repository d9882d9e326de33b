"""Every kind of source: where its rows lie, what names it, that traces end in the right row."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit import MODES, Workshop, assert_output
from pyspark.sql import functions as F  # noqa: N812

import whence
from whence.errors import SourceChangedError

pytestmark = pytest.mark.spark

ROWS = [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}, {"k": 2, "v": "c"}, {"k": None, "v": None}]
SCHEMA = "k int, v string"


def write(rows: list[dict[str, Any]], path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([("k", pa.int32()), ("v", pa.string())])
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return str(path)


def check(workshop: Workshop, frame: Any, source: str, modes: tuple[str, ...] = MODES) -> Any:
    """Each row of `SELECT * FROM source` is traced to itself, and a group to its members.

    The rows where that needs no Spark job, the groups where it does.
    """
    both = frame.groupBy("k").agg(F.max("v").alias("m"), F.count(F.lit(1)).alias("n"))
    run = None
    for mode in modes:
        asked = frame if mode == "eager" else both
        run = whence.capture(asked, archive=workshop.folder(), mode=mode, progress=False)
        if mode == "eager":
            assert_output(run, frame, frame.collect(), False, mode)
            for row in ROWS:
                assert found(run.trace([row])[source]) == [row], mode
            assert run.impact(source, "v = 'c'").to_pylist() == [{"k": 2, "v": "c"}]
            continue
        members = found(run.trace("k = 2")[source])
        assert members == [{"k": 2, "v": "b"}, {"k": 2, "v": "c"}], mode
        assert run.impact(source, "v = 'c'").to_pylist() == [{"k": 2, "m": "c", "n": 2}]
    return run


def found(rows: Any) -> list[dict[str, Any]]:
    return sorted(
        ({"k": r["k"], "v": r["v"]} for r in rows.to_pylist()), key=lambda r: r["v"] or ""
    )


def test_parquet_file(workshop: Workshop) -> None:
    path = write(ROWS, workshop.folder() / "items.parquet")
    check(workshop, workshop.session.read.parquet(path), "items")


def test_parquet_of_several_files(workshop: Workshop) -> None:
    folder = workshop.folder() / "items"
    write(ROWS[:1], folder / "a.parquet")
    write(ROWS[1:2], folder / "b c.parquet")
    write(ROWS[2:], folder / "d%20e.parquet")
    check(workshop, workshop.session.read.parquet(str(folder)), "items")


@pytest.mark.parametrize(("cuts", "told"), [((1, 2), "file_name"), ((2, 3), "file_size")])
def test_files_are_told_apart_by_size_or_else_by_name(
    workshop: Workshop, cuts: tuple[int, int], told: str
) -> None:
    folder = workshop.folder() / "items"
    first, second = cuts
    write(ROWS[:first], folder / "a.parquet")
    write(ROWS[first:second], folder / "b.parquet")
    write(ROWS[second:], folder / "c.parquet")
    sizes = {path.stat().st_size for path in folder.iterdir()}
    assert (len(sizes) == 3) == (told == "file_size")
    run = check(workshop, workshop.session.read.parquet(str(folder)), "items")
    (source,) = run.sources()
    assert told in source.properties["slot"]
    assert len({file.slot for file in source.files}) == 3


def test_hive_partitions(workshop: Workshop) -> None:
    folder = workshop.folder() / "my items 100%"
    frame = workshop.session.createDataFrame([tuple(r.values()) for r in ROWS], SCHEMA)
    frame.coalesce(1).write.partitionBy("k").parquet(str(folder))
    read = workshop.session.read.schema("v string, k int").parquet(str(folder))
    check(workshop, read.select("k", "v"), "my items 100%")


@pytest.mark.parametrize("kind", ["json", "csv", "orc"])
def test_other_files(workshop: Workshop, kind: str) -> None:
    folder = workshop.folder() / "items"
    frame = workshop.session.createDataFrame([tuple(r.values()) for r in ROWS], SCHEMA)
    frame.repartition(2).write.option("header", True).format(kind).save(str(folder))
    reader = workshop.session.read.option("header", True).schema(SCHEMA).format(kind)
    check(workshop, reader.load(str(folder)), "items")


# Pipelines over t(k, v, w, x, y), and the columns that they have a use for.
USES = {
    "handed on and dropped": (
        "SELECT k, s FROM (SELECT *, v || w AS s FROM (SELECT *, 1 AS one FROM t))",
        ["k", "v", "w"],
    ),
    "looked at by a filter and a sort": (
        "SELECT k FROM (SELECT * FROM t WHERE v <> 'z' ORDER BY w)",
        ["k", "v", "w"],
    ),
    "a condition of what is not asked for": (
        "SELECT k FROM (SELECT *, CASE WHEN v = 'a' THEN w END AS c FROM t)",
        ["k", "v", "w"],
    ),
    "renamed twice": ("SELECT c AS d FROM (SELECT x AS c, y AS d FROM t)", ["x"]),
    "compared as a whole": (
        "SELECT k FROM ((SELECT k, v, w FROM t) EXCEPT SELECT 7, 'a', 'b')",
        ["k", "v", "w"],
    ),
    "a union's columns by position": (
        "SELECT k FROM (SELECT * FROM t UNION ALL SELECT * FROM t)",
        ["k", "v", "w", "x", "y"],
    ),
    "unnested": ("SELECT k, i FROM (SELECT *, explode(array(v, w)) AS i FROM t)", ["k", "v", "w"]),
    "joined": (
        "SELECT a.k FROM (SELECT *, x AS j FROM t) a JOIN (SELECT *, v AS q FROM t) b ON j = b.x",
        ["k", "x"],
    ),
    "a window": (
        "SELECT k, n FROM (SELECT *, sum(x) OVER (PARTITION BY v ORDER BY y) AS n FROM t)",
        ["k", "v", "x", "y"],
    ),
    "no column at all": ("SELECT count(*) AS n FROM (SELECT *, v || w AS s FROM t)", ["v", "w"]),
}


@pytest.mark.parametrize("name", USES)
def test_a_snapshot_has_the_columns_that_are_of_use(workshop: Workshop, name: str) -> None:
    rows = [{"k": i, "v": "ab"[i % 2], "w": "c", "x": i % 3, "y": -i} for i in range(5)]
    frame = workshop.session.createDataFrame(rows, "k int, v string, w string, x int, y int")
    path = str(workshop.folder())
    frame.coalesce(1).write.json(path)
    read = workshop.session.read.schema(frame.schema).json(path)
    read.createOrReplaceTempView("t")
    query, columns = USES[name]
    asked = workshop.session.sql(query)
    mode = MODES[list(USES).index(name) % len(MODES)]
    run = whence.capture(asked, archive=workshop.folder(), mode=mode, progress=False)
    assert_output(run, asked, asked.collect(), False, mode)
    trace = run.trace()
    assert {c for source in trace for c in trace[source].columns} == set(columns), mode
    assert [len(trace[source]) for source in trace] == [len(rows)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_a_pipeline_that_looks_at_the_metadata_of_files(
    workshop: Workshop, kind: str, mode: str
) -> None:
    folder = workshop.folder() / "items"
    frame = workshop.session.createDataFrame([tuple(r.values()) for r in ROWS], SCHEMA)
    frame.repartition(2).write.format(kind).save(str(folder))
    read = workshop.session.read.schema(SCHEMA).format(kind).load(str(folder))
    asked = read.where("_metadata.file_size > 0").select("k", "v", "_metadata.file_name")
    if mode == "auto":
        asked = asked.groupBy("file_name").agg(F.max("v").alias("v"), F.sum("k").alias("k"))
    run = whence.capture(asked, archive=workshop.folder(), mode=mode, progress=False)
    assert_output(run, asked, asked.collect(), False, mode)
    assert found(run.trace("v = 'c'")["items"])[-1] == {"k": 2, "v": "c"}
    assert run.check(sample=1).ok


# DuckDB, which reads the sources later, has uses of its own for some names.
@pytest.mark.parametrize("name", ["filename", "file_row_number", "locator", "__whence_locator"])
def test_names_that_others_use(workshop: Workshop, name: str) -> None:
    folder = workshop.folder() / "items"
    frame = workshop.session.createDataFrame([tuple(r.values()) for r in ROWS], SCHEMA)
    named = frame.withColumnRenamed("k", name)
    named.repartition(2).write.parquet(str(folder))
    read = workshop.session.read.schema(named.schema).parquet(str(folder))
    run = whence.capture(read, archive=workshop.folder(), mode="eager", progress=False)
    table = run.trace(f"{name} = 1")["items"].to_arrow(extra=True)
    assert [(r[name], r["v"], r["_role"]) for r in table.to_pylist()] == [(1, "a", "contributing")]
    assert run.impact("items", "v = 'c'").to_pylist() == [{name: 2, "v": "c"}]
    cells = run.trace(whence.pattern(f"{name}, v = 'c'")).cells().to_pylist()
    assert {c["path"] for c in cells} == {name, "v"}


def test_names_that_differ_in_case_alone(workshop: Workshop) -> None:
    session, folder = workshop.session, workshop.folder() / "items"
    session.conf.set("spark.sql.caseSensitive", True)
    try:
        session.sql("SELECT id AS a, id + 10 AS A FROM range(2)").write.parquet(str(folder))
        frame = session.read.parquet(str(folder))
        run = whence.capture(frame, archive=workshop.folder(), mode="eager", progress=False)
        assert run.trace("A = 11")["items"].to_pylist() == [{"a": 1, "A": 11}]
        for name, value in (("A", 11), ("a", 1)):
            trace = run.trace(whence.pattern(f"{name} = {value}"))
            assert (trace.rows, trace.cells()["path"].to_pylist()) == (1, [name])
            assert run.trace(whence.pattern(f"{name} = {12 - value}")).rows == 0
        with pytest.raises(whence.UnsupportedError, match="'a' and 'A', whose names differ"):
            made = frame.selectExpr("named_struct('a', a, 'A', A) AS st")
            whence.capture(made, archive=workshop.folder(), progress=False)
    finally:
        session.conf.set("spark.sql.caseSensitive", False)


def test_columns_and_tables_that_no_file_has(workshop: Workshop) -> None:
    session = workshop.session
    path = write(ROWS, workshop.folder() / "items.parquet")
    session.sql("CREATE TABLE bare (k INT, w STRING) USING parquet")
    try:
        read = session.read.schema("k int, v string, z double").parquet(path)
        frame = read.join(session.table("bare"), "k", "left")
        run = whence.capture(frame, archive=workshop.folder(), mode="eager", progress=False)
        trace = run.trace("v = 'a'")
        assert trace["items"].to_pylist() == [{"k": 1, "v": "a", "z": None}]
        assert trace["bare"].to_pylist() == []
        assert run.impact("bare", "w = 'x'").to_pylist() == []
        assert len(run.impact("items", "z IS NULL").to_pylist()) == 4
    finally:
        session.sql("DROP TABLE bare")


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_text_of_fixed_length(workshop: Workshop, mode: str) -> None:
    session = workshop.session
    session.sql("CREATE TABLE padded (c CHAR(4), v VARCHAR(3)) USING parquet")
    try:
        session.sql("INSERT INTO padded VALUES ('ab', 'x'), ('abcd', NULL)")
        frame = session.table("padded").where("c = 'ab'")
        run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
        assert_output(run, frame, frame.collect(), False, mode)
        assert run.trace()["padded"].to_pylist() == [{"c": "ab  ", "v": "x"}]
        assert run.check(sample=1).ok
    finally:
        session.sql("DROP TABLE padded")


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_one_partition_of_a_folder(workshop: Workshop, mode: str) -> None:
    folder = workshop.folder() / "items"
    frame = workshop.session.createDataFrame([tuple(r.values()) for r in ROWS], SCHEMA)
    frame.coalesce(1).write.partitionBy("k").parquet(str(folder))
    reader = workshop.session.read.option("basePath", str(folder)).schema("v string, k int")
    read = reader.parquet(f"{folder}/k=2").select("k", "v")
    run = whence.capture(read, archive=workshop.folder(), mode=mode, progress=False)
    assert found(run.trace("v = 'c'")["k=2"]) == [{"k": 2, "v": "c"}]
    assert run.check(sample=1).ok


def test_connectors_of_the_second_version(workshop: Workshop) -> None:
    path = write(ROWS, workshop.folder() / "items.parquet")
    session, key = workshop.session, "spark.sql.sources.useV1SourceList"
    before = session.conf.get(key)
    session.conf.set(key, "")
    try:
        frame = session.read.schema(SCHEMA).parquet(path)
        run = whence.capture(frame, archive=workshop.folder(), mode="eager", progress=False)
        (name,) = run.trace("v = 'c'")
        assert found(run.trace("v = 'c'")[name]) == [{"k": 2, "v": "c"}]
    finally:
        session.conf.set(key, before)


def test_the_name_of_the_file_that_is_read(workshop: Workshop) -> None:
    path = write(ROWS, workshop.folder() / "items.parquet")
    read = workshop.session.read.schema(SCHEMA)
    frame = read.parquet(path).select("v", F.input_file_name().alias("f"))
    run = whence.capture(frame, archive=workshop.folder(), mode="eager", progress=False)
    assert_output(run, frame, frame.collect(), False)
    (other := workshop.folder()).mkdir()
    (other / "items.json").write_text('{"k": 1}')
    copied = read.json(str(other)).select("k", F.input_file_name().alias("f"))
    with pytest.raises(whence.UnsupportedError, match=r"input_file_name.*_metadata\.file_path"):
        whence.capture(copied, archive=workshop.folder(), progress=False)


def test_text(workshop: Workshop) -> None:
    folder = workshop.folder()
    folder.mkdir()
    (folder / "lines.txt").write_text("one\ntwo\n\ntwo\n")
    frame = workshop.session.read.text(str(folder / "lines.txt")).where("value = 'two'")
    for mode in MODES:
        run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
        assert run.trace()["lines"].to_pylist() == [{"value": "two"}, {"value": "two"}]


def test_list_and_pandas(workshop: Workshop) -> None:
    rows = [tuple(r.values()) for r in ROWS]
    check(workshop, workshop.session.createDataFrame(rows, SCHEMA), "rdd")
    frame = workshop.session.createDataFrame(pd.DataFrame({"k": [1, 2], "v": ["a", "b"]}))
    run = whence.capture(frame, archive=workshop.folder(), progress=False)
    (name,) = run.trace("k = 2")
    assert run.trace("k = 2")[name].to_pylist() == [{"k": 2, "v": "b"}]
    archive = workshop.folder()
    for micro in (1, 2):  # not the same rows, so not the same snapshot
        time = datetime(2024, 1, 1, microsecond=micro)
        frame = workshop.session.createDataFrame([(time,)], "t timestamp_ntz")
        run = whence.capture(frame, archive=archive, mode="eager", progress=False)
        (rows,) = run.trace().values()
        assert rows.to_pylist() == [{"t": time}]


def test_range(workshop: Workshop) -> None:
    frame = workshop.session.range(10, 30, 5).where("id % 10 = 5")
    for mode in MODES:
        run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
        assert sorted(r["id"] for r in run.output.collect()) == [15, 25]
        assert run.trace("id = 25")["range"].to_pylist() == [{"id": 25}]


def test_saved_table_and_view_of_it(workshop: Workshop) -> None:
    session = workshop.session
    frame = session.createDataFrame([tuple(r.values()) for r in ROWS], SCHEMA)
    frame.coalesce(1).write.mode("overwrite").saveAsTable("kept_items")
    try:
        check(workshop, session.table("kept_items"), "kept_items")
        session.table("kept_items").createOrReplaceTempView("seen_items")
        check(workshop, session.sql("SELECT v, k FROM seen_items").select("k", "v"), "kept_items")
    finally:
        session.sql("DROP TABLE kept_items")


def test_cached_rows_are_the_ones_that_were_cached(workshop: Workshop) -> None:
    path = write(ROWS, workshop.folder() / "items.parquet")
    frame = workshop.session.read.schema(SCHEMA).parquet(path).cache()
    try:
        assert frame.count() == 4
        write([{"k": 9, "v": "new"}], Path(path))
        check(workshop, frame, "cached")
    finally:
        frame.unpersist()


def test_rdd_and_checkpoint(workshop: Workshop) -> None:
    session = workshop.session
    rdd = session.sparkContext.parallelize([tuple(r.values()) for r in ROWS], 2)
    run = check(workshop, session.createDataFrame(rdd, SCHEMA), "rdd")
    assert "the trace ends here" in run.trace().notes[0]
    frame = session.createDataFrame(rdd, SCHEMA).where("k IS NULL OR k < 9").localCheckpoint()
    check(workshop, frame, "rdd", ("eager",))


def test_two_sources_of_one_name(workshop: Workshop) -> None:
    read = workshop.session.read.schema(SCHEMA)
    one = read.parquet(write(ROWS[:1], workshop.folder() / "items.parquet"))
    two = read.parquet(write(ROWS[1:], workshop.folder() / "items.parquet"))
    for mode in MODES:
        run = whence.capture(one.union(two), archive=workshop.folder(), mode=mode, progress=False)
        trace = run.trace()
        assert found(trace["items"]) == ROWS[:1], mode
        assert found(trace["items-2"]) == found_rows(ROWS[1:]), mode
        trace = run.trace("v = 'c'")
        assert {name: len(rows) for name, rows in trace.items() if len(rows)} == {"items-2": 1}


def found_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda r: r["v"] or "")


def test_self_join_is_one_source(workshop: Workshop) -> None:
    path = write(ROWS, workshop.folder() / "items.parquet")
    one = workshop.session.read.schema(SCHEMA).parquet(path)
    two = workshop.session.read.schema(SCHEMA).parquet(path).selectExpr("k AS j", "v AS w")
    frame = one.join(two, one.k == two.j).where("v < w")
    for mode in MODES:
        run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
        trace = run.trace()
        assert list(trace) == ["items"], mode
        assert found(trace["items"]) == ROWS[1:3], mode


@pytest.mark.parametrize("mode", MODES)
def test_a_changed_source_is_reported(workshop: Workshop, mode: str) -> None:
    path = write(ROWS, workshop.folder() / "items.parquet")
    frame = workshop.session.read.schema(SCHEMA).parquet(path)
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    write(ROWS * 2, Path(path))
    with pytest.raises(SourceChangedError, match=r"items\.parquet has changed"):
        run.trace("k = 1")["items"].to_arrow()
