"""Sealing a run: the archive's side and Spark's side brought together."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sqlalchemy import Connection

from whence.algebra.witness import Group, GroupShape
from whence.archive import Archive, Dataset, Run, Step, merkle
from whence.archive.digests import local_path
from whence.archive.head import refresh_head
from whence.archive.ledger import (
    SealRow,
    SealSettings,
    is_sealed,
    load_ranges,
    load_seals,
    load_settings,
)
from whence.archive.seal import Seal, from_row
from whence.archive.sealer import Sealer, SealKind
from whence.archive.signing import load_key, public_hex
from whence.errors import SelectionError
from whence.trace.backward import Backward
from whence.trace.records import check_calendar
from whence.trace.seal.duck import DuckEngine
from whence.trace.seal.job import Sealed, SealJob
from whence.trace.seal.settings import Engine as SqlEngine
from whence.trace.seal.settings import FileRange, LazyRows, NewLabel, SealStep, file_ranges
from whence.trace.seal.work import Work
from whence.trace.steps import StepView, step_view
from whence.trace.tables import LOCATOR, Tables, check_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from whence.spark.rerun import Input

SMALL_BYTES = 512 << 20
"""So many bytes of datasets are sealed by DuckDB in this process; more than that by Spark."""
SMALL_ROWS = 8_000_000
"""So many rows; they take about 300 bytes of memory each."""
SEEN_BYTES = 1 << 30
"""So many bytes of stored nodes and edges are looked through by DuckDB."""

Progress = Callable[[str], None]


class Engine(Protocol):
    """What sealing asks of Spark."""

    @property
    def session(self) -> SparkSession:
        """A session."""
        ...

    def input(self, dataset: Dataset) -> Input:
        """A dataset to be read again; it must be as it was."""
        ...

    def members(
        self, run: Run, step: Step, group: str, keys: str | None
    ) -> tuple[list[str], GroupShape]:
        """The members of groups that were not stored."""
        ...

    def frame(self, table: Any) -> Any:
        """An Arrow table as a Spark DataFrame."""
        ...


def settings_from(
    scheme: str | None, bits: int | None, leaf_digests: bool | None
) -> SealSettings | None:
    """The settings that were asked for; None if nothing was said."""
    if scheme is None and bits is None and leaf_digests is None:
        return None
    default = SealSettings()
    return SealSettings(
        scheme or default.scheme,  # type: ignore[arg-type]
        default.bits if bits is None else bits,
        default.leaf_digests if leaf_digests is None else leaf_digests,
    )


def seal_run(
    tables: Tables,
    engine: Engine,
    run: Run,
    settings: SealSettings | None,
    key: str | os.PathLike[str] | None,
    progress: Progress,
) -> Seal:
    """Seal a run, after the runs that it builds on; a sealed run gives its seal."""
    store = tables.archive
    private = None if key is None else load_key(key)
    for earlier in _builds_on(store, run):
        if _sealed(store, earlier, settings) is None:
            seal_run(tables, engine, earlier, settings, key, progress)
    if (known := _sealed(store, run, settings)) is not None:
        found = from_row(known)
        _check_key(found, run, private)
        refresh_head(store, private)  # nothing else is written, not even that a sealer was there
        return found
    with Sealer(store, settings, progress) as sealer:
        known = next((row for row in sealer.chain if row.run == run.id), None)
        if known is not None:
            refresh_head(store, private)  # it may have died before it was written
            return from_row(known)
        sealer.foresee(run)
        ledger = _Ledger(sealer)
        steps = [_seal_step(tables, engine, sealer, step_view(run, step)) for step in run.steps]
        work = Work(_sql_engine(tables, engine, ledger, steps), sealer.settings, ledger)
        done = SealJob(work, progress).run(steps)
        progress("sealing")
        return from_row(sealer.commit(run, *_written(sealer, ledger, run, done), private))


def _check_key(found: Seal, run: Run, key: Any) -> None:
    """A seal that is there is not signed anew, with a key that it was not signed with."""
    signer = found.sections["seal"]["signer"]
    if key is not None and public_hex(key) != signer:
        how = "without a signature" if signer is None else "with another key"
        raise SelectionError(f"run {run.name!r} is sealed already, {how}, which stays as it is")


def _sealed(store: Archive, run: Run, settings: SealSettings | None) -> SealRow | None:
    """A run's seal, if it has one with these settings."""

    def look(connection: Connection) -> SealRow | None:
        if not is_sealed(connection) or settings not in (None, load_settings(connection)):
            return None
        return next((row for row in load_seals(connection) if row.run == run.id), None)

    return store.catalog.read(look)


def _written(
    sealer: Sealer, ledger: _Ledger, run: Run, done: Sealed
) -> tuple[list[Dataset], list[dict[str, Any]]]:
    """What was written, as datasets, and what the seal says of the run's outputs."""
    datasets, outputs = [], []
    segments: dict[SealKind, str | None] = {
        "nodes": done.nodes,
        "edges": done.edges,
        "uses": done.uses,
    }
    for kind, folder in segments.items():
        if folder is not None:
            datasets.append(sealer.written(ledger.written[folder], kind, {}))
    for step, sealed in zip(run.steps, done.steps, strict=True):
        about = {"output": step.output}
        datasets.append(sealer.written(ledger.written[sealed.roots], "roots", about))
        root = merkle.root(sealed.chunks).hex()
        outputs.append({"dataset": step.output, "rows": sealed.rows, "root": root})
    return datasets, outputs


