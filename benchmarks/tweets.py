"""Nested tweets with and without whence: scenarios T1 to T5, captured and one pattern traced back.

    python -m benchmarks tweets --megabytes 100 --formats parquet json --repeat 3

Tweets are generated with a seed: hundreds of attributes wide, eight levels deep, and with few users
who are mentioned often. Each scenario writes its result as plain Parquet and is then captured,
alternating; `trace` is the time of matching a pattern and going back to cells, as a share of the
plain pipeline's time.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import whence
from benchmarks.tpch import geometric_mean, session

WORDS = ("good", "day", "BTS", "coffee", "data", "spark", "rain", "late", "again", "hello")
PADDING = 200


def tweets(spark: SparkSession, rows: int, seed: int = 7) -> DataFrame:
    """Tweets made by Spark, the same for the same seed."""

    def pick(name: str, among: int, column: str = "id") -> Column:
        return F.pmod(F.xxhash64(F.col(column), F.lit(f"{seed}-{name}")), F.lit(among))

    def word(name: str) -> Column:
        return F.element_at(F.array(*map(F.lit, WORDS)), (pick(name, len(WORDS)) + 1).cast("int"))

    def skewed(name: str) -> Column:
        """Few users are named often: the square of a number that is evenly spread."""
        part = pick(name, 1000) / 1000.0
        return F.floor(part * part * part * (rows / 4.0 + 1))

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


def measure(spark: SparkSession, source: Any, name: str, repeat: int, work: Path) -> dict[str, Any]:
    pipeline, text = SCENARIOS[name]
    plain, captured, traced = [], [], []
    for _ in range(repeat):
        started = time.monotonic()
        pipeline(source()).write.mode("overwrite").parquet(str(work / "plain"))
        plain.append(time.monotonic() - started)
        started = time.monotonic()
        run = whence.capture(
            pipeline(source()), archive=work / "archive", mode="eager", progress=False
        )
        captured.append(time.monotonic() - started)
        started = time.monotonic()
        trace = run.trace(whence.pattern(text))
        cells = trace.cells().num_rows
        traced.append(time.monotonic() - started)
    base = statistics.median(plain)
    return {
        "scenario": name,
        "plain": base,
        "captured": statistics.median(captured) / base,
        "trace": statistics.median(traced),
        "share": statistics.median(traced) / base,
        "rows": trace.rows,
        "cells": cells,
        "grade": trace.grade,
    }


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks tweets")
    parser.add_argument("--megabytes", type=int, default=50, help="of JSON text, about")
    parser.add_argument("--formats", nargs="+", default=["parquet", "json"])
    parser.add_argument("--scenarios", nargs="+", default=list(SCENARIOS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--memory", default="8g")
    options = parser.parse_args(arguments)
    spark = session(options.memory)
    rows = options.megabytes * 1_000_000 // 6_800
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        made = tweets(spark, rows)
        for kind in options.formats:
            made.write.format(kind).save(str(work / kind))
            size = sum(f.stat().st_size for f in (work / kind).rglob("part-*")) / 1e6
            print(f"{kind}: {rows:,} tweets, {size:,.0f} MB", flush=True)
            results = []
            for name in options.scenarios:

                def source(kind: str = kind) -> DataFrame:
                    reader = spark.read.schema(made.schema).format(kind)
                    return reader.load(str(work / kind))

                row = measure(spark, source, name, options.repeat, work / kind / name)
                results.append(row)
                print(
                    f"  {name} plain {row['plain']:6.2f} s  captured {row['captured']:.2f}  "
                    f"trace {row['trace']:.2f} s = {row['share']:.1%} of plain  "
                    f"{row['rows']} rows, {row['cells']} cells, {row['grade']}",
                    flush=True,
                )
            mean = geometric_mean([row["captured"] for row in results])
            print(f"  geometric mean {mean:.3f}", flush=True)
