"""Asking the sealed archive: look-ups, closures, comparisons, uses, space, forgetting."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from seal_kit import SHAPES, Vault, tokens, use_sources, write_sources

import whence
from whence.archive.model import SEAL_KINDS
from whence.errors import SelectionError, UnknownNameError

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.full]


def test_nodes_by_attributes(vault: Vault) -> None:
    sealed = vault.archive.sealed
    (row,) = [n for n in sealed.find(source="input") if n.row == 1]
    assert sealed.find(token=row.token[:12]) == [row]
    assert {n.form for n in sealed.find(label="join inner")} == {"joint"}
    assert {n.text.split()[0] for n in sealed.find(form="bag")} >= {"aggregate", "window", "join"}
    assert sealed.find(label="no such operator") == []
    with pytest.raises(SelectionError, match="hexadecimal"):
        sealed.find(token="xyz")


def test_closures_to_a_depth_and_forward(vault: Vault) -> None:
    archive = vault.archive
    sealed = archive.sealed
    start = archive.run("groups").nodes()
    depths = {d: [n for n, at in sealed.closure(start) if at == d] for d in range(4)}
    assert [len(depths[d]) for d in range(4)] == [1, 3, 5, 0]
    assert sealed.closure(start, depth=1) == [
        *((n, 0) for n in depths[0]),
        *((n, 1) for n in depths[1]),
    ]
    leaf = depths[2][0].id
    assert start[0] in {n.id for n, _ in sealed.closure([leaf], "derived")}


def test_edges_are_indexed_by_input(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in archives whose edges do not fit into memory."""
    leaf = vault.archive.sealed.find(source="sales")[0].id
    held = vault.archive.sealed.closure([leaf], "derived")
    monkeypatch.setattr("whence.trace.ptable._HELD", 0)
    table = vault.archive.sealed.table
    assert table.uses != table.edges
    assert vault.archive.sealed.closure([leaf], "derived") == held
    assert len(held) > 3
    rows = table.engine.run(f"SELECT input, derived FROM {table.uses} AS u")
    pairs = table.engine.run(f"SELECT DISTINCT input, derived FROM {table.edges} AS e")
    assert sorted(rows) == sorted(pairs)


def test_lookups_pass_over_parts_of_files(spark: Any, tmp_path: Path) -> None:
    """Nodes by id, edges by what was derived, uses by input: in order, and in parts."""
    spark.range(250_000).selectExpr("id", "id % 7 AS k").coalesce(1).write.parquet(
        str(tmp_path / "big")
    )
    frame = spark.read.parquet(str(tmp_path / "big")).groupBy("k").count()
    whence.capture(frame, archive=tmp_path / "archive", mode="eager", seal=True)
    store = whence.open(tmp_path / "archive").store
    for kind, column in (("nodes", 0), ("edges", 3), ("uses", 0)):
        (found,) = [dataset for dataset in store.datasets() if dataset.kind == kind]
        for path in store.file_paths(found):
            parts = pq.ParquetFile(path.removeprefix("file:")).metadata
            spans = [parts.row_group(i).column(column) for i in range(parts.num_row_groups)]
            assert len(spans) >= parts.num_rows // 100_000
            ends = [x for s in spans for x in (s.statistics.min, s.statistics.max)]
            assert spans[0].path_in_schema == {0: parts.schema[0].name, 3: "derived"}[column]
            assert ends == sorted(ends)


def test_two_derivations_part_where_they_first_differ(vault: Vault) -> None:
    archive = vault.archive
    inner, left = archive.run("join"), archive.run("left")
    same = inner.compare(inner)
    assert same.same
    assert [n.id for n in same.common] == inner.nodes()
    found = inner.compare(left, None, "sequence = 'aat'")
    assert [n.text for n in found.common] == ["ref[0]"]
    assert sorted(n.text.split(",")[0] for n in found.parted) == ["input[1]", "join left"]
    assert {n.text.split(",")[0] for n in found.left} == {"input[1]", "join inner"}


