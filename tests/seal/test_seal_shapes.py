"""Sealing every shape of witness: tokens recomputed in Python, inputs as traces have them."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from seal_kit import SHAPES, Vault, edges, tokens, use_sources, write_sources

import whence
from whence.algebra.canonical import struct_header
from whence.archive.proof import Place, Record
from whence.errors import ArchiveError, EngineError, SelectionError
from whence.present.sealed import proof_report

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.full]


def test_every_token_is_what_python_computes_from_the_sources(vault: Vault) -> None:
    report = vault.archive.sealed.verify(tokens=True)
    assert report.findings == []
    assert report.notes == []
    assert report.seals == len(SHAPES)


@pytest.mark.parametrize("name", sorted(set(SHAPES) - {"empty"}))
def test_the_sources_behind_a_node_are_the_traced_rows(vault: Vault, name: str) -> None:
    archive = vault.archive
    run = archive.run(name)
    leaves = [n for n, _ in archive.sealed.closure(run.nodes()) if n.form == "source"]
    found: dict[str, set[int]] = {}
    for node in leaves:
        assert node.source is not None
        assert node.row is not None
        found.setdefault(node.source, set()).add(node.row)
    trace = run.trace()
    wanted = {source: set(trace[source].locators()["row"].to_pylist()) for source in trace}
    assert found == {source: rows for source, rows in wanted.items() if rows}


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_modes_give_the_same_seal_over_the_output(
    spark: Any, sources: Vault, tmp_path: Path, name: str
) -> None:
    """Those in the vault are lazy or auto; eager must lead to the same tokens."""
    run = whence.capture(
        spark.sql(SHAPES[name]), name=name, archive=tmp_path, mode="eager", seal=True
    )
    there = vault_tokens(sources, name)
    here = [n.token for n in run.archive.sealed.nodes(run.nodes())]
    assert sorted(here) == there


def vault_tokens(vault: Vault, name: str) -> list[str]:
    archive = vault.archive
    nodes = archive.run(name).nodes()
    return sorted(node.token for node in archive.sealed.nodes(nodes))


def test_equal_members_are_one_edge_that_counts_them(spark: Any, tmp_path: Path) -> None:
    spark.createDataFrame([(1,)] * 3 + [(2,)], "x int").coalesce(1).write.parquet(
        str(tmp_path / "dup")
    )
    frame = spark.read.parquet(str(tmp_path / "dup")).groupBy().count()
    run = whence.capture(frame, archive=tmp_path / "a", mode="eager", seal=True)
    found = edges(run.archive)
    assert sorted((edge[2], edge[4], edge[5]) for edge in found) == [
        (None, 1, True),
        (None, 3, True),
    ]
    assert len(tokens(run.archive, form="source")) == 2
    assert run.archive.sealed.verify(tokens=True).ok


def test_a_run_over_a_run_is_sealed_after_it(spark: Any, tmp_path: Path) -> None:
    write_sources(spark, tmp_path)
    place = tmp_path / "archive"
    first = whence.capture(spark.sql(SHAPES["group"]), name="first", archive=place, mode="eager")
    above = first.output.where("n > 1").selectExpr("sum(n) AS total")
    second = whence.capture(above, name="second", archive=place, mode="eager", seal=True)
    archive = whence.open(place)
    assert [seal.sections["run"]["name"] for seal in archive.sealed.seals()] == ["first", "second"]
    reached = {node.id for node, _ in archive.sealed.closure(second.nodes())}
    assert reached & set(first.nodes())
    assert any(node.form == "source" for node, _ in archive.sealed.closure(second.nodes()))
    assert archive.sealed.verify(tokens=True).ok


def test_short_tokens_collide_and_are_never_merged(spark: Any, tmp_path: Path) -> None:
    """600 rows and 600 joins under 8 bits: 256 tokens at most, and not one node lost."""
    rows = spark.range(600).selectExpr("id AS k", "id * 7 % 600 AS v")
    rows.coalesce(1).write.parquet(str(tmp_path / "t"))
    spark.read.parquet(str(tmp_path / "t")).createOrReplaceTempView("t")
    query = "SELECT a.k, b.v FROM t AS a JOIN t AS b ON a.k = b.v"
    place = tmp_path / "archive"
    run = whence.capture(spark.sql(query), name="one", archive=place, mode="eager")
    run.seal(bits=8)
    archive = whence.open(place)
    nodes = archive.sealed.find(limit=10**6)
    assert [n.form for n in nodes].count("source") == 600
    assert [n.form for n in nodes].count("joint") == 600
    assert len({n.token for n in nodes}) <= 256
    assert len(set(run.nodes())) == 600
    # The same again, and the same rows in another file: found, not taken for their namesakes.
    rows.coalesce(1).write.parquet(str(tmp_path / "again"))
    spark.read.parquet(str(tmp_path / "again")).createOrReplaceTempView("t")
    whence.capture(spark.sql(query), name="two", archive=place, mode="eager", seal=True)
    archive = whence.open(place)
    assert len(archive.sealed.find(limit=10**6)) == 1200
    assert set(archive.run("two").nodes()) == set(run.nodes())
    assert archive.sealed.verify(tokens=True).ok
    with pytest.raises(SelectionError, match="first seal fixed that"):
        archive.run("one").seal(bits=256)


@pytest.mark.parametrize("bits", [32, 64, 128])
def test_shorter_tokens_from_end_to_end(spark: Any, tmp_path: Path, bits: int) -> None:
    """Sealed, stored once, verified, proved and asked as with 256 bits; each token as long."""
    write_sources(spark, tmp_path)
    place = tmp_path / "archive"
    for name in ("group", "join", "window"):
        run = whence.capture(spark.sql(SHAPES[name]), name=name, archive=place, mode="eager")
        run.seal(bits=bits)
    archive = whence.open(place)
    before = tokens(archive)
    assert {len(token) for token in before} == {bits // 4}
    again = spark.sql(SHAPES["window"])
    whence.capture(again, name="again", archive=place, mode="eager", seal=True)
    archive = whence.open(place)
    assert tokens(archive) == before
    assert archive.sealed.verify(tokens=True).findings == []
    for name, rows in (("group", "area = 's'"), ("join", None), ("window", "id = 2")):
        run = archive.run(name)
        trace = run.trace(rows)
        shown = whence.verify_proof(run.prove(rows))
        assert len(shown.inputs) == sum(len(trace[source]) for source in trace)
    assert {use.name for use in archive.uses("sales", "id = 3")} == {"group", "window", "again"}


@pytest.mark.parametrize(("scheme", "sources"), [("origin", 4), ("content", 4)])
def test_what_names_a_source_row(spark: Any, tmp_path: Path, scheme: str, sources: int) -> None:
    """Equal rows in two files are one node by value, as elsewhere, and two by where they are."""
    for name in ("one", "two"):
        write_sources(spark, tmp_path / name)
        run = whence.capture(
            spark.sql("SELECT upper(sequence) AS s FROM ref"), name=name, archive=tmp_path / "a"
        )
        run.seal(scheme=scheme)
    archive = whence.open(tmp_path / "a")
    assert len(archive.sealed.find(form="source")) == sources
    assert archive.sealed.verify(tokens=True).ok
    run = archive.run("two")
    shown = whence.verify_proof(run.prove("s = 'AAT'"))
    (place,) = shown.inputs
    assert isinstance(place, Place)
    assert run.trace("s = 'AAT'")["ref"].locators()["row"].to_pylist() == [place.row]
    assert ("two" in place.uri, place.digest is None) == (True, scheme == "origin")
    ((_, told),) = proof_report(shown).records.rows
    assert told.startswith(f"row {place.row} of {place.uri}, ")


@pytest.mark.parametrize(("scheme", "files"), [("value", 1), ("value", 2), ("origin", 2)])
def test_columns_that_are_called_as_sql_calls_its_own(
    spark: Any, tmp_path: Path, scheme: str, files: int
) -> None:
    """Fields of a struct are not taken for columns of a table of its name, nor the other way."""
    names = ("r", "x", "y", "h", "u", "__whence_record", "read_parquet")
    structs = ", ".join(f"named_struct('id', id * 10, 'f', 7) AS {name}" for name in names)
    others = "id AS __start, X'00' AS __prefix, id AS __slot, array(named_struct('id', id)) AS x0"
    frame = spark.sql(f"SELECT id, {structs}, {others} FROM range(4)").repartition(files)
    frame.write.parquet(str(tmp_path / "t"))
    read = spark.read.parquet(str(tmp_path / "t"))
    run = whence.capture(read.where("id > 1"), name="n", archive=tmp_path / "a", mode="eager")
    run.seal(scheme=scheme)
    archive = whence.open(tmp_path / "a")
    assert archive.sealed.verify(tokens=True).findings == []
    shown = whence.verify_proof(archive.run("n").prove("id = 3"))
    assert shown.row is not None
    assert shown.row.count("i30;i7;") == len(names)
    assert shown.row.endswith("i3;x00;i3;a1:" + struct_header(["id"]) + "i3;")
    if scheme == "value":
        (record,) = shown.inputs
        assert isinstance(record, Record)
        assert record.text == shown.row


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM few WHERE g IN (SELECT g FROM many)",
        "SELECT g, count(*) AS n FROM many GROUP BY g HAVING sum(id) = 3",
        "SELECT id, sum(id) OVER (PARTITION BY g % 10 ORDER BY id) AS s FROM many WHERE g % 10 = 1",
    ],
)
def test_modes_store_the_same_nodes(spark: Any, tmp_path: Path, query: str) -> None:
    """Members of groups that no row of the output has are hashed, perhaps, and not stored."""
    for name, rows in (("few", 1), ("many", 60)):
        spark.range(rows).selectExpr("id", "id AS g").coalesce(1).write.parquet(
            str(tmp_path / name)
        )
        spark.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    stored = []
    for mode in ("eager", "auto", "lazy"):
        place = tmp_path / mode
        run = whence.capture(spark.sql(query), name="q", archive=place, mode=mode, seal=True)  # type: ignore[arg-type]
        archive = whence.open(place)
        assert archive.sealed.verify(tokens=True).findings == []
        behind = {node.id for node, _ in archive.sealed.closure(run.nodes())}
        assert {node.id for node in archive.sealed.find(limit=10**9)} == behind
        stored.append(sorted(tokens(archive)))
    assert stored[0] == stored[1] == stored[2]


def test_one_file_read_with_other_columns(spark: Any, tmp_path: Path) -> None:
    """Under the value scheme its rows are other records, with nodes of their own."""
    path = str(tmp_path / "t")
    spark.range(3).selectExpr("id", "id * 2 AS b").coalesce(1).write.parquet(path)
    for name, read in (("wide", spark.read), ("narrow", spark.read.schema("id long"))):
        frame = read.parquet(path).where("id > 0")
        whence.capture(frame, name=name, archive=tmp_path / "a", mode="eager", seal=True)
    spark.createDataFrame([(7, 8, 9)], "id long, b long, c long").write.mode("append").parquet(path)
    frame = spark.read.option("mergeSchema", True).parquet(path)
    whence.capture(frame, name="grown", archive=tmp_path / "a", mode="eager", seal=True)
    archive = whence.open(tmp_path / "a")
    assert archive.sealed.verify(tokens=True).findings == []
    assert len(archive.sealed.find(form="source")) == 2 + 2 + 4
    assert [len(archive.run(name).trace()["t"]) for name in ("wide", "narrow", "grown")] == [
        2,
        2,
        4,
    ]


def test_how_a_query_names_things_makes_no_other_node(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions

    def write(name: str, rows: Any, schema: str) -> None:
        spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(tmp_path / name))
        spark.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)

    write("t", [(i, i % 3) for i in range(6)], "id long, g int")
    write("u", [(i, i, i, "v") for i in range(3)], "g int, `k#1` int, `k#2` int, `it's` string")

    def nodes(frame: Any) -> tuple[int, ...]:
        run = whence.capture(frame, archive=tmp_path / "a", mode="eager", seal=True)
        return tuple(run.nodes())

    def of(query: str) -> tuple[int, ...]:
        return nodes(spark.sql(query))

    join = "SELECT x.id FROM t AS x JOIN u AS y ON x.g = y.g"
    assert of(join) == of("SELECT p.id FROM t AS p JOIN u AS q ON p.g = q.g")
    group = join.replace("x.id", "x.g, count(*)") + " GROUP BY x.g"
    assert of(group) == of(group.replace("x.", "p.").replace("AS x", "AS p"))
    assert of(group) != of(group.replace("x.g", "y.g"))
    names = "SELECT id FROM t JOIN u ON t.g = u.`k#1` AND u.`it's` <> 'z#1'"
    assert of(names) != of(names.replace("k#1", "k#2"))
    assert of(names) != of(names.replace("z#1", "z#2"))

    def counted() -> Any:
        some = functions.exists(functions.array("id", "g"), lambda x: x > 1)
        return spark.table("t").groupBy("g").agg(functions.max(some))

    assert nodes(counted()) == nodes(counted())
    least = "SELECT id - (SELECT min(id) FROM t) FROM t"
    assert of(least) == of(f"SELECT * FROM ({least}) LIMIT 10")


def test_an_archive_without_seals_says_so(spark: Any, tmp_path: Path) -> None:
    whence.capture(spark.range(1), archive=tmp_path)
    archive = whence.open(tmp_path)
    assert archive.sealed.seals() == []
    assert archive.sealed.verify().notes[0] == "the archive has no seals, so nothing is covered"
    with pytest.raises(ArchiveError, match="whence seal"):
        archive.run().nodes()


def test_an_interrupted_sealing_leaves_nothing_and_can_be_repeated(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whence.archive.sealer import Sealer

    write_sources(spark, tmp_path)
    place = tmp_path / "archive"
    run = whence.capture(spark.sql(SHAPES["join"]), archive=place, mode="eager")
    before = sorted(path.name for path in (place / "datasets").iterdir())

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Sealer, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.seal()
    assert sorted(path.name for path in (place / "datasets").iterdir()) == before
    assert whence.open(place).sealed.seals() == []
    seal = run.seal()
    assert run.seal().id == seal.id
    assert whence.open(place).sealed.verify(tokens=True).ok


def test_digests_of_source_rows_can_be_left_out(spark: Any, tmp_path: Path) -> None:
    write_sources(spark, tmp_path)
    use_sources(spark, tmp_path)
    place = tmp_path / "archive"
    run = whence.capture(spark.sql(SHAPES["group"]), archive=place, mode="eager")
    run.seal(leaf_digests=False)
    archive = whence.open(place)
    assert set(tokens(archive, form="source")) == {""}
    assert archive.sealed.verify(tokens=True).ok
    proof = archive.run().prove("area = 'n'")
    assert len(whence.verify_proof(proof).inputs) == 2


@pytest.mark.parametrize("bits", [32, 256])
def test_what_builds_on_rows_without_digests(spark: Any, tmp_path: Path, bits: int) -> None:
    """The second run's members are source rows, whose tokens are nowhere stored."""
    write_sources(spark, tmp_path)
    place = tmp_path / "archive"
    first = whence.capture(spark.sql("SELECT id FROM sales WHERE id > 2"), archive=place)
    first.seal(leaf_digests=False, bits=bits)
    above = first.output.selectExpr("sum(id) AS total")
    second = whence.capture(above, archive=place, mode="eager", seal=True)
    archive = whence.open(place)
    rows = [n.row for n, _ in archive.sealed.closure(second.nodes()) if n.form == "source"]
    assert sorted(rows) == [2, 3, 4]
    assert archive.sealed.verify(tokens=True).ok
    assert len(whence.verify_proof(second.prove(None)).inputs) == 3
    third = whence.capture(first.output.selectExpr("max(id) AS most"), archive=place, mode="eager")
    shutil.rmtree(tmp_path / "sales")
    with pytest.raises(EngineError, match="changed or gone"):
        third.seal()


