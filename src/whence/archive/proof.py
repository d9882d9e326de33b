"""Proofs: that a row was derived that way from those inputs, checked with nothing else at hand.

A proof holds the row's canonical bytes (or only their hash), the nodes behind it down to source
rows, the row's way up the output's Merkle tree, and the sections of the seal that matter with their
way up to the seal's id. Everything in it is checked, so a proof in which anything was changed
fails. Its spelling is canonical JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from whence.algebra.canonical import header
from whence.archive import merkle, seal, signing, tokens
from whence.archive.digests import canonical_json
from whence.errors import ProofError, SelectionError
from whence.plan.labels import text_digest

FORMAT = 2
SHOWN = ("output", "seal", "settings")


class Record(NamedTuple):
    """A source row by its values."""

    columns: tuple[str, ...]
    text: str
    """Its canonical bytes."""


class Place(NamedTuple):
    """A source row by where it is; of its file the time of its last change is known, or its digest.

    The time is in milliseconds.
    """

    uri: str
    row: int
    modified: int | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Proven:
    """What a proof shows."""

    seal: str
    number: int
    signer: str | None
    columns: tuple[str, ...] | None
    row: str | None
    """The row's canonical bytes, if they are shown."""
    inputs: tuple[Record | Place | None, ...]
    """Each source row as the archive names it; None where its values are hidden."""
    nodes: int


def to_text(proof: Mapping[str, Any]) -> str:
    """A proof as the text of a file."""
    return canonical_json(proof).decode() + "\n"


def verify_proof(text: str, *, public_key: str | None = None, expect: str | None = None) -> Proven:
    """Check a proof's text; raises `ProofError` if it does not hold.

    `public_key` is the key that must have signed the seal, `expect` the seal's id (or its start).
    """
    try:
        proof = json.loads(text)
        if to_text(proof) != text:
            raise ProofError("the proof is not spelled as whence spells it: it was changed")
        return _check(proof, public_key, expect)
    except (ProofError, SelectionError):
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise ProofError(f"this is not a proof, or it was changed: {error}") from error
    except RecursionError:
        raise ProofError("this is not a proof: it is nested too deeply") from None


def _int(value: Any, least: float = 0) -> int:
    """A whole number, not negative if not told otherwise; true, 1.0 and the like are none."""
    if type(value) is not int or value < least:
        raise ProofError(f"{value!r} was found where a number was expected")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ProofError(f"{value!r} was found where text was expected")
    value.encode()  # no half of a surrogate pair, which other text could be spelled with
    return value


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise ProofError(f"{value!r} was found where a list was expected")
    return value


def _fields(value: Any, *names: str) -> list[Any]:
    """The fields of an object that has just these."""
    if type(value) is not dict:
        raise ProofError(f"{value!r} was found where an object was expected")
    if set(value) != set(names):
        raise ProofError(f"fields {sorted(value)} were found, {sorted(names)} were expected")
    return [value[name] for name in names]


def _check(proof: Any, public_key: str | None, expect: str | None) -> Proven:
    kind, version, about, row, position, nodes = _fields(
        proof, "whence", "format", "seal", "row", "position", "nodes"
    )
    if kind != "proof" or _int(version) != FORMAT:
        raise ProofError(f"this is {kind!r} of format {version!r}, not a proof of format {FORMAT}")
    sections = _check_seal(about, public_key, expect)
    bits, formulas = (sections["settings"][name] for name in ("bits", "formulas"))
    if formulas != tokens.FORMULAS:
        raise ProofError(
            f"the tokens of this proof are made with formulas {formulas!r}, and this version of "
            f"whence knows formulas {tokens.FORMULAS}: use the version that made it"
        )
    found = _inputs(_list(nodes), bits)
    columns, shown, hidden = _record(row)
    digest = hashlib.sha256(shown.encode()).digest() if shown is not None else hidden
    leaf = tokens.output_leaf(digest, found[-1] if found else None)
    _check_position(position, leaf, sections["output"])
    inputs = [_shown(node) for node in nodes if node["form"] == "source"]
    return Proven(
        seal=about["id"],
        number=sections["seal"]["number"],
        signer=sections["seal"]["signer"],
        columns=columns,
        row=shown,
        inputs=tuple(inputs),
        nodes=len(nodes),
    )


def _shown(node: Mapping[str, Any]) -> Record | Place | None:
    """A source row that was checked."""
    if "uri" in node:
        return Place(node["uri"], node["row"], node.get("modified"), node.get("digest"))
    return None if "digest" in node else Record(tuple(node["columns"]), node["bytes"])


