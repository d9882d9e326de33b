"""Between the layers: what Spark captures as the archive keeps it, and Spark at a trace's service.

The layers below do not know each other: a capture asks for folders, a trace for members of groups.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from importlib import metadata
from typing import TYPE_CHECKING, Any, cast

from whence import plan as ops
from whence.algebra.witness import GroupShape, group_to_json, to_json
from whence.archive import Archive, DataFile, Dataset, Run, RunWriter, Step
from whence.archive.model import LEAF_KINDS
from whence.errors import EngineError
from whence.trace.steps import step_view
from whence.trace.tables import check_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from whence.spark.capture import Captured
    from whence.spark.gateway import Gateway
    from whence.spark.rerun import Input, Pipeline
    from whence.spark.stored import Stored


class Shelf:
    """Gives a capture its folders, and finds what earlier captures wrote."""

    def __init__(self, store: Archive, writer: RunWriter) -> None:
        self._store = store
        self._writer = writer
        self._written: dict[str, Stored] = {}

    def new_folder(self) -> tuple[str, str]:
        """A new dataset's id, and the folder to write it to."""
        return self._writer.new_dataset()

    def keep(self, stored: Stored) -> None:
        """Make a dataset of this run known to its later steps."""
        self._written[stored.location] = stored

    def snapshot(self, version: str) -> tuple[Stored, str] | None:
        """The snapshot that was made of this version of a source, and where it lies."""
        found = self._store.snapshot(version)
        return None if found is None else (to_stored(found), self._store.path(found))

    def own(self, location: str) -> Stored | None:
        """The dataset of this archive at a location, if it is one."""
        for stored in self._written.values():
            if location.endswith(stored.location.removeprefix("file:")):
                return stored
        found = self._store.dataset_at(location)
        return None if found is None else to_stored(found)


class Engine:
    """Runs stored pipelines again, in the active Spark session or in one that it starts."""

    def __init__(
        self, store: Archive, session: SparkSession | None, scratch: Callable[[], str]
    ) -> None:
        self._store = store
        self._session = session
        self._scratch = scratch
        self._gateway: Gateway | None = None

    @property
    def session(self) -> SparkSession:
        """The user's session unless it was stopped, the active one, or a new local one."""
        from whence.spark.gateway import is_stopped
        from whence.spark.session import active_or_new

        if self._session is None or is_stopped(self._session):
            self._session, self._gateway = active_or_new(), None
        return self._session

    def at_work(self, doing: str) -> AbstractContextManager[None]:
        """What Spark fails at in here is told as an error of ours."""
        from whence.spark.gateway import spark_errors

        return spark_errors(doing, EngineError, own=False)

    def gateway(self) -> Gateway:
        """The JVM behind the session."""
        from whence.spark.gateway import Gateway

        session = self.session
        if self._gateway is None:
            self._gateway = Gateway(session)
        return self._gateway

    @property
    def zone(self) -> str:
        """The time zone of the session at hand; UTC where there is none."""
        if self._session is None:
            return "UTC"
        from whence.spark.gateway import is_stopped

        if is_stopped(self._session):
            return "UTC"
        return str(self._session.conf.get("spark.sql.session.timeZone"))

    def selected(self, dataset: Dataset, predicate: Any) -> Any:
        """The locators of a dataset's rows that a predicate, SQL text or a Column, holds for."""
        from whence.spark.select import matching_rows

        with self.at_work("rows were being selected"):
            return matching_rows(self.gateway(), self.input(dataset), predicate)

    def frame(self, table: Any) -> DataFrame:
        """An Arrow table as a Spark DataFrame."""
        with self.at_work("traced rows were being handed over"):
            return self.session.createDataFrame(table)

    def members(
        self, run: Run, step: Step, group: str, keys: str | None
    ) -> tuple[list[str], GroupShape]:
        """Parquet files with the members of the groups whose keys are in a file, or of all."""
        from whence.spark.files import written_files
        from whence.spark.rerun import write_members

        pipeline = self.pipeline(run, step)
        folder = self._scratch()
        with self.at_work("the pipeline was being run again"):
            shape = write_members(self.gateway(), pipeline, group, keys, folder)
            names = [name for name, _, _ in written_files(self.gateway(), folder)]
        return [f"{folder}/{name}" for name in names], shape

    def stored_call(self, run: Run, step: Step) -> tuple[Any, Any, Any]:
        """The function of an array step, with its arguments."""
        from whence.spark.pickles import loads

        attachment = self._store.attachment(run.id, step.number)
        if attachment is None:
            raise EngineError(f"run {run.name!r} was stored without its function")
        found: tuple[Any, Any, Any] = loads(attachment)
        return found

    def pipeline(self, run: Run, step: Step) -> Pipeline:
        """A stored step, ready to be run again; its sources must be as they were."""
        from whence.spark.rerun import Pipeline

        store = self._store
        attachment = store.attachment(run.id, step.number)
        if attachment is None:
            raise EngineError(f"run {run.name!r} was stored without its plan")
        view = step_view(run, step)
        inputs = {op: self.input(store.dataset(found)) for op, found in view.inputs.items()}
        return Pipeline(view.plan, attachment, inputs)

    def input(self, dataset: Dataset) -> Input:
        """A dataset to be read again; it must be as it was."""
        from whence.spark.rerun import Input

        check_source(dataset)
        return Input(to_stored(dataset), self._store.file_paths(dataset))


