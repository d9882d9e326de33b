"""What `import whence` gives; wires the layers.

Spark is imported only where a pipeline is captured or run again: opening an archive and tracing in
it start no JVM.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from whence import plan as ops
from whence.archive import Archive as Store
from whence.archive import Dataset, GcReport
from whence.archive import Run as StoredRun
from whence.capturing import Mode
from whence.errors import (
    SelectionError,
    UnknownNameError,
)
from whence.trace.answer import Impact, Trace
from whence.trace.backward import Backward
from whence.trace.choose import Selection, choose
from whence.trace.forward import Forward
from whence.trace.grades import guarantee_of
from whence.trace.patterns import Pattern
from whence.trace.rows import output_rows
from whence.trace.steps import StepView, names_behind, step_view
from whence.trace.tables import Tables, check_source, renamed
from whence.wiring import Engine, to_stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from whence.archive.forget import Plan
    from whence.archive.proof import Proven
    from whence.archive.seal import Seal
    from whence.archive.verify import Verification
    from whence.replay import Check
    from whence.sealed import Divergence, Sealed, Uses

DEFAULT_ARCHIVE = "provenance"


def capture(
    frame: DataFrame,
    *,
    name: str | None = None,
    archive: str | os.PathLike[str] = DEFAULT_ARCHIVE,
    catalog: str | None = None,
    mode: Mode = "auto",
    list_below: int | None = None,
    progress: bool | None = None,
    seal: bool = False,
) -> Run:
    """Run a pipeline and keep its rows together with where each came from.

    `mode` says when witnesses are made: `eager` stores all of them, `lazy` none (a trace runs the
    pipeline again under the selection), `auto` stores what is small and refers to what is not:
    witnesses are listed if the sources have less than `list_below` bytes (64 MiB, or what the
    environment variable WHENCE_LIST_BELOW says), and groups are referred to by key otherwise.
    `archive` is a folder or a URL, made if it is not there; `catalog` an SQLAlchemy URL if the
    catalog shall not lie in the folder. Progress is shown on a terminal unless `progress` says no.
    With `seal` the run is sealed at once; see `Run.seal`.
    """
    from whence.capturing import capture_frame
    from whence.present.progress import Progress

    with Progress(progress) as report:
        store, stored = capture_frame(frame, name, archive, catalog, mode, list_below, report)
    run = Run(Archive(store), stored, frame.sparkSession)
    if seal:
        run.seal(progress=progress)
    return run


def capture_arrays(
    function: Callable[..., Any], *args: Any, name: str | None = None, **kwargs: Any
) -> Run:
    """Call a function of arrays over columns of earlier runs, and keep its results as a run.

    Columns are taken with `run.array`; other arguments are handed on as they are. The function
    gives an array, or several in a tuple or dict, all with as many rows: the columns of the run's
    output. The run is kept in the archive of the runs it builds on. Starts no JVM.
    """
    from whence.capturing import capture_function

    archive, stored = capture_function(function, args, kwargs, name)
    return Run(archive, stored)


def rowwise(function: Any) -> Any:
    """Declare that a Python function over batches or groups makes one row of each row, in order.

    Use it on what is given to `mapInPandas`, `mapInArrow` or `applyInPandas`: its traces are then
    exact instead of the whole batch or group.
    """
    function.__whence__ = "rowwise"
    return function


def open(
    location: str | os.PathLike[str] = DEFAULT_ARCHIVE, *, catalog: str | None = None
) -> Archive:
    """Open an archive for reading; starts no JVM."""
    return Archive(Store.open(location, catalog=catalog))


def verify_archive(
    location: str | os.PathLike[str] = DEFAULT_ARCHIVE,
    *,
    catalog: str | None = None,
    public_key: str | None = None,
    expect: str | None = None,
    sources: bool = True,
    tokens: bool = False,
) -> Verification:
    """Whether every byte that seals cover is what it was; also for an archive too damaged to open.

    `public_key` must have signed every seal, and `expect`, the id of a seal, must be in the chain.
    With `tokens` every token is computed again, from the sources up. Starts no JVM.
    """
    from whence.verifying import verify_archive as verify

    return verify(
        location,
        catalog=catalog,
        public_key=public_key,
        expect=expect,
        sources=sources,
        tokens=tokens,
    )


def verify_proof(text: str, *, public_key: str | None = None, expect: str | None = None) -> Proven:
    """What a proof shows; raises `ProofError` if it does not hold. Needs nothing but its text."""
    from whence.archive.proof import verify_proof as check

    return check(text, public_key=public_key, expect=expect)


class Archive:
    """Runs that were captured, and questions about them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tables: Tables | None = None

    def __repr__(self) -> str:
        return f"<archive at {self._store.location}>"

    @property
    def location(self) -> str:
        """Where the archive lies."""
        return self._store.location

    @property
    def store(self) -> Store:
        """The archive's catalog and files."""
        return self._store

    @property
    def tables(self) -> Tables:
        """The archive's datasets in DuckDB."""
        if self._tables is None:
            self._tables = Tables(self._store)
        return self._tables

    def runs(self) -> list[Run]:
        """All runs, newest last."""
        return [Run(self, stored) for stored in self._store.runs()]

    def run(self, reference: str = "latest") -> Run:
        """A run by its id, the start of its id, its name, or `latest`."""
        return Run(self, self._store.run(reference))

    def gc(self, *, grace_seconds: float = 3600, dry_run: bool = False) -> GcReport:
        """Remove what crashed captures left behind."""
        return self._store.gc(grace_seconds=grace_seconds, dry_run=dry_run)

    @property
    def sealed(self) -> Sealed:
        """The sealed side of the archive: seals, verification, proofs, nodes and edges."""
        from whence.sealed import Sealed

        return Sealed(self._store, lambda: self.tables)

    def sealed_on(self, session: SparkSession) -> Sealed:
        """The sealed side, its questions answered by Spark: for more than one machine can hold."""
        from whence.sealed import Sealed
        from whence.spark.tables import SparkTables

        return Sealed(self._store, lambda: self.tables, SparkTables(session))

    def uses(self, source: str, selection: Selection = None) -> Uses:
        """Which stored results, of any sealed run, use the selected records of a source.

        All sources of that name are asked, in every version that a run has read. What could not be
        asked is in the answer.
        """
        tables = self.tables.fork()

        def chosen(run: StoredRun, dataset: Dataset) -> list[int]:
            table = Run(self, run)._select(tables, dataset, selection)
            return [row[0] for row in tables.run(f"SELECT locator FROM {table}", dataset)]

        return self.sealed.uses(source, chosen)

    def forget(self, runs: list[str], *, key: str | os.PathLike[str] | None = None) -> Plan:
        """Remove runs and what only they used; the chain of seals stays verifiable."""
        chosen = {run.id: run for run in map(self._store.run, runs)}
        found = self.sealed.forget(list(chosen.values()), key=key)
        self._tables = None
        return found


