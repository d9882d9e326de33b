"""The hashes of groups from their entries, as arrays: formulas.py has the same in SQL."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa


def begun(label: str, groups: int) -> list[Any]:
    """The hashes of so many groups, before any entry is added."""
    start = hashlib.sha256(b"B" + bytes.fromhex(label))
    return [start.copy() for _ in range(groups)]


def add(hashes: list[Any], rows: Any) -> None:
    """Add entries to the hashes of their groups.

    They are an Arrow table: the number of the group (`g`), the first byte of the token (`b`), what
    is hashed of it (`token`), whether it `contributes` and is a `source` row, how many `times`.
    They are hashed in the order of their bytes; all entries of a group that begin with one byte are
    added at once, and lower bytes first.
    """
    if not rows.num_rows:
        return
    groups = rows.column("g").to_numpy().astype(np.uint64)
    byte = _bytes(rows.column("b"))[:, 0]
    token = _bytes(rows.column("token"))
    rest = np.empty((len(token), 9), np.uint8)
    rest[:, 0] = rows.column("contributes").to_numpy() + 2 * rows.column("source").to_numpy()
    rest[:, 1:] = rows.column("times").to_numpy().astype(">i8").view(np.uint8).reshape(-1, 8)
    place = groups << np.uint64(8) | byte
    order = _order(place, token, rest)
    place, written = place[order], np.hstack([token[order], rest[order]])
    starts = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    data, width = written.reshape(-1).data, written.shape[1]
    bounds = np.append(starts, len(place)).tolist()
    for at, (first, end) in zip(place[starts].tolist(), pairwise(bounds), strict=True):
        bucket = hashlib.sha256(b"b")
        bucket.update(data[first * width : end * width])
        hashes[at >> 8].update(bytes([at & 255]) + bucket.digest())


def _order(place: Any, token: Any, rest: Any) -> Any:
    """Where the entries come in the order of their places and bytes.

    The place and the first bits tell nearly always: NumPy sorts numbers of 64 bits fastest.
    """
    room = np.uint64(int(place.max()).bit_length())
    first = np.zeros((len(token), 8), np.uint8)
    first[:, : token.shape[1]] = token[:, :8]
    key = place << (np.uint64(64) - room) | first.view(">u8")[:, 0].astype(np.uint64) >> room
    order = np.argsort(key)
    same = np.diff(key[order]) == 0
    if same.any():
        tied = np.append(same, False) | np.append(False, same)
        among = order[tied]
        columns = np.hstack([token[among], rest[among]]).T
        order[tied] = among[np.lexsort((*columns[::-1], key[among]))]
    return order


def _bytes(column: Any) -> Any:
    """Binary values of one length, one row of an array each."""
    width = len(column[0].as_py())
    data = column.combine_chunks().cast(pa.binary(width)).buffers()[1]
    return np.frombuffer(data, np.uint8, count=len(column) * width).reshape(-1, width)
