"""Nested tweets with and without whence: scenarios T1 to T5, captured and one pattern traced back.

    python -m benchmarks tweets --megabytes 100 --formats parquet json --repeat 3

Tweets are generated with a seed: hundreds of attributes wide, eight levels deep, and with few users
who are mentioned often. Each scenario writes its result as plain Parquet and is captured twice:
`rows` without what only cells need (which member gave which item of a list), `cells` as whence
captures. The three take turns in going first. `trace` is the time of matching a pattern and going
back to cells, as a share of the plain pipeline's time.
"""

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import whence
from benchmarks.tpch import geometric_mean, session, settle
from whence.capturing import Mode
from whence.spark.instrument import groups

WORDS = ("good", "day", "BTS", "coffee", "data", "spark", "rain", "late", "again", "hello")
PADDING = 200
BYTES = {"json": 5_070, "parquet": 1_070}  # of a tweet, about


def tweets(spark: SparkSession, rows: int, seed: int = 7) -> DataFrame:
    """Tweets made by Spark, the same for the same seed."""

    def pick(name: str, among: int, column: str = "id") -> Column:
        return F.pmod(F.xxhash64(F.col(column), F.lit(f"{seed}-{name}")), F.lit(among))

    def word(name: str) -> Column:
        return F.element_at(F.array(*map(F.lit, WORDS)), (pick(name, len(WORDS)) + 1).cast("int"))

    def skewed(name: str) -> Column:
        """Few users are named often: the square of a number that is evenly spread."""
        part = pick(name, 1_000_003) / 1_000_003.0
        return F.floor(part * part * (rows / 4.0 + 1))

    def user(number: Column) -> Column:
        padding = [F.concat(F.lit(f"p{i}-"), number).alias(f"profile_{i}") for i in range(20)]
        return F.struct(
            F.concat(F.lit("u"), number).alias("id_str"),
            F.concat(F.lit("User "), number).alias("name"),
            *padding,
        )

    def mentions(count: int) -> Column:
        each = [
            F.struct(
                F.concat(F.lit("u"), skewed(f"m{i}")).alias("id_str"),
                F.concat(F.lit("User "), skewed(f"m{i}")).alias("name"),
                F.array(F.lit(i), F.lit(i + 5)).alias("indices"),
            )
            for i in range(count)
        ]
        return F.slice(F.array(*each), F.lit(1), pick("mentions", count + 1).cast("int"))

    def tags(count: int) -> Column:
        each = [
            F.struct(word(f"h{i}").alias("text"), F.array(F.lit(i)).alias("indices"))
            for i in range(count)
        ]
        return F.slice(F.array(*each), F.lit(1), pick("tags", count + 1).cast("int"))

    size = F.struct(pick("w", 900).alias("w"), pick("h", 900).alias("h"))
    deep = F.struct(
        F.struct(
            F.struct(
                F.struct(F.array(F.struct(size.alias("size"))).alias("variants")).alias("video")
            ).alias("info")
        ).alias("extended")
    ).alias("more")
    media = F.when(
        pick("media", 3) == 0,
        F.array(F.struct(F.concat(F.lit("http://m/"), F.col("id")).alias("url"), deep)),
    )
    padding = [pick(f"a{i}", 100_000).alias(f"attribute_{i}") for i in range(PADDING)]
    text = F.concat_ws(" ", *(word(f"w{i}") for i in range(4)))
    return spark.range(rows).select(
        F.concat(F.lit("t"), F.col("id")).alias("id_str"),
        text.alias("text"),
        user(skewed("author")).alias("user"),
        mentions(4).alias("user_mentions"),
        tags(3).alias("hashtags"),
        F.coalesce(media, F.array().cast(_MEDIA)).alias("media"),
        F.when(pick("retweet", 3) > 0, F.lit(0)).otherwise(F.lit(2)).alias("retweet_cnt"),
        *padding,
    )


