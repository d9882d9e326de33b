"""What is behind the rows of a frame: ranges of input rows, cells, and what casts doubt on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whence.arrays.cells import Ints
from whence.arrays.parts import TOO_MANY
from whence.arrays.rowranges import Ranges, enclosing, everywhere, united


class Part(NamedTuple):
    """Input rows behind output rows, through one column of each.

    An output column of −1 stands for every one, an input column of −1 for all of its side.
    """

    output: int
    side: int
    input: int
    ranges: Ranges
    contributing: bool


class Answer(NamedTuple):
    """One entry per output row.

    Ranges are `side`, `lo`, `hi` and `role` (1 contributing, 0 influencing), input rows counted
    from 1. `cells` holds six numbers per range: output column, side, input column, lo, hi, role.
    """

    side: list[Any]
    lo: list[Any]
    hi: list[Any]
    role: list[Any]
    cells: list[Any]
    doubt: list[str | None]


_FREE = 64


def whole(rows: int, taken: list[int], why: str) -> Answer:
    """Everything that was taken is behind every row."""
    parts = [
        Part(-1, side, -1, everywhere(rows, 1, count), True) for side, count in enumerate(taken)
    ]
    return assembled(rows, taken, parts, [why])


def assembled(rows: int, taken: list[int], parts: list[Part], reasons: list[str]) -> Answer:
    """Parts as entries of rows; a row that no input cell contributes to refers to all of them."""
    limit = 4 * (rows + sum(taken)) + _FREE
    empty = np.ones(rows, dtype=bool)
    for part in parts:
        if part.contributing:
            empty[part.ranges.out] = False
    alone = np.flatnonzero(empty)
    if len(alone):
        for side, count in enumerate(taken):
            some = everywhere(len(alone), 1, count)
            ranges = Ranges(alone[some.out], some.lo, some.hi)
            parts = [*parts, Part(-1, side, -1, ranges, True)]
    listed: list[tuple[int, int, Ranges]] = []
    for side in range(len(taken)):
        for role in (1, 0):
            mine = [p.ranges for p in parts if p.side == side and p.contributing == bool(role)]
            ranges = united(mine)
            if len(ranges.out) > limit:
                ranges = enclosing(ranges)
                reasons = [*reasons, TOO_MANY]
            listed.append((side, role, ranges))
    found = [(r, (side, r.lo, r.hi, role)) for side, role, r in listed]
    table, cuts = _sorted(rows, found, 4)
    sides, lo, hi, roles = (_split(table[:, i], cuts) for i in range(4))
    doubt = _doubts(rows, empty, reasons)
    return Answer(sides, lo, hi, roles, _cells(rows, parts, limit), doubt)


def _cells(rows: int, parts: list[Part], limit: int) -> list[Any]:
    found = []
    for part in parts:
        ranges = united([part.ranges])
        if len(ranges.out) > limit:
            ranges = enclosing(ranges)
        row = (part.output, part.side, part.input, ranges.lo, ranges.hi, int(part.contributing))
        found.append((ranges, row))
    table, cuts = _sorted(rows, found, 6)
    return _split(table.reshape(-1), cuts * 6)


def _sorted(rows: int, found: list[tuple[Ranges, Any]], width: int) -> tuple[Ints, Ints]:
    """One line per range, in the order of output rows, and where the lines of each row end."""
    outs = [ranges.out for ranges, _ in found]
    out = np.concatenate([np.empty(0, dtype=np.int64), *outs])
    order = np.argsort(out, kind="stable")
    table = np.empty((len(out), width), dtype=np.int64)
    for i in range(width):
        values = [np.broadcast_to(row[i], r.out.shape) for r, row in found]
        table[:, i] = np.concatenate([np.empty(0, dtype=np.int64), *values])[order]
    cuts: Ints = np.searchsorted(out[order], np.arange(rows), side="right")
    return table, cuts


def _split(values: Ints, cuts: Ints) -> list[Any]:
    ends = cuts.tolist()
    whole = np.ascontiguousarray(values)
    return [whole[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)] if ends else []


def _doubts(rows: int, empty: Any, reasons: list[str]) -> list[str | None]:
    shared = "; ".join(dict.fromkeys(reasons)) or None
    alone = "; ".join([*dict.fromkeys(reasons), "no input cell is behind the row"])
    return [alone if empty[row] else shared for row in range(rows)]
