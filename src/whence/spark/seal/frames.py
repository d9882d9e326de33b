"""Frames of windows: groups that overlap, kept from growing with the square of a partition.

Each row of a running sum refers to all rows before it. Listed, that would be n²/2 edges. Instead
16 neighbouring ranks that lie whole inside a frame are one node, a block, 16 neighbouring blocks
are one of the next level, and so on; a frame is the bag of the fewest blocks and single members
that make it up. Which these are follows from its first and last rank alone.

    ranks 1 … 40, blocks of 16      [1 … 16] [17 … 32] 33 34 … 40
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from whence.algebra.witness import RANK, GroupShape
from whence.spark.seal.bags import CONTRIBUTES, BagHashes

_WIDTH = 16


def _partition(shape: GroupShape, prefix: str) -> str:
    """SQL: the key of a partition, as one value."""
    names = shape.keys
    fields = ", ".join(f"'{name}', {prefix}`{name}`" for name in names)
    return f"named_struct({fields})" if names else "named_struct('k', true)"


def framed(keys: DataFrame, shape: GroupShape) -> DataFrame:
    """Keys with their partition `p` and the frame's first and last rank, counted from 0."""
    assert shape.frame is not None
    low, high = shape.frame
    return keys.selectExpr(
        "k",
        f"{_partition(shape, 'k.')} AS p",
        f"greatest(CAST(k.`{low}` AS BIGINT) - 1, 0L) AS a",
        f"CAST(k.`{high}` AS BIGINT) - 1 AS b",
    )


def ranked(members: DataFrame, shape: GroupShape) -> DataFrame:
    """Members with their partition `p` and their rank `r`, counted from 0."""
    return members.selectExpr(
        "*", f"{_partition(shape, '')} AS p", f"CAST({RANK} AS BIGINT) - 1 AS r"
    )


def hashes(
    bags: BagHashes, keys: DataFrame, rows: DataFrame, name: str, level: int
) -> tuple[DataFrame, int]:
    """The hashes of frames by key, and the level of what is in them.

    `rows` are members with p, r and the columns of the part `name`.
    """
    last = rows.groupBy("p").agg(F.max("r").alias("last")).withColumnRenamed("p", "q")
    (highest,) = last.agg(F.max("last")).first() or (0,)
    ranges = keys.join(last, F.expr("p <=> q")).drop("q")
    ranges = ranges.selectExpr("k", "p", "a", "least(b, last) AS b")
    depth = 0
    while _WIDTH ** (depth + 1) <= (highest or 0) + 1:
        depth += 1
    pieces = bags.found.keep(_pieces(ranges, depth))
    needed = _needed(pieces, depth)
    parts = f"`{name}f`", f"`{name}s`", f"`{name}i`"
    current = rows.selectExpr("p", "r", *parts, CONTRIBUTES)
    inside = [_inside(pieces, current, 0)]
    for height in range(1, depth + 1):
        children = current.selectExpr(
            f"named_struct('p', p, 'r', r div {_WIDTH}L) AS k", *parts, CONTRIBUTES
        )
        wanted = needed[height].selectExpr("named_struct('p', p, 'r', r) AS w").distinct()
        children = children.join(wanted, F.expr("k <=> w"), "left_semi")
        blocks = bags.of(children, name, level + height)
        current = blocks.selectExpr(
            "k.p AS p",
            "k.r AS r",
            f"f AS `{name}f`",
            f"s AS `{name}s`",
            f"CAST(NULL AS BIGINT) AS `{name}i`",
            f"true AS {CONTRIBUTES}",
        )
        inside.append(_inside(pieces, current, height))
    members = reduce(DataFrame.unionByName, inside)
    return bags.of(members, name, level + depth + 1), level + depth


def _pieces(ranges: DataFrame, depth: int) -> DataFrame:
    """Of each frame, the ranges of single members (height 0) and of blocks that make it up."""
    found = []
    for height in range(depth + 1):
        if height == depth:
            found.append(ranges.selectExpr("k", "p", f"{height} AS height", "a", "b"))
            break
        up = f"((a + {_WIDTH - 1}) div {_WIDTH}L)"
        down = f"((b + 1) div {_WIDTH}L)"
        ranges = ranges.selectExpr("*", f"{up} AS a1", f"{down} - 1 AS b1")
        left = f"least(b, a1 * {_WIDTH} - 1)"
        right = f"greatest(a1 * {_WIDTH}, (b1 + 1) * {_WIDTH})"
        found.append(ranges.selectExpr("k", "p", f"{height} AS height", "a", f"{left} AS b"))
        found.append(ranges.selectExpr("k", "p", f"{height} AS height", f"{right} AS a", "b"))
        ranges = ranges.selectExpr("k", "p", "a1 AS a", "b1 AS b")
    return reduce(DataFrame.unionByName, found).where("a <= b")


def _needed(pieces: DataFrame, depth: int) -> dict[int, DataFrame]:
    """The blocks of each height that frames, or blocks above them, are made of."""
    needed: dict[int, DataFrame] = {}
    for height in range(depth, 0, -1):
        own = pieces.where(F.col("height") == height).selectExpr(
            "p", "explode(sequence(a, b)) AS r"
        )
        if height < depth:
            steps = ", ".join(f"r * {_WIDTH} + {i}" for i in range(_WIDTH))
            below = needed[height + 1].selectExpr("p", f"explode(array({steps})) AS r")
            own = own.unionByName(below)
        needed[height] = own.distinct()
    return needed


def _inside(pieces: DataFrame, rows: DataFrame, height: int) -> DataFrame:
    """The members or blocks of one height that frames hold, under the frames' keys."""
    asked = pieces.where(F.col("height") == height).selectExpr("k", "p AS q", "a", "b")
    joined = asked.join(rows, F.expr("q <=> p AND r BETWEEN a AND b"))
    return joined.drop("p", "q", "r", "a", "b")
