"""Where views are kept: one JSON document per function, under a digest of its code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from whence.errors import ArrayError, FormatError

FORMAT = 3
Document = dict[str, Any]


class ViewStore(Protocol):
    """Holds one document per digest; an archive can be one."""

    def load(self, digest: str) -> Document | None:
        """The document under a digest, or None."""

    def save(self, digest: str, document: Document) -> None:
        """Keep a document; what was there before is replaced as a whole."""


class MemoryStore:
    """Views for this process only."""

    def __init__(self) -> None:
        self._documents: dict[str, str] = {}

    def load(self, digest: str) -> Document | None:
        """The document under a digest, or None."""
        text = self._documents.get(digest)
        return None if text is None else _parse(text, digest)

    def save(self, digest: str, document: Document) -> None:
        """Keep a document."""
        self._documents[digest] = json.dumps(document)


class FolderStore:
    """Views in a folder, one file per function, written whole or not at all."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def load(self, digest: str) -> Document | None:
        """The document under a digest, or None."""
        path = self._path(digest)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ArrayError(f"cannot read views from {path}: {error}") from error
        return _parse(text, str(path))

    def save(self, digest: str, document: Document) -> None:
        """Keep a document: written under another name first, then moved into place."""
        path = self._path(digest)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            fresh = self.folder / f"{digest}.{uuid4().hex}.tmp"
            fresh.write_text(json.dumps(document), encoding="utf-8")
            fresh.replace(path)
        except OSError as error:
            raise ArrayError(f"cannot write views to {path}: {error}") from error

    def _path(self, digest: str) -> Path:
        return self.folder / f"{digest}.json"


def _parse(text: str, where: str) -> Document:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ArrayError(
            f"the views in {where} cannot be read ({error}); remove them and they are learned again"
        ) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        held = found.get("format") if isinstance(found, dict) else None
        raise FormatError(
            f"the views in {where} have format {held}; this version reads {FORMAT}; remove them "
            "and they are learned again"
        )
    return found
