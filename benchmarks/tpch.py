"""TPC-H with and without whence: ratios in one process, alternating, medians.

    python -m benchmarks tpch --scale 1 --modes eager lazy auto --repeat 3

Each query writes its result as plain Parquet, then is captured in each mode, over and over, the
first round not being counted and the heap cleared before each; the ratio of a mode is its median
time over the plain median. `fixed` is what capturing costs outside Spark's jobs: reading,
instrumenting, committing. `trace` is the backward trace of one output row of the eager run, warm,
with all its locators. Memory is the largest resident size of driver and JVM.
"""

import argparse
import contextlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import duckdb
import psutil
from pyspark.sql import SparkSession

import whence
from whence.spark.gateway import Gateway

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
QUERIES = Path(__file__).parent / "queries"


def query(number: int) -> str:
    return (QUERIES / f"q{number:02d}.sql").read_text()


def tables(scale: str, root: Path) -> Path:
    """TPC-H tables at a scale, made if they are not there."""
    folder = root / f"tpch-{scale}"
    if not (folder / "supplier.parquet").exists():
        command = Path(sys.executable).parent / "tpchgen-cli"
        arguments = ["parquet", "-s", scale, "--output-dir", str(folder)]
        subprocess.run([command, *arguments], check=True, capture_output=True)
    return folder


def session(memory: str) -> SparkSession:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", memory)
        .config("spark.sql.shuffle.partitions", "8")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def settle(spark: SparkSession) -> None:
    """Clear the heap and write out files, so that nobody pays for what the run before left."""
    spark.sparkContext._jvm.System.gc()
    os.sync()


def plain(spark: SparkSession, sql: str, folder: Path) -> float:
    settle(spark)
    started = time.monotonic()
    spark.sql(sql).write.mode("overwrite").parquet(str(folder))
    return time.monotonic() - started


def captured(spark: SparkSession, sql: str, mode: str, folder: Path) -> tuple[float, float, object]:
    """Seconds in all, seconds outside Spark's jobs, and the run."""
    settle(spark)
    before = Gateway.total_job_seconds
    started = time.monotonic()
    run = whence.capture(spark.sql(sql), archive=folder, mode=mode, progress=False)
    seconds = time.monotonic() - started
    return seconds, seconds - (Gateway.total_job_seconds - before), run


def witness_size(run: whence.Run) -> tuple[int, int]:
    """Bytes of the slots of a run, and how many locators they hold."""
    store = run.archive.store
    size = locators = 0
    for dataset_id in [i for step in run.stored.steps for i in (step.output, *step.groups)]:
        for path in store.file_paths(store.dataset(dataset_id)):
            meta = duckdb.sql(
                "SELECT coalesce(sum(total_compressed_size), 0), coalesce(sum(CASE WHEN "
                "path_in_schema LIKE '%\\_\\_whence\\_w%' ESCAPE '\\' OR path_in_schema LIKE "
                "'%element%' THEN num_values END), 0) FROM parquet_metadata(?) "
                "WHERE path_in_schema LIKE '%\\_\\_whence\\_%' ESCAPE '\\'",
                params=[path],
            ).fetchall()[0]
            size += meta[0]
            locators += meta[1]
    return int(size), int(locators)


def traced(run: whence.Run) -> float:
    """Seconds for the trace of one row: the median of five, after a first one."""
    row = run.to_arrow().slice(0, 1).to_pylist()
    seconds = []
    for _ in range(6):
        started = time.monotonic()
        trace = run.trace(row)
        for rows in trace.values():
            rows.locators()
        seconds.append(time.monotonic() - started)
    return statistics.median(seconds[1:])


