"""Tables of the catalog that sealing needs: settings, labels, id ranges, seals, who seals.

They are made when an archive is first sealed; an archive without them has no seals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    delete,
    insert,
    inspect,
    select,
    update,
)

from whence.archive.catalog import Catalog
from whence.archive.tokens import BITS, FORMULAS, SCHEMES
from whence.errors import ArchiveError, SelectionError

metadata = MetaData()

settings = Table(
    "seal_settings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
counters = Table(
    "seal_counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
labels = Table(
    "seal_labels",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("digest", Text, nullable=False),
    Column("form", Text, nullable=False),
    Column("parts", Integer, nullable=False),
    Column("text", Text, nullable=False),
    UniqueConstraint("digest", "form", "parts"),
)
ranges = Table(
    "seal_ranges",
    metadata,
    Column("start", BigInteger, primary_key=True, autoincrement=False),
    Column("count", BigInteger, nullable=False),
    Column("path", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("modified", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    # The dataset that first brought it: how the file is read.
    Column("dataset", Text, nullable=False),
    # Which columns the tokens of its rows cover: read with others, its rows are other nodes.
    Column("record", Text, nullable=False),
    UniqueConstraint("path", "size", "modified", "digest", "record"),
)
seals = Table(
    "seals",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False, unique=True),
    Column("run", Text, index=True),
    Column("content", Text, nullable=False),
    Column("signature", Text),
)
sealers = Table(
    "sealers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("writer", Text, nullable=False),
)

_FIRST_ID = 1


@dataclass(frozen=True, slots=True)
class SealSettings:
    """How the archive's tokens are made; fixed by its first seal."""

    scheme: Literal["value", "origin", "content"] = "value"
    bits: int = 256
    leaf_digests: bool = True

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise SelectionError(f"unknown token scheme {self.scheme!r}; it is one of {SCHEMES}")
        if self.bits not in BITS:
            raise SelectionError(f"a token has one of {BITS} bits, not {self.bits}")

    @property
    def section(self) -> dict[str, Any]:
        """What a seal says of them."""
        return {
            "formulas": FORMULAS,
            "scheme": self.scheme,
            "bits": self.bits,
            "leaf_digests": self.leaf_digests,
        }


@dataclass(frozen=True, slots=True)
class LabelRow:
    """A label: what kind of node it makes of how many parts, and its text for people."""

    number: int
    digest: str
    form: str
    parts: int
    text: str


@dataclass(frozen=True, slots=True)
class RangeRow:
    """The node ids of a source file's rows."""

    start: int
    count: int
    path: str
    size: int
    modified: int
    digest: str
    dataset: str
    record: str


@dataclass(frozen=True, slots=True)
class SealRow:
    """A seal as the catalog holds it; `content` is canonical JSON."""

    number: int
    id: str
    run: str | None
    content: str
    signature: str | None


def is_sealed(connection: Connection) -> bool:
    """Whether the archive has the tables of sealing."""
    return inspect(connection).has_table(seals.name)


def prepare(catalog: Catalog) -> None:
    """Make the tables if they are not there."""
    catalog.write(metadata.create_all)


def agree(connection: Connection, wanted: SealSettings | None) -> SealSettings:
    """The settings of the archive: as its first seal fixed them, until then as wanted."""
    found = load_settings(connection)
    fixed = any(row.run is not None for row in load_seals(connection))
    if found is None or (wanted is not None and not fixed):
        found = wanted or SealSettings()
        rows = [{"name": k, "value": str(v)} for k, v in found.section.items()]
        connection.execute(delete(settings))
        connection.execute(insert(settings), rows)
    if connection.execute(select(counters.c.name)).first() is None:
        connection.execute(insert(counters), {"name": "node", "value": _FIRST_ID})
    if wanted is not None and found != wanted:
        raise SelectionError(
            f"this archive's tokens are made with {found}; its first seal fixed that, so "
            f"{wanted} cannot be had: use another archive"
        )
    return found


def load_settings(connection: Connection) -> SealSettings | None:
    """The archive's settings; None before its first seal."""
    found = connection.execute(select(settings.c.name, settings.c.value))
    rows = {row.name: row.value for row in found}
    if not rows:
        return None
    if rows.get("formulas") != str(FORMULAS):
        raise ArchiveError(
            f"the tokens of this archive are made with formulas {rows.get('formulas', '1')}, and "
            f"this version of whence knows formulas {FORMULAS}: use the version that sealed it, "
            "or capture and seal into a new archive"
        )
    damaged = ArchiveError(f"the catalog is damaged: its seal settings are {rows}")
    try:
        loaded = SealSettings(rows["scheme"], int(rows["bits"]), rows["leaf_digests"] == "True")
    except (KeyError, ValueError) as error:
        raise damaged from error
    if any(rows[name] != str(value) for name, value in loaded.section.items()):
        raise damaged  # they are not spelled as whence spells them
    return loaded


def reserve(connection: Connection, count: int) -> int:
    """The first of `count` node ids."""
    change = update(counters).where(counters.c.name == "node")
    connection.execute(change.values(value=counters.c.value + count))
    return next_id(connection) - count


def next_id(connection: Connection) -> int:
    """The first node id that was not given out."""
    chosen = select(counters.c.value).where(counters.c.name == "node")
    return int(connection.execute(chosen).scalar_one())


def load_labels(connection: Connection) -> list[LabelRow]:
    """All labels, in the order of their numbers."""
    rows = connection.execute(select(labels).order_by(labels.c.number))
    return [LabelRow(*row) for row in rows]


def number_labels(
    connection: Connection, wanted: Iterable[tuple[str, str, int, str]]
) -> dict[tuple[str, str, int], int]:
    """The number of each label (digest, form, parts, text); new ones get the next numbers."""
    known = {(row.digest, row.form, row.parts): row.number for row in load_labels(connection)}
    for digest, form, parts, text in wanted:
        if (digest, form, parts) in known:
            continue
        number = max(known.values(), default=0) + 1
        row = {"number": number, "digest": digest, "form": form, "parts": parts, "text": text}
        connection.execute(insert(labels), row)
        known[digest, form, parts] = number
    return known


def load_ranges(connection: Connection) -> list[RangeRow]:
    """All id ranges, in order."""
    rows = connection.execute(select(ranges).order_by(ranges.c.start))
    return [RangeRow(*row) for row in rows]


def range_of(connection: Connection, wanted: RangeRow) -> RangeRow:
    """The range of a file, reserved where it has none (`start` of what is given is ignored)."""
    chosen = select(ranges).where(
        ranges.c.path == wanted.path,
        ranges.c.size == wanted.size,
        ranges.c.modified == wanted.modified,
        ranges.c.digest == wanted.digest,
        ranges.c.record == wanted.record,
    )
    found = connection.execute(chosen).first()
    if found is not None:
        return RangeRow(*found)
    row = replace(wanted, start=reserve(connection, max(wanted.count, 1)))
    values: dict[str, Any] = {column.name: getattr(row, column.name) for column in ranges.columns}
    connection.execute(insert(ranges), values)
    return row


def load_seals(connection: Connection) -> list[SealRow]:
    """The chain, oldest first."""
    rows: Sequence[Any] = connection.execute(select(seals).order_by(seals.c.number)).all()
    return [SealRow(*row) for row in rows]
