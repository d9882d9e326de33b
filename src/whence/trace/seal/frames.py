"""Frames of windows: groups that overlap, kept from growing with the square of a partition.

Each row of a running sum refers to all rows before it. Listed, that would be n²/2 edges. Instead
16 neighbouring ranks that lie whole inside a frame are one node, a block, 16 neighbouring blocks
are one of the next level, and so on; a frame is the bag of the fewest blocks and single members
that make it up. Which these are follows from its first and last rank alone.

    ranks 1 … 40, blocks of 16      [1 … 16] [17 … 32] 33 34 … 40
"""

from __future__ import annotations

from whence.algebra.witness import RANK, GroupShape
from whence.trace.seal.bags import BagHashes
from whence.trace.seal.work import CONTRIBUTES, Work, union

_WIDTH = 16


def _partition(work: Work, shape: GroupShape, prefix: str) -> str:
    """SQL: the key of a partition, as one value."""
    fields = {name: f"{prefix}.{work.formulas.name(name)}" for name in shape.keys}
    return work.formulas.struct(fields or {"k": "true"})


def framed(work: Work, keys: str, shape: GroupShape) -> str:
    """SQL: keys with their partition `p` and the frame's first and last rank, counted from 0."""
    assert shape.frame is not None
    low, high = (f"CAST((k).{work.formulas.name(name)} AS BIGINT) - 1" for name in shape.frame)
    partition = _partition(work, shape, "(k)")
    return f"SELECT k, {partition} AS p, greatest({low}, 0) AS a, {high} AS b FROM {keys} AS q"


def ranked(work: Work, members: str, shape: GroupShape) -> str:
    """SQL: members with their partition `p` and their rank `r`, counted from 0."""
    partition = _partition(work, shape, "x")
    return f"SELECT x.*, {partition} AS p, CAST({RANK} AS BIGINT) - 1 AS r FROM {members} AS x"


def hashes(bags: BagHashes, keys: str, rows: str, name: str, level: int) -> tuple[str, int]:
    """The hashes of frames by key, and the level of what is in them.

    `rows` are members with p, r and the columns of the part `name`.
    """
    work, formulas = bags.work, bags.work.formulas
    last = work.engine.table("last", f"SELECT p, max(r) AS last FROM {rows} AS x GROUP BY p")
    ((highest,),) = work.engine.run(f"SELECT max(last) FROM {last} AS x")
    ranges = (
        f"SELECT q.k, q.p, q.a, least(q.b, z.last) AS b FROM {keys} AS q "
        f"JOIN {last} AS z ON q.p IS NOT DISTINCT FROM z.p"
    )
    depth = 0
    while _WIDTH ** (depth + 1) <= (highest or 0) + 1:
        depth += 1
    pieces = work.engine.table("pieces", _pieces(work, ranges, depth))
    needed = _needed(work, pieces, depth)
    parts = ", ".join(f"{name}{x}" for x in work.suffixes)
    current = rows
    inside = [_inside(pieces, current, parts, 0)]
    block = formulas.struct({"p": "c.p", "r": formulas.divided("c.r", _WIDTH)})
    for height in range(1, depth + 1):
        children = (
            f"(SELECT {block} AS k, {parts}, {CONTRIBUTES} FROM {current} AS c "
            f"{formulas.semi_join} {needed[height]} AS w ON c.p IS NOT DISTINCT FROM w.p "
            f"AND {formulas.divided('c.r', _WIDTH)} = w.r)"
        )
        blocks = bags.of(children, name, level + height)
        made = ", ".join(f"{x} AS {name}{x}" for x in work.hashes)
        current = (
            f"(SELECT (k).p AS p, (k).r AS r, {made}, false AS {name}l, "
            f"CAST(NULL AS BIGINT) AS {name}i, true AS {CONTRIBUTES} FROM {blocks} AS x)"
        )
        inside.append(_inside(pieces, current, parts, height))
    return bags.of(union(inside), name, level + depth + 1), level + depth


def _pieces(work: Work, ranges: str, depth: int) -> str:
    """SQL: of each frame, the ranges of single members (height 0) and of blocks in it."""
    found = []
    for height in range(depth):
        up = work.formulas.divided(f"(a + {_WIDTH - 1})", _WIDTH)
        down = work.formulas.divided("(b + 1)", _WIDTH)
        inner = f"(SELECT x.*, {up} AS a1, {down} - 1 AS b1 FROM ({ranges}) AS x) AS x"
        left = f"least(b, a1 * {_WIDTH} - 1)"
        right = f"greatest(a1 * {_WIDTH}, (b1 + 1) * {_WIDTH})"
        found.append(f"SELECT k, p, {height} AS height, a, {left} AS b FROM {inner}")
        found.append(f"SELECT k, p, {height} AS height, {right} AS a, b FROM {inner}")
        ranges = f"SELECT k, p, a1 AS a, b1 AS b FROM {inner}"
    found.append(f"SELECT k, p, {depth} AS height, a, b FROM ({ranges}) AS x")
    return f"SELECT * FROM {union(found)} AS x WHERE a <= b"


def _needed(work: Work, pieces: str, depth: int) -> dict[int, str]:
    """The blocks of each height that frames, or blocks above them, are made of: tables."""
    each, sequence = work.formulas.each, work.formulas.sequence
    needed: dict[int, str] = {}
    for height in range(depth, 0, -1):
        parts = [
            f"SELECT p, {each(sequence('a', 'b'))} AS r FROM {pieces} AS x WHERE height = {height}"
        ]
        if height < depth:
            first = f"r * {_WIDTH}"
            below = each(sequence(first, f"{first} + {_WIDTH - 1}"))
            parts.append(f"SELECT p, {below} AS r FROM {needed[height + 1]} AS x")
        needed[height] = work.engine.table("needed", f"SELECT DISTINCT * FROM {union(parts)} AS x")
    return needed


def _inside(pieces: str, rows: str, parts: str, height: int) -> str:
    """SQL: the members or blocks of one height that frames hold, under the frames' keys."""
    return (
        f"SELECT q.k, {parts}, {CONTRIBUTES} FROM {pieces} AS q JOIN {rows} AS m "
        f"ON q.height = {height} AND q.p IS NOT DISTINCT FROM m.p AND m.r BETWEEN q.a AND q.b"
    )
