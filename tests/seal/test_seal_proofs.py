"""Proofs hold for what was sealed, and nothing in them can be changed."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from seal_kit import SHAPES, Vault

import whence
from whence import ProofError
from whence.algebra.canonical import header
from whence.errors import SelectionError

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.full]

ROWS = {
    "join": "sequence = 'aat'",
    "left": "sequence = 'aat'",
    "group": "area = 's'",
    "groups": None,
    "window": "id = 2",
    "semi": "seqid = '1'",
    "items": "item = 3",
    "scalar": "id = 1",
    "empty": None,
}


@pytest.mark.parametrize("name", ROWS)
def test_a_proof_holds_and_shows_the_traced_rows(vault: Vault, name: str) -> None:
    run = vault.archive.run(name)
    proof = run.prove(ROWS[name])
    shown = whence.verify_proof(proof)
    trace = run.trace(ROWS[name])
    assert len(shown.inputs) == sum(len(trace[source]) for source in trace)
    assert shown.seal == vault.archive.sealed.seal_of(run.stored).id
    assert shown.columns == tuple(run.columns)


def test_the_values_of_a_proof(vault: Vault) -> None:
    shown = whence.verify_proof(vault.archive.run("join").prove(None))
    assert shown.row is not None
    assert shown.row.endswith("s3:aats1:1")
    found = [record.removeprefix(header(names)) for names, record in filter(None, shown.inputs)]
    assert sorted(found) == [
        "s1:1s3:aat",
        "s3:aat",
    ]


def test_values_can_be_hidden(vault: Vault) -> None:
    proof = vault.archive.run("join").prove(None, hide=True)
    assert "aat" not in json.dumps(json.loads(proof)["row"])
    assert all("bytes" not in node for node in json.loads(proof)["nodes"])
    shown = whence.verify_proof(proof)
    assert shown.row is None
    assert shown.inputs == (None, None)


@pytest.mark.parametrize(("name", "hide"), [("join", False), ("group", True), ("window", False)])
def test_any_changed_byte_of_a_proof_fails(vault: Vault, name: str, hide: bool) -> None:
    proof = vault.archive.run(name).prove(ROWS[name], hide=hide).encode()
    whence.verify_proof(proof.decode())
    draw = random.Random(7)
    for _ in range(400):
        position = draw.randrange(len(proof))
        changed = bytes([proof[position] ^ draw.randrange(1, 256)])
        forged = proof[:position] + changed + proof[position + 1 :]
        with pytest.raises((ProofError, UnicodeDecodeError)):
            whence.verify_proof(forged.decode())


def forged(proof: str, change: str, value: object) -> str:
    """The proof with one field changed, spelled as whence spells it."""
    data = json.loads(proof)
    inner = data
    *path, last = change.split(".")
    for part in path:
        inner = inner[int(part)] if isinstance(inner, list) else inner[part]
    inner[int(last) if isinstance(inner, list) else last] = value
    return json.dumps(data, sort_keys=True, separators=(",", ":")) + "\n"


def test_forged_proofs(vault: Vault) -> None:
    proof = vault.archive.run("join").prove(None)
    other = json.loads(vault.archive.run("window").prove("id = 2"))
    data = json.loads(proof)
    for change, value in (
        ("row", other["row"]),
        ("nodes", other["nodes"]),
        ("nodes", [*data["nodes"], data["nodes"][0]]),
        ("nodes.2.inputs", [1, 0]),
        ("nodes.2.label", data["nodes"][2]["label"].replace("inner", "left")),
        ("nodes.0.columns", ["seqid", "secret"]),
        ("nodes.0.bytes", data["nodes"][0]["bytes"].replace("aat", "ccg")),
        ("position", other["position"]),
        ("position.index", 1),
        ("position.count", 2),
        ("position.step", -1),
        ("seal", other["seal"]),
        ("seal.shown", data["seal"]["shown"][:2]),
        ("seal.shown.0.content.0.rows", 7),
        ("seal.signature", "00" * 64),
        ("format", 1),
        ("extra", None),
    ):
        with pytest.raises(ProofError):
            whence.verify_proof(forged(proof, change, value))
    whence.verify_proof(proof)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "1", '{"whence":"proof"}\n', "\x00"])
def test_what_is_no_proof(text: str) -> None:
    with pytest.raises(ProofError):
        whence.verify_proof(text)


def test_a_proof_is_of_one_row_of_a_sealed_run(vault: Vault) -> None:
    with pytest.raises(SelectionError, match="3 rows were chosen"):
        vault.archive.run("group").prove(None)
    with pytest.raises(ProofError, match="not under"):
        whence.verify_proof(vault.archive.run("join").prove(None), expect="0" * 8)
    assert set(ROWS) <= set(SHAPES)


def test_of_equal_rows_the_first_is_proven(spark: Any, tmp_path: Path) -> None:
    frame = spark.sql("SELECT id % 2 AS half FROM range(6)")
    run = whence.capture(frame, archive=tmp_path / "archive", mode="eager", seal=True)
    shown = whence.verify_proof(run.prove("half = 1"))
    assert shown.row is not None
    assert shown.row.endswith("i1;")
    with pytest.raises(SelectionError, match="6 rows"):
        run.prove("half >= 0")
