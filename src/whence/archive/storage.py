"""Files and folders of an archive: local ones through the standard library, the rest by pyarrow.

Paths are relative to the archive's location. Every failure is an `ArchiveError`.
"""

import errno
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from whence.archive import layout
from whence.errors import ArchiveError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True, slots=True)
class Usage:
    """What a folder takes, and when something in it last changed (seconds since the epoch)."""

    bytes: int
    changed: float


class Storage(Protocol):
    """What the archive asks of a file system."""

    def prepare(self) -> None:
        """Make the archive's folders where they are not there yet."""

    def sizes(self, paths: Sequence[str]) -> list[int | None]:
        """Size of each file; None where there is no such file."""

    def folders(self) -> list[str]:
        """Names of the folders below datasets/."""

    def usage(self, path: str) -> Usage:
        """Bytes and last change of a folder and all below it."""

    def files(self, path: str) -> list[tuple[str, int, int]]:
        """Every file below a folder: relative path, size, time of change in milliseconds."""

    def remove(self, path: str) -> None:
        """Remove a folder with all below it; nothing happens if it is not there."""

    def read_text(self, path: str) -> str | None:
        """Content of a small file; None where there is no such file."""

    def write_text(self, path: str, text: str) -> None:
        """Write a small file."""


def storage_at(location: str) -> Storage:
    """The storage of an absolute location, as `layout.absolute` gives it."""
    if layout.is_local(location):
        return LocalStorage(Path(location))
    return ArrowStorage.of_url(location)


@contextmanager
def file_errors(doing: str, where: str) -> Iterator[None]:
    """Turn what the file system raises into an `ArchiveError` that says what was being done."""
    try:
        yield
    except ArchiveError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise ArchiveError(
                f"no space left on disk while {doing} {where}; the archive is unchanged: "
                "free some space and run again"
            ) from error
        raise ArchiveError(f"{doing} {where} failed: {error}") from error
    except (ValueError, TypeError, LookupError, RuntimeError) as error:  # pyarrow's are of these
        raise ArchiveError(f"{doing} {where} failed: {error}") from error