def _check_seal(about: Any, public_key: str | None, expect: str | None) -> dict[str, Any]:
    identity, count, shown, signature = _fields(about, "id", "sections", "shown", "signature")
    _hash(identity)
    if expect is not None and not seal.is_id(identity, expect):
        raise ProofError(f"the proof is under seal {identity[:16]}, not under {expect[:16]}")
    if [section["name"] for section in _list(shown)] != list(SHOWN):
        raise ProofError("the sections that a proof must show are not all there")
    sections = {}
    for section in shown:
        name, content, index, way = _fields(section, "name", "content", "index", "path")
        leaf = seal.section_leaf(name, content)
        if merkle.climb(leaf, _int(index), _int(count), _hashes(way)).hex() != identity:
            raise ProofError(f"the section {name!r} does not belong to the seal")
        sections[name] = content
    signer = sections["seal"]["signer"]
    if signer is None:
        if signature is not None or public_key is not None:
            raise ProofError("the seal is not signed")
    else:
        if public_key is not None and signer != public_key.lower():
            raise ProofError("the seal is signed with another key")
        _hash(signature)
        if not signing.is_signed(signer, identity, signature):
            raise ProofError("the signature of the seal is wrong")
    return sections


def _check_position(position: Any, leaf: bytes, outputs: Sequence[Any]) -> None:
    step, chunk, chunks, index, count, inner, outer = _fields(
        position, "step", "chunk", "chunks", "index", "count", "path", "chunk_path"
    )
    found = merkle.climb(leaf, _int(index), _int(count), _hashes(inner))
    found = merkle.climb(found, _int(chunk), _int(chunks), _hashes(outer))
    if _int(step) != len(outputs) - 1:
        raise ProofError("the row is none of the run's result, but of a step on the way to it")
    if outputs[step]["root"] != found.hex():
        raise ProofError("the row, or the way it was derived, is not under the seal")


def _hashes(texts: Any) -> list[bytes]:
    return [_hash(text) for text in _list(texts)]


def _hash(text: Any) -> bytes:
    found = bytes.fromhex(_text(text))
    if found.hex() != text:
        raise ProofError("a hash is not spelled as whence spells it")
    return found


def _record(row: Any, bits: int = 256) -> tuple[tuple[str, ...] | None, str | None, bytes]:
    """Columns and canonical bytes of a record that is shown, or the digest of one that is not."""
    if set(row) == {"digest"}:
        found = _hash(row["digest"])
        if len(found) * 8 != bits:
            raise ProofError(f"the digest of a hidden record has {bits} bits here")
        return None, None, found
    names, shown = _fields(row, "columns", "bytes")
    columns = [_text(name) for name in _list(names)]
    if not _text(shown).startswith(header(columns)):
        raise ProofError("the columns of a record are not those that were hashed")
    return tuple(columns), shown, b""


def _inputs(nodes: Sequence[Any], bits: int) -> list[tokens.Input]:
    """Each node as others refer to it, computed from those before it; the last is the row's."""
    found: list[tokens.Input] = []
    used: set[int] = set()

    def at(index: Any) -> tokens.Input:
        place = _int(index)
        if place >= len(found):
            raise ProofError("a node refers to one that does not come before it")
        used.add(place)
        return found[place]

    for node in nodes:
        token = tokens.shortened(_full(node, at, bits), bits)
        found.append(tokens.Input(token, node["form"] == "source"))
    if bits == 256 and len(set(found)) < len(found):
        raise ProofError("a node is listed twice")
    if used != set(range(len(nodes) - 1)):
        raise ProofError("there are nodes that the row does not come from")
    return found


def _full(node: Any, at: Callable[[int], tokens.Input], bits: int) -> bytes:
    """The full hash of a node; of a hidden record the token, which is all there is of it."""
    match node["form"]:
        case "source":
            return _source({k: v for k, v in node.items() if k != "form"}, bits)
        case "joint":
            _, text, inputs = _fields(node, "form", "label", "inputs")
            given = [None if i is None else at(i) for i in _list(inputs)]
            return tokens.joint(_label(text), given)
        case "one":
            _, text, index, inner = _fields(node, "form", "label", "index", "input")
            position = None if index is None else _int(index)
            return tokens.one(_label(text), position, at(inner))
        case "bag":
            _, text, members = _fields(node, "form", "label", "members")
            listed = []
            for index, contributes, times in _list(members):
                if not isinstance(contributes, bool):
                    raise ProofError("a member's role is true or false")
                listed.append((at(index), contributes, _int(times)))
            if members != sorted(members):
                raise ProofError("the members of a group are not in order")
            return tokens.bag(_label(text), listed)
        case form:
            raise ProofError(f"there is no node of the form {form!r}")


def _source(node: Any, bits: int) -> bytes:
    if "uri" not in node:
        _, shown, hidden = _record(node, bits)
        return hidden if shown is None else tokens.value(shown.encode())
    if "modified" in node:
        uri, modified, row = _fields(node, "uri", "modified", "row")
        return tokens.origin(_text(uri), _int(modified, -math.inf), _int(row))
    uri, digest, row = _fields(node, "uri", "digest", "row")
    return tokens.content(_text(uri), _text(digest), _int(row))


def _label(text: Any) -> str:
    _text(text)
    return text_digest(text)