def test_divergence_agrees_with_whole_closures(vault: Vault) -> None:
    """Against an oracle: set operations over both closures."""
    archive = vault.archive
    for one, two in (("group", "groups"), ("window", "group"), ("union", "semi")):
        a, b = archive.run(one), archive.run(two)
        closures = [{n.id for n, _ in archive.sealed.closure(run.nodes())} for run in (a, b)]
        found = a.compare(b)
        shared = closures[0] & closures[1]
        assert {n.id for n in found.left} == closures[0] - shared
        assert {n.id for n in found.right} == closures[1] - shared
        assert {n.id for n in found.common} <= shared
        below = {n.id for n, _ in archive.sealed.closure([n.id for n in found.common])}
        assert below == shared


def test_who_uses_a_record(vault: Vault) -> None:
    uses = {use.name: use.rows for use in vault.archive.uses("sales", "id = 3")}
    assert uses == {"group": 1, "groups": 1, "window": 1, "items": 1, "scalar": 5}
    assert list(vault.archive.uses("input", "sequence = 'none'")) == []
    with pytest.raises(UnknownNameError):
        vault.archive.uses("nobody")


def test_a_record_is_known_by_its_values_in_other_files(
    spark: Any, vault: Vault, tmp_path: Path
) -> None:
    place = vault.copy(tmp_path / "copy")
    write_sources(spark, tmp_path)
    whence.capture(spark.sql("SELECT id FROM sales"), name="elsewhere", archive=place, seal=True)
    used = {use.name for use in whence.open(place).uses("sales", "id = 3")}
    assert used == {"group", "groups", "window", "items", "scalar", "elsewhere"}
    use_sources(spark, vault.folder)


def test_the_same_questions_on_spark(spark: Any, vault: Vault) -> None:
    archive = vault.archive
    on_spark = archive.sealed_on(spark)
    for name in ("join", "group"):
        nodes = archive.run(name).nodes()
        assert on_spark.closure(nodes) == archive.sealed.closure(nodes)
    left, right = archive.run("join").nodes(), archive.run("left").nodes()
    assert on_spark.compare(left, right) == archive.sealed.compare(left, right)


def test_a_second_capture_adds_next_to_nothing(spark: Any, tmp_path: Path) -> None:
    rows = spark.range(20_000).selectExpr("id", "id % 7 AS k", "hex(id * 31) AS text")
    rows.coalesce(1).write.parquet(str(tmp_path / "big"))
    frame = spark.read.parquet(str(tmp_path / "big")).groupBy("k").count()
    place = tmp_path / "archive"
    sizes = []
    for name in ("one", "two"):
        whence.capture(frame, name=name, archive=place, mode="eager", seal=True)
        found = whence.open(place).store.datasets()
        sizes.append(sum(d.bytes for d in found if d.kind in SEAL_KINDS))
    assert len(tokens(whence.open(place))) == 20_007
    assert sizes[1] - sizes[0] < 0.01 * sizes[0]


@pytest.mark.parametrize("group", ["", "GROUP BY k"])
def test_of_a_union_only_the_rows_of_each_branch_are_stored(
    spark: Any, tmp_path: Path, group: str
) -> None:
    """Branches share a slot: the places of one are not those of the other."""
    for name, start in (("low", 0), ("high", 1000)):
        rows = spark.range(100).selectExpr(f"id + {start} AS id", "id % 3 AS k")
        rows.coalesce(1).write.parquet(str(tmp_path / name))
        spark.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    branches = "SELECT k FROM low WHERE id < 7 UNION ALL SELECT k FROM high WHERE id >= 1091"
    query = f"SELECT {'k, count(*) AS n' if group else 'k'} FROM ({branches}) {group}"
    run = whence.capture(spark.sql(query), archive=tmp_path / "a", mode="eager", seal=True)
    found = run.archive.sealed.find(form="source", limit=10**9)
    stored = {(node.source, node.row) for node in found}
    assert stored == {("low", r) for r in range(7)} | {("high", r) for r in range(91, 100)}
    assert run.archive.sealed.verify(tokens=True).ok


