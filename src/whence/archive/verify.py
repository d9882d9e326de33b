"""Verifying: whether every byte that seals cover is what it was, and what is not.

The chain is read first, then folded into what the archive should hold now: each seal adds the files
and catalog entries that it covers, a `forget` takes some out. Then everything is looked at. A
finding says what is wrong and where; a note says what is not covered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from whence.archive import format_1, layout, ledger, signing
from whence.archive import seal as seals
from whence.archive.additions import added
from whence.archive.archive import Archive
from whence.archive.digests import canonical_json, file_digest
from whence.archive.expected import Expected
from whence.archive.head import HEAD, CatalogFile, catalog_file, read_head
from whence.archive.model import SEAL_KINDS
from whence.archive.seal import Seal
from whence.archive.sealer import label_entry, range_entry
from whence.errors import ArchiveError, WhenceError


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it was sealed."""

    where: str
    problem: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


@dataclass(slots=True)
class Verification:
    """The answer of `verify`."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seals: int = 0
    files: int = 0
    bytes: int = 0
    sources: int = 0
    last: str | None = None
    """Id of the last seal: kept elsewhere, it shows later that none was cut off."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def add(self, where: str, problem: str) -> None:
        """Note a finding."""
        self.findings.append(Finding(where, problem))


def verify(
    location: str,
    *,
    catalog: str | None = None,
    public_key: str | None = None,
    expect: str | None = None,
    sources: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Verification, Archive | None, Expected]:
    """Verify an archive; what cannot even be opened is a finding too.

    `public_key` is the key that must have signed every seal, `expect` the id of a seal that must
    be in the chain.
    """
    report, expected = Verification(), Expected()
    try:
        archive = Archive.open(location, catalog=catalog)
        chain = archive.catalog.read(lambda c: ledger.load_seals(c) if ledger.is_sealed(c) else [])
    except WhenceError as error:
        report.add("catalog", f"it cannot be read: {error}")
        return report, None, expected
    except Exception as error:  # a damaged catalog can make the driver fail in any way
        report.add("catalog", f"it cannot be read: {type(error).__name__}: {error}")
        return report, None, expected
    progress("checking the chain")
    _chain(archive, chain, report, expected, public_key, expect)
    _guarded(report, "head.json", lambda: _head(archive, chain, report, public_key))
    progress("checking the catalog")
    _guarded(
        report, "catalog", lambda: archive.catalog.read(lambda c: _catalog(c, report, expected))
    )
    progress("checking files")
    _guarded(report, "files", lambda: _files(archive, report, expected))
    if sources:
        progress("checking sources")
        _guarded(report, "sources", lambda: _sources(report, expected))
    return report, archive, expected


def _guarded(report: Verification, where: str, work: Callable[[], Any]) -> None:
    """Whatever a damaged archive makes fail is a finding, not a crash."""
    try:
        work()
    except Exception as error:
        report.add(where, f"it cannot be checked: {type(error).__name__}: {error}")


# --- The chain --------------------------------------------------------------------------------


def _chain(
    archive: Archive,
    chain: Sequence[ledger.SealRow],
    report: Verification,
    expected: Expected,
    public_key: str | None,
    expect: str | None,
) -> None:
    previous: str | None = None
    for number, row in enumerate(chain, 1):
        where = f"seal {row.number}"
        try:
            seal = seals.from_row(row)
            if row.number != number:
                report.add(where, f"the chain is broken: seal {number} was expected here")
            if seal.previous != previous:
                report.add(where, "the chain is broken: it does not follow the seal before it")
            if seal.sections["seal"]["archive"] != archive.catalog.archive_id:
                report.add(where, "it belongs to another archive")
            _signature(seal, where, report, public_key)
            expected.add(seal, report.add)
        except WhenceError as error:
            report.add(where, str(error))
        except Exception as error:  # a seal that whence did not write can say anything
            report.add(where, f"it does not say what a seal says: {type(error).__name__}: {error}")
        previous = row.id
        report.seals += 1
    report.last = chain[-1].id if chain else None
    if len(expected.signers) > 1:
        listed = ", ".join(f"{signer[:16]}…" for signer in expected.signers)
        report.notes.append(f"seals are signed with {len(expected.signers)} keys: {listed}")
    if expect is not None and not any(seals.is_id(row.id, expect) for row in chain):
        report.add("chain", f"seal {expect[:16]} is not in it: the chain was cut off or replaced")
    if chain:
        return
    if public_key is None:
        report.notes.append("the archive has no seals, so nothing is covered")
    else:
        report.add("chain", "the archive has no seals, so nothing is signed")


