"""Members packed into one number each: what went in comes out; what does not fit is noticed."""

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from kit import Workshop
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import whence
from whence.algebra.packing import OVERFLOW, Extent, member_sql, member_values, pack, packed_sql
from whence.algebra.witness import (
    Choice,
    Item,
    Members,
    Nothing,
    Product,
    Row,
    from_json,
    slots,
    to_json,
)
from whence.spark.gateway import Gateway

pytestmark = pytest.mark.spark

A, B = Row("w1", "a"), Row("w2", "b")
SHAPES = {
    "two sources": (Product((A, B)), {"a": Extent(0), "b": Extent(4, 1000)}),
    "items of items": (Item(Item(A, "p1", "x"), "p2", "y"), {"a": Extent(3)}),
    "branches": (
        Choice("b1", (Item(A, "p1", "x"), Row("w1", "b"), Nothing())),
        {"a": Extent(2), "b": Extent(9, 5)},
    ),
    "a tag that is a position elsewhere": (
        Choice("b1", (Choice("p1", (A, Nothing())), Item(A, "p1", "x"))),
        {"a": Extent(1)},
    ),
}


def packed_shape(name: str) -> Members:
    element, extents = SHAPES[name]
    names = slots(element)
    packed = pack(element, names, ["n0"], extents)
    assert packed, "they fit"
    assert packed[-1].low + packed[-1].bits <= 63
    return Members("m", "aggregate-1", element, packed=packed)


def rows_of(shape: Members) -> list[dict[str, Any]]:
    """Values that fit, the largest among them, and nulls."""
    rows: list[dict[str, Any]] = []
    for number in range(6):
        row: dict[str, Any] = {}
        for field in shape.packed:
            largest = (1 << field.rows) - 2
            above = (1 << (field.bits - field.rows)) - 1
            match field.kind:
                case "flag":
                    row[field.name] = number % 2 == 0
                case "number":
                    row[field.name] = [0, 1, None, min(largest, 2**31 - 1), None, 2][number]
                case "locator":
                    far = (above << 40) + largest
                    row[field.name] = [0, far, None, largest, above << 40, 3][number]
        rows.append(row)
    return rows


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_packed_comes_out_again(workshop: Workshop, name: str) -> None:
    shape = packed_shape(name)
    rows = rows_of(shape)
    kinds = {"locator": "bigint", "number": "int", "flag": "boolean"}
    schema = ", ".join(f"{f.name} {kinds[f.kind]}" for f in shape.packed)
    names = [f.name for f in shape.packed]
    frame = workshop.session.createDataFrame([[r[n] for n in names] for r in rows], schema)
    text = packed_sql(shape.packed, {n: n for n in names})
    numbers = [row.m for row in frame.selectExpr(f"{text} AS m").collect()]
    assert [dict(member_values(shape, number)) for number in numbers] == rows
    columns = [f"{member_sql(shape, n, str)} AS {n}" for n in names]
    again = workshop.session.createDataFrame([[n] for n in numbers], "m bigint")
    assert [row.asDict() for row in again.selectExpr(*columns).collect()] == rows
    found = duckdb.sql(
        f"SELECT {', '.join(columns)} FROM (SELECT unnest({numbers}) AS m)"
    ).fetchall()
    assert [dict(zip(names, row, strict=True)) for row in found] == rows
    assert from_json(to_json(shape)) == shape


def test_what_does_not_fit_is_noticed(workshop: Workshop) -> None:
    shape = packed_shape("items of items")
    text = packed_sql(shape.packed, {"w1": "w1", "p1": "p1", "p2": "3", "n0": "true"})
    width = {f.name: f.rows for f in shape.packed}
    for row, place in [((1 << width["w1"]) - 1, 0), (0, (1 << width["p1"]) - 1)]:
        frame = workshop.session.sql(f"SELECT {row}L AS w1, {place} AS p1")
        with pytest.raises(Exception, match=OVERFLOW):
            frame.selectExpr(f"{text} AS m").collect()


