"""Files as Spark names them: listing, sizes, times, and the number that stands for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq
import xxhash

from whence.algebra.locators import SLOT_BITS
from whence.errors import SourceError, UnsupportedError
from whence.spark.gateway import Gateway
from whence.spark.stored import StoredFile

_SPARK_SEED = 42
_SALTS, _MAX_SALTS = 32, 200  # tried for each number of bits, and for the most


def local_path(uri: str) -> Path | None:
    """The local path of a file URI, or None for another file system.

    >>> local_path("file:///tmp/a%20b.parquet")
    PosixPath('/tmp/a b.parquet')
    """
    parsed = urlparse(uri)
    if parsed.scheme in ("", "file"):
        return Path(unquote(parsed.path) if parsed.scheme else uri)
    return None


def stat(gateway: Gateway, uri: str) -> tuple[int, int]:
    """Size and modification time in milliseconds."""
    path = local_path(uri)
    if path is None:
        return gateway.hadoop_stat(uri)
    try:
        found = path.stat()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}") from error
    return found.st_size, found.st_mtime_ns // 1_000_000


def input_files(gateway: Gateway, relation: Any) -> list[str]:
    """The files of a file relation, as URIs."""
    return sorted(str(uri) for uri in relation.location().inputFiles())


def written_files(gateway: Gateway, folder: str) -> list[tuple[str, int, int]]:
    """Name, size and time of the Parquet files that Spark wrote into a folder, in its order."""
    path = local_path(folder)
    if path is None:
        found = gateway.hadoop_list(folder)
    else:
        found = [
            (entry.name, entry.stat().st_size, entry.stat().st_mtime_ns // 1_000_000)
            for entry in path.iterdir()
        ]
    return sorted(f for f in found if f[0].endswith(".parquet") and not f[0].startswith(("_", ".")))


def row_count(uri: str) -> int | None:
    """How many rows a local Parquet file has, from its footer."""
    path = local_path(uri)
    return None if path is None else int(pq.read_metadata(path).num_rows)


def numbered(gateway: Gateway, uris: Sequence[str]) -> tuple[list[StoredFile], str]:
    """The files with their slots, and the SQL text that gives a row's slot from `_metadata`.

    The text has `{metadata}` where the metadata column's name goes. A single file has slot 0. With
    more, the slot is what is left of the file's size, or of a hash of its name where sizes do not
    tell files apart, after a division; all files of the source differ in it, and it is of as few
    bits as can be, so that it takes little room where members are packed.
    """
    stats = [stat(gateway, uri) for uri in uris]
    if len(uris) <= 1:
        return [StoredFile(uri, 0, *found) for uri, found in zip(uris, stats, strict=True)], "0L"
    slots, text = _by_size([size for size, _ in stats]) or _by_name(uris)
    files = [
        StoredFile(uri, slot, *found) for uri, slot, found in zip(uris, slots, stats, strict=True)
    ]
    return files, text


def _by_size(sizes: Sequence[int]) -> tuple[list[int], str] | None:
    """Slots from sizes, which a row is told in a twentieth of the time that a hash takes."""
    if len(set(sizes)) < len(sizes):
        return None
    for bits in _bits(len(sizes)):
        for less in range(min(_SALTS, 1 << max(bits - 1, 0))):
            divisor = (1 << bits) - less
            slots = [size % divisor for size in sizes]
            if len(set(slots)) == len(slots):
                return slots, f"pmod({{metadata}}.file_size, {divisor}L)"
    return None


def _by_name(uris: Sequence[str]) -> tuple[list[int], str]:
    names = [uri.rsplit("/", 1)[1] for uri in uris]
    if len(set(names)) == len(names):
        field, texts = "file_name", names
    else:
        field, texts = "file_path", [uri.replace("file:///", "file:/") for uri in uris]
    hashes: list[list[int]] = []
    for bits in _bits(len(uris)):
        for salt in range(_SALTS if bits < SLOT_BITS else _MAX_SALTS):
            if salt == len(hashes):
                hashes.append([hash_of(text, salt) for text in texts])
            slots = [number % (1 << bits) for number in hashes[salt]]
            if len(set(slots)) == len(slots):
                return slots, f"pmod(xxhash64('{salt}', {{metadata}}.{field}), {1 << bits}L)"
    raise UnsupportedError(
        f"a source of {len(uris)} files has too many files to number; compact it, or read fewer"
    )


def _bits(count: int) -> range:
    """How many bits slots of so many files may have, from those with which there is a chance."""
    return range((count**2 // 16).bit_length(), SLOT_BITS + 1)


def numbered_parts(gateway: Gateway, uris: Sequence[str]) -> tuple[list[StoredFile], str]:
    """As `numbered`, for files that Spark has just written, one per task.

    A slot is the number of the task, so that locators are in the order of the rows.
    """
    slots = [_part_number(uri.rsplit("/", 1)[1]) for uri in uris]
    if len(uris) <= 1 or None in slots or len(set(slots)) < len(slots):
        return numbered(gateway, uris)
    files = [
        StoredFile(uri, slot, *stat(gateway, uri))
        for uri, slot in zip(uris, slots, strict=True)
        if slot is not None
    ]
    return files, "CAST(substring_index(substring({metadata}.file_name, 6), '-', 1) AS BIGINT)"


def _part_number(name: str) -> int | None:
    """The number in the name of a file that Spark wrote.

    >>> _part_number("part-00012-652cfbfb-c000.zstd.parquet")
    12
    """
    found = re.match(r"part-(\d+)-", name)
    return int(found[1]) if found and int(found[1]) < 1 << SLOT_BITS else None


def hash_of(text: str, salt: int) -> int:
    """What Spark's `xxhash64('salt', text)` gives, as a number that is not negative."""
    seed = xxhash.xxh64_intdigest(str(salt).encode(), _SPARK_SEED)
    return xxhash.xxh64_intdigest(text.encode(), seed)