def _signature(seal: Seal, where: str, report: Verification, public_key: str | None) -> None:
    signer = seal.sections["seal"]["signer"]
    if signer is None:
        if seal.signature is not None:
            report.add(where, "it has a signature but names no signer")
        if public_key is not None:
            report.add(where, "it is not signed")
        return
    if public_key is not None and signer != public_key.lower():
        report.add(where, f"it is signed with another key: {signer[:16]}…")
    if seal.signature is None:
        report.add(where, "its signature is gone")
    elif not signing.is_signed(signer, seal.id, seal.signature):
        report.add(where, "its signature is wrong")


def _head(
    archive: Archive,
    chain: Sequence[ledger.SealRow],
    report: Verification,
    public_key: str | None,
) -> None:
    """The head file names the last seal and the bytes of the catalog's file."""
    try:
        head = read_head(archive)
    except (ValueError, WhenceError) as error:
        report.add(HEAD, f"it is damaged: {error}")
        return
    if not chain:
        if head is not None:
            report.add(HEAD, "it names a seal, and the catalog holds none: the chain was removed")
        return
    if head is None:
        report.add(HEAD, "it is missing, so seals may have been cut off; `whence seal` writes it")
        return
    last = chain[-1]
    signature = head.pop("signature", None)
    said = {"archive", "seal", "number", "catalog"} | ({"signer"} if signature else set())
    if set(head) != said or type(head["number"]) is not int:
        report.add(HEAD, "it is damaged: it does not say what a head says")
        return
    _head_signature(head, signature, chain, report, public_key)
    if head["archive"] != archive.catalog.archive_id:
        report.add(HEAD, "it belongs to another archive")
    if (head["seal"], head["number"]) != (last.id, last.number):
        report.add(
            HEAD,
            f"it names seal {head['number']} ({str(head['seal'])[:16]}) as the last, and the "
            f"catalog ends with seal {last.number} ({last.id[:16]}): one of them is older",
        )
        return
    found = catalog_file(archive)
    if (found is None) != (head["catalog"] is None):
        report.add(HEAD, "it is damaged: what it says of the catalog does not fit")
    elif found is not None:
        _catalog_bytes(found, head["catalog"], report)


def _head_signature(
    head: Mapping[str, Any],
    signature: Any,
    chain: Sequence[ledger.SealRow],
    report: Verification,
    public_key: str | None,
) -> None:
    """Whether a head over signed seals is signed, with the key of one of them."""
    signers = {seals.from_row(row).sections["seal"]["signer"] for row in chain} - {None}
    if signature is None:
        if chain[-1].signature is not None:
            report.add(HEAD, "it is not signed, and the last seal is: it was written by another")
        return
    if head["signer"] not in ({public_key.lower()} if public_key else signers):
        report.add(HEAD, f"it is signed with another key: {str(head['signer'])[:16]}…")
    elif not signing.is_head_signed(head["signer"], canonical_json(head), signature):
        report.add(HEAD, "its signature is wrong")


def _catalog_bytes(found: CatalogFile, sealed: Any, report: Verification) -> None:
    """Whether the catalog's file is as it was, or was only written to by later transactions."""
    if set(sealed) != {"sha256", "counter"} or type(sealed["counter"]) is not int:
        report.add(HEAD, "it is damaged: what it says of the catalog does not fit")
    elif found.digest == sealed["sha256"]:
        if found.counter != sealed["counter"]:
            report.add(HEAD, "it is damaged: it counts other transactions than the catalog")
    elif found.counter <= sealed["counter"] or not found.consistent:
        report.add(layout.CATALOG, "bytes of it have changed since the last seal")
    else:
        report.notes.append(
            "the catalog was written to after the last seal; what seals cover in it is checked "
            "by content"
        )


# --- The catalog ------------------------------------------------------------------------------


def _catalog(connection: Connection, report: Verification, expected: Expected) -> None:
    stored = set(connection.execute(select(format_1.runs.c.id)).scalars())
    for run, seal in expected.runs.items():
        name = f"run {seal.sections['run']['name']!r}"
        if run not in stored:
            report.add(name, "it is no longer in the catalog")
        elif seals.run_digest(connection, run) != seal.sections["run"]["digest"]:
            report.add(name, "its entry in the catalog, its steps or its plan have changed")
    for run in sorted(stored - set(expected.runs)):
        if run in expected.forgotten:
            report.add(f"run {run}", "it was forgotten and is in the catalog again")
        else:
            report.notes.append(f"run {run} is not sealed")
    for dataset, about in expected.datasets.items():
        if seals.dataset_digest(connection, dataset) != about["catalog"]:
            report.add(f"dataset {dataset}", "its entry in the catalog has changed")
    for dataset, about in expected.sources.items():
        if seals.source_digest(connection, dataset) != about["catalog"]:
            report.add(f"source {about['name']!r}", "its entry in the catalog has changed")
        _description(connection, dataset, about, stored - set(expected.runs), report)
    table = format_1.datasets
    found = connection.execute(select(table.c.id, table.c.kind).where(table.c.kind.in_(SEAL_KINDS)))
    for dataset, kind in found:
        if dataset not in expected.datasets:
            report.add(f"dataset {dataset}", f"these {kind} are under no seal: they were added")
    _additions(connection, report, expected)
    if expected.runs or expected.labels:
        _ledger(connection, report, expected)