def test_too_many_slots_are_not_packed() -> None:
    element, extents = Product((A, B, Row("w3", "a"))), {"a": Extent(0), "b": Extent(0)}
    assert pack(element, ["w1", "w2", "w3"], [], extents) == ()
    assert pack(Product((A, B)), ["w1", "w2"], [], {"a": Extent(0)}) == ()
    shared = Choice("b1", (A, Row("w1", "b")))
    assert pack(shared, ["b1", "w1"], [], {"a": Extent(0)}) == ()
    assert pack(shared, ["b1", "w1"], [], extents)


@pytest.mark.parametrize("length", [3, 70_000])
def test_a_group_of_items_of_items(workshop: Workshop, length: int) -> None:
    """Long arrays do not fit into 63 bits beside another position: the capture runs again."""
    folder, archive = str(workshop.folder()), workshop.folder()
    made = workshop.session.range(4).selectExpr(
        "id", "array(10, 20) AS few", f"sequence(1, {length}) AS many"
    )
    made.repartition(3).write.parquet(folder)
    source = workshop.session.read.parquet(folder)
    items = source.select("id", F.explode("few").alias("f"), "many").select(
        "id", "f", F.explode("many").alias("v")
    )
    near = items.where(f"v IN (1, {length})")
    both = near.union(source.select("id", F.lit(0).alias("f"), F.lit(0).alias("v")))
    frame = both.groupBy("v").agg(F.collect_list(F.struct("id", "f")).alias("seen"))
    run = whence.capture(frame, archive=archive, mode="eager", progress=False)
    assert bool(run.stored.steps[-1].document["witness"]["packed"]) == (length == 3)
    for row in run.to_arrow().to_pylist():
        for place, item in enumerate(row["seen"]):
            trace = run.trace(whence.pattern(f"v = {row['v']}, seen[{place}]"))
            cells = trace.cells().filter(pc.field("role") == "contributing").to_pylist()
            (found,) = [c for c in cells if c["path"] == "id"]
            ids = pq.read_table(found["file"])["id"]
            assert ids[found["row"]].as_py() == item["id"]
            places = {c["path"] for c in cells if c["path"].startswith("few")}
            assert places == {0: set(), 10: {"few[0]"}, 20: {"few[1]"}}[item["f"]]
    (step,) = run.stored.steps
    assert [path.name for path in (archive / "datasets").iterdir()] == [step.output]


@pytest.mark.parametrize("packed", [True, False])
def test_members_of_a_list_are_not_looked_up_in_a_dictionary(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    """Neither numbers that have all slots of a member in them, nor locators by themselves."""
    written: list[Mapping[str, str]] = []
    write = Gateway.write_parquet

    def noted(self: Gateway, frame: DataFrame, folder: str, options: Mapping[str, str]) -> None:
        written.append(options)
        write(self, frame, folder, options)

    monkeypatch.setattr(Gateway, "write_parquet", noted)
    folder = str(workshop.folder())
    workshop.session.range(9).selectExpr("id % 3 AS k", "array(1, 2) AS v").write.parquet(folder)
    rows = workshop.session.read.parquet(folder)
    frame = (rows.select("k", F.explode("v")) if packed else rows).groupBy("k").count()
    run = whence.capture(frame.coalesce(1), archive=workshop.folder(), mode="eager", progress=False)
    witness, path = _written(run)
    assert bool(witness["packed"]) == packed
    column = f"{witness['slot']}.list.element"
    assert column in [found.path_in_schema for found in _columns(path)]
    assert written[-1][f"parquet.enable.dictionary#{column}"] == "false"


def _written(run: whence.Run) -> tuple[dict[str, Any], str]:
    """The witness of a run of one step, and the only file of its output."""
    (step,) = run.stored.steps
    dataset = run.archive.store.dataset(step.output)
    (path,) = run.archive.store.file_paths(dataset)
    return step.document["witness"], path.removeprefix("file:")


def _columns(path: str) -> list[pq.ColumnChunkMetaData]:
    group = pq.read_metadata(path).row_group(0)
    return [group.column(number) for number in range(group.num_columns)]
