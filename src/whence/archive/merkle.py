"""Merkle trees: one hash over many, and short proofs that one hash is among them.

A leaf is a hash already. Two neighbours are hashed together behind the byte 1; a hash without a
neighbour goes up as it is; at the top the byte 2 and the number of leaves are hashed with it. The
output of a run is hashed in chunks of 1,024 rows, each a tree, and a tree over the chunks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from whence.algebra.canonical import CHUNK


def root(leaves: Sequence[bytes]) -> bytes:
    """The root over some hashes."""
    level = list(leaves)
    while len(level) > 1:
        level = _up(level)
    return _top(level[0] if level else b"", len(leaves))


def _top(found: bytes, count: int) -> bytes:
    return hashlib.sha256(b"\x02" + count.to_bytes(8, "big") + found).digest()


def _up(level: Sequence[bytes]) -> list[bytes]:
    return [
        _pair(level[i], level[i + 1]) if i + 1 < len(level) else level[i]
        for i in range(0, len(level), 2)
    ]


def _pair(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The neighbours of a leaf on its way up."""
    level, found = list(leaves), []
    while len(level) > 1:
        neighbour = index ^ 1
        if neighbour < len(level):
            found.append(level[neighbour])
        level, index = _up(level), index // 2
    return found


def climb(leaf: bytes, index: int, count: int, neighbours: Sequence[bytes]) -> bytes:
    """The root that a leaf and its neighbours lead to; ValueError if they do not fit.

    >>> leaves = [bytes([i]) * 32 for i in range(5)]
    >>> all(climb(leaves[i], i, 5, path(leaves, i)) == root(leaves) for i in range(5))
    True
    """
    if not 0 <= index < count:
        raise ValueError(f"leaf {index} of {count}")
    left, leaves = list(neighbours), count
    found = leaf
    while count > 1:
        if index ^ 1 < count:
            if not left:
                raise ValueError("a neighbour is missing")
            other = left.pop(0)
            found = _pair(other, found) if index % 2 else _pair(found, other)
        index, count = index // 2, (count + 1) // 2
    if left:
        raise ValueError("there are neighbours too many")
    return _top(found, leaves)


def chunked(leaves: Sequence[bytes]) -> list[bytes]:
    """The roots of the chunks of one file's leaves."""
    return [root(leaves[i : i + CHUNK]) for i in range(0, len(leaves), CHUNK)]
