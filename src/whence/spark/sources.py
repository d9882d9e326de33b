"""Leaves of a plan: where their rows lie, how each is found again, and what version they are of.

Parquet is used where it lies: `_metadata` tells the file and the row index. `spark.range` needs no
storing: a row's locator follows from its value. Anything else is written once as a snapshot of the
columns that the pipeline reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any
from urllib.parse import unquote

from whence.algebra.locators import ROW_BITS
from whence.algebra.witness import Row
from whence.errors import UnsupportedError
from whence.spark import files
from whence.spark.gateway import Gateway, Plan, plain_schema
from whence.spark.instrument.traced import Traced
from whence.spark.physical import restored, storable, told_apart
from whence.spark.stored import Shelf, Stored, StoredFile, files_fingerprint, fingerprint

_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"


@dataclass(frozen=True, slots=True)
class Found:
    """A leaf of Spark's plan, with what can be told of it without running anything.

    `format` is parquet, json, csv, ..., range, memory, rdd, cached or the name of a connector.
    With `is_kept` its rows are found again where they are, so that it needs no snapshot. Of files,
    `schema` is the schema as JSON.
    """

    node: Plan
    format: str
    location: str
    uris: tuple[str, ...]
    is_kept: bool = False
    schema: str = ""

    @property
    def name(self) -> str:
        """What to call it if no view or table names it."""
        if not self.location:
            return self.format
        last = unquote(self.location.rstrip("/").rsplit("/", 1)[-1])
        return last.rsplit(".", 1)[0] or last


def find_leaf(gateway: Gateway, node: Plan) -> Found:
    """What kind of leaf a node is."""
    if node.isStreaming():
        raise UnsupportedError(
            "this is a streaming frame; capture inside foreachBatch, or read the data as a batch"
        )
    kind = gateway.kind(node)
    if kind == "LogicalRelation" and gateway.kind(node.relation()) == "HadoopFsRelation":
        relation = node.relation()
        uris = files.input_files(gateway, relation)
        roots = relation.location().rootPaths()
        location = str(roots.apply(0).toUri().toString()) if roots.size() == 1 else _common(uris)
        file_format = relation.fileFormat()
        if file_format.getClass().getName() == _PARQUET:
            name = "parquet"
        else:
            name = str(file_format.toString()).lower()
        schema = gateway.schema_json(relation.schema())
        names = [field["name"] for field in json.loads(schema)["fields"]]
        base = _base(uris, _partitions(relation))
        kept = name == "parquet" and told_apart(names) and base is not None
        return Found(node, name, location, tuple(uris), kept, schema)
    formats = {
        "Range": "range",
        "LocalRelation": "memory",
        "LogicalRDD": "rdd",
        "ExternalRDD": "rdd",
        "InMemoryRelation": "cached",
    }
    if kind == "LogicalRelation":
        return Found(node, gateway.kind(node.relation()).removesuffix("Relation").lower(), "", ())
    if kind == "DataSourceV2Relation":
        return Found(node, str(node.table().name()), "", ())
    return Found(node, formats.get(kind, kind), "", (), kind == "Range")


def _partitions(relation: Any) -> list[str]:
    return [str(n) for n in relation.partitionSchema().fieldNames()]


def _base(uris: Sequence[str], partitions: Sequence[str]) -> str | None:
    """The folder above those that are named after partitions; None if there is no such folder.

    >>> _base(["file:/a/t/k=1/x.parquet", "file:/a/t/k=2/y.parquet"], ["k"])
    'file:/a/t'
    """
    found = set()
    for uri in uris:
        *above, _ = uri.split("/")
        first = len(above) - len(partitions)
        folders = [unquote(part).partition("=")[0].casefold() for part in above[first:]]
        if folders != [name.casefold() for name in partitions]:
            return None
        found.add("/".join(above[:first]))
    return found.pop() if len(found) == 1 else None if partitions else ""


def _common(uris: Sequence[str]) -> str:
    """The folder that all files are in, however deep.

    >>> _common(["file:/a/b/x/1", "file:/a/b/xy/2"])
    'file:/a/b'
    """
    folders = [uri.split("/")[:-1] for uri in uris]
    shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*folders, strict=False))
    return "/".join(parts[0] for parts in shared)


class Leaves:
    """Makes the traced form of leaves, writing snapshots where they are needed."""

    def __init__(self, gateway: Gateway, shelf: Shelf) -> None:
        self._gateway = gateway
        self._shelf = shelf
        self._made: list[tuple[Found, set[int], tuple[Stored, str]]] = []

    def kept(
        self, found: Mapping[str, Found], needed: Mapping[str, set[int]]
    ) -> dict[str, list[int]]:
        """The positions of the columns to snapshot, for each leaf.

        `needed` are those that the pipeline has a use for. Leaves over the same data keep the same
        columns, so that they are one dataset.
        """
        result: dict[str, set[int]] = {}
        others: list[tuple[Found, set[int]]] = []
        for name, leaf in found.items():
            if leaf.is_kept:
                continue
            own = set(needed[name])
            shared = next((k for f, k in others if f.node.sameResult(leaf.node)), None)
            if shared is None:
                others.append((leaf, own))
            else:
                shared |= own
            result[name] = own if shared is None else shared
        return {name: sorted(positions) for name, positions in result.items()}

    def stored(self, found: Found, name: str, kept: Sequence[int]) -> Stored:
        """The dataset that a leaf reads; `kept` are the columns that a snapshot needs."""
        if not found.is_kept:
            return self._snapshot(found, name, kept)[0]
        if found.format == "range":
            return self._range(found, name)
        return self._own(found) or self._parquet(found, name)

    def traced(self, found: Found, stored: Stored, operator: str, kept: Sequence[int]) -> Traced:
        """The leaf of an operator with its locator slot, read from the dataset that was stored."""
        if not found.is_kept:
            return self._from_snapshot(found, operator, kept)
        if found.format == "range":
            return self._counted(found, operator)
        return located(self._gateway, found.node, stored, operator)

    def _own(self, found: Found) -> Stored | None:
        """The output of an earlier step or run, if that is what the leaf reads."""
        folders = {uri.rsplit("/", 1)[0] for uri in found.uris}
        return self._shelf.own(folders.pop()) if len(folders) == 1 else None

    # --- Parquet where it lies --------------------------------------------------------------

    def _parquet(self, found: Found, name: str) -> Stored:
        numbered, text = files.numbered(self._gateway, found.uris)
        digest = files_fingerprint(numbered)
        relation = found.node.relation()
        partitions = _partitions(relation)
        base = unquote(_base(found.uris, partitions) or found.location)
        told = [text] if len(numbered) > 1 else []  # with other slots it has other locators
        return Stored(  # and read with another schema it is another source
            id=fingerprint(["source", found.location, digest, found.schema, *told]),
            kind="source",
            name=name,
            location=found.location,
            schema=found.schema,
            fingerprint=digest,
            files=tuple(numbered),
            properties={"slot": text, "partitions": partitions, "base": base},
        )

    # --- spark.range ------------------------------------------------------------------------

    def _range(self, found: Found, name: str) -> Stored:
        node = found.node
        start, end, step = int(node.start()), int(node.end()), int(node.step())
        rows = max(0, -((start - end) // step))
        bounds = {"start": start, "step": step, "rows": rows}
        digest = fingerprint(["range", start, end, step])
        return Stored(
            id=digest,
            kind="range",
            name=name,
            location=f"range:{start}:{end}:{step}",
            schema=str(node.schema().json()),
            fingerprint=digest,
            rows=rows,
            properties={"range": bounds},
        )

    def _counted(self, found: Found, operator: str) -> Traced:
        gateway, node = self._gateway, found.node
        slot, value = gateway.fresh("w"), gateway.fresh("v")
        column = gateway.output(node)[0]
        inner = gateway.project([column, gateway.alias(column, value)], node)
        text = f"(`{value}` - {node.start()}L) div {node.step()}L"
        plan = gateway.resolved_project([column], inner, [(slot, text)])
        return Traced(plan, {slot: gateway.attribute(plan, slot)}, Row(slot, operator))

    # --- Snapshots --------------------------------------------------------------------------

    def _snapshot(self, found: Found, name: str, kept: Sequence[int]) -> tuple[Stored, str]:
        """A snapshot that has the columns, and its folder: one that is there, or a new one."""
        same = (m for f, k, m in self._made if k >= set(kept) and f.node.sameResult(found.node))
        made = next(same, None)
        if made is None:
            version = self._version(found, kept)
            made = self._shelf.snapshot(version) if version else None
            made = made or self._write_snapshot(found, name, kept, version)
            self._made.append((found, set(kept), made))
        return made

    def _from_snapshot(self, found: Found, operator: str, kept: Sequence[int]) -> Traced:
        gateway = self._gateway
        columns = gateway.output(found.node)
        stored, folder = self._snapshot(found, "", kept)
        physical = [f"c{i}" for i in kept] or ["c"]
        relation = gateway.read_parquet(folder, stored.schema)
        wanted = [columns[i] for i in kept]
        traced = located(gateway, relation, stored, operator)
        have = {a.name(): a for a in gateway.output(relation)}
        missing = [
            gateway.alias(gateway.null(a.dataType()), a.name(), a.exprId())
            for i, a in enumerate(columns)
            if i not in kept
        ]
        plan = restored_with_slots(
            gateway, traced, [have[n] for n in physical] if kept else [], wanted, missing
        )
        return traced.over(plan)

    def _version(self, found: Found, kept: Sequence[int]) -> str | None:
        """What names the version of a file source: its files, how they are read, which columns."""
        if not found.uris:
            return None
        relation = found.node.relation()
        stats = [(uri, *files.stat(self._gateway, uri)) for uri in found.uris]
        options = str(relation.options().toString())
        schema = str(relation.schema().json())
        return fingerprint(["files", found.format, options, schema, list(kept), stats])

    def _write_snapshot(
        self, found: Found, name: str, kept: Sequence[int], version: str | None
    ) -> tuple[Stored, str]:
        gateway = self._gateway
        columns = gateway.output(found.node)
        written = [gateway.alias(storable(gateway, columns[i]), f"c{i}") for i in kept] or [
            gateway.alias(gateway.literal(True), "c")
        ]
        dataset, folder = self._shelf.new_folder()
        frame = gateway.frame(gateway.project(written, found.node))
        schema = plain_schema(frame.schema.json())
        gateway.write_parquet(frame, folder)
        listed, slot = own_files(gateway, folder)
        version = version or gateway.content_digest(folder, schema)
        known = self._shelf.snapshot(version)
        if known is not None:
            return known
        stored = Stored(
            id=dataset,
            kind="snapshot",
            name=name,
            location=folder,
            schema=schema,
            fingerprint=files_fingerprint(listed),
            files=tuple(listed),
            properties={
                "version": version,
                "format": found.format,
                "origin": found.location,
                "slot": slot,
                "columns": [str(columns[i].name()) for i in kept],
                "physical": [f"c{i}" for i in kept],
            },
        )
        return stored, folder


def located(gateway: Gateway, node: Plan, stored: Stored, operator: str) -> Traced:
    """The relation with a slot that holds each row's locator."""
    metadata = node.metadataOutput().apply(0)
    relation = node.withMetadataColumns()
    slot = gateway.fresh("w")
    columns = node.output()
    if len(stored.files) <= 1:
        position = int(metadata.dataType().fieldIndex("row_index"))
        alias = gateway.alias(gateway.field(metadata, position), slot)
        plan = gateway.project(columns, relation, [alias])
        return Traced(plan, {slot: alias.toAttribute()}, Row(slot, operator))
    name = f"`{metadata.name()}`"
    number = str(stored.properties["slot"]).format(metadata=name)
    text = f"shiftleft({number}, {ROW_BITS}) + {name}.row_index"
    plan = gateway.resolved_project(columns, relation, [(slot, text)])
    return Traced(plan, {slot: gateway.attribute(plan, slot)}, Row(slot, operator))


def restored_with_slots(
    gateway: Gateway,
    traced: Traced,
    have: Sequence[Any],
    wanted: Sequence[Any],
    missing: Sequence[Any],
) -> Plan:
    """Stored columns as the wanted ones, unread ones as nulls, and the slots."""
    plan = restored(gateway, traced.plan, have, wanted)
    return gateway.project(plan.projectList(), traced.plan, [*missing, *traced.slots.values()])


def own_files(gateway: Gateway, folder: str) -> tuple[list[StoredFile], str]:
    """Files that whence wrote into a folder, numbered, and the text that gives a row's number."""
    names = files.written_files(gateway, folder)
    base = folder.rstrip("/")
    numbered, text = files.numbered_parts(gateway, [f"{base}/{name}" for name, _, _ in names])
    return [
        replace(file, path=name, rows=files.row_count(file.path))
        for file, (name, _, _) in zip(numbered, names, strict=True)
    ], text