def _sql_engine(
    tables: Tables, engine: Engine, ledger: _Ledger, steps: Sequence[SealStep]
) -> SqlEngine:
    """DuckDB for what one machine holds, Spark for what is more, or lies elsewhere."""
    store, known = tables.archive, ledger.known
    used = {d.id: d for step in steps for d in (step.output, *step.datasets.values())}
    paths = [store.location, *(path for d in used.values() for path in store.file_paths(d))]
    held = sum(d.bytes for d in known if d.kind in ("nodes", "edges"))
    total = sum(d.bytes for d in used.values())
    if (
        total <= SMALL_BYTES
        and held <= SEEN_BYTES
        and all(local_path(path) is not None for path in paths)
        and all(d.files or d.kind == "range" for d in used.values())
        and sum(ledger.count(d) for d in used.values()) <= SMALL_ROWS
    ):
        return DuckEngine(tables.fork())
    from whence.spark.gateway import Gateway
    from whence.spark.seal import SparkEngine

    return SparkEngine(Gateway(engine.session), engine.input, total)


def _builds_on(store: Archive, run: Run) -> list[Run]:
    """The runs whose outputs a run reads."""
    found: dict[str, Run] = {}
    for dataset in dict.fromkeys(i for step in run.steps for i in step.inputs):
        producer = store.producer(dataset)
        if producer is not None and producer[0].id != run.id:
            found[producer[0].id] = producer[0]
    return list(found.values())


def _seal_step(tables: Tables, engine: Engine, sealer: Sealer, view: StepView) -> SealStep:
    output = sealer.dataset(view.step.output)
    backward = Backward(tables, engine)
    cache: dict[str, tuple[Sequence[str], GroupShape]] = {}

    def groups(group: str) -> tuple[Sequence[str], GroupShape]:
        if group not in cache:
            cache[group] = backward.group_files(view, group, None)
        return cache[group]

    lazy = None
    if isinstance(view.shape, Group) and view.shape.slot == "":
        lazy = _lazy_rows(tables, backward, view, output)
    datasets = [sealer.dataset(i) for i in dict.fromkeys(view.inputs.values())]
    for dataset in (output, *datasets):
        check_source(dataset)
        check_calendar(tables, dataset)
    return SealStep(
        plan=view.plan,
        shape=view.shape,
        inputs=view.inputs,
        datasets={dataset.id: dataset for dataset in datasets},
        code=view.step.document.get("code") or {},
        output=output,
        groups=groups,
        lazy=lazy,
    )


def _lazy_rows(tables: Tables, backward: Backward, view: StepView, output: Dataset) -> LazyRows:
    """All witnesses of a run that stored none, found by running it again."""
    everything = tables.table(
        "chosen",
        f"SELECT {LOCATOR} AS locator, true AS role FROM ({tables.rows(output, ['1 AS x'])})",
        output,
    )
    keys, files, shape = backward.lazy_members(view, output, everything)
    physical = ['"' + name.replace('"', '""') + '"' for name in output.properties["physical"]]
    rows = tables.rows(output, physical or ["true AS x"])
    tests = [f"r.{name} IS NOT DISTINCT FROM k.k{i}" for i, name in enumerate(physical)]
    path = tables.scratch_file()
    tables.run(
        f"COPY (SELECT r.{LOCATOR} AS locator, k.kid::BIGINT AS kid FROM ({rows}) AS r "
        f"JOIN {keys} AS k ON {' AND '.join(tests) or 'true'}) TO '{path}' (FORMAT parquet)"
    )
    return LazyRows(path, files, shape)


class _Ledger:
    """The archive, as Spark's side of sealing sees it."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self._store = sealer.archive
        self.known = self._store.datasets()
        self.written: dict[str, str] = {}

    def numbers(self, labels: Sequence[NewLabel]) -> dict[NewLabel, int]:
        wanted = [(label.digest, label.form, label.parts, label.text) for label in labels]
        known: Mapping[Any, int] = self._sealer.numbers(wanted)
        return {label: known[label.digest, label.form, label.parts] for label in labels}

    def ranges(self, dataset: str) -> Sequence[FileRange]:
        return file_ranges(self._sealer.ranges(self._sealer.dataset(dataset)))

    def reserve(self, count: int) -> int:
        return self._sealer.reserve(count)

    def count(self, dataset: Dataset) -> int:
        """The rows of a dataset."""
        return self._sealer.count(dataset)

    def parts(self, kind: Literal["nodes", "edges"]) -> Sequence[str]:
        found = [dataset for dataset in self.known if dataset.kind == kind]
        return [path for dataset in found for path in self._store.file_paths(dataset)]

    def roots(self, dataset: str) -> Sequence[str] | None:
        for found in self.known:
            if found.kind == "roots" and found.properties["output"] == dataset:
                return self._store.file_paths(found)
        return None

    def locate(self, ids: Sequence[int]) -> Sequence[tuple[Dataset, Sequence[FileRange]]]:
        wanted = sorted(ids)
        held: dict[str, set[int]] = {}
        for row in self._store.catalog.read(load_ranges):
            if any(row.start <= i < row.start + max(row.count, 1) for i in wanted):
                held.setdefault(row.dataset, set()).add(row.start)
        answer: list[tuple[Dataset, Sequence[FileRange]]] = []
        for dataset in held:
            try:
                found = self._store.dataset(dataset)
                check_source(found)
                answer.append((found, self.ranges(dataset)))
            except (OSError, LookupError):  # changed or gone: its rows equal no others
                continue
        return answer

    def folder(self, kind: str) -> str:
        dataset, folder = self._sealer.folder()
        self.written[folder] = dataset
        return folder