class Memory:
    """The largest resident size, of this process and those it started, while it watches."""

    def __init__(self) -> None:
        self.peak = 0
        self._own = psutil.Process()
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Memory":
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watch.join()

    def _look(self) -> None:
        while not self._done.wait(0.2):
            size = 0
            for process in (self._own, *self._own.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    size += process.memory_info().rss
            self.peak = max(self.peak, size)


def measure(spark, number, modes, repeat, work) -> dict:
    sql = query(number)
    times: dict[str, list[float]] = {"plain": [], **{mode: [] for mode in modes}}
    fixed: dict[str, list[float]] = {mode: [] for mode in modes}
    result: dict = {"query": number}
    for turn in range(repeat + 1):  # the first round warms up, for plain as for captured runs
        times["plain"].append(plain(spark, sql, work / "plain"))
        for mode in modes:
            seconds, outside, run = captured(spark, sql, mode, work / "archive")
            times[mode].append(seconds)
            fixed[mode].append(outside)
            if mode == "eager" and turn == repeat:
                result["bytes"], result["locators"] = witness_size(run)
                if run.to_arrow().num_rows:
                    result["trace"] = traced(run)
    base = statistics.median(times["plain"][1:])
    result["plain"] = base
    for mode in modes:
        result[mode] = statistics.median(times[mode][1:]) / base
        result[f"{mode}_fixed"] = statistics.median(fixed[mode][1:])
    shutil.rmtree(work / "archive", ignore_errors=True)
    return result


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks tpch")
    parser.add_argument("--scale", default="0.1")
    parser.add_argument("--modes", nargs="+", default=["eager", "lazy", "auto"])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--queries", nargs="+", type=int, default=list(range(1, 23)))
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--memory", default="8g")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--markdown", type=Path, help="write a table for docs/benchmarks.md here")
    options = parser.parse_args(arguments)
    folder = tables(options.scale, options.data)
    spark = session(options.memory)
    for table in TABLES:
        spark.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
    rows = []
    with tempfile.TemporaryDirectory(dir=options.data) as scratch, Memory() as memory:
        work = Path(scratch)
        for number in options.queries:
            row = measure(spark, number, options.modes, options.repeat, work)
            rows.append(row)
            print(_line(row, options.modes), flush=True)
    for mode in options.modes:
        mean = geometric_mean([row[mode] for row in rows])
        worst = max(rows, key=lambda row: row[mode])
        fixed = max(row[f"{mode}_fixed"] for row in rows)
        print(
            f"{mode}: geometric mean {mean:.3f}, worst {worst[mode]:.2f} (Q{worst['query']}), "
            f"largest fixed cost {fixed:.2f} s"
        )
    print(f"largest memory {memory.peak / 2**30:.1f} GiB")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    if options.markdown:
        options.markdown.write_text(_markdown(rows, options.modes))


def _markdown(rows: list[dict], modes: list[str]) -> str:
    names = ["query", "plain, s", *modes, *(f"{m} fixed, s" for m in modes)]
    names += ["bytes a locator", "trace, ms"]
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for row in rows:
        each = f"{row['bytes'] / row['locators']:.2f}" if row.get("locators") else "-"
        cells = [f"Q{row['query']}", f"{row['plain']:.2f}"]
        cells += [f"{row[mode]:.2f}" for mode in modes]
        cells += [f"{row[f'{mode}_fixed']:.2f}" for mode in modes]
        took = f"{row['trace'] * 1000:.0f}" if "trace" in row else "-"
        lines.append("| " + " | ".join([*cells, each, took]) + " |")
    means = [f"{geometric_mean([row[mode] for row in rows]):.2f}" for mode in modes]
    blanks = [""] * (len(modes) + 2)
    lines.append("| " + " | ".join(["geometric mean", "", *means, *blanks]) + " |")
    return "\n".join(lines) + "\n"


def _line(row: dict, modes: list[str]) -> str:
    parts = [f"Q{row['query']:<2} plain {row['plain']:6.2f} s"]
    parts += [f"{mode} {row[mode]:.2f} (fixed {row[f'{mode}_fixed']:.2f} s)" for mode in modes]
    if row.get("locators"):
        each = row["bytes"] / row["locators"]
        parts.append(f"{row['bytes']:,} bytes, {row['locators']:,} locators, {each:.2f} each")
    if "trace" in row:
        parts.append(f"trace {row['trace'] * 1000:.0f} ms")
    return "  ".join(parts)