def test_equal_records_are_found_without_digests(spark: Any, tmp_path: Path) -> None:
    rows = [("a", 1), ("b", 2), ("a", 1)]
    spark.createDataFrame(rows, "k string, v int").coalesce(1).write.parquet(str(tmp_path / "t"))
    frame = spark.read.parquet(str(tmp_path / "t"))
    frame.createOrReplaceTempView("t")
    run = whence.capture(frame.groupBy("k").count(), archive=tmp_path / "a", mode="eager")
    run.seal(leaf_digests=False)
    archive = whence.open(tmp_path / "a")
    for row in range(3):
        found = archive.sealed.uses("t", lambda run, dataset, row=row: [row])
        assert [use.rows for use in found] == [1]


def test_python_over_groups_is_a_node_of_its_code(spark: Any, tmp_path: Path) -> None:
    """What opaque functions took is a bag, and their digest is in the label above it."""
    spark.createDataFrame([(1, 2), (1, 3), (2, 5)], "k int, v int").coalesce(1).write.parquet(
        str(tmp_path / "t")
    )
    frame = spark.read.parquet(str(tmp_path / "t"))
    factor = 3

    def total(group: Any) -> Any:
        return group.groupby("k", as_index=False).agg({"v": lambda v: int(v.sum()) * factor})

    place = tmp_path / "archive"
    runs = []
    for name in ("one", "two"):
        result = frame.groupBy("k").applyInPandas(total, "k int, v int")
        runs.append(whence.capture(result, name=name, archive=place, mode="eager", seal=True))
        factor = 4
    archive = whence.open(place)
    closures = [archive.sealed.closure(run.nodes("k = 1")) for run in runs]
    assert [[n.form for n, _ in found] for found in closures] == [
        ["joint", "bag", "source", "source"]
    ] * 2
    parted = runs[0].compare(runs[1]).parted
    assert {node.form for node in parted} <= {"joint", "bag"}
    assert parted
    assert archive.sealed.verify(tokens=True).ok


