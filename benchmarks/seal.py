"""Sealing: space and time on TPC-H, closures, and how much repeated records save.

    python -m benchmarks seal tpch --scale 0.1          space, capture and sealing time, closures
    python -m benchmarks seal reuse --rows 2000         curves over the share of unique records

Space is that of nodes, edges, their index and roots over input plus output, the input counted as
CSV text. The baseline of the curves writes each row's provenance polynomial as text beside it.
"""

import argparse
import itertools
import json
import random
import re
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


def sources(number: int) -> list[str]:
    """The tables that a query reads."""
    return [name for name in TABLES if re.search(rf"\b{name}\b", query(number))]


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
    sizes = {name: csv_bytes(data / f"{name}.parquet") for name in TABLES}
    for number in arguments.queries:
        base = sum(sizes[name] for name in sources(number))
        found: dict[bool, list[dict[str, float]]] = {True: [], False: []}
        for turn in range(arguments.repeat):
            # Each is first in half of the rounds, since captures get faster as the JVM warms up.
            for leaf_digests in (True, False) if turn % 2 == 0 else (False, True):
                found[leaf_digests].append(_round(spark, number, base, leaf_digests))
        for leaf_digests, rounds in found.items():
            middle = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
            print(json.dumps({"query": number, "leaf_digests": leaf_digests, **middle}), flush=True)


def _round(spark: Any, number: int, base: int, leaf_digests: bool) -> dict[str, float]:
    work = Path(tempfile.mkdtemp(prefix="whence-seal-"))
    started = time.monotonic()
    run = whence.capture(spark.sql(query(number)), archive=work, mode="eager", progress=False)
    capture = time.monotonic() - started
    started = time.monotonic()
    run.seal(leaf_digests=leaf_digests, progress=False)
    seal = time.monotonic() - started
    archive = whence.open(work)
    parts = sealed_bytes(archive)
    closure = _closure_seconds(archive)
    started = time.monotonic()
    assert archive.sealed.verify().ok
    verify = time.monotonic() - started
    output = len(run.to_arrow().to_pandas().to_csv())
    shutil.rmtree(work)
    return {
        "input_csv": base,
        **parts,
        "space": round(sum(parts.values()) / (base + output), 4),
        "capture": round(capture, 2),
        "seal": round(seal, 2),
        "seal_to_capture": round(seal / capture, 2),
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

RUNS = 10
SCHEMES = ("value", "origin", "content")
Record = tuple[str, str, str]


def reuse(arguments: argparse.Namespace) -> None:
    """Ten queries over ten files with a controlled share of unique records.

    Three kinds of queries by value, and one of them under every token scheme.
    """
    spark = session(arguments.memory)
    for unique in arguments.unique:
        for name in arguments.workloads:
            for scheme in SCHEMES if name == "genome" else SCHEMES[:1]:
                found = _workload(spark, name, arguments.rows, unique, scheme, arguments.bits)
                print(json.dumps(found), flush=True)


def _workload(
    spark: Any, name: str, rows: int, unique: float, scheme: str, bits: int
) -> dict[str, Any]:
    draw = random.Random(11)
    work = Path(tempfile.mkdtemp(prefix="whence-reuse-"))
    genes = [("".join(p), f"gene {i}") for i, p in enumerate(itertools.product("acgt", repeat=3))]
    library = _saved(spark, work / "library", genes, "prefix string, gene string")
    library.createOrReplaceTempView("library")
    files = {table: _files(draw, rows, unique) for table in ("records", "others")}
    text = base = 0
    for number in range(RUNS):
        tables = ["records", "others"] if name == "matching" else ["records"]
        for table in tables:
            chosen = files[table][number]
            # Two files may have one name: versions of it, over time.
            path = work / f"{table}-{draw.randrange(RUNS)}"
            frame = _saved(spark, path, chosen, "id string, block string, text string")
            frame.createOrReplaceTempView(table)
            base += sum(len(",".join(record)) + 1 for record in chosen)
        frame = spark.sql(QUERIES[name](draw))
        run = whence.capture(frame, archive=work / "a", mode="eager", progress=False)
        run.seal(scheme=scheme, bits=bits, progress=False)
        base += len(run.to_arrow().to_pandas().to_csv(index=False))
        text += len(run.trace().how(rows=10**9, terms=10**9))
    parts = sealed_bytes(whence.open(work / "a"))
    shutil.rmtree(work)
    return {
        "workload": name,
        "unique": unique,
        "scheme": scheme,
        "sealed": round(sum(parts.values()) / base, 3),
        "polynomials_as_text": round(text / base, 3),
    }


def _files(draw: random.Random, rows: int, unique: float) -> list[list[Record]]:
    """Ten files; of all their records together, this share differs from all others."""
    total = rows * RUNS
    pool = [
        (f"r{i}", f"b{draw.randrange(rows // 5)}", "".join(draw.choices("acgt", k=40)))
        for i in range(int(total * unique))
    ]
    records = [*pool, *draw.choices(pool, k=total - len(pool))]
    draw.shuffle(records)
    return [records[i * rows :][:rows] for i in range(RUNS)]


def _saved(spark: Any, path: Path, rows: list[Any], schema: str) -> Any:
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    frame.write.mode("overwrite").parquet(str(path))
    return spark.read.parquet(str(path))


def _genome(draw: random.Random) -> str:
    """Trim reads, look their genes up, count: much is aggregated."""
    start = draw.randrange(1, 5)
    return (
        f"SELECT gene, count(*) AS reads FROM (SELECT substring(text, {start}, 30) AS cut "
        "FROM records) JOIN library ON substring(cut, 1, 3) = prefix GROUP BY gene"
    )


def _matching(draw: random.Random) -> str:
    """Compare the records of two tables within blocks: much is joined, then aggregated."""
    length = draw.choice((20, 30, 40))
    return (
        f"SELECT a.id, avg(levenshtein(left(a.text, {length}), left(b.text, {length}))) AS far "
        "FROM records AS a JOIN others AS b ON a.block = b.block GROUP BY a.id"
    )


def _duplicates(draw: random.Random) -> str:
    """Pairs of one table that are alike: all that comes out was joined."""
    most = draw.choice((20, 21, 22))
    return (
        "SELECT a.id AS one, b.id AS other FROM records AS a JOIN records AS b "
        f"ON a.block = b.block AND a.id < b.id AND levenshtein(a.text, b.text) <= {most}"
    )


QUERIES = {"genome": _genome, "matching": _matching, "duplicates": _duplicates}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks seal")
    parser.add_argument("what", nargs="?", choices=("tpch", "reuse"), default="tpch")
    parser.add_argument("--scale", default="0.01")
    parser.add_argument("--data", default="data")
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--queries", type=int, nargs="*", default=[1, 3, 5])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--unique", type=float, nargs="*", default=[0.05, 0.25, 0.5, 0.75, 1.0])
    parser.add_argument("--workloads", nargs="*", choices=sorted(QUERIES), default=[*QUERIES])
    found = parser.parse_args(arguments)
    {"tpch": tpch, "reuse": reuse}[found.what](found)
