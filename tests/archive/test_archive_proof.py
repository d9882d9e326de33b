"""Proofs made by hand: whatever is changed in one, or spelled otherwise, fails."""

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from whence.algebra.canonical import header
from whence.archive import merkle, seal, tokens
from whence.archive.digests import canonical_json
from whence.archive.proof import SHOWN, verify_proof
from whence.archive.signing import load_key, new_key, sign
from whence.cli import app
from whence.errors import ProofError, SelectionError

LABEL, GROUP = "join a and b", "sum"


def digest(shown: str) -> bytes:
    return hashlib.sha256(shown.encode()).digest()


def label(text: str) -> str:
    return hashlib.sha256(b"whence operator 1\n" + text.encode()).hexdigest()


def record(*names: str, value: str) -> dict[str, Any]:
    return {"columns": list(names), "bytes": header(names) + value}


class Made:
    """A proof of one row: the sum of a joined pair and of another row, taken twice."""

    def __init__(self, folder: Path, bits: int = 256, formulas: int = tokens.FORMULAS) -> None:
        self.public = new_key(folder / "key.pem")
        sources = [record("n", value="i1;"), record("n", value="s2:é"), record("n", value="i3;")]

        def node(full: bytes, source: bool) -> tokens.Input:
            return tokens.Input(tokens.shortened(full, bits), source)

        first, second, third = (
            node(tokens.value(source["bytes"].encode()), True) for source in sources
        )
        joint = node(tokens.joint(label(LABEL), [first, None, second]), False)
        bag = node(tokens.bag(label(GROUP), [(third, True, 2), (joint, True, 1)]), False)
        row = record("total", value="i6;")
        leaf = tokens.output_leaf(digest(row["bytes"]), bag)
        root = merkle.root([merkle.root([leaf])]).hex()
        sections = {
            "output": [{"dataset": "d", "rows": 1, "root": root}],
            "seal": {"number": 1, "signer": self.public},
            "settings": {"bits": bits, "formulas": formulas},
            "run": {"name": "r"},
        }
        leaves = seal.section_leaves(sections)
        order = [name for name, _ in leaves]
        self.id = seal.seal_id(sections)
        self.proof: dict[str, Any] = {
            "whence": "proof",
            "format": 2,
            "seal": {
                "id": self.id,
                "sections": len(order),
                "shown": [
                    {
                        "name": name,
                        "content": sections[name],
                        "index": order.index(name),
                        "path": [
                            h.hex() for h in merkle.path([x for _, x in leaves], order.index(name))
                        ],
                    }
                    for name in SHOWN
                ],
                "signature": sign(load_key(folder / "key.pem"), self.id),
            },
            "row": row,
            "position": {
                "step": 0,
                "chunk": 0,
                "chunks": 1,
                "index": 0,
                "count": 1,
                "path": [],
                "chunk_path": [],
            },
            "nodes": [
                *({"form": "source", **source} for source in sources),
                {"form": "joint", "label": LABEL, "inputs": [0, None, 1]},
                {"form": "bag", "label": GROUP, "members": [[2, True, 2], [3, True, 1]]},
            ],
        }
        self.inputs = [first, second, third, joint, bag]

    def check(self, proof: Any, **options: Any) -> Any:
        return verify_proof(canonical_json(proof).decode() + "\n", **options)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def at(proof: Any, path: str) -> tuple[Any, Any]:
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in way:
        proof = proof[part]
    return proof, last


def test_it_holds(made: Made) -> None:
    found = made.check(made.proof, public_key=made.public, expect=made.id)
    assert found.nodes == 5
    assert [entry and entry[1][-3:] for entry in found.inputs] == ["i1;", "2:é", "i3;"]


def test_tokens_of_other_formulas_are_told(tmp_path: Path) -> None:
    made = Made(tmp_path, formulas=2)
    with pytest.raises(ProofError, match="formulas 2, and this version"):
        made.check(made.proof)


def test_what_is_shown_of_it_are_the_values(made: Made, tmp_path: Path) -> None:
    (tmp_path / "proof.json").write_text(canonical_json(made.proof).decode() + "\n")
    asked = ["verify-proof", str(tmp_path / "proof.json")]
    data = json.loads(CliRunner().invoke(app, [*asked, "--format", "json"]).stdout)
    assert [record["record"] for record in data["inputs"]] == ["i1;", "s2:é", "i3;"]
    assert "row: i6;\n" in CliRunner().invoke(app, asked).stdout


