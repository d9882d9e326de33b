"""Making proofs: a row's values, the nodes behind it, and its way up to the seal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from whence.algebra.canonical import CHUNK
from whence.algebra.locators import ROW_BITS, ROW_MASK
from whence.archive import Archive, Dataset, merkle, tokens
from whence.archive.ledger import RangeRow
from whence.archive.proof import FORMAT, SHOWN, to_text, verify_proof
from whence.archive.seal import Seal, section_leaves
from whence.errors import ArchiveError, ProofError, SelectionError, SourceError
from whence.trace.closure import closure
from whence.trace.ptable import PTable, arranged
from whence.trace.records import SOURCE_HASH, record_names, record_texts
from whence.trace.tables import LOCATOR, Tables, check_source, local, text


class Prover:
    """Makes proofs of the rows of one sealed step's output."""

    def __init__(self, tables: Tables, table: PTable, seal: Seal) -> None:
        self._tables, self._table, self._seal = tables, table, seal
        self._archive: Archive = tables.archive

    def prove(self, output: Dataset, chosen: str, hide: bool = False) -> dict[str, Any]:
        """The proof of the only chosen row."""
        locator = self._only(output, chosen)
        outputs = self._seal.sections["output"]
        step = next(i for i, o in enumerate(outputs) if o["dataset"] == output.id)
        position, shown, node = self._position(output, locator, outputs[step]["root"])
        digest = hashlib.sha256(shown.encode()).digest() if hide else None
        proof = {
            "whence": "proof",
            "format": FORMAT,
            "seal": self._shown_seal(),
            "row": _record(record_names(output), shown, digest),
            "position": {"step": step, **position},
            "nodes": [] if node is None else self._nodes(node, hide),
        }
        try:
            verify_proof(to_text(proof))
        except ProofError as error:
            raise ArchiveError(
                "what the row comes from is not what was sealed, so nothing can be proven of it; "
                "see whence verify"
            ) from error
        return proof

    def _only(self, output: Dataset, chosen: str) -> int:
        """The locator of the chosen row; of rows with the same values, the first."""
        found = self._tables.run(
            f"SELECT min({LOCATOR}), count(*), count(DISTINCT b) FROM "
            f"({record_texts(self._tables, output)}) AS r "
            f"WHERE {LOCATOR} IN (SELECT locator FROM {chosen})",
            output,
        )
        locator, rows, different = found[0]
        if different != 1:
            raise SelectionError(f"a proof is of one row; {rows} rows were chosen")
        return int(locator)

    def _shown_seal(self) -> dict[str, Any]:
        leaves = section_leaves(self._seal.sections)
        order = [name for name, _ in leaves]
        hashes = [leaf for _, leaf in leaves]
        shown = [
            {
                "name": name,
                "content": self._seal.sections[name],
                "index": order.index(name),
                "path": [h.hex() for h in merkle.path(hashes, order.index(name))],
            }
            for name in SHOWN
        ]
        return {
            "id": self._seal.id,
            "sections": len(order),
            "shown": shown,
            "signature": self._seal.signature,
        }

    def _position(
        self, output: Dataset, locator: int, root: str
    ) -> tuple[dict[str, Any], str, int | None]:
        """The row's way up the tree over the output, its canonical bytes and its node."""
        rows = output_leaves(self._tables, self._table, output)
        position = {file.slot: number for number, file in enumerate(output.files)}
        by_file: dict[int, list[bytes]] = {}
        mine: tuple[int, int, str, int | None] | None = None
        for slot, row, shown, node, leaf in rows:
            leaves = by_file.setdefault(position[slot], [])
            if (slot << ROW_BITS) + row == locator:
                mine = (position[slot], len(leaves), shown, node)
            leaves.append(leaf)
        chunks: list[list[bytes]] = []
        chunk = -1
        if mine is None:
            raise ArchiveError("the chosen row is not in the output")
        for file in sorted(by_file):
            if file == mine[0]:
                chunk = len(chunks) + mine[1] // CHUNK
            leaves = by_file[file]
            chunks.extend(leaves[i : i + CHUNK] for i in range(0, len(leaves), CHUNK))
        roots = [merkle.root(leaves) for leaves in chunks]
        if merkle.root(roots).hex() != root:
            raise ArchiveError(
                "the output is not what was sealed, so nothing can be proven of it; "
                "see whence verify"
            )
        index = mine[1] % CHUNK
        way = {
            "chunk": chunk,
            "chunks": len(chunks),
            "index": index,
            "count": len(chunks[chunk]),
            "path": [h.hex() for h in merkle.path(chunks[chunk], index)],
            "chunk_path": [h.hex() for h in merkle.path(roots, chunk)],
        }
        return way, mine[2], mine[3]

    # --- Nodes ------------------------------------------------------------------------------

    def _nodes(self, root: int, hide: bool) -> list[dict[str, Any]]:
        """The nodes behind a node, inputs first, it last."""
        table, engine = self._table, self._table.engine
        start = engine.table("start", f"SELECT CAST({root} AS BIGINT) AS id")
        below = closure(table, start)
        rows = engine.run(
            f"SELECT n.id, n.label FROM {table.nodes} AS n WHERE n.id IN (SELECT id FROM {below})"
        )
        labels = {row[0]: row[1] for row in rows}
        ids = [row[0] for row in engine.run(f"SELECT id FROM {below} ORDER BY id")]
        derived = [i for i in ids if labels.get(i)]
        leaves = [i for i in ids if not labels.get(i)]
        order = [*leaves, *(i for i in derived if i != root)]
        if root not in leaves:
            order.append(root)
        numbers = {node: number for number, node in enumerate(order)}
        edges: dict[int, list[Any]] = {}
        for row in engine.run(
            f"SELECT derived, index, input, contributes, times FROM {table.edges} AS e "
            f"WHERE derived IN (SELECT id FROM {below}) ORDER BY derived, index, input"
        ):
            edges.setdefault(row[0], []).append(row[1:])
        shown = self._sources(leaves, hide)
        return [
            shown[i] if i in shown else self._derived(labels[i], edges.get(i, []), numbers)
            for i in order
        ]

    def _derived(self, label: int, edges: list[Any], numbers: dict[int, int]) -> dict[str, Any]:
        row = self._table.labels[label]
        about = {"form": row.form, "label": row.text}
        parts = arranged(row, edges)
        match row.form:
            case "joint":
                return {**about, "inputs": [None if i is None else numbers[i] for i in parts]}
            case "one":
                return {**about, "index": parts[0], "input": numbers[parts[1]]}
            case _:
                members = sorted([numbers[node], role, times] for node, role, times in parts)
                return {**about, "members": members}

    def _sources(self, ids: Sequence[int], hide: bool) -> dict[int, dict[str, Any]]:
        """Source rows with their values, or by what names them under the archive's scheme."""
        found: dict[int, dict[str, Any]] = {}
        by_file: dict[int, list[tuple[int, int]]] = {}
        for node in ids:
            place = self._table.located(node)
            if place is None:
                raise ArchiveError(f"node {node} is not in the catalog; see whence verify")
            by_file.setdefault(place[0].start, []).append((place[1], node))
        for row in self._table.ranges:
            wanted = by_file.get(row.start)
            if wanted is None:
                continue
            scheme = self._table.settings.scheme
            dataset = self._archive.dataset(row.dataset)
            if scheme != "value" and dataset.kind != "range":
                about = {"modified": row.modified} if scheme == "origin" else {"digest": row.digest}
                for index, node in wanted:
                    found[node] = {"form": "source", "uri": row.path, "row": index, **about}
                continue
            names = record_names(dataset)
            by_row = dict(wanted)
            for index, shown in self._texts(dataset, row.path, list(by_row)).items():
                node = by_row[index]
                full = tokens.value(shown.encode())
                digest = tokens.shortened(full, self._table.settings.bits)
                found[node] = {"form": "source", **_record(names, shown, digest if hide else None)}
        return found

    def _texts(self, dataset: Dataset, path: str, rows: Sequence[int]) -> dict[int, str]:
        """The canonical bytes of some rows of one file of a dataset."""
        check_source(dataset)
        slot = next(
            (f.slot for f in dataset.files if path in (f.path, f"{dataset.location}/{f.path}")), 0
        )
        start = slot << ROW_BITS
        wanted = ", ".join(str(start + row) for row in rows)
        sql = record_texts(self._tables, dataset)
        read = self._tables.run(
            f"SELECT {LOCATOR}, b FROM ({sql}) AS r WHERE {LOCATOR} IN ({wanted})", dataset
        )
        return {locator - start: shown for locator, shown in read}


