"""Whatever is changed in a sealed archive is found, named, and crashes nothing."""

import json
import os
import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from seal_kit import SHAPES, Vault, use_sources, write_sources

import whence
from whence.archive.signing import new_key
from whence.trace import recompute

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.full]

CHANGES = int(os.environ.get("WHENCE_BYTE_CHANGES", "300"))


def findings(place: Path, **options: Any) -> list[str]:
    return [str(finding) for finding in whence.verify_archive(place, **options).findings]


def test_an_untouched_archive_is_fine(vault: Vault) -> None:
    report = whence.verify_archive(vault.location)
    assert report.ok
    assert report.files > 20
    assert report.last == vault.archive.sealed.seals()[-1].id


def test_any_changed_byte_is_found(vault: Vault, tmp_path: Path) -> None:
    """Bytes of all files, each alone, drawn at random but the same ones every time."""
    place = vault.copy(tmp_path / "copy")
    files = sorted(path for path in place.rglob("*") if path.is_file())
    sizes = [path.stat().st_size for path in files]
    draw = random.Random(4)
    for number in range(CHANGES):
        # Half of the changes go to any byte, half to any file: small files count too.
        weights = sizes if number % 2 else [1 if size else 0 for size in sizes]
        path = draw.choices(files, weights)[0]
        data = path.read_bytes()
        position = draw.randrange(len(data))
        changed = bytes([data[position] ^ draw.randrange(1, 256)])
        path.write_bytes(data[:position] + changed + data[position + 1 :])
        found = findings(place, sources=False)
        assert found, f"byte {position} of {path.relative_to(place)}"
        if "datasets" in path.parts:
            assert path.name in found[0]
        path.write_bytes(data)
    assert findings(place) == []


def test_a_source_that_changed_is_named(vault: Vault, tmp_path: Path) -> None:
    source = next((vault.folder / "ref").glob("*.parquet"))
    data, before = source.read_bytes(), source.stat()
    try:
        source.write_bytes(data[:-9] + b"x" + data[-8:])
        (found,) = findings(vault.location)
        assert found == f"source 'ref': file://{source}: its content has changed"
    finally:
        source.write_bytes(data)
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_removed_added_and_swapped_files(vault: Vault, tmp_path: Path) -> None:
    place = vault.copy(tmp_path / "copy")
    one, two, *_ = sorted((place / "datasets").glob("*/part-*.parquet"))
    first, second = one.read_bytes(), two.read_bytes()
    one.unlink()
    assert [f for f in findings(place) if one.name in f and "gone" in f]
    one.write_bytes(second)
    two.write_bytes(first)
    found = " ".join(findings(place))
    assert one.name in found
    assert two.name in found
    one.write_bytes(first)
    two.write_bytes(second)
    (one.parent / "extra.parquet").write_bytes(first)
    assert findings(place) == [f"datasets/{one.parent.name}/extra.parquet: this file was added"]


CATALOG = [
    ("UPDATE runs SET name = 'other' WHERE name = 'join'", "run 'join'"),
    ("UPDATE steps SET document = replace(document, 'inner', 'cross')", "run 'join'"),
    ("UPDATE attachments SET content = X'00' WHERE rowid = 1", "run "),
    ("UPDATE datasets SET rows = rows + 1 WHERE kind = 'output'", "dataset "),
    ("UPDATE files SET slot = slot + 1", "dataset "),
    ("UPDATE seal_labels SET text = 'x' WHERE number = 1", "label 1"),
    ("UPDATE seal_ranges SET start = start + 1000000 WHERE start = 1", "id range 1"),
    ("UPDATE seal_settings SET value = '64' WHERE name = 'bits'", "settings"),
    ("UPDATE seals SET content = replace(content, 'eager', 'lazy') WHERE number = 3", "seal 3"),
    ("UPDATE seals SET signature = '00' WHERE number = 2", "seal 2"),
    ("DELETE FROM seals WHERE number = 2", "seal 3"),
    ("UPDATE seals SET number = -number WHERE number = 4", "seal -4"),
    ("UPDATE files SET rows = 'x' WHERE path LIKE '%sales%'", "source 'sales'"),
    ("UPDATE datasets SET version = 'x' WHERE name = 'sales'", "source 'sales'"),
    (
        "INSERT INTO datasets SELECT 'more', kind, name, location, schema, fingerprint, rows, "
        "bytes, properties, version, slots, run FROM datasets WHERE name = 'sales'",
        "dataset more",
    ),
    ("CREATE VIEW extra AS SELECT * FROM runs", "catalog"),
    ("CREATE TRIGGER extra AFTER INSERT ON runs BEGIN DELETE FROM files; END", "catalog"),
]


@pytest.mark.parametrize(("change", "where"), CATALOG)
def test_a_catalog_changed_through_sql(
    vault: Vault, tmp_path: Path, change: str, where: str
) -> None:
    place = vault.copy(tmp_path / "copy")
    connection = sqlite3.connect(place / "catalog.sqlite")
    connection.execute(change)
    connection.commit()
    connection.close()
    assert any(found.startswith(where) for found in findings(place, sources=False))


