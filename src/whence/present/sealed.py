"""What sealing, verifying, proving and asking the sealed archive gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whence.algebra.canonical import header
from whence.archive.forget import Plan
from whence.archive.proof import Place, Proven, Record
from whence.archive.seal import Seal
from whence.archive.verify import Verification
from whence.present.report import Grid, Report, dicts
from whence.present.text import Amount
from whence.present.values import count, moment, size
from whence.trace.ptable import Node
from whence.trace.usage import Usage


def seals_report(seals: Sequence[Seal]) -> Report:
    """Seals, as they follow each other."""
    records = Grid(
        ("number", "seal", "kind", "run", "name", "signer"),
        [
            (
                seal.number,
                seal.id,
                seal.kind,
                seal.run,
                (seal.sections.get("run") or {}).get("name"),
                seal.sections["seal"]["signer"],
            )
            for seal in seals
        ],
    )
    shown = Grid(
        ("seal", "id", "of"),
        [(row[0], row[1], row[4] if row[2] == "run" else row[2]) for row in records.rows],
    )
    return Report((shown,) if seals else ("no seals",), {"seals": dicts(records)}, records)


def verify_report(found: Verification) -> Report:
    """What verification found, and what is not covered."""
    records = Grid(("where", "problem"), [(f.where, f.problem) for f in found.findings])
    looked = (
        f"{count(found.seals, 'seal')}, {count(found.files, 'file')}, {size(found.bytes)}, "
        f"{count(found.sources, 'source')}"
    )
    blocks: list[str | Grid] = [f"looked at {looked}"]
    if found.findings:
        blocks += [f"{count(len(found.findings), 'finding')}:", records]
    else:
        blocks.append("everything that seals cover is as it was sealed")
    if found.last:
        blocks.append(f"last seal: {found.last}")
    blocks += [f"note: {note}" for note in found.notes]
    data = {
        "ok": found.ok,
        "findings": dicts(records),
        "notes": found.notes,
        "seals": found.seals,
        "files": found.files,
        "bytes": found.bytes,
        "sources": found.sources,
        "last": found.last,
    }
    return Report(tuple(blocks), data, records)


def proof_report(found: Proven, *, known: bool = True) -> Report:
    """What a proof shows; `known` says that its seal or signer was held against a known one."""
    inputs = [_source_row(shown) for shown in found.inputs]
    records = Grid(("columns", "record"), inputs)
    signed = f"signed by {found.signer}" if found.signer else "not signed"
    row = "hidden" if found.row is None else _values(found.columns or (), found.row)
    text = (
        f"the proof holds under seal {found.number} ({found.seal}), {signed}\n"
        f"row: {row}\nderived through {count(found.nodes, 'node')} from "
        f"{count(len(inputs), 'source row')}"
    )
    data = {
        "seal": found.seal,
        "number": found.number,
        "signer": found.signer,
        "columns": found.columns,
        "row": found.row,
        "inputs": dicts(records),
        "nodes": found.nodes,
    }
    if not known:
        text += (
            "\nanyone can make a seal: compare its id with one that you know from elsewhere "
            "(--expect), or its signer (--public-key)"
        )
    return Report((text, records) if inputs else (text,), data, records)


def _source_row(shown: Record | Place | None) -> tuple[str, str]:
    """What names a source row, and the row."""
    match shown:
        case None:
            return "hidden", ""
        case Record(columns, text):
            return ", ".join(columns), _values(columns, text)
        case Place(uri, row, modified, digest):
            file = f"SHA-256 {digest}" if modified is None else f"modified {moment(modified)}"
            return "by its place", f"row {row} of {uri}, {file}"


def _values(columns: Sequence[str], record: str) -> str:
    """The values of a record, without what tells its columns."""
    return record.removeprefix(header(columns))


def nodes_report(
    nodes: Sequence[tuple[Node, Mapping[str, Any]]], unseen: Sequence[str] = ()
) -> Report:
    """Nodes, with what else is known of each, and what could not be looked at."""
    extra = tuple(nodes[0][1]) if nodes else ()
    records = Grid(
        ("id", "token", "form", "text", *extra),
        [(n.id, n.token, n.form, n.text, *more.values()) for n, more in nodes],
    )
    shown = Grid(
        ("node", "token", "form", "what", *extra),
        [(n.id, n.token[:16], n.form, n.text, *more.values()) for n, more in nodes],
    )
    title = count(len(nodes), "node")
    data = {"nodes": dicts(records), **({"unseen": list(unseen)} if unseen else {})}
    told = [f"not looked at: {text}" for text in unseen]
    return Report((title, *([shown] if nodes else []), *told), data, records)


def usage_report(found: Sequence[Usage]) -> Report:
    """Bytes by run."""
    records = Grid(
        ("run", "name", "own", "shared", "nodes", "shared_nodes"),
        [(u.run, u.name, u.own, u.shared, u.nodes, u.shared_nodes) for u in found],
    )
    shown = Grid(
        ("run", "name", "own", "shared", "nodes", "shared nodes"),
        [
            (u.run, u.name, Amount(size(u.own)), Amount(size(u.shared)), u.nodes, u.shared_nodes)
            for u in found
        ],
    )
    return Report((shown,) if found else ("no runs",), {"runs": dicts(records)}, records)


def forget_report(found: Plan) -> Report:
    """What was forgotten."""
    records = Grid(("run", "name"), [(run.id, run.name) for run in found.runs])
    text = (
        f"forgot {count(len(found.runs), 'run')}, {count(len(found.datasets), 'dataset')}, "
        f"{size(found.bytes)}; a seal says so"
    )
    return Report((text,), {"runs": dicts(records), "bytes": found.bytes}, records)


def uses_report(found: Any) -> Report:
    """Which stored results use a record, and what could not be looked at."""
    records = Grid(("run", "name", "rows"), [(use.run, use.name, use.rows) for use in found])
    none = (
        "no result that could be looked at uses it" if found.unseen else "no sealed result uses it"
    )
    title = f"used by {count(len(found), 'run')}" if found else none
    unseen = [f"not looked at: {text}" for text in found.unseen]
    data = {"runs": dicts(records), "unseen": list(found.unseen)}
    return Report((title, *([records] if found.results else []), *unseen), data, records)