def _record(names: list[str], shown: str, digest: bytes | None) -> dict[str, Any]:
    """A record as it is shown; only its digest, if there is one."""
    if digest is not None:
        return {"digest": digest.hex()}
    return {"columns": names, "bytes": shown}


def output_leaves(
    tables: Tables, table: PTable, output: Dataset
) -> list[tuple[int, int, str, int | None, bytes]]:
    """Slot, row, canonical bytes, node and Merkle leaf of each output row, file by file."""
    roots = next(
        (
            d
            for d in tables.archive.datasets()
            if d.kind == "roots" and d.properties["output"] == output.id
        ),
        None,
    )
    if roots is None:
        raise ArchiveError("this output is not sealed; see whence seal")
    listed = ", ".join(text(local(path)) for path in tables.archive.file_paths(roots))
    rows = tables.run(
        f"SELECT r.{LOCATOR}, r.b, q.node, n.digest FROM ({record_texts(tables, output)}) AS r "
        f"LEFT JOIN read_parquet([{listed}]) AS q ON q.row = r.{LOCATOR} "
        f"LEFT JOIN {table.nodes} AS n ON n.id = q.node ORDER BY r.{LOCATOR}",
        output,
    )
    missing = {row[2] for row in rows if row[2] is not None and row[3] is None}
    known = Recomputed(tables, table).of(missing) if missing else {}
    mask = ROW_MASK
    answer = []
    for locator, shown, node, digest in rows:
        token = known.get(node) if digest is None else bytes(digest)
        found = None
        if token is not None:
            found = tokens.Input(token, table.located(node) is not None)
        leaf = tokens.output_leaf(hashlib.sha256(shown.encode()).digest(), found)
        answer.append((locator >> ROW_BITS, locator & mask, shown, node, leaf))
    return answer


