"""The head file: which seal is the last one, and the catalog's bytes when it was made.

The chain alone cannot tell that its end was cut off, nor the catalog that bytes between its rows
were changed. The head, in the archive's folder, says both. SQLite counts its transactions in the
file, so a catalog that was written to after the seal is told from one that was tampered with. Where
the last seal is signed the head is, so that nobody without the key can let it name another seal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence.archive import layout, ledger, seal, signing
from whence.archive.digests import canonical_json, digest
from whence.archive.ledger import SealRow

HEAD = "head.json"
_COUNTER = slice(24, 28)
_VALID_FOR = slice(92, 96)


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """The bytes of a catalog that is a file of the archive."""

    digest: str
    counter: int
    """How many transactions have changed it."""
    consistent: bool
    """Whether both places that hold the counter agree, as SQLite leaves them."""


def catalog_file(archive: Any) -> CatalogFile | None:
    """What the catalog's file looks like now; None where the catalog is elsewhere."""
    if not layout.is_local(archive.location):
        return None
    path = Path(archive.location) / layout.CATALOG
    if not path.exists():
        return None
    data = path.read_bytes()
    counter = int.from_bytes(data[_COUNTER], "big")
    return CatalogFile(digest(data), counter, counter == int.from_bytes(data[_VALID_FOR], "big"))


def refresh_head(archive: Any, key: Any = None) -> None:
    """Let the head file name the last seal, also where another sealer comes between.

    A head that names it stays as it is: what was done to the catalog since must still show. That
    of a signed seal is not written without the key that signed it: it would say nothing.
    """
    own = None if key is None else signing.public_hex(key)
    while True:
        last = archive.catalog.read(ledger.load_seals)[-1]
        signer = seal.from_row(last).sections["seal"]["signer"]
        if _named(archive) == (last.id, signer) or own not in (None, signer):
            return
        if own is None and signer is not None:
            return
        _write_head(archive, last, None if signer is None else key)


def _named(archive: Any) -> Any:
    """The seal that the head file names and who signed it, if it can be read."""
    try:
        head = read_head(archive)
    except ValueError:
        return None
    return None if head is None else (head.get("seal"), head.get("signer"))


def _write_head(archive: Any, row: SealRow, key: Any) -> None:
    found = catalog_file(archive)
    head: dict[str, Any] = {
        "archive": archive.catalog.archive_id,
        "seal": row.id,
        "number": row.number,
        "catalog": None if found is None else {"sha256": found.digest, "counter": found.counter},
    }
    if key is not None:
        head["signer"] = signing.public_hex(key)
        head["signature"] = signing.sign_head(key, canonical_json(head))
    archive.storage.write_text(HEAD, canonical_json(head).decode() + "\n")


def read_head(archive: Any) -> dict[str, Any] | None:
    """The head file; None if there is none. ValueError if it is damaged."""
    text = archive.storage.read_text(HEAD)
    if text is None:
        return None
    try:
        head = json.loads(text)
        spelled = canonical_json(head).decode() + "\n"
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if spelled != text or not isinstance(head, dict):
        raise ValueError("it is not spelled as whence spells it")
    return head
