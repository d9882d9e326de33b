"""Sealing: space and time on TPC-H, closures, and how much repeated records save.

    python -m benchmarks seal tpch --scale 0.1          space, capture and sealing time, closures
    python -m benchmarks seal reuse --rows 2000         curves over the share of unique records

Space is that of nodes, edges, their index and roots over input plus output, the input counted as
CSV text. The baseline of the curves writes each row's provenance polynomial as text beside it.
"""

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb

import whence
from benchmarks.tpch import TABLES, query, session, tables
from whence.archive.model import SEAL_KINDS

SOURCES = {1: ["lineitem"], 3: ["customer", "orders", "lineitem"]}
SOURCES[5] = [*SOURCES[3], "supplier", "nation", "region"]


def csv_bytes(path: Path) -> int:
    """The size of a table as CSV text."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "t.csv"
        duckdb.sql(f"COPY (FROM '{path}') TO '{target}' (HEADER false, DELIMITER '|')")
        return target.stat().st_size


def sealed_bytes(archive: whence.Archive) -> dict[str, int]:
    found: dict[str, int] = {}
    for dataset in archive.store.datasets():
        if dataset.kind in SEAL_KINDS:
            found[dataset.kind] = found.get(dataset.kind, 0) + dataset.bytes
    return found


def tpch(arguments: argparse.Namespace) -> None:
    spark = session(arguments.memory)
    data = tables(arguments.scale, Path(arguments.data))
    for name in TABLES:
        spark.read.parquet(str(data / f"{name}.parquet")).createOrReplaceTempView(name)
    sizes = {name: csv_bytes(data / f"{name}.parquet") for name in SOURCES[5]}
    for number in arguments.queries:
        base = sum(sizes[name] for name in SOURCES[number])
        for leaf_digests in (True, False):
            print(json.dumps(_query(spark, number, base, leaf_digests, arguments.repeat)))


def _query(spark: Any, number: int, base: int, leaf_digests: bool, repeat: int) -> dict[str, Any]:
    captures, seals = [], []
    for _ in range(repeat):
        work = Path(tempfile.mkdtemp(prefix="whence-seal-"))
        started = time.monotonic()
        run = whence.capture(spark.sql(query(number)), archive=work, mode="eager", progress=False)
        captures.append(time.monotonic() - started)
        started = time.monotonic()
        run.seal(leaf_digests=leaf_digests, progress=False)
        seals.append(time.monotonic() - started)
        archive = whence.open(work)
        parts = sealed_bytes(archive)
        ratio = sum(parts.values()) / (base + len(run.to_arrow().to_pandas().to_csv()))
        closure = _closure_seconds(archive)
        started = time.monotonic()
        assert archive.sealed.verify().ok
        verify = time.monotonic() - started
        shutil.rmtree(work)
    return {
        "query": number,
        "leaf_digests": leaf_digests,
        "input_csv": base,
        **parts,
        "ratio": round(ratio, 4),
        "capture": round(statistics.median(captures), 2),
        "seal": round(statistics.median(seals), 2),
        "closure_of_1000": round(closure, 3),
        "verify": round(verify, 2),
    }


def _closure_seconds(archive: whence.Archive) -> float:
    """The time to find all that 1,000 nodes lead to, forward; the median of five."""
    table = archive.sealed.table
    rows = table.engine.run(f"SELECT DISTINCT input FROM {table.edges} AS e LIMIT 1000")
    nodes = [row[0] for row in rows]
    times = []
    for _ in range(5):
        started = time.monotonic()
        archive.sealed.closure(nodes, "derived")
        times.append(time.monotonic() - started)
    return statistics.median(times)


# --- Reuse --------------------------------------------------------------------------------------


def reuse(arguments: argparse.Namespace) -> None:
    """Ten queries over ten files with a controlled share of unique records, three schemes."""
    spark = session(arguments.memory)
    for unique in arguments.unique:
        for scheme in ("value", "origin", "content"):
            print(json.dumps(_workload(spark, arguments.rows, unique, scheme)))


def _workload(spark: Any, rows: int, unique: float, scheme: str) -> dict[str, Any]:
    draw = random.Random(11)
    work = Path(tempfile.mkdtemp(prefix="whence-reuse-"))
    letters = "acgt"
    pool = [
        (f"g{i % 97}", "".join(draw.choices(letters, k=60))) for i in range(int(rows * 10 * unique))
    ]
    text = base = 0
    for number in range(10):
        chosen = [draw.choice(pool) for _ in range(rows)]
        path = str(work / f"d{number % 5 if scheme != 'value' else number}-{number}")
        spark.createDataFrame(chosen, "gene string, seq string").coalesce(1).write.parquet(path)
        base += sum(len(gene) + len(seq) + 2 for gene, seq in chosen)
        spark.read.parquet(path).createOrReplaceTempView("reads")
        cut = draw.choice((8, 12, 16))
        frame = spark.sql(
            f"SELECT a.gene, substring(a.seq, 1, {cut}) AS prefix, count(*) AS n "
            "FROM reads AS a GROUP BY a.gene, a.seq"
        )
        run = whence.capture(frame, archive=work / "a", mode="eager", progress=False)
        run.seal(scheme=scheme, progress=False)
        text += len(run.trace().how(rows=10**9, terms=10**9))
    parts = sealed_bytes(whence.open(work / "a"))
    shutil.rmtree(work)
    return {
        "unique": unique,
        "scheme": scheme,
        "sealed": round(sum(parts.values()) / base, 3),
        "polynomials_as_text": round(text / base, 3),
    }


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks seal")
    parser.add_argument("what", nargs="?", choices=("tpch", "reuse"), default="tpch")
    parser.add_argument("--scale", default="0.01")
    parser.add_argument("--data", default="data")
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--queries", type=int, nargs="*", default=[1, 3, 5])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--unique", type=float, nargs="*", default=[0.05, 0.2, 0.5, 0.8, 1.0])
    found = parser.parse_args(arguments)
    {"tpch": tpch, "reuse": reuse}[found.what](found)