def test_an_older_catalog_is_noticed(spark: Any, vault: Vault, tmp_path: Path) -> None:
    """Replayed, alone or with its head: the head tells, or the seal that was written down."""
    place = vault.copy(tmp_path / "copy")
    old = (place / "catalog.sqlite").read_bytes(), (place / "head.json").read_bytes()
    use_sources(spark, vault.folder)
    run = whence.capture(spark.sql(SHAPES["join"]), name="later", archive=place, seal=True)
    last = run.seal().id
    assert findings(place) == []
    (place / "catalog.sqlite").write_bytes(old[0])
    assert any("one of them is older" in found for found in findings(place))
    (place / "head.json").write_bytes(old[1])
    (found,) = findings(place, expect=last)
    assert found.endswith("the chain was cut off or replaced")
    report = whence.verify_archive(place)
    assert any("belong to no run" in note for note in report.notes)


def test_a_truncated_chain_is_noticed(vault: Vault, tmp_path: Path) -> None:
    place = vault.copy(tmp_path / "copy")
    connection = sqlite3.connect(place / "catalog.sqlite")
    connection.execute("DELETE FROM seals WHERE number = (SELECT max(number) FROM seals)")
    connection.commit()
    connection.close()
    assert any(found.startswith("head.json: it names seal") for found in findings(place))
    (place / "head.json").unlink()
    assert any(found.startswith("head.json: it is missing") for found in findings(place))


def test_a_run_after_the_last_seal_is_a_note(spark: Any, vault: Vault, tmp_path: Path) -> None:
    place = vault.copy(tmp_path / "copy")
    run = whence.capture(spark.range(3), archive=place)
    report = whence.verify_archive(place)
    assert report.ok
    assert f"run {run.id} is not sealed" in report.notes


def test_what_is_forgotten_meanwhile_is_no_finding(
    vault: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, check = vault.copy(tmp_path / "copy"), recompute.check
    names = ["window", "group"]

    def check_later(*given: Any) -> None:
        while names:
            whence.open(place).forget([names.pop()])
        check(*given)

    monkeypatch.setattr(recompute, "check", check_later)
    report = whence.verify_archive(place, tokens=True)
    assert (report.findings, report.seals) == ([], len(SHAPES) + 2)


def test_keys(spark: Any, tmp_path: Path) -> None:
    write_sources(spark, tmp_path)
    public = new_key(tmp_path / "one.pem")
    other = new_key(tmp_path / "two.pem")
    place = tmp_path / "archive"
    run = whence.capture(spark.sql(SHAPES["join"]), archive=place)
    seal = run.seal(key=tmp_path / "one.pem")
    assert seal.sections["seal"]["signer"] == public
    assert findings(place, public_key=public) == []
    assert any("another key" in found for found in findings(place, public_key=other))
    proof = run.prove("sequence = 'aat'")
    assert whence.verify_proof(proof, public_key=public).signer == public
    with pytest.raises(whence.ProofError, match="another key"):
        whence.verify_proof(proof, public_key=other)
    forged = json.loads(proof)
    forged["seal"]["signature"] = "00" * 64
    with pytest.raises(whence.ProofError, match="signature"):
        whence.verify_proof(json.dumps(forged, sort_keys=True, separators=(",", ":")) + "\n")
    for change, said in (
        ("UPDATE seals SET signature = NULL", "signature is gone"),
        (f"UPDATE seals SET signature = '{'00' * 64}'", "signature is wrong"),
    ):
        copy = tmp_path / said.replace(" ", "-")
        shutil.copytree(place, copy)
        connection = sqlite3.connect(copy / "catalog.sqlite")
        connection.execute(change)
        connection.commit()
        connection.close()
        assert any(said in found for found in findings(copy))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"number":10', '"number":10.0', "damaged"),
        ('"counter":', '"counter":0.5e1', "damaged"),
        ("{", "[" * 100_000, "nested too deeply"),
    ],
)
def test_a_head_has_one_spelling(
    vault: Vault, tmp_path: Path, old: str, new: str, said: str
) -> None:
    place = vault.copy(tmp_path / "copy")
    head = place / "head.json"
    text = head.read_text()
    assert old in text
    head.write_text(text.replace(old, new, 1))
    assert any(said in found for found in findings(place, sources=False))


def test_what_is_no_file_is_a_finding(vault: Vault, tmp_path: Path) -> None:
    place = vault.copy(tmp_path / "copy")
    (place / "head.json").unlink()
    os.mkfifo(place / "head.json")
    assert any("not a file" in found for found in findings(place, sources=False))


def test_a_change_of_keys_is_noted(spark: Any, tmp_path: Path) -> None:
    place = tmp_path / "archive"
    for number in range(2):
        key = tmp_path / f"{number}.pem"
        new_key(key)
        run = whence.capture(spark.range(3), name=f"run {number}", archive=place)
        run.seal(key=key)
    report = whence.verify_archive(place)
    assert report.findings == []
    assert any("signed with 2 keys" in note for note in report.notes)


def test_what_is_no_archive_is_a_finding(tmp_path: Path) -> None:
    assert findings(tmp_path / "nothing")
    (tmp_path / "catalog.sqlite").write_bytes(b"not a database at all")
    assert findings(tmp_path)
