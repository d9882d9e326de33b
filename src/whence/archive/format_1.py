"""Format 1 of the catalog: its tables, and how the model is written to them and read back.

Times are integers, microseconds since the epoch; JSON is text. Both mean the same in every SQL
database. A later format gets a module of its own beside this one.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Double,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    Table,
    Text,
    insert,
    select,
    true,
    update,
)

from whence.archive.model import DataFile, Dataset, DatasetKind, Run, Step
from whence.errors import ArchiveError

VERSION = 1

metadata = MetaData()

runs = Table(
    "runs",
    metadata,
    Column("sequence", Integer, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False, index=True),
    Column("created", BigInteger, nullable=False),
    Column("mode", Text, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("versions", Text, nullable=False),
    sqlite_autoincrement=True,
)

datasets = Table(
    "datasets",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("location", Text, nullable=False),
    Column("schema", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("rows", BigInteger),
    Column("bytes", BigInteger, nullable=False),
    Column("properties", Text, nullable=False),
    # Copy of properties["version"] of a snapshot, to find it by.
    Column("version", Text, index=True),
    # Digest of which slot stands for which file: locators of all runs depend on it.
    Column("slots", Text, nullable=False),
    # The run that made it first.
    Column("run", Text, ForeignKey("runs.id"), nullable=False, index=True),
)

files = Table(
    "files",
    metadata,
    Column("dataset", Text, ForeignKey("datasets.id"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("path", Text, nullable=False),
    Column("slot", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("modified", BigInteger, nullable=False),
    Column("rows", BigInteger),
)

steps = Table(
    "steps",
    metadata,
    Column("run", Text, ForeignKey("runs.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("output", Text, ForeignKey("datasets.id"), nullable=False, index=True),
    Column("document", Text, nullable=False),
)

step_datasets = Table(
    "step_datasets",
    metadata,
    Column("run", Text, ForeignKey("runs.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("role", Text, primary_key=True),  # input or group
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("dataset", Text, ForeignKey("datasets.id"), nullable=False, index=True),
)

attachments = Table(
    "attachments",
    metadata,
    Column("run", Text, ForeignKey("runs.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)

writers = Table(
    "writers",
    metadata,
    Column("id", Text, primary_key=True),  # of the run it is to become
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("process_start", Text),
    Column("started", BigInteger, nullable=False),
    Column("heartbeat", BigInteger, nullable=False),
    # Abandoned, or taken for dead by a gc: it can no longer commit.
    Column("dead", Boolean, nullable=False),
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now() -> int:
    """The present as the catalog writes it."""
    return (datetime.now(UTC) - _EPOCH) // timedelta(microseconds=1)


def to_json(value: Mapping[str, Any], what: str) -> str:
    """JSON text of what a caller wants kept, or an error that names it."""
    try:
        return json.dumps(dict(value), separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ArchiveError(f"{what} cannot be stored as JSON: {error}") from error


def slots_digest(dataset: Dataset) -> str:
    """Digest of which slot stands for which file."""
    pairs = sorted((file.slot, file.path, file.size) for file in dataset.files)
    return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()


def insert_run(connection: Connection, run: Run) -> None:
    """Write the row of a run, without its steps: datasets refer to it and come next."""
    row = {
        "id": run.id,
        "name": run.name,
        "created": (run.created - _EPOCH) // timedelta(microseconds=1),
        "mode": run.mode,
        "seconds": run.seconds,
        "versions": to_json(run.versions, "versions"),
    }
    connection.execute(insert(runs), row)


def insert_steps(connection: Connection, run: Run) -> None:
    """Write the steps of a run; their datasets are there already."""
    for step in run.steps:
        key = {"run": run.id, "number": step.number}
        document = to_json(step.document, f"the document of step {step.number}")
        connection.execute(insert(steps), {**key, "output": step.output, "document": document})
        links = [
            {**key, "role": role, "position": position, "dataset": dataset}
            for role, ids in (("input", step.inputs), ("group", step.groups))
            for position, dataset in enumerate(ids)
        ]
        if links:
            connection.execute(insert(step_datasets), links)
        if step.attachment is not None:
            connection.execute(insert(attachments), {**key, "content": step.attachment})


def insert_dataset(connection: Connection, dataset: Dataset, run_id: str) -> None:
    """Write a dataset that the catalog does not hold."""
    row = {**_dataset_row(dataset), "slots": slots_digest(dataset), "run": run_id}
    connection.execute(insert(datasets), row)
    found = [
        {
            "dataset": dataset.id,
            "position": position,
            "path": file.path,
            "slot": file.slot,
            "size": file.size,
            "modified": file.modified,
            "rows": file.rows,
        }
        for position, file in enumerate(dataset.files)
    ]
    if found:
        connection.execute(insert(files), found)


def upsert_source(connection: Connection, dataset: Dataset, run_id: str) -> None:
    """Write a source, or renew what is known of it. Its slots stay: older locators use them."""
    stored = connection.execute(
        select(datasets.c.slots).where(datasets.c.id == dataset.id)
    ).scalar_one_or_none()
    if stored is None:
        insert_dataset(connection, dataset, run_id)
    elif stored != slots_digest(dataset):
        raise ArchiveError(
            f"source {dataset.name!r} ({dataset.id}) is in the archive with other files or other "
            "slots for them; earlier runs refer to those, so they must not change: "
            "take the files from Archive.dataset(id)"
        )
    else:
        row = _dataset_row(dataset)
        connection.execute(update(datasets).where(datasets.c.id == row.pop("id")).values(row))


def _dataset_row(dataset: Dataset) -> dict[str, Any]:
    version = dataset.properties.get("version") if dataset.kind == "snapshot" else None
    return {
        "id": dataset.id,
        "kind": dataset.kind,
        "name": dataset.name,
        "location": dataset.location,
        "schema": dataset.schema,
        "fingerprint": dataset.fingerprint,
        "rows": dataset.rows,
        "bytes": dataset.bytes,
        "properties": to_json(dataset.properties, f"the properties of {dataset.name!r}"),
        "version": version if isinstance(version, str) else None,
    }


def load_runs(connection: Connection, condition: ColumnElement[bool] | None = None) -> list[Run]:
    """Runs in the order of their commits, with their steps but without attachments."""
    chosen = true() if condition is None else condition
    rows = connection.execute(select(runs).where(chosen).order_by(runs.c.sequence)).all()
    found = _load_steps(connection, select(runs.c.id).where(chosen))
    return [_run(row, found[row.id]) for row in rows]


def _run(row: Row[Any], found: Iterable[Step]) -> Run:
    return Run(
        id=row.id,
        name=row.name,
        created=_EPOCH + timedelta(microseconds=row.created),
        mode=row.mode,
        seconds=row.seconds,
        versions=json.loads(row.versions),
        steps=tuple(found),
    )


def _load_steps(connection: Connection, ids: Any) -> Mapping[str, list[Step]]:
    links: dict[tuple[str, int, str], list[str]] = defaultdict(list)
    linked = select(step_datasets).where(step_datasets.c.run.in_(ids))
    for row in connection.execute(linked.order_by(step_datasets.c.position)):
        links[row.run, row.number, row.role].append(row.dataset)
    found: dict[str, list[Step]] = defaultdict(list)
    for row in connection.execute(
        select(steps).where(steps.c.run.in_(ids)).order_by(steps.c.number)
    ):
        step = Step(
            number=row.number,
            output=row.output,
            inputs=tuple(links[row.run, row.number, "input"]),
            groups=tuple(links[row.run, row.number, "group"]),
            document=json.loads(row.document),
        )
        found[row.run].append(step)
    return found


def load_datasets(
    connection: Connection, condition: ColumnElement[bool] | None = None
) -> list[Dataset]:
    """Datasets with their files, in the order of the commits that brought them."""
    chosen = true() if condition is None else condition
    ordered = select(datasets).join(runs, runs.c.id == datasets.c.run).where(chosen)
    rows = connection.execute(ordered.order_by(runs.c.sequence, datasets.c.id)).all()
    ids = select(datasets.c.id).where(chosen)
    found: dict[str, list[DataFile]] = defaultdict(list)
    listed = select(files).where(files.c.dataset.in_(ids)).order_by(files.c.position)
    for row in connection.execute(listed):
        file = DataFile(row.path, row.slot, row.size, row.modified, row.rows)
        found[row.dataset].append(file)
    return [_dataset(row, found[row.id]) for row in rows]


def _dataset(row: Row[Any], found: Iterable[DataFile]) -> Dataset:
    if row.kind not in get_args(DatasetKind):
        raise ArchiveError(f"the catalog is damaged: dataset {row.id} is of kind {row.kind!r}")
    return Dataset(
        id=row.id,
        kind=row.kind,
        name=row.name,
        location=row.location,
        schema=row.schema,
        fingerprint=row.fingerprint,
        files=tuple(found),
        rows=row.rows,
        bytes=row.bytes,
        properties=json.loads(row.properties),
    )
