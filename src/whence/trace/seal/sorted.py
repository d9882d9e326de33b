"""The hashes of groups from their entries in order, as arrays: formulas.py has the same in SQL."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa


def begun(label: str, groups: int) -> list[Any]:
    """The hashes of so many groups, before any entry is added."""
    start = hashlib.sha256(b"B" + bytes.fromhex(label))
    return [start.copy() for _ in range(groups)]


def add(hashes: list[Any], rows: Any) -> None:
    """Add entries to the hashes of their groups.

    They are an Arrow table in the order of the group's number (`g`), then of the first byte of the
    token (`b`), then as their bytes are: the `token`, whether it `contributes`, how many `times`.
    All entries that begin with one byte are added at once, and lower bytes first.
    """
    if not rows.num_rows:
        return
    written = _written(rows)
    groups = rows.column("g").to_numpy()
    byte = _bytes(rows.column("b"))[:, 0]
    is_start = np.diff(groups, prepend=-1) != 0
    is_start |= np.diff(byte.astype(np.int16), prepend=-1) != 0
    starts = np.flatnonzero(is_start)
    ends = np.append(starts[1:], len(groups))
    data, width = memoryview(written).cast("B"), written.shape[1]
    places = (starts, ends, groups[starts], byte[starts])
    for first, end, group, start in zip(*(place.tolist() for place in places), strict=True):
        bucket = hashlib.sha256(b"b")
        bucket.update(data[first * width : end * width])
        hashes[group].update(bytes([start]) + bucket.digest())


def _written(rows: Any) -> Any:
    """The bytes of each entry, one row of an array each."""
    token = _bytes(rows.column("token"))
    written = np.empty((rows.num_rows, token.shape[1] + 9), np.uint8)
    written[:, :-9] = token
    written[:, -9] = rows.column("contributes").to_numpy()
    written[:, -8:] = rows.column("times").to_numpy().astype(">i8").view(np.uint8).reshape(-1, 8)
    return written


def _bytes(column: Any) -> Any:
    """Binary values of one length, one row of an array each."""
    width = len(column[0].as_py())
    data = column.combine_chunks().cast(pa.binary(width)).buffers()[1]
    return np.frombuffer(data, np.uint8, count=len(column) * width).reshape(-1, width)