def commit(
    writer: RunWriter, shelf: Shelf, steps: list[Captured], seconds: float, gateway: Gateway
) -> Run:
    """Make the steps of a capture visible as a run."""
    for number, step in enumerate(steps):
        for stored in step.datasets:
            writer.add_dataset(to_dataset(stored))
        writer.add_step(
            Step(
                number=number,
                output=step.output.id,
                inputs=tuple(dict.fromkeys(step.inputs.values())),
                groups=tuple(stored.id for _, stored in step.groups.values()),
                document=_document(step),
                attachment=step.attachment,
            )
        )
    versions = {
        "whence": metadata.version("whence"),
        "spark": gateway.version,
        "python": platform.python_version(),
    }
    return writer.commit(seconds=seconds, versions=versions)


def _document(step: Captured) -> Mapping[str, Any]:
    return {
        "plan": step.document,
        "pipeline": None if step.pipeline is step.plan else ops.to_json(step.pipeline),
        "witness": to_json(step.shape),
        "inputs": step.inputs,
        "names": {stored.id: stored.name for stored in step.datasets if stored.kind in LEAF_KINDS},
        "groups": {
            name: {"shape": group_to_json(shape), "dataset": stored.id}
            for name, (shape, stored) in step.groups.items()
        },
        "scopes": {name: list(slots) for name, slots in step.scopes.items()},
        "ordered": step.ordered,
        "exact": list(step.exact),
        "doubts": step.doubts,
        "cells": {name: asdict(slots) for name, slots in step.cells.items()},
        "notes": list(step.notes),
        "code": step.code,
    }


def to_dataset(stored: Stored) -> Dataset:
    """What a capture wrote or read, as the archive keeps it."""
    own = stored.kind in ("snapshot", "output", "group")
    return Dataset(
        id=stored.id,
        kind=stored.kind,
        name=stored.name,
        location=f"datasets/{stored.id}" if own else stored.location,
        schema=stored.schema,
        fingerprint=stored.fingerprint,
        files=tuple(DataFile(f.path, f.slot, f.size, f.modified, f.rows) for f in stored.files),
        rows=stored.rows,
        bytes=stored.bytes,
        properties=stored.properties,
    )


def to_stored(dataset: Dataset) -> Stored:
    """A dataset of the archive, as captures know it."""
    from whence.spark.stored import Stored, StoredFile

    return Stored(
        id=dataset.id,
        kind=cast("Any", dataset.kind),
        name=dataset.name,
        location=dataset.location,
        schema=dataset.schema,
        fingerprint=dataset.fingerprint,
        files=tuple(StoredFile(f.path, f.slot, f.size, f.modified, f.rows) for f in dataset.files),
        rows=dataset.rows,
        properties=dict(dataset.properties),
    )
