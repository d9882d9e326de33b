"""Seals: what a seal says, how it is hashed, and the chain that seals form.

A seal has sections (run, plan, code, versions, sources, datasets, output, settings, ledger, seal).
Its id is the Merkle root over the sections, so that a proof can show one of them and only hashes
of the others. The section `seal` names the seal before it: that makes the chain.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from whence.archive import format_1, merkle
from whence.archive.digests import canonical_json, digest, json_digest
from whence.archive.ledger import SealRow
from whence.errors import ArchiveError, SelectionError

FORMAT = 1
_SHORTEST = 8


@dataclass(frozen=True, slots=True)
class Seal:
    """A seal, parsed."""

    id: str
    sections: Mapping[str, Any]
    signature: str | None

    @property
    def number(self) -> int:
        """Its place in the chain, from 1."""
        return int(self.sections["seal"]["number"])

    @property
    def kind(self) -> str:
        """`run`, or `forget` where runs were taken out."""
        return str(self.sections["seal"]["kind"])

    @property
    def previous(self) -> str | None:
        """The id of the seal before it."""
        found = self.sections["seal"]["previous"]
        return None if found is None else str(found)

    @property
    def run(self) -> str | None:
        """The id of the run it seals."""
        found = self.sections.get("run")
        return None if found is None else str(found["id"])


def section_leaves(sections: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """The Merkle leaf of each section, in the order of their names."""
    return [(name, section_leaf(name, sections[name])) for name in sorted(sections)]


def section_leaf(name: str, section: Any) -> bytes:
    """The Merkle leaf of a section."""
    return hashlib.sha256(b"\x00" + name.encode() + b":" + canonical_json(section)).digest()


def seal_id(sections: Mapping[str, Any]) -> str:
    """The id of a seal: the Merkle root over its sections."""
    return merkle.root([leaf for _, leaf in section_leaves(sections)]).hex()


def is_id(identity: str, wanted: str) -> bool:
    """Whether a seal's id is, or starts with, what somebody wrote down."""
    if len(wanted) < _SHORTEST:
        raise SelectionError(
            f"{wanted!r} is too short for the id of a seal: give {_SHORTEST} digits"
        )
    return identity.startswith(wanted.lower())


def to_row(sections: Mapping[str, Any], signature: str | None) -> SealRow:
    """A seal as the catalog holds it."""
    run = sections.get("run")
    return SealRow(
        number=int(sections["seal"]["number"]),
        id=seal_id(sections),
        run=None if run is None else str(run["id"]),
        content=canonical_json(sections).decode(),
        signature=signature,
    )


def from_row(row: SealRow) -> Seal:
    """A seal of the catalog; raises if its bytes are not what its id says."""
    try:
        sections = json.loads(row.content)
        about = sections["seal"]
        fine = (
            canonical_json(sections).decode() == row.content
            and about["number"] == row.number
            and seal_id(sections) == row.id
            and (sections.get("run") or {}).get("id") == row.run
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ArchiveError(f"seal {row.number} cannot be read: {error}") from error
    if not fine:
        raise ArchiveError(f"seal {row.number} is not what its id {row.id[:16]} stands for")
    return Seal(row.id, sections, row.signature)


# --- What the catalog says, as digests -------------------------------------------------------


def _rows(connection: Connection, table: Any, condition: Any, *order: Any) -> list[Any]:
    found = connection.execute(select(table).where(condition).order_by(*order))
    return [
        [digest(bytes(value)) if isinstance(value, bytes | memoryview) else value for value in row]
        for row in found
    ]


def run_digest(connection: Connection, run: str) -> str:
    """A digest of all that the catalog says of a run, its steps and their plans."""
    parts = [
        _rows(connection, format_1.runs, format_1.runs.c.id == run, format_1.runs.c.sequence),
        *(
            _rows(connection, table, table.c.run == run, *table.primary_key.columns)
            for table in (format_1.steps, format_1.step_datasets, format_1.attachments)
        ),
    ]
    return json_digest(parts)


def dataset_digest(connection: Connection, dataset: str) -> str:
    """A digest of all that the catalog says of an own dataset and its files."""
    table, listed = format_1.datasets, format_1.files
    return json_digest(
        [
            _rows(connection, table, table.c.id == dataset, table.c.id),
            _rows(connection, listed, listed.c.dataset == dataset, listed.c.position),
        ]
    )


def source_digest(connection: Connection, dataset: str) -> str:
    """A digest of what the catalog says of a source and may not change: place, version, files."""
    table, listed = format_1.datasets, format_1.files
    columns = ("id", "kind", "location", "fingerprint", "version", "slots")
    chosen = select(*(table.c[name] for name in columns)).where(table.c.id == dataset)
    row = connection.execute(chosen).first()
    found = _rows(connection, listed, listed.c.dataset == dataset, listed.c.position)
    return json_digest([None if row is None else list(row), found])


def description_digest(connection: Connection, dataset: str) -> str:
    """A digest of what the catalog says of a source and each run that reads it says anew."""
    table = format_1.datasets
    columns = (table.c.name, table.c.schema, table.c.rows, table.c.bytes, table.c.properties)
    row = connection.execute(select(*columns).where(table.c.id == dataset)).first()
    return json_digest(None if row is None else list(row))
