"""Digests of files, and canonical JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from whence.archive import layout

_BLOCK = 1 << 20


def canonical_json(value: Any) -> bytes:
    """JSON with one spelling.

    >>> canonical_json({"b": 1, "a": [True, None]})
    b'{"a":[true,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest(data: bytes) -> str:
    """SHA-256 as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def json_digest(value: Any) -> str:
    """SHA-256 of canonical JSON."""
    return digest(canonical_json(value))


def local_path(location: str) -> Path | None:
    """The local path of a file, or None where it lies elsewhere."""
    if not layout.is_local(location):
        parts = urlsplit(location)
        return Path(unquote(parts.path)) if parts.scheme.lower() == "file" else None
    return Path(location.removeprefix("file:"))


def file_digest(location: str) -> tuple[int, str]:
    """Size and SHA-256 of a file at a path or URL; OSError if it cannot be read."""
    state, size = hashlib.sha256(), 0
    path = local_path(location)
    if path is not None:
        if not path.is_file() and path.exists():
            raise OSError(f"{path} is not a file")
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK):
                state.update(block)
                size += len(block)
        return size, state.hexdigest()
    from pyarrow import fs

    filesystem, inner = fs.FileSystem.from_uri(layout.canonical(location))
    with filesystem.open_input_stream(inner) as stream:
        while block := stream.read(_BLOCK):
            state.update(block)
            size += len(block)
    return size, state.hexdigest()


class Digests:
    """Sizes and digests of files, each computed once, and beside other work: by threads.

    Hashing leaves the interpreter to others.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(2, "whence-digests")
        self._found: dict[str, Future[tuple[int, str]]] = {}

    def begin(self, locations: Iterable[str]) -> None:
        """Files whose digests will be asked for; they must be complete."""
        for location in locations:
            if location not in self._found:
                self._found[location] = self._threads.submit(file_digest, location)

    def of(self, location: str) -> tuple[int, str]:
        """Size and digest of a file; OSError if it cannot be read."""
        self.begin([location])
        return self._found[location].result()

    def close(self) -> None:
        """Stop, without what was not yet begun."""
        self._threads.shutdown(wait=False, cancel_futures=True)
