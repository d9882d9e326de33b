"""Where things lie: an archive's location, its dataset folders and the ids that name them.

The id of a dataset starts with the id of the run that writes it. So a folder's name tells its
writer, and a writer registers once, not once per folder.
"""

import os
import posixpath
import re
import secrets
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

CATALOG = "catalog.sqlite"
DATASETS = "datasets"
MARKER = "archive.json"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_RUN_ID = re.compile(r"[0-9a-f]{16}")
_DATASET_ID = re.compile(r"[0-9a-f]{20,}")


def absolute(location: str | os.PathLike[str]) -> str:
    """Absolute local path, or a URL without a trailing slash.

    >>> absolute("file:///data/archive%20one/"), absolute("s3a://bucket/archive/")
    ('/data/archive one', 's3a://bucket/archive')
    """
    text = os.fspath(location)
    if not _URL.match(text):
        return str(Path(text).expanduser().resolve())
    parts = urlsplit(text)
    if parts.scheme.lower() == "file":
        return str(Path(unquote(parts.path)).resolve())
    return text.rstrip("/")


def is_local(location: str) -> bool:
    """Whether an absolute location is a path of this machine's file system."""
    return not _URL.match(location)


def canonical(location: str | os.PathLike[str]) -> str:
    """One spelling per place, for comparing and for pyarrow.

    >>> canonical("s3a://bucket/a//b/../c")
    's3://bucket/a/c'
    """
    found = absolute(location)
    if is_local(found):
        return found
    parts = urlsplit(found)
    scheme = _SAME_SCHEME.get(parts.scheme.lower(), parts.scheme.lower())
    path = posixpath.normpath(parts.path) if parts.path else ""
    return urlunsplit((scheme, parts.netloc, path, parts.query, ""))


def join(root: str, *parts: str) -> str:
    """A path or URL below `root`."""
    return "/".join((root.rstrip("/"), *parts))


def folder(dataset_id: str) -> str:
    """Location of an own dataset, relative to the archive."""
    return f"{DATASETS}/{dataset_id}"


def new_run_id() -> str:
    """A fresh id: random, so that short prefixes tell runs apart."""
    return secrets.token_hex(8)


def new_dataset_id(run_id: str, number: int) -> str:
    """Id of the dataset that a run makes as its `number`-th.

    >>> new_dataset_id("00112233aabbccdd", 10)
    '00112233aabbccdd000a'
    """
    return f"{run_id}{number:04x}"


def run_of(name: str) -> str | None:
    """The run whose writer made a folder of this name; None where whence made no such name."""
    return name[:16] if _DATASET_ID.fullmatch(name) else None


def is_id_prefix(text: str) -> bool:
    """Whether text can be the start of a run's id."""
    return bool(text) and len(text) <= 16 and bool(_RUN_ID.fullmatch(text.ljust(16, "0")))


def stays_inside(path: str) -> bool:
    """Whether a file's relative path names something inside its dataset's folder.

    >>> stays_inside("day=1/part-0.parquet"), stays_inside("../other"), stays_inside("/etc")
    (True, False, False)
    """
    clean = posixpath.normpath(path)
    return bool(path) and not clean.startswith(("/", "..")) and clean != "."
