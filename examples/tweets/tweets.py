"""Who is behind "Hello World"? Nested tweets, regrouped by user; one nested text traced back.

Run it with `python examples/tweets/tweets.py` in the environment that `make demo` made. The data,
the pipeline and the question are the running example of the paper on structural provenance.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import whence

DATA = Path("data/tweets.json")
ARCHIVE = "provenance"
PATTERN = "//id_str = 'lp', tweets[text = 'Hello World']{2}"

SCHEMA = """
    text string, user struct<id_str: string, name: string>,
    user_mentions array<struct<id_str: string, name: string>>, retweet_cnt int
"""
LP, LS, JM = (
    {"id_str": "lp", "name": "Lisa Paul"},
    {"id_str": "ls", "name": "Lauren Smith"},
    {"id_str": "jm", "name": "John Miller"},
)
TWEETS = [
    ("Hello @ls @jm @ls", LP, [LS, JM, LS], 0),
    ("Hello World", LP, [], 0),
    ("Hello World", LP, [], 0),
    ("This is me @jm", JM, [JM], 0),
    ("Hello @lp", JM, [LP], 1),
]


def pipeline(tweets: DataFrame) -> DataFrame:
    """Each user with the texts that they wrote and that mention them."""
    written = tweets.where("retweet_cnt = 0").select("text", "user.id_str", "user.name")
    mentioned = tweets.select("text", F.explode("user_mentions").alias("m")).select(
        "text", "m.id_str", "m.name"
    )
    return (
        written.union(mentioned)
        .select(F.struct("text").alias("tweet"), F.struct("id_str", "name").alias("user"))
        .groupBy("user")
        .agg(F.collect_list("tweet").alias("tweets"))
    )


def main() -> None:
    make_tweets()
    spark = start_spark()
    tweets = spark.read.schema(SCHEMA).json(str(DATA))
    run = whence.capture(pipeline(tweets), name="tweets", archive=ARCHIVE, mode="eager")
    run.output.orderBy("user").show(truncate=False)
    spark.stop()

    print(f"Which input cells are behind  {PATTERN}\n")
    trace = run.trace(whence.pattern(PATTERN))
    print(trace.tree("tweets"))
    print(f"\nThis answer is {trace.grade}.")


def make_tweets() -> None:
    DATA.parent.mkdir(exist_ok=True)
    names = ("text", "user", "user_mentions", "retweet_cnt")
    lines = [json.dumps(dict(zip(names, tweet, strict=True))) for tweet in TWEETS]
    text = "\n".join(lines) + "\n"
    if not DATA.exists() or DATA.read_text() != text:
        DATA.write_text(text)


def start_spark() -> SparkSession:
    """A local session that keeps quiet."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = Path(__file__).resolve().parent.parent / "late_orders" / "conf"
    os.environ.setdefault("SPARK_CONF_DIR", str(conf))
    return (
        SparkSession.builder.master("local[2]")
        .appName("tweets")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


if __name__ == "__main__":
    main()