def test_space_and_forgetting(spark: Any, vault: Vault, tmp_path: Path) -> None:
    place = vault.copy(tmp_path / "copy")
    archive = whence.open(place)
    used = {use.name: use for use in archive.sealed.usage()}
    assert used["union"].nodes == 8
    assert used["union"].shared_nodes == 4
    assert all(use.own > 0 for use in used.values())
    before = set(tokens(archive))
    alone = [n.id for n, _ in archive.sealed.closure(archive.run("window").nodes())]
    last = archive.sealed.seals()[-1].id
    archive.forget(["window", "union"])
    archive = whence.open(place)
    assert {run.name for run in archive.runs()} == set(SHAPES) - {"window", "union"}
    report = whence.verify_archive(place, tokens=True, expect=last)
    assert report.findings == []
    assert set(tokens(archive)) < before
    gone = archive.sealed.nodes(alone)
    assert {node.form for node in gone if not node.token} <= {"unknown", "source"}
    assert any(not node.token for node in gone)
    with pytest.raises(UnknownNameError):
        archive.run("window")
    assert archive.gc(grace_seconds=0).count == 0
    # What was forgotten can be captured and sealed again.
    use_sources(spark, vault.folder)
    whence.capture(spark.sql(SHAPES["window"]), name="window", archive=place, seal=True)
    assert whence.verify_archive(place, tokens=True).findings == []


def test_all_runs_can_be_forgotten(vault: Vault, tmp_path: Path) -> None:
    place = vault.copy(tmp_path / "copy")
    whence.open(place).forget(list(SHAPES))
    archive = whence.open(place)
    assert archive.runs() == []
    assert archive.store.datasets() == []
    assert list((place / "datasets").iterdir()) == []
    assert whence.verify_archive(place).findings == []
    assert len(archive.sealed.seals()) == len(SHAPES) + 1


def test_what_others_build_on_is_not_forgotten(spark: Any, tmp_path: Path) -> None:
    place = tmp_path / "archive"
    first = whence.capture(spark.range(5), name="first", archive=place, mode="eager")
    whence.capture(first.output.where("id > 2"), name="second", archive=place, mode="eager")
    archive = whence.open(place)
    with pytest.raises(SelectionError, match="second"):
        archive.forget(["first"])
    archive.forget(["first", "second"])
    assert whence.open(place).runs() == []


@pytest.mark.parametrize("bits", [8, 256])
def test_rows_shared_with_a_forgotten_run_are_found_again(
    spark: Any, tmp_path: Path, bits: int
) -> None:
    rows = [(i, i % 3, f"n{i}") for i in range(300)]
    place = tmp_path / "archive"
    for name, listed in (("one", rows), ("two", [(999, 1, "x"), *reversed(rows)])):
        frame = spark.createDataFrame(listed, "id long, g int, name string").coalesce(1)
        frame.write.parquet(str(tmp_path / name))
        read = spark.read.parquet(str(tmp_path / name))
        run = whence.capture(read.groupBy("g").count(), name=name, archive=place, mode="eager")
        run.seal(bits=bits)
    tokens_before = tokens(whence.open(place))
    archive = whence.open(place)
    assert {d.name for d in archive.forget(["one"]).sources} == {"one"}
    archive = whence.open(place)
    assert whence.verify_archive(place, tokens=True).findings == []
    reached = archive.sealed.closure(archive.run("two").nodes())
    assert {node.source for node, _ in reached if node.form == "source"} == {"two"}
    assert len(whence.verify_proof(archive.run("two").prove("g = 0")).inputs) == 100
    assert set(tokens(archive)) <= set(tokens_before)
    assert [use.name for use in archive.uses("two", "id = 4")] == ["two"]
    again = spark.read.parquet(str(tmp_path / "one")).groupBy("g").count()
    whence.capture(again, name="one", archive=place, mode="eager", seal=True)
    assert whence.verify_archive(place, tokens=True).findings == []