def hide(entry: dict[str, Any], digest: bytes) -> None:
    del entry["bytes"], entry["columns"]
    entry["digest"] = digest.hex()


def test_records_can_be_hidden(made: Made) -> None:
    hide(made.proof["row"], digest(made.proof["row"]["bytes"]))
    for source, known in zip(made.proof["nodes"][:3], made.inputs[:3], strict=True):
        hide(source, known.token)
    assert made.check(made.proof, expect=made.id).inputs == (None, None, None)


@pytest.mark.parametrize("bits", [32, 64, 128, 256])
def test_a_hidden_record_is_its_token_and_nothing_more(tmp_path: Path, bits: int) -> None:
    """What is not hashed could be changed."""
    made = Made(tmp_path, bits)
    token = made.inputs[0].token
    hide(made.proof["nodes"][0], token)
    assert made.check(made.proof).inputs[0] is None
    for other in (token + bytes(1), token[:-1], token + bytes(32 - len(token) or 8), b""):
        made.proof["nodes"][0]["digest"] = other.hex()
        with pytest.raises(ProofError, match=f"{bits} bits"):
            made.check(made.proof)


@pytest.mark.parametrize("node", range(5))
def test_a_derivation_cannot_be_cut_off(made: Made, node: int) -> None:
    """What refers to a node says whether it is a source row, so none can stand for a derivation."""
    cut = copy.deepcopy(made.proof)
    cut["nodes"][node] = {"form": "source", "digest": made.inputs[node].token.hex()}
    if made.inputs[node].source:
        assert made.check(cut).nodes == 5
    else:
        with pytest.raises(ProofError):
            made.check(cut)
    cut["nodes"] = [cut["nodes"][node]]
    with pytest.raises(ProofError):
        made.check(cut)


def test_a_source_row_cannot_be_another_or_none(made: Made) -> None:
    hide(made.proof["nodes"][0], made.inputs[1].token)
    with pytest.raises(ProofError):
        made.check(made.proof)
    hide(made.proof["nodes"][1], made.inputs[0].token)
    with pytest.raises(ProofError):
        made.check(made.proof)


CHANGES: list[tuple[str, Any]] = [
    ("format", True),
    ("format", 1.0),
    ("seal.sections", 4.0),
    ("seal.shown.0.index", 0.0),
    ("position.index", False),
    ("position.index", 0.9),
    ("position.chunk", 0.5),
    ("position.count", True),
    ("position.step", False),
    ("position.step", 0.0),
    ("nodes.0.columns", "n"),
    ("nodes.0.columns", {"n": "secret"}),
    ("nodes.1.bytes", header(["n"]) + "s2:\udcc3\udca9"),
    ("nodes.3.inputs.0", False),
    ("nodes.3.inputs.2", True),
    ("nodes.3.label", LABEL + " "),
    ("nodes.4.members.0.2", 2.0),
    ("nodes.4.members.1.2", True),
    ("nodes.4.members", [[3, True, 1], [2, True, 2]]),
    ("row.bytes", header(["total"]) + "i7;"),
]


@pytest.mark.parametrize(("path", "value"), CHANGES)
def test_what_is_spelled_otherwise_fails(made: Made, path: str, value: Any) -> None:
    held, last = at(made.proof, path)
    held[last] = value
    with pytest.raises(ProofError):
        made.check(made.proof)


def test_a_signature_has_one_spelling(made: Made) -> None:
    about = made.proof["seal"]
    for other in (about["signature"].upper(), f" {about['signature']}", None, 7):
        with pytest.raises(ProofError):
            made.check({**made.proof, "seal": {**about, "signature": other}})


def test_the_wanted_seal_must_be_told(made: Made) -> None:
    with pytest.raises(SelectionError, match="too short"):
        made.check(made.proof, expect="")
    with pytest.raises(ProofError, match="not under"):
        made.check(made.proof, expect="0" * 64)


def test_nested_too_deeply() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    with pytest.raises(ProofError):
        verify_proof(deep)
    with pytest.raises(ProofError):
        verify_proof(json.dumps({"whence": "proof"}))
