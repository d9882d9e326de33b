"""Forgetting runs: they and what only they used go, and a seal says so.

The chain stays as it was: seals hold digests of data, names of runs and sources, and the text of
operators with the constants in it. The seal of a `forget` lists what went, and covers anew what had
to be changed because of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, delete, select, update

from whence.archive import format_1, layout, ledger
from whence.archive.archive import Archive
from whence.archive.ledger import SealRow
from whence.archive.model import SEGMENT_KINDS, Dataset, Run
from whence.archive.seal import description_digest
from whence.archive.sealer import Sealer
from whence.errors import ArchiveError, SelectionError, UnknownNameError


@dataclass(frozen=True, slots=True)
class Plan:
    """What goes with some runs."""

    runs: tuple[Run, ...]
    datasets: tuple[Dataset, ...]
    """Own datasets that nobody else uses."""
    sources: tuple[Dataset, ...]
    heirs: Mapping[str, str]
    """Datasets that stay and were brought by a run that goes, with a run that uses them."""

    @property
    def bytes(self) -> int:
        """What the datasets take."""
        return sum(dataset.bytes for dataset in self.datasets)


def plan(archive: Archive, runs: Sequence[Run]) -> Plan:
    """What forgetting these runs takes away; refused if others build on them."""
    going = {run.id for run in runs}
    known = archive.runs()
    for run in runs:
        if run.id not in {other.id for other in known}:
            raise UnknownNameError("run", run.name, [other.name for other in known])
    staying = [run for run in known if run.id not in going]
    used: dict[str, str] = {}
    for run in staying:
        for read in _used(run):
            used.setdefault(read, run.name)
    outputs = {step.output for run in runs for step in run.steps}
    builders = sorted({used[made] for made in outputs if made in used})
    if builders:
        raise SelectionError(
            f"other runs read the output of what is to be forgotten: {', '.join(builders)}; "
            "forget them as well, or keep it"
        )
    users = {dataset: run.id for run in staying for dataset in _used(run)}
    own: list[Dataset] = []
    sources: list[Dataset] = []
    heirs: dict[str, str] = {}
    brought = archive.catalog.read(_brought)
    mine = {dataset for run in runs for dataset in _used(run)}
    for dataset in archive.datasets():
        sealed = dataset.kind in SEGMENT_KINDS
        roots = dataset.kind == "roots" and dataset.properties["output"] in outputs
        if roots or (dataset.id in mine and dataset.id not in users):
            (own if dataset.is_own else sources).append(dataset)
        elif brought[dataset.id] in going:
            heir = users.get(dataset.id) or (staying[-1].id if sealed and staying else None)
            if heir is not None:
                heirs[dataset.id] = heir
            else:
                (own if dataset.is_own else sources).append(dataset)
    return Plan(tuple(runs), tuple(own), tuple(sources), heirs)


def keeping(archive: Archive, going: Plan, staying: Set[str]) -> Plan:
    """The plan without some datasets, which the runs that stay still need."""
    left = {run.id for run in going.runs}
    heirs = [run.id for run in archive.runs() if run.id not in left]
    return replace(
        going,
        datasets=tuple(d for d in going.datasets if d.id not in staying),
        sources=tuple(d for d in going.sources if d.id not in staying),
        heirs={**going.heirs, **dict.fromkeys(sorted(staying), heirs[-1])}
        if staying
        else going.heirs,
    )


def _brought(connection: Connection) -> dict[str, str]:
    """The run that each dataset came with."""
    rows = connection.execute(select(format_1.datasets.c.id, format_1.datasets.c.run))
    return {str(dataset): str(run) for dataset, run in rows}


def _used(run: Run) -> list[str]:
    return [i for step in run.steps for i in (*step.inputs, step.output, *step.groups)]


def commit(
    sealer: Sealer,
    going: Plan,
    replaced: Mapping[str, Dataset | None],
    ranges: Sequence[int],
    key: Any,
) -> SealRow:
    """Take runs out and seal that, in one transaction; then remove their files.

    `replaced` has what stands for a segment of nodes or edges from now on; None if nothing does.
    `ranges` are the starts of id ranges that no node is left of.
    """
    archive = sealer.archive
    removed = [d.id for d in going.datasets if d.id not in replaced] + list(replaced)
    fresh = [dataset for dataset in replaced.values() if dataset is not None]
    heir = next(iter(going.heirs.values()), None)
    kept = [archive.dataset(i) for i in going.heirs if i not in replaced]
    own = {d.id: sealer.listed(d) for d in (*kept, *fresh) if d.is_own}
    described = _described(sealer, going)
    ids = [*removed, *(source.id for source in going.sources)]

    def write(connection: Connection) -> SealRow:
        _check_unused(connection, going, ids)
        for dataset in fresh:
            owner = heir or _last_run(connection, {run.id for run in going.runs})
            format_1.insert_dataset(connection, dataset, owner)
        for dataset_id, owner in going.heirs.items():
            change = update(format_1.datasets).where(format_1.datasets.c.id == dataset_id)
            connection.execute(change.values(run=owner))
        for run in going.runs:
            for table in (format_1.attachments, format_1.step_datasets, format_1.steps):
                connection.execute(delete(table).where(table.c.run == run.id))
        for dataset_id in ids:
            files, table = format_1.files, format_1.datasets
            connection.execute(delete(files).where(files.c.dataset == dataset_id))
            connection.execute(delete(table).where(table.c.id == dataset_id))
        for run in going.runs:
            connection.execute(delete(format_1.runs).where(format_1.runs.c.id == run.id))
        for start in ranges:
            connection.execute(delete(ledger.ranges).where(ledger.ranges.c.start == start))
        sections = {
            "forgotten": {
                "runs": [run.id for run in going.runs],
                "datasets": removed,
                "sources": [source.id for source in going.sources],
                "ranges": list(ranges),
            },
            "descriptions": {i: description_digest(connection, i) for i in described},
        }
        return sealer.insert(connection, sections, own, key, kind="forget")

    row = sealer.finish(write, key)
    archive.gone(ids)
    for dataset_id in removed:
        archive.storage.remove(layout.folder(dataset_id))
    return row


def _check_unused(connection: Connection, going: Plan, datasets: Sequence[str]) -> None:
    """Raise if a run that was captured since the plan was made reads what goes."""
    runs, links = format_1.runs, format_1.step_datasets
    rows = connection.execute(
        select(links.c.dataset, runs.c.id, runs.c.name).join_from(links, runs)
    )
    gone, going_runs = set(datasets), {run.id for run in going.runs}
    late = {name for dataset, run, name in rows if dataset in gone and run not in going_runs}
    if late:
        raise ArchiveError(
            f"captured meanwhile, and reading what is to be forgotten: {', '.join(sorted(late))}; "
            "nothing was forgotten: forget again, to keep what they need or to be told of it"
        )


def _described(sealer: Sealer, going: Plan) -> list[str]:
    """Sources that stay and that a run which goes without a seal may have described anew."""
    unsealed = [run for run in going.runs if not sealer.is_sealed(run.id)]
    used = {i for run in unsealed for step in run.steps for i in step.inputs}
    left = used - {source.id for source in going.sources}
    return [dataset.id for dataset in sealer.archive.datasets(sorted(left)) if not dataset.is_own]


def _last_run(connection: Connection, going: set[str]) -> str:
    found = connection.execute(select(format_1.runs.c.id).order_by(format_1.runs.c.sequence))
    return str([run for run in found.scalars() if run not in going][-1])
