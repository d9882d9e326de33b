"""What the archive's tests share: places to put archives, small runs, and what "whole" means."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select, update

from whence.archive import Archive, DataFile, Dataset, Run, RunWriter, Step, format_1, layout


@dataclass(frozen=True)
class Place:
    """Where an archive is, or will be."""

    location: Path
    catalog: str | None

    def open(self, *, create: bool = False) -> Archive:
        return Archive.open(self.location, catalog=self.catalog, create=create)


NewPlace = Callable[[], Place]


def source(name: str = "orders", **changes: Any) -> Dataset:
    files = (
        DataFile(f"file:///data/{name}/a.parquet", 0, 10, 1000, 3),
        DataFile(f"file:///data/{name}/b.parquet", 1, 20, 2000, 4),
    )
    values = {
        "id": f"source-{name}",
        "kind": "source",
        "name": name,
        "location": f"file:///data/{name}",
        "schema": '{"type":"struct","fields":[]}',
        "fingerprint": "1",
        "files": files,
        "rows": 7,
        "bytes": 30,
        "properties": {},
    }
    return Dataset(**(values | changes))


def write_dataset(writer: RunWriter, kind: str = "output", **changes: Any) -> Dataset:
    """A new dataset with two real files in its folder, not yet added to the writer."""
    dataset_id, folder = writer.new_dataset()
    files = []
    for slot, name in enumerate(("part-0.parquet", "day=1/part-1.parquet")):
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(50 + slot))
        files.append(DataFile(name, slot, 50 + slot, 1000, 2))
    values = {
        "id": dataset_id,
        "kind": kind,
        "name": "late",
        "location": f"datasets/{dataset_id}",
        "schema": "{}",
        "fingerprint": "2",
        "files": tuple(files),
        "rows": 4,
        "bytes": 101,
        "properties": {"columns": ["a.b"]},
    }
    return Dataset(**(values | changes))


def fill(writer: RunWriter, inputs: Iterable[str] = ()) -> Dataset:
    """Add a source, a group and an output to a writer, by way of one step."""
    orders, output = source(), write_dataset(writer)
    group = write_dataset(writer, "group", name="groups")
    for dataset in (orders, output, group):
        writer.add_dataset(dataset)
    step = Step(0, output.id, (orders.id, *inputs), (group.id,), {"plan": ["scan"]}, b"plan")
    writer.add_step(step)
    return output


def write_run(archive: Archive, name: str | None = "late", inputs: Iterable[str] = ()) -> Run:
    with archive.writer(name, "eager") as writer:
        fill(writer, inputs)
        return writer.commit(seconds=0.5, versions={"spark": "4.1"})


def folders(archive: Archive) -> set[str]:
    return {entry.name for entry in Path(archive.location, layout.DATASETS).iterdir()}


def own_ids(archive: Archive) -> set[str]:
    return {dataset.id for dataset in archive.datasets() if dataset.is_own}


def writer_ids(archive: Archive) -> set[str]:
    chosen = select(format_1.writers.c.id)
    return archive._catalog.read(lambda c: set(c.execute(chosen).scalars()))


def change_writer(archive: Archive, run_id: str, **values: Any) -> None:
    """Change what the catalog says of a writer: another host, another process, an old sign."""
    table = format_1.writers
    change = update(table).where(table.c.id == run_id).values(**values)
    archive._catalog.write(lambda c: c.execute(change))


def assert_whole(archive: Archive) -> None:
    """Every run that can be seen has all its steps, datasets and files."""
    runs = archive.runs()
    known = {dataset.id: dataset for dataset in archive.datasets()}
    for run in runs:
        assert run.steps
        assert [step.number for step in run.steps] == list(range(len(run.steps)))
        for step in run.steps:
            for dataset_id in (step.output, *step.inputs, *step.groups):
                dataset = known[dataset_id]
                if dataset.is_own:
                    found = [Path(path).stat().st_size for path in archive.file_paths(dataset)]
                    assert found == [file.size for file in dataset.files]