_MEDIA = (
    "array<struct<url: string, more: struct<extended: struct<info: struct<video: struct<variants: "
    "array<struct<size: struct<w: bigint, h: bigint>>>>>>>>>"
)


def t1(frame: DataFrame) -> DataFrame:
    """Good tweets, as complex objects, by the users whom they mention."""
    good = frame.where("text like '%good%'").select(
        F.struct("id_str", "text", "user", "hashtags", "media").alias("tweet"),
        F.explode("user_mentions").alias("m"),
    )
    return good.groupBy("m.id_str", "m.name").agg(F.collect_list("tweet").alias("tweets"))


def t2(frame: DataFrame) -> DataFrame:
    """Hashtags, media and mentions, unnested."""
    return (
        frame.withColumn("tag", F.explode("hashtags"))
        .withColumn("medium", F.explode("media"))
        .withColumn("mention", F.explode("user_mentions"))
        .select("text", "tag.text", "medium", F.col("mention.id_str").alias("mentioned"))
        .toDF("text", "tag", "medium", "mentioned")
    )


def t3(frame: DataFrame) -> DataFrame:
    """The running example: users with the texts that they wrote or are mentioned in."""
    written = frame.where("retweet_cnt = 0").select("text", "user.id_str", "user.name")
    mentioned = frame.select("text", F.explode("user_mentions").alias("m")).select(
        "text", "m.id_str", "m.name"
    )
    both = written.union(mentioned).select(
        F.struct("text").alias("tweet"), F.struct("id_str", "name").alias("user")
    )
    return both.groupBy("user").agg(F.collect_list("tweet").alias("tweets"))


def t4(frame: DataFrame) -> DataFrame:
    """Hashtags with the users who wrote them or are mentioned beside them."""
    tagged = frame.withColumn("tag", F.explode("hashtags"))
    authors = tagged.select(F.col("tag.text").alias("tag"), "user.id_str", "user.name")
    mentioned = tagged.withColumn("m", F.explode("user_mentions")).select(
        F.col("tag.text").alias("tag"), "m.id_str", "m.name"
    )
    both = authors.union(mentioned).select("tag", F.struct("id_str", "name").alias("user"))
    return both.groupBy("tag").agg(F.collect_list("user").alias("users"))


def t5(frame: DataFrame) -> DataFrame:
    """Users who tweet about BTS and are mentioned in a tweet about BTS."""
    about = frame.where("text like '%BTS%'")
    authors = about.select(F.col("user.id_str").alias("author"), "text")
    mentioned = about.select(F.explode("user_mentions").alias("m"), F.col("id_str").alias("by"))
    found = mentioned.select(F.col("m.id_str").alias("mentioned"), "m.name", "by")
    return authors.join(found, F.col("author") == F.col("mentioned")).select(
        "author", "name", "text", "by"
    )


SCENARIOS: dict[str, tuple[Any, str]] = {
    "T1": (t1, "id_str = 'u0', tweets[0].text"),
    "T2": (t2, "mentioned = 'u0', medium//w, tag"),
    "T3": (t3, "user.id_str = 'u0', tweets[0].text"),
    "T4": (t4, "tag = 'coffee', users[0].id_str"),
    "T5": (t5, "author = 'u0', name, text"),
}


@contextlib.contextmanager
def rows_only() -> Iterator[None]:
    """Capture without what only cells need."""
    own = groups.find_collections
    groups.find_collections = lambda *_: []
    try:
        yield
    finally:
        groups.find_collections = own


def captured(
    frame: DataFrame, archive: Path, mode: Mode = "eager"
) -> tuple[float, int, whence.Run]:
    """Seconds, bytes of what was written, and the run."""
    started = time.monotonic()
    run = whence.capture(frame, archive=archive, mode=mode, progress=False)
    seconds = time.monotonic() - started
    store = run.archive.store
    own = [i for step in run.stored.steps for i in (step.output, *step.groups)]
    return seconds, sum(store.dataset(i).bytes for i in own), run