class Run:
    """A captured pipeline: its output, and where every row of it came from."""

    def __init__(
        self, archive: Archive, stored: StoredRun, session: SparkSession | None = None
    ) -> None:
        self.archive = archive
        self.stored = stored
        self._session = session
        self._engine = Engine(archive.store, session, lambda: self._tables.scratch_file())

    def __repr__(self) -> str:
        return f"<run {self.name!r} {self.id}>"

    @property
    def id(self) -> str:
        """The run's id."""
        return self.stored.id

    @property
    def name(self) -> str:
        """The run's name."""
        return self.stored.name

    @property
    def mode(self) -> str:
        """eager, lazy or auto."""
        return self.stored.mode

    @property
    def created(self) -> datetime:
        """When it was committed."""
        return self.stored.created

    @property
    def plan(self) -> ops.Operator:
        """The plan of the run's last step."""
        return self._view.plan

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing about how the run was captured."""
        return tuple(n for step in self.stored.steps for n in step.document.get("notes", ()))

    @property
    def columns(self) -> list[str]:
        """The columns of the output."""
        return list(self._output.properties["columns"])

    @property
    def output(self) -> DataFrame:
        """The output rows as a Spark DataFrame: same columns, types and order as the pipeline's."""
        from whence.spark.output import read_output

        ordered = bool(self._view.step.document["ordered"])
        folder = self.archive.store.path(self._output)
        stored = to_stored(self._output)
        with self._engine.at_work("the output was being read"):
            gateway = self._engine.gateway()
            return read_output(gateway, stored, folder, ordered, self._engine.session)

    def to_arrow(self) -> Any:
        """The output rows as an Arrow table, without Spark."""
        tables = self._tables.fork(self._names)
        return output_rows(tables, self._output, self._chosen(tables, None))

    def array(self, column: str) -> Any:
        """A column of the output as a NumPy array that remembers its rows.

        Give it to `whence.capture_arrays`, as it is. It cannot be written to; missing values are
        NaN, NaT or None.
        """
        from whence.arrayrun import Origin, column_array

        if column not in self.columns:
            raise UnknownNameError("column", column, self.columns)
        position = self.columns.index(column)
        origin = Origin(self.archive, self._output.id, position)
        return column_array(self.to_arrow().column(position), origin)

    def sources(self) -> list[Dataset]:
        """The datasets that the run's traces can end in, or pass through."""
        ids = dict.fromkeys(i for step in self.stored.steps for i in step.inputs)
        found = {dataset.id: dataset for dataset in self.archive.store.datasets(ids)}
        return [renamed(found[i], self._names) for i in ids]

    def trace(self, selection: Selection = None) -> Trace:
        """The inputs behind the selected output rows; without a selection, behind all of them.

        A selection is SQL text over the output columns, a Column, a DataFrame, a list of rows, or
        a tree pattern (`whence.pattern`), which asks for cells and nested items alone.
        """
        tables = self._tables.fork(self._names)
        if isinstance(selection, Pattern):
            return self._trace_cells(tables, selection)
        return self._trace(tables, self._chosen(tables, selection))

    def impact(self, source: str, selection: Selection = None) -> Impact:
        """The output rows that the selected rows of a source took part in."""
        tables = self._tables.fork(self._names)
        dataset = self._source(tables, source)
        check_source(dataset)
        rows = self._select(tables, dataset, selection)
        forward = Forward(tables, Backward(tables, self._engine))
        found = forward.output_rows(self._view, {dataset.id: rows})
        return Impact(tables, forward, dataset.name, tables.count(rows), found)

    def seal(
        self,
        *,
        key: str | os.PathLike[str] | None = None,
        scheme: str | None = None,
        bits: int | None = None,
        leaf_digests: bool | None = None,
        progress: bool | None = None,
    ) -> Seal:
        """Name every node by its hash, store what is new, and put a seal over the run.

        `key` is a file with an Ed25519 private key that signs the seal. `scheme`, `bits` and
        `leaf_digests` say how tokens are made; an archive's first seal fixes them. Runs that this
        one builds on are sealed first. Sealing a sealed run gives its seal.
        """
        from whence.present.progress import Progress
        from whence.sealing import seal_run, settings_from

        settings = settings_from(scheme, bits, leaf_digests)
        with Progress(progress) as report, self._engine.at_work("the run was being sealed"):
            return seal_run(self.archive.tables, self._engine, self.stored, settings, key, report)

    def prove(self, selection: Selection, *, hide: bool = False) -> str:
        """A proof, as JSON text, that the one selected row was derived that way from its inputs.

        With `hide` it shows only hashes of the values. `whence.verify_proof` checks it.
        """
        from whence.archive.proof import to_text

        chosen = self._chosen(self._tables, selection)
        found = self.archive.sealed.prove(self.stored, self._output, chosen, hide)
        return to_text(found)

    def nodes(self, selection: Selection = None) -> list[int]:
        """The ids of the nodes that the selected output rows are; the run must be sealed."""
        self.archive.sealed.seal_of(self.stored)
        tables = self._tables.fork(self._names)
        chosen = tables.run(f"SELECT locator FROM {self._chosen(tables, selection)}")
        return self.archive.sealed.nodes_of(self._output, [row[0] for row in chosen])

    def compare(self, other: Run, mine: Selection = None, theirs: Selection = None) -> Divergence:
        """Common and divergent derivations of rows of this run and of another one."""
        return self.archive.sealed.compare(self.nodes(mine), other.nodes(theirs))

    def check(self, sample: int = 20) -> Check:
        """Replay sampled output rows on only their traced inputs, and say which came out again.

        Each sampled row is traced and the pipeline is run on its contributing inputs alone.
        """
        from whence.replay import Check, replay_row

        if not isinstance(sample, int):
            raise SelectionError(f"sample is a number of rows, not {sample!r}")
        tables = self._tables.fork(self._names)
        chosen = tables.table(
            "sample",
            f"SELECT locator, role FROM {self._chosen(tables, None)} "
            f"ORDER BY hash(locator) LIMIT {max(0, sample)}",
        )
        results = []
        reasons = list(guarantee_of([self._view], one_row=True)[1])
        for (locator,) in tables.run(f"SELECT locator FROM {chosen} ORDER BY locator"):
            one = tables.table("one", f"SELECT {locator}::BIGINT AS locator, true AS role")
            row = list(zip(self.columns, _values(tables, self._output, one), strict=False))
            trace = self._trace(tables, one)
            reasons += trace.replay_reasons
            with self._engine.at_work("a row was being replayed"):
                results.append(replay_row(tables, self._engine, self._view, trace, row))
        return Check(tuple(results), not reasons, tuple(dict.fromkeys(reasons)))

    # --- Inside -----------------------------------------------------------------------------

    @property
    def _tables(self) -> Tables:
        return self.archive.tables

    @cached_property
    def _names(self) -> Mapping[str, str]:
        return names_behind(self.archive.store, self.stored)

    @cached_property
    def _view(self) -> StepView:
        return step_view(self.stored, self.stored.steps[-1])

    @cached_property
    def _output(self) -> Dataset:
        return self.archive.store.dataset(self.stored.output)

    def _trace(self, tables: Tables, chosen: str) -> Trace:
        backward = Backward(tables, self._engine)
        backward.from_output(self._view, chosen)
        return Trace(tables, self._view, chosen, backward, html=_html)

    def _trace_cells(self, tables: Tables, pattern: Pattern) -> Trace:
        from whence.trace.cells import cells_of
        from whence.trace.patterns.match import Matcher

        schema = json.loads(self._output.schema)
        matched = Matcher(tables, self._output, schema).match(pattern)
        chosen = tables.table("chosen", f"SELECT rid AS locator, true AS role FROM {matched.rows}")
        backward = Backward(tables, self._engine)
        cells = cells_of(tables, backward, self._view, chosen, matched)
        return Trace(tables, self._view, chosen, backward, cells, html=_html)

    def _select(self, tables: Tables, dataset: Dataset, selection: Selection) -> str:
        """A table with the locators of a dataset's selected rows."""
        return choose(tables, dataset, selection, self._engine)

    def _chosen(self, tables: Tables, selection: Selection) -> str:
        return self._select(tables, self._output, selection)

    def _source(self, tables: Tables, name: str) -> Dataset:
        """A source by name, of this run or of the runs it builds on."""
        found: dict[str, Dataset] = {}
        pending = [self.stored]
        while pending:
            run = pending.pop()
            for dataset in tables.datasets(i for step in run.steps for i in step.inputs):
                producer = None
                if dataset.kind == "output":
                    producer = self.archive.store.producer(dataset.id)
                if producer is None:
                    found.setdefault(dataset.name, dataset)
                elif producer[0].id != run.id:
                    pending.append(producer[0])
        if name not in found:
            raise UnknownNameError("source", name, found)
        return found[name]


def _values(tables: Tables, output: Dataset, one: str) -> list[Any]:
    """The values of one output row, of which several may have one name."""
    return [column[0].as_py() for column in output_rows(tables, output, one).columns]


def _html(trace: Trace) -> str:
    from whence.present.html import trace_html

    return trace_html(trace)
