"""Sealing runs of NumPy functions, and of Spark pipelines that functions are followed through."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark import cloudpickle

import whence
import whence.arrays

pytestmark = [pytest.mark.spark, pytest.mark.slow]
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def levels(spark: Any, tmp_path: Path) -> Any:
    rows = pd.DataFrame({"id": range(8), "k": [i % 2 for i in range(8)], "v": np.arange(8.0) % 3})
    spark.createDataFrame(rows).coalesce(1).write.parquet(str(tmp_path / "levels"))
    return spark.read.parquet(str(tmp_path / "levels"))


def steps(v: Any, id: Any, by: float = 1.0) -> Any:
    return {"at": id[1:], "step": (v[1:] - v[:-1]) * by}


@whence.arrays.track
def from_the_one_before(v: Any) -> Any:
    return v - np.roll(v, 1)


@whence.arrays.track
def added(v: Any, w: Any) -> Any:
    return v + w


def centred(frame: pd.DataFrame) -> pd.DataFrame:
    made = from_the_one_before(frame["v"].to_numpy())
    return pd.DataFrame({"id": frame["id"].to_numpy(), "c": made})


def leaves(run: Any) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for node, _ in run.archive.sealed.closure(run.nodes()):
        if node.form == "source":
            found.setdefault(node.source, set()).add(node.row)
    return found


def traced(run: Any) -> dict[str, set[int]]:
    trace = run.trace()
    return {name: set(rows.locators()["row"].to_pylist()) for name, rows in trace.items()}


def test_an_array_run_is_sealed_over_the_run_it_reads(levels: Any, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    first = whence.capture(levels.where("id != 3").orderBy("id"), archive=archive)
    second = whence.capture_arrays(steps, first.array("v"), first.array("id"), by=2.0)
    second.seal()
    assert leaves(second) == traced(second)
    report = whence.open(archive).sealed.verify(tokens=True)
    assert report.findings == []
    assert report.seals == 2


@pytest.mark.full
def test_what_was_called_is_part_of_the_token(levels: Any, tmp_path: Path) -> None:
    def tokens(by: float) -> list[str]:
        first = whence.capture(levels.orderBy("id"), archive=tmp_path / str(by))
        run = whence.capture_arrays(steps, first.array("v"), first.array("id"), by=by)
        run.seal()
        return sorted(n.token for n in run.archive.sealed.nodes(run.nodes()))

    assert not set(tokens(1.0)) & set(tokens(3.0))


@pytest.mark.full
def test_a_followed_function_is_sealed(levels: Any, tmp_path: Path) -> None:
    frame = levels.groupBy("k").applyInPandas(centred, "id long, c double")
    run = whence.capture(frame, archive=tmp_path / "archive", seal=True)
    assert leaves(run) == traced(run)
    assert run.archive.sealed.verify(tokens=True).findings == []


def test_a_function_of_arrays_of_two_runs_is_sealed(levels: Any, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    one, two = (
        whence.capture(levels.where(rows).orderBy("id"), name=rows, archive=archive)
        for rows in ("id < 4", "id >= 4")
    )
    run = whence.capture_arrays(lambda v, w: {"s": v + w[::-1]}, one.array("v"), two.array("v"))
    run.seal()
    assert leaves(run) == traced(run) == {"levels": set(range(8))}
    shown = whence.verify_proof(run.prove("s = 4.0"))
    assert len(shown.inputs) == 2
    assert whence.open(archive).sealed.verify(tokens=True).findings == []


@pytest.mark.full
def test_a_followed_function_of_two_groups_is_sealed(levels: Any, tmp_path: Path) -> None:
    def sums(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"s": added(left["v"].to_numpy(), right["v"].to_numpy())})

    sides = [levels.where(rows).groupBy("k") for rows in ("id < 4", "id >= 4")]
    frame = sides[0].cogroup(sides[1]).applyInPandas(sums, "s double")
    run = whence.capture(frame, archive=tmp_path / "archive", seal=True)
    assert leaves(run) == traced(run)
    assert run.archive.sealed.verify(tokens=True).findings == []
