"""The formulas of tokens as Spark SQL. `whence.archive.tokens` has the same ones in Python."""

from __future__ import annotations

from collections.abc import Sequence

from whence.algebra.canonical import CHUNK


def sha(data: str) -> str:
    """SQL: the SHA-256 of binary data, as binary."""
    return f"unhex(sha2({data}, 256))"


def joined(parts: Sequence[str]) -> str:
    """SQL: binary data, one after another."""
    return f"concat({', '.join(parts)})"


def binary(data: bytes) -> str:
    """SQL: a binary literal."""
    return f"X'{data.hex()}'"


def optional(token: str) -> str:
    """SQL: a token that may be missing."""
    return f"coalesce(concat(X'01', {token}), X'00')"


def joint(label: str, tokens: Sequence[str]) -> str:
    """SQL: the full hash of a node whose inputs are used together, in order."""
    parts = [binary(b"J" + bytes.fromhex(label)), *(optional(token) for token in tokens)]
    return sha(joined(parts))


def one(label: str, index: str, token: str) -> str:
    """SQL: the full hash of an item or a branch; `index` gives its position, or null."""
    position = f"CAST(coalesce(concat('i', CAST({index} AS STRING), ';'), 'n;') AS BINARY)"
    return sha(joined([binary(b"K" + bytes.fromhex(label)), position, optional(token)]))


def value(record: str) -> str:
    """SQL: the full hash of a source row by value, from the hash of its canonical bytes."""
    return sha(joined([binary(b"S"), record]))


def entry(token: str, contributes: str, times: str) -> str:
    """SQL: a member of a group, with how often it occurs, in hexadecimal."""
    role = f"CASE WHEN {contributes} THEN '01' ELSE '00' END"
    return f"concat(hex({token}), {role}, lpad(hex({times}), 16, '0'))"


def bucket(entries: str) -> str:
    """SQL: the hash of the members whose tokens begin with one byte, given as an array."""
    return sha(joined([binary(b"b"), f"unhex(array_join(sort_array({entries}), ''))"]))


def flat(parts: str) -> str:
    """SQL: the items of an array of binary data, one after another."""
    return f"unhex(array_join(transform({parts}, x -> hex(x)), ''))"


def bag(label: str, buckets: str) -> str:
    """SQL: the full hash of a group, from the array of its buckets (byte, then hash)."""
    return sha(joined([binary(b"B" + bytes.fromhex(label)), flat(f"sort_array({buckets})")]))


def shortened(data: str, bits: int) -> str:
    """SQL: the token of a full hash."""
    return data if bits == 256 else f"substring({data}, 1, {bits // 8})"


def merkle_root(leaves: str) -> str:
    """SQL: the root over an array of at most `CHUNK` hashes.

    One level up is written once, over a lambda's variable: as nested columns its text would double
    with each level.
    """
    pair = sha("concat(X'01', a[2 * i], a[2 * i + 1])")
    level = (
        "transform(sequence(0, CAST((size(a) - 1) div 2 AS INT)), "
        f"i -> CASE WHEN 2 * i + 1 < size(a) THEN {pair} ELSE a[2 * i] END)"
    )
    tree = f"aggregate(sequence(1, {CHUNK.bit_length() - 1}), {leaves}, (a, n) -> {level})[0]"
    return sha(joined(["X'02'", count(f"size({leaves})"), tree]))


def count(number: str) -> str:
    """SQL: a number as eight bytes."""
    return f"unhex(lpad(hex(CAST({number} AS BIGINT)), 16, '0'))"