def _additions(connection: Connection, report: Verification, expected: Expected) -> None:
    """What no run and no seal knows of: data that nobody reads, and what changes data by itself."""
    table, links, steps = format_1.datasets, format_1.step_datasets, format_1.steps
    known = {*expected.datasets, *expected.sources}
    for column in (links.c.dataset, steps.c.output):
        known |= set(connection.execute(select(column)).scalars())
    listed = connection.execute(select(table.c.id).where(table.c.kind.not_in(SEAL_KINDS)))
    for dataset in sorted(set(listed.scalars()) - known):
        report.add(f"dataset {dataset}", "no run made or read it: it was added")
    for kind, name in added(connection):
        report.add("catalog", f"the {kind} {name!r} is none of whence's: it was added")


def _description(
    connection: Connection, dataset: str, about: Any, unsealed: set[str], report: Verification
) -> None:
    """Name, schema and properties of a source are as sealed, or as a later run renewed them."""
    if about.get("description") in (None, seals.description_digest(connection, dataset)):
        return
    links = format_1.step_datasets
    found = connection.execute(select(links.c.run).where(links.c.dataset == dataset)).scalars()
    where = f"source {about['name']!r}"
    if unsealed & set(found):
        report.notes.append(
            f"{where} was read again by a run that is not sealed, so its name and schema are not "
            "covered"
        )
    else:
        report.add(where, "its name, schema or properties in the catalog have changed")


def _ledger(connection: Connection, report: Verification, expected: Expected) -> None:
    labels = {str(row.number): label_entry(row) for row in ledger.load_labels(connection)}
    _compare("label", labels, expected.labels, report)
    ranges = {row.start: range_entry(row) for row in ledger.load_ranges(connection)}
    _compare("id range", ranges, expected.ranges, report)
    if ledger.next_id(connection) < expected.next_id:
        report.add("counter", "node ids that seals cover would be given out again")
    settings = ledger.load_settings(connection)
    for seal in expected.runs.values():
        if settings is None or seal.sections["settings"] != settings.section:
            report.add("settings", f"they are not those of seal {seal.number}")


def _compare(what: str, found: Any, sealed: Any, report: Verification) -> None:
    for key, entry in sealed.items():
        if key not in found:
            report.add(f"{what} {key}", "it is no longer in the catalog")
        elif found[key] != entry:
            report.add(f"{what} {key}", "its entry in the catalog has changed")
    extra = [key for key in found if key not in sealed]
    if extra:
        report.notes.append(f"{len(extra)} {what}s are not sealed: a sealing is going on, or died")


# --- Files ------------------------------------------------------------------------------------


def _files(archive: Archive, report: Verification, expected: Expected) -> None:
    storage = archive.storage
    for dataset, about in expected.datasets.items():
        folder = layout.folder(dataset)
        sealed = {name: (size, digest) for name, size, digest in about["files"]}
        try:
            found = {name for name, _, _ in storage.files(folder)}
        except ArchiveError as error:
            report.add(folder, str(error))
            continue
        for name in sorted(found - set(sealed)):
            report.add(f"{folder}/{name}", "this file was added")
        for name, (size, digest) in sealed.items():
            where = f"{folder}/{name}"
            if name not in found:
                report.add(where, "this file is gone")
                continue
            _file(layout.join(archive.location, where), where, size, digest, report)
    known = archive.catalog.read(lambda c: set(c.execute(select(format_1.datasets.c.id)).scalars()))
    unknown = [name for name in storage.folders() if name not in known]
    if unknown:
        report.notes.append(
            f"{len(unknown)} folders belong to no run: {', '.join(unknown[:3])}; see `whence gc`"
        )


def _file(path: str, where: str, size: int, digest: str, report: Verification) -> None:
    try:
        found = file_digest(path)
    except OSError as error:
        report.add(where, f"it cannot be read: {error.strerror or error}")
        return
    report.files += 1
    report.bytes += found[0]
    if found[0] != size:
        report.add(where, f"it has {found[0]} bytes, and had {size} when it was sealed")
    elif found[1] != digest:
        report.add(where, "its content has changed")


def _sources(report: Verification, expected: Expected) -> None:
    for about in expected.sources.values():
        files: Iterable[Any] = about["files"]
        for path, size, digest in files:
            _file(path, f"source {about['name']!r}: {path}", size, digest, report)
        report.sources += 1