class Recomputed:
    """Tokens of source rows, computed again from the sources."""

    def __init__(self, tables: Tables, table: PTable, *, checked: bool = False) -> None:
        self._tables, self._table = tables, table
        self._checked = checked
        """Whether the sources are known to be what they were."""

    def of(self, ids: set[int]) -> dict[int, bytes]:
        """The token of each of these source rows."""
        bits = self._table.settings.bits
        found: dict[int, bytes] = {}
        for row, inside in self._by_file(ids):
            found.update(self._full(row, inside))
        return {i: tokens.shortened(full, bits) for i, full in found.items()}

    def readable(self, ids: set[int]) -> tuple[dict[int, bytes], list[str]]:
        """The full hashes of those whose source can be read, and why the others cannot."""
        found: dict[int, bytes] = {}
        errors: list[str] = []
        for row, inside in self._by_file(ids):
            try:
                found.update(self._full(row, inside))
            except SourceError as error:
                errors.append(str(error))
        return found, errors

    def _by_file(self, ids: set[int]) -> Iterator[tuple[RangeRow, set[int]]]:
        for row in self._table.ranges:
            inside = {i for i in ids if row.start <= i < row.start + max(row.count, 1)}
            if inside:
                yield row, inside

    def _full(self, row: RangeRow, ids: set[int]) -> dict[int, bytes]:
        """The full hash of each of these rows of a file."""
        scheme = self._table.settings.scheme
        if scheme == "origin" and row.digest:
            return {i: tokens.origin(row.path, row.modified, i - row.start) for i in ids}
        if scheme == "content" and row.digest:
            return {i: tokens.content(row.path, row.digest, i - row.start) for i in ids}
        return self._hashed(row, ids)

    def _hashed(self, row: RangeRow, ids: set[int]) -> dict[int, bytes]:
        dataset = self._tables.archive.dataset(row.dataset)
        if not self._checked:
            check_source(dataset)
        slot = next(
            (f.slot for f in dataset.files if row.path in (f.path, f"{dataset.location}/{f.path}")),
            0,
        )
        base = (slot << ROW_BITS) - row.start
        wanted = self._tables.fresh("wanted")
        import pyarrow as pa

        self._tables.register(wanted, pa.table({"locator": [i + base for i in sorted(ids)]}))
        sql = record_texts(self._tables, dataset)
        rows = self._tables.run(
            f"SELECT {LOCATOR}, {SOURCE_HASH} FROM ({sql}) AS r "
            f"WHERE {LOCATOR} IN (SELECT locator FROM {wanted})",
            dataset,
        )
        return {locator - base: bytes.fromhex(digest) for locator, digest in rows}
