"""The formulas of tokens in Python; `whence.trace.seal.formulas` has the same ones as SQL."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from whence.algebra.canonical import integer, string

BITS = (8, 32, 64, 128, 256)
SCHEMES = ("value", "origin", "content")


def _sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def shortened(full: bytes, bits: int) -> bytes:
    """The token of a full hash."""
    return full[: bits // 8]


def optional(token: bytes | None) -> bytes:
    """A token that may be missing."""
    return b"\x00" if token is None else b"\x01" + token


def joint(label: str, tokens: Iterable[bytes | None]) -> bytes:
    """The full hash of a node whose inputs are used together, in order."""
    return _sha(b"J", bytes.fromhex(label), *(optional(token) for token in tokens))


def one(label: str, index: int | None, token: bytes | None) -> bytes:
    """The full hash of an item, or of a row of one branch of a union."""
    position = b"n;" if index is None else integer(index)
    return _sha(b"K", bytes.fromhex(label), position, optional(token))


def bag(label: str, members: Sequence[tuple[bytes, bool, int]]) -> bytes:
    """The full hash of a group: token, whether it contributes, and how often, of each member."""
    buckets: dict[bytes, list[bytes]] = {}
    for token, contributes, times in members:
        entry = token + (b"\x01" if contributes else b"\x00") + times.to_bytes(8, "big")
        buckets.setdefault(token[:1], []).append(entry)
    hashes = [byte + _sha(b"b", *sorted(found)) for byte, found in buckets.items()]
    return _sha(b"B", bytes.fromhex(label), *sorted(hashes))


def value(record: bytes) -> bytes:
    """The full hash of a source row by value, from the hash of its canonical bytes.

    Its own letter keeps the hash of a record that a proof hides from standing for another node.
    """
    return _sha(b"S", record)


def origin(uri: str, modified: int, row: int) -> bytes:
    """The full hash of a source row by origin."""
    return _sha(b"O", string(uri), integer(modified), integer(row))


def content(uri: str, digest: str, row: int) -> bytes:
    """The full hash of a source row by content and origin."""
    return _sha(b"C", string(uri), string(digest), integer(row))


def output_leaf(record: bytes, token: bytes | None) -> bytes:
    """The Merkle leaf of an output row: the hash of its values, and the token of its node."""
    return _sha(b"\x00", record, optional(token))