def written(frame: DataFrame, folder: Path) -> float:
    """Seconds that the pipeline takes to write its result as plain Parquet."""
    started = time.monotonic()
    frame.write.mode("overwrite").parquet(str(folder))
    return time.monotonic() - started


def measure(
    spark: SparkSession, source: Any, name: str, repeat: int, work: Path, mode: Mode
) -> dict[str, Any]:
    pipeline, text = SCENARIOS[name]
    times: dict[str, list[float]] = {"plain": [], "rows": [], "cells": [], "trace": []}
    ways = ["plain", "rows", "cells"]
    sizes: dict[str, int] = {}
    runs: dict[str, whence.Run] = {}
    for number in range(repeat + 1):  # the first round warms up
        for place in range(len(ways)):
            way = ways[(place + number) % len(ways)]
            settle(spark)
            if way == "plain":
                times[way].append(written(pipeline(source()), work / "plain"))
                continue
            with rows_only() if way == "rows" else contextlib.nullcontext():
                seconds, sizes[way], runs[way] = captured(
                    pipeline(source()), work / "archive", mode
                )
            times[way].append(seconds)
        run = runs["cells"]
        started = time.monotonic()
        trace = run.trace(whence.pattern(text))
        cells = trace.cells().num_rows
        times["trace"].append(time.monotonic() - started)
    middle = {kind: statistics.median(found[1:]) for kind, found in times.items()}
    each = [c / p for c, p in zip(times["cells"][1:], times["plain"][1:], strict=True)]
    return {
        "scenario": name,
        "plain": middle["plain"],
        "rows": middle["rows"] / middle["plain"],
        "cells": middle["cells"] / middle["plain"],
        "least": min(each),
        "most": max(each),
        "time": middle["cells"] / middle["rows"],
        "bytes": sizes["cells"] / sizes["rows"],
        "trace": middle["trace"],
        "share": middle["trace"] / middle["plain"],
        "chosen": trace.rows,
        "found": cells,
        "grade": trace.grade,
    }


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks tweets")
    parser.add_argument("--megabytes", type=int, default=50, help="of files in each format, about")
    parser.add_argument("--formats", nargs="+", default=["parquet", "json"])
    parser.add_argument("--scenarios", nargs="+", default=list(SCENARIOS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--memory", default="8g")
    parser.add_argument("--mode", choices=["eager", "auto", "lazy"], default="eager")
    options = parser.parse_args(arguments)
    spark = session(options.memory)
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        for kind in options.formats:
            rows = options.megabytes * 1_000_000 // BYTES[kind]
            made = tweets(spark, rows)
            made.write.format(kind).save(str(work / kind))
            size = sum(f.stat().st_size for f in (work / kind).rglob("part-*")) / 1e6
            print(f"{kind}: {rows:,} tweets, {size:,.0f} MB", flush=True)
            results = []
            for name in options.scenarios:

                def source(kind: str = kind, schema: Any = made.schema) -> DataFrame:
                    return spark.read.schema(schema).format(kind).load(str(work / kind))

                place = work / f"{kind}-{name}"
                row = measure(spark, source, name, options.repeat, place, options.mode)
                results.append(row)
                print(
                    f"  {name} plain {row['plain']:6.2f} s  rows {row['rows']:.2f}  cells "
                    f"{row['cells']:.2f} ({row['least']:.2f} to {row['most']:.2f}) = "
                    f"{row['time']:.3f} of rows, bytes {row['bytes']:.4f}  "
                    f"trace {row['trace']:.2f} s = {row['share']:.1%} of plain  "
                    f"{row['chosen']} rows, {row['found']} cells, {row['grade']}",
                    flush=True,
                )
            for what in ("rows", "cells", "time", "bytes"):
                mean = geometric_mean([row[what] for row in results])
                print(f"  {what}: geometric mean {mean:.3f}", flush=True)