class LocalStorage:
    """An archive in a folder of this machine, or of a network share that it mounts."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def prepare(self) -> None:
        """Make the archive's folders where they are not there yet."""
        with file_errors("making the archive's folders in", str(self._root)):
            (self._root / layout.DATASETS).mkdir(parents=True, exist_ok=True)

    def sizes(self, paths: Sequence[str]) -> list[int | None]:
        """Size of each file; None where there is no such file."""
        with file_errors("looking for files in", str(self._root)):
            return [self._size(self._root / path) for path in paths]

    @staticmethod
    def _size(path: Path) -> int | None:
        try:
            return path.stat().st_size if path.is_file() else None
        except (FileNotFoundError, NotADirectoryError):
            return None

    def folders(self) -> list[str]:
        """Names of the folders below datasets/."""
        top = self._root / layout.DATASETS
        with file_errors("listing", str(top)):
            if not top.exists():
                return []
            return sorted(entry.name for entry in top.iterdir() if entry.is_dir())

    def usage(self, path: str) -> Usage:
        """Bytes and last change of a folder and all below it."""
        top = self._root / path
        size, changed = 0, 0.0
        with file_errors("reading the size of", str(top)):
            for found in (top, *top.rglob("*")):
                try:
                    status = found.lstat()
                except FileNotFoundError:  # its writer, or another gc, removed it meanwhile
                    continue
                changed = max(changed, status.st_mtime)
                size += status.st_size if found.is_file() else 0
        return Usage(size, changed)

    def files(self, path: str) -> list[tuple[str, int, int]]:
        """Every file below a folder: relative path, size, time of change in milliseconds."""
        top = self._root / path
        with file_errors("listing", str(top)):
            found = [(entry, entry.stat()) for entry in top.rglob("*") if entry.is_file()]
        return sorted(
            (entry.relative_to(top).as_posix(), status.st_size, status.st_mtime_ns // 1_000_000)
            for entry, status in found
        )

    def remove(self, path: str) -> None:
        """Remove a folder with all below it; nothing happens if it is not there."""
        top = self._root / path
        with file_errors("removing", str(top)):
            for attempt in range(3):  # another gc may remove the same folder at the same time
                try:
                    shutil.rmtree(top)
                except FileNotFoundError:
                    if not top.exists():
                        return
                except OSError:
                    if attempt == 2:
                        raise
                    time.sleep(0.05)
                else:
                    return

    def read_text(self, path: str) -> str | None:
        """Content of a small file; None where there is no such file."""
        with file_errors("reading", str(self._root / path)):
            target = self._root / path
            if target.exists() and not target.is_file():
                raise OSError(f"{target} is not a file")
            try:
                return target.read_text(encoding="utf-8")
            except FileNotFoundError:
                return None

    def write_text(self, path: str, text: str) -> None:
        """Write a small file, whole or not at all."""
        target = self._root / path
        with file_errors("writing", str(target)):
            draft = target.with_name(f"{target.name}.{os.getpid()}")
            draft.write_text(text, encoding="utf-8")
            draft.replace(target)


class ArrowStorage:
    """An archive behind a URL that pyarrow knows: s3, gs, abfs, hdfs, ..."""

    def __init__(self, filesystem: Any, root: str) -> None:
        self._files, self._root = filesystem, root

    @classmethod
    def of_url(cls, location: str) -> "ArrowStorage":
        """The storage of a URL; what reaches it (keys, region) comes from the environment."""
        with file_errors("reaching", location):
            from pyarrow import fs

            filesystem, root = fs.FileSystem.from_uri(layout.canonical(location))
        return cls(filesystem, root)

    def prepare(self) -> None:
        """Make the archive's folders where they are not there yet."""
        with file_errors("making the archive's folders in", self._root):
            self._files.create_dir(layout.join(self._root, layout.DATASETS), recursive=True)

    def sizes(self, paths: Sequence[str]) -> list[int | None]:
        """Size of each file; None where there is no such file."""
        with file_errors("looking for files in", self._root):
            found = self._files.get_file_info([layout.join(self._root, path) for path in paths])
            return [info.size if info.is_file else None for info in found]

    def folders(self) -> list[str]:
        """Names of the folders below datasets/."""
        found = self._below(layout.DATASETS, recursive=False)
        return sorted(info.base_name for info in found if not info.is_file)

    def usage(self, path: str) -> Usage:
        """Bytes and last change of a folder and all below it."""
        found = [info for info in self._below(path, recursive=True) if info.is_file]
        changed = max((info.mtime_ns or 0 for info in found), default=0)
        return Usage(sum(info.size for info in found), changed / 1e9)

    def _below(self, path: str, *, recursive: bool) -> list[Any]:
        top = layout.join(self._root, path)
        with file_errors("listing", top):
            from pyarrow import fs

            chosen = fs.FileSelector(top, allow_not_found=True, recursive=recursive)
            return list(self._files.get_file_info(chosen))

    def files(self, path: str) -> list[tuple[str, int, int]]:
        """Every file below a folder: relative path, size, time of change in milliseconds."""
        top = layout.join(self._root, path)
        found = [info for info in self._below(path, recursive=True) if info.is_file]
        return sorted(
            (info.path[len(top) + 1 :], info.size, (info.mtime_ns or 0) // 1_000_000)
            for info in found
        )

    def remove(self, path: str) -> None:
        """Remove a folder with all below it; nothing happens if it is not there."""
        top = layout.join(self._root, path)
        with file_errors("removing", top):
            try:
                self._files.delete_dir(top)
            except FileNotFoundError:
                return

    def read_text(self, path: str) -> str | None:
        """Content of a small file; None where there is no such file."""
        with file_errors("reading", layout.join(self._root, path)):
            try:
                with self._files.open_input_stream(layout.join(self._root, path)) as stream:
                    return bytes(stream.read()).decode()
            except FileNotFoundError:
                return None

    def write_text(self, path: str, text: str) -> None:
        """Write a small file; object stores show it whole or not at all."""
        target = layout.join(self._root, path)
        with file_errors("writing", target), self._files.open_output_stream(target) as stream:
            stream.write(text.encode())
