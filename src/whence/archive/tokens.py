"""The formulas of tokens in Python; `whence.trace.seal.formulas` has the same ones as SQL."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from whence.algebra.canonical import integer, string

FORMULAS = 3
"""Which formulas these are: tokens of others are other tokens."""
BITS = (8, 32, 64, 128, 256)
SCHEMES = ("value", "origin", "content")


class Input(NamedTuple):
    """A node as what refers to it knows it: its token, and whether it is a source row.

    That is hashed too, so that no derivation can be passed off as a source row that is hidden.
    """

    token: bytes
    source: bool


def _sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def shortened(full: bytes, bits: int) -> bytes:
    """The token of a full hash."""
    return full[: bits // 8]


def optional(node: Input | None) -> bytes:
    """An input that may be missing."""
    return b"\x00" if node is None else bytes([1 + node.source]) + node.token


def joint(label: str, inputs: Iterable[Input | None]) -> bytes:
    """The full hash of a node whose inputs are used together, in order."""
    return _sha(b"J", bytes.fromhex(label), *(optional(node) for node in inputs))


def one(label: str, index: int | None, node: Input | None) -> bytes:
    """The full hash of an item, or of a row of one branch of a union."""
    position = b"n;" if index is None else integer(index)
    return _sha(b"K", bytes.fromhex(label), position, optional(node))


def bag(label: str, members: Sequence[tuple[Input, bool, int]]) -> bytes:
    """The full hash of a group: each member, whether it contributes, and how often."""
    buckets: dict[bytes, list[bytes]] = {}
    for (token, source), contributes, times in members:
        entry = token + bytes([contributes + 2 * source]) + times.to_bytes(8, "big")
        buckets.setdefault(token[:1], []).append(entry)
    written = [byte + _bucket(found) for byte, found in buckets.items()]
    return _sha(b"B", bytes.fromhex(label), *sorted(written))


def _bucket(entries: list[bytes]) -> bytes:
    """The members of a group that begin with one byte: a single one itself, several as a hash."""
    if len(entries) == 1:
        return b"\x01" + entries[0]
    return b"\x02" + _sha(b"b", *sorted(entries))


def value(record: bytes) -> bytes:
    """The full hash of a source row by value, from its canonical bytes."""
    return _sha(b"S", record)


def origin(uri: str, modified: int, row: int) -> bytes:
    """The full hash of a source row by origin."""
    return _sha(b"O", string(uri), integer(modified), integer(row))


def content(uri: str, digest: str, row: int) -> bytes:
    """The full hash of a source row by content and origin."""
    return _sha(b"C", string(uri), string(digest), integer(row))


def output_leaf(record: bytes, node: Input | None) -> bytes:
    """The Merkle leaf of an output row: the hash of its values, and its node."""
    return _sha(b"\x00", record, optional(node))
