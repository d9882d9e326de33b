"""The hashes of groups from their entries, as arrays: formulas.py has the same in SQL."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

_LARGE = 4096
"""Of groups with so many entries, the parts that begin with one byte are hashed in one go."""


def begun(label: str, groups: int) -> list[Any]:
    """The hashes of so many groups, before any entry is added."""
    start = hashlib.sha256(b"B" + bytes.fromhex(label))
    return [start.copy() for _ in range(groups)]


def add(hashes: list[Any], rows: Any) -> None:
    """Add entries to the hashes of their groups.

    They are an Arrow table: the number of the group (`g`), the first byte of the token (`b`, if it
    is not that of what is hashed), what is hashed (`token`), whether it `contributes` and is a
    `source` row, how many `times`. They are hashed in the order of their bytes; all entries of a
    group that begin with one byte are added at once, and lower bytes must come first.
    """
    if not rows.num_rows:
        return
    entries = _entries(rows)
    if rows.num_rows < _LARGE * len(hashes):
        parts = [entries.buckets(np.arange(rows.num_rows))]
    else:
        # By two threads: to sort and to hash much at once leaves the interpreter to others.
        low = entries.place & np.uint64(128) == 0
        with ThreadPoolExecutor(2) as threads:
            halves = (np.flatnonzero(low), np.flatnonzero(~low))
            parts = list(threads.map(entries.buckets, halves))
    for found in parts:
        for group, buckets in found:
            hashes[group].update(buckets)


@dataclass(frozen=True, slots=True)
class _Entries:
    """Entries, one row of each array."""

    place: Any
    """The number of the group and the first byte of the token, as one number."""
    token: Any
    first: Any
    """The first eight bytes of the token as one number."""
    rest: Any
    """What comes behind the token: the role, and how many times."""

    def buckets(self, among: Any) -> list[tuple[int, Any]]:
        """The number of each group, in order, and its buckets, one after another."""
        if not len(among):
            return []
        order = self._order(among)
        place, width = np.take(self.place, order), self.token.shape[1] + 9
        written = np.empty((len(order), width), np.uint8)
        # Picking rows with `take` takes a quarter of the time that an index does.
        written[:, :-9] = np.take(self.token, order, axis=0)
        written[:, -9:] = np.take(self.rest, order, axis=0)
        starts = _starts(place)
        data, size = _joined(place[starts], written, starts)
        groups = place[starts] >> np.uint64(8)
        firsts = _starts(groups)
        bounds = np.append(0, np.cumsum(size))[np.append(firsts, len(groups))].tolist()
        parts = [data[first:end] for first, end in pairwise(bounds)]
        return list(zip(groups[firsts].tolist(), parts, strict=True))

    def _order(self, among: Any) -> Any:
        """Some entries in the order of their places and bytes.

        The place and the first bits tell nearly always: NumPy sorts numbers of 64 bits fastest.
        """
        place = np.take(self.place, among)
        room = np.uint64(int(place.max()).bit_length())
        key = place << (np.uint64(64) - room) | np.take(self.first, among) >> room
        order = np.argsort(key)
        same = np.diff(np.take(key, order)) == 0
        order = np.take(among, order)
        if same.any():
            tied = np.append(same, False) | np.append(False, same)
            found = order[tied]
            columns = (*self.rest[found].T[::-1], *self.token[found].T[::-1], self.place[found])
            order[tied] = found[np.lexsort(columns)]
        return order


def _starts(ordered: Any) -> Any:
    """Where each run of equal numbers begins."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))


def _joined(place: Any, written: Any, starts: Any) -> tuple[Any, Any]:
    """All buckets, one after another, and the size of each, from where they start in `written`."""
    ends, width = np.append(starts[1:], len(written)), written.shape[1]
    several = np.flatnonzero(ends - starts > 1)
    most = 2 + max(width, 32)
    found = np.zeros((len(starts), most), np.uint8)
    found[:, 0] = place & np.uint64(255)
    found[:, 1] = 1
    found[:, 2 : 2 + width] = np.take(written, starts, axis=0)
    found[several, 1] = 2
    found[several, 2:34] = _hashes(written, starts[several], ends[several])
    size = np.full(len(starts), 2 + width)
    size[several] = 34
    # Between those that are cut short all stay as they are.
    shorter = np.flatnonzero(size < most)
    ends = (shorter * most + size[shorter]).tolist()
    begins = [0, *((shorter + 1) * most).tolist()]
    whole = found.reshape(-1).data
    pieces = [whole[first:end] for first, end in zip(begins, [*ends, found.size], strict=True)]
    return memoryview(b"".join(pieces)), size


def _hashes(written: Any, starts: Any, ends: Any) -> Any:
    """The hashes of some rows from a start to an end, one row of an array each."""
    width, data = written.shape[1], written.reshape(-1).data
    hashed = []
    for first, end in zip((starts * width).tolist(), (ends * width).tolist(), strict=True):
        bucket = hashlib.sha256(b"b")
        bucket.update(data[first:end])
        hashed.append(bucket.digest())
    return np.frombuffer(b"".join(hashed), np.uint8).reshape(-1, 32)


def _entries(rows: Any) -> _Entries:
    token = _bytes(rows.column("token"))
    byte = _bytes(rows.column("b")) if "b" in rows.column_names else token
    place = rows.column("g").to_numpy().astype(np.uint64) << np.uint64(8) | byte[:, 0]
    contributes, source = (rows.column(name).to_numpy() for name in ("contributes", "source"))
    rest = np.empty((rows.num_rows, 9), np.uint8)
    rest[:, 0] = contributes + 2 * source
    rest[:, 1:] = rows.column("times").to_numpy().astype(">i8").view(np.uint8).reshape(-1, 8)
    return _Entries(place, token, _first(token), rest)


def _first(token: Any) -> Any:
    """The first eight bytes of each token as one number; short ones have zeros behind them."""
    first = np.zeros((len(token), 8), np.uint8)
    first[:, : token.shape[1]] = token[:, :8]
    return first.view(">u8")[:, 0].astype(np.uint64)


def _bytes(column: Any) -> Any:
    """Binary values of one length, one row of an array each."""
    width = len(column[0].as_py())
    data = column.combine_chunks().cast(pa.binary(width)).buffers()[1]
    return np.frombuffer(data, np.uint8, count=len(column) * width).reshape(-1, width)
