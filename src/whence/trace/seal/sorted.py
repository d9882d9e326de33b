"""The hashes of groups from their entries in order, as arrays: formulas.py has the same in SQL."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa


def sorted_bags(rows: Any, label: str) -> list[bytes]:
    """The full hash of each group from an Arrow table of entries.

    They are in the order of the group's number (`g`), then of the first byte of the token (`b`),
    then as their bytes are: the `token`, whether it `contributes`, how many `times`.
    """
    if not rows.num_rows:
        return []
    written = _written(rows)
    groups = rows.column("g").to_numpy()
    byte = _bytes(rows.column("b"))[:, 0]
    new_group = np.diff(groups, prepend=groups[0] - 1) != 0
    starts = np.flatnonzero(new_group | (np.diff(byte.astype(np.int16), prepend=-1) != 0))
    ends = np.append(starts[1:], len(groups))
    data, width = memoryview(written).cast("B"), written.shape[1]
    start, found = b"B" + bytes.fromhex(label), []
    whole = hashlib.sha256()
    places = zip(starts.tolist(), ends.tolist(), new_group[starts].tolist(), strict=True)
    for first, end, is_new in places:
        if is_new:
            whole = hashlib.sha256(start)
            found.append(whole)
        bucket = hashlib.sha256(b"b")
        bucket.update(data[first * width : end * width])
        whole.update(byte[first : first + 1].tobytes() + bucket.digest())
    return [each.digest() for each in found]


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