def test_a_source_stays_while_its_rows_are_found_nowhere_else(spark: Any, tmp_path: Path) -> None:
    place = tmp_path / "archive"
    for name in ("one", "two"):
        spark.range(9).coalesce(1).write.parquet(str(tmp_path / name))
        read = spark.read.parquet(str(tmp_path / name))
        whence.capture(read.where("id > 3"), name=name, archive=place, seal=True)
    spark.range(5).coalesce(1).write.mode("overwrite").parquet(str(tmp_path / "two"))
    archive = whence.open(place)
    assert archive.forget(["one"]).sources == ()
    assert whence.verify_archive(place, tokens=True, sources=False).findings == []


def test_uses_are_found_in_every_version_of_a_source(spark: Any, tmp_path: Path) -> None:
    place, people = tmp_path / "archive", tmp_path / "people.csv"

    def capture(name: str, *columns: str) -> whence.Run:
        frame = spark.read.csv(str(people), header=True).select(*columns)
        return whence.capture(frame, name=name, archive=place, mode="eager")

    people.write_text("name,age,city\nann,5,x\nbob,6,y\n")
    capture("ages", "name", "age").seal()
    capture("cities", "name", "city").seal()
    people.write_text("name,age,city\nbob,6,y\n")
    capture("later", "name", "age").seal()
    unsealed = capture("unsealed", "name")
    found = whence.open(place).uses("people", "name = 'ann'")
    assert {use.name: use.rows for use in found} == {"ages": 1, "cities": 1}
    assert found.unseen == ("run unsealed reads people and is not sealed",)
    unsealed.seal()
    found = whence.open(place).uses("people", "age = 5")
    assert [use.name for use in found] == ["ages"]
    assert [text.split(":")[0] for text in found.unseen] == [
        "people, as read by cities",
        "people, as read by unsealed",
    ]


def test_a_source_that_is_gone_is_said_to_be_unseen(spark: Any, tmp_path: Path) -> None:
    place = tmp_path / "archive"
    for number in range(2):
        folder = tmp_path / f"{number}" / "people"
        spark.range(3 * number, 3 * number + 3).coalesce(1).write.parquet(str(folder))
        run = whence.capture(spark.read.parquet(str(folder)), name=f"run{number}", archive=place)
        run.seal(leaf_digests=False)
    (tmp_path / "0" / "people").rename(tmp_path / "elsewhere")
    found = whence.open(place).uses("people", "id = 4")
    assert [use.name for use in found] == ["run1"]
    assert any("as read by run0" in text for text in found.unseen)


@pytest.mark.parametrize("scheme", ["origin", "content"])
def test_files_shared_with_a_forgotten_run_stay_known(
    spark: Any, tmp_path: Path, scheme: Any
) -> None:
    place, folder = tmp_path / "archive", str(tmp_path / "table")
    spark.range(6).selectExpr("id", "id % 2 AS k").coalesce(1).write.parquet(folder)
    for name, schema in (("one", "id long"), ("two", "id long, k long")):
        frame = spark.read.schema(schema).parquet(folder).where("id > 1")
        run = whence.capture(frame, name=name, archive=place, mode="eager")
        run.seal(scheme=scheme)
    whence.open(place).forget(["one"])
    archive = whence.open(place)
    assert whence.verify_archive(place, tokens=True).findings == []
    assert whence.verify_proof(archive.run("two").prove("id = 3")).nodes == 1
    assert [use.name for use in archive.uses("table", "id = 3")] == ["two"]
    archive.forget(["two"])
    assert whence.open(place).store.datasets() == []