def test_running_frames_do_not_grow_with_the_square(spark: Any, tmp_path: Path) -> None:
    """700 rows, each over all before it: blocks of 16 and of 256, not 245,000 edges."""
    rows = spark.range(700).selectExpr("id AS k", "id * 7919 % 701 AS v")
    rows.coalesce(1).write.parquet(str(tmp_path / "t"))
    spark.read.parquet(str(tmp_path / "t")).createOrReplaceTempView("t")
    query = (
        "SELECT k, sum(v) OVER (ORDER BY k) AS run, "
        "max(v) OVER (ORDER BY k ROWS BETWEEN 40 PRECEDING AND 3 FOLLOWING) AS near FROM t"
    )
    run = whence.capture(spark.sql(query), archive=tmp_path / "a", mode="eager", seal=True)
    archive = whence.open(tmp_path / "a")
    assert len(edges(archive)) < 700 * 45
    assert archive.sealed.verify(tokens=True).ok
    for row in (0, 15, 16, 400, 699):
        reached = archive.sealed.closure(run.nodes(f"k = {row}"))
        found = {node.row for node, _ in reached if node.form == "source"}
        assert found == set(range(min(row + 4, 700)))


def test_a_source_without_files(spark: Any, tmp_path: Path) -> None:
    write_sources(spark, tmp_path)
    (tmp_path / "none").mkdir()
    none = spark.read.schema("id int, more string").parquet(str(tmp_path / "none"))
    for name, frame in (
        ("left", spark.table("sales").join(none, "id", "left")),
        ("count", none.groupBy().count()),
    ):
        whence.capture(frame, name=name, archive=tmp_path / "a", mode="eager", seal=True)
    archive = whence.open(tmp_path / "a")
    assert archive.sealed.verify(tokens=True).findings == []
    assert len(archive.sealed.find(form="source")) == 5
    assert len(whence.verify_proof(archive.run("left").prove("id = 3")).inputs) == 1


def test_rows_without_inputs_in_a_run_without_witnesses(spark: Any, tmp_path: Path) -> None:
    write_sources(spark, tmp_path)
    frame = spark.sql("SELECT id FROM sales WHERE id > 3 UNION ALL SELECT 9")
    run = whence.capture(frame, archive=tmp_path / "a", mode="lazy", seal=True)
    assert run.archive.sealed.verify(tokens=True).findings == []
    assert whence.verify_proof(run.prove("id = 9")).inputs == ()
    assert len(whence.verify_proof(run.prove("id = 4")).inputs) == 1
