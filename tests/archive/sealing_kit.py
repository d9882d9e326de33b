"""Sealing without Spark: runs that pick rows of a source, hashed and written by plain Python."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from archive_kit import write_dataset

from whence.archive import Archive, DataFile, Dataset, Run, Step, ledger, tokens
from whence.archive.sealer import Sealer
from whence.trace.ptable import PTable
from whence.trace.tables import Tables

LABEL = hashlib.sha256(b"pair").hexdigest()


def write_source(folder: Path, rows: int = 8) -> Dataset:
    """A real file, so that it has a digest."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rows.parquet"
    pq.write_table(pa.table({"x": list(range(rows))}), path)
    status = path.stat()
    file = DataFile(f"file://{path}", 0, status.st_size, status.st_mtime_ns // 1_000_000, rows)
    schema = '{"type":"struct","fields":[{"name":"x","type":"long","nullable":true}]}'
    return Dataset(
        "source-rows", "source", "rows", str(folder), schema, "1", (file,), rows, file.size, {}
    )


def pick_run(archive: Archive, source: Dataset, name: str, rows: Sequence[int]) -> Run:
    """A run whose output rows each pair a row of the source with the next one."""
    with archive.writer(name, "eager") as writer:
        output = write_dataset(writer)
        writer.add_dataset(source)
        writer.add_dataset(output)
        document = {"plan": {"rows": list(rows)}}
        writer.add_step(Step(0, output.id, (source.id,), (), document, b"plan"))
        return writer.commit(seconds=0.1, versions={"spark": "4"})


def token(x: int) -> bytes:
    return hashlib.sha256(b"row %d" % x).digest()


def pair(x: int, count: int) -> bytes:
    return tokens.joint(LABEL, [tokens.Input(token(i), True) for i in (x, (x + 1) % count)])


def expected_tokens(picked: Sequence[Sequence[int]], count: int) -> set[str]:
    """The tokens that an archive with these runs sealed must hold, each once."""
    rows = {x for run in picked for x in run}
    leaves = rows | {(x + 1) % count for x in rows}
    return {pair(x, count).hex() for x in rows} | {token(x).hex() for x in leaves}


def stored_tokens(archive: Archive) -> list[str]:
    table = PTable(archive, Tables(archive))
    return [row[0] for row in table.engine.run(f"SELECT lower(hex(digest)) FROM {table.nodes} n")]


def _write(sealer: Sealer, kind: Any, columns: dict[str, pa.Array], about: Any) -> Dataset:
    dataset, folder = sealer.folder()
    Path(folder).mkdir(parents=True)
    pq.write_table(pa.table(columns), Path(folder) / "part-0.parquet")
    return sealer.written(dataset, kind, about)


def seal_picked(sealer: Sealer, run: Run, source: Dataset, key: Any = None) -> Any:
    """Write the nodes of a run that are not stored yet, and its seal."""
    archive, count = sealer.archive, source.rows or 0
    picked = run.steps[0].document["plan"]["rows"]
    ((_, found),) = sealer.ranges(source)
    table = PTable(archive, Tables(archive))
    rows = table.engine.run(f"SELECT digest, id FROM {table.nodes} AS n")
    known = {bytes(digest): node for digest, node in rows}
    number = sealer.numbers([(LABEL, "joint", 2, "pair")])[LABEL, "joint", 2]
    nodes: list[tuple[int, int, bytes]] = []
    for x in sorted({y % count for z in picked for y in (z, z + 1)}):
        if token(x) not in known:
            known[token(x)] = found.start + x
            nodes.append((known[token(x)], 0, token(x)))
    new = [x for x in sorted(set(picked)) if pair(x, count) not in known]
    start = sealer.reserve(len(new))
    edges = []
    for node, x in enumerate(new, start):
        known[pair(x, count)] = node
        nodes.append((node, number, pair(x, count)))
        for index in (0, 1):
            edges.append((known[token((x + index) % count)], number, index, node, 1, True))
    written = [
        _write(
            sealer,
            "nodes",
            {
                "id": pa.array([n[0] for n in nodes], pa.int64()),
                "label": pa.array([n[1] for n in nodes], pa.int32()),
                "digest": pa.array([n[2] for n in nodes], pa.binary()),
            },
            {},
        ),
        _write(
            sealer,
            "edges",
            {
                name: pa.array([e[i] for e in edges], kind)
                for i, (name, kind) in enumerate(
                    {
                        "input": pa.int64(),
                        "label": pa.int32(),
                        "index": pa.int32(),
                        "derived": pa.int64(),
                        "times": pa.int64(),
                        "contributes": pa.bool_(),
                    }.items()
                )
            },
            {},
        ),
        _write(
            sealer,
            "uses",
            {
                "input": pa.array(sorted(e[0] for e in edges), pa.int64()),
                "derived": pa.array([e[3] for e in sorted(edges)], pa.int64()),
            },
            {},
        ),
        _write(
            sealer,
            "roots",
            {
                "row": pa.array(range(len(picked)), pa.int64()),
                "node": pa.array([known[pair(x, count)] for x in picked], pa.int64()),
            },
            {"output": run.output},
        ),
    ]
    outputs = [{"dataset": run.output, "rows": len(picked), "root": "00"}]
    return sealer.commit(run, written, outputs, key)


def seals(archive: Archive) -> list[ledger.SealRow]:
    return archive.catalog.read(lambda c: ledger.load_seals(c) if ledger.is_sealed(c) else [])
