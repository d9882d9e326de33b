"""What an archive holds, and what gc removed from it."""

from __future__ import annotations

from collections.abc import Sequence

from whence.archive import Archive, GcReport, Run
from whence.present.report import Grid, Report, dicts
from whence.present.text import Amount
from whence.present.values import count, place, size


def runs_report(archive: Archive, runs: Sequence[Run]) -> Report:
    """All runs, newest last."""
    bytes_of = {dataset.id: dataset.bytes for dataset in archive.datasets() if dataset.is_own}
    records = Grid(
        ("id", "name", "created", "mode", "seconds", "bytes"),
        [
            (run.id, run.name, run.created, run.mode, round(run.seconds, 3), _stored(run, bytes_of))
            for run in runs
        ],
    )
    shown = Grid(
        ("run", "name", "captured (UTC)", "mode", "took", "stored"),
        [
            (
                run.id,
                run.name,
                f"{run.created:%Y-%m-%d %H:%M:%S}",
                run.mode,
                Amount(f"{run.seconds:.1f} s"),
                Amount(size(_stored(run, bytes_of))),
            )
            for run in runs
        ],
    )
    title = f"{count(len(runs), 'run')} in {place(archive.location)}"
    return Report((title, shown) if runs else (title,), {"runs": dicts(records)}, records)


def _stored(run: Run, bytes_of: dict[str, int]) -> int:
    """Bytes of a run's own datasets: outputs and groups, not the snapshots that runs share."""
    own = {i for step in run.steps for i in (step.output, *step.groups)}
    return sum(bytes_of.get(i, 0) for i in own)


def gc_report(found: GcReport) -> Report:
    """What gc removed or would remove."""
    verb = "would remove" if found.dry_run else "removed"
    text = f"{verb} {count(found.count, 'dataset')}, {size(found.bytes)}"
    if found.writers:
        text += f"; {count(found.writers, 'writer')} had died"
    failed = [f"could not remove {reason}" for reason in found.failed]
    data = {
        "dry_run": found.dry_run,
        "datasets": found.datasets,
        "bytes": found.bytes,
        "writers": found.writers,
        "failed": found.failed,
    }
    records = Grid(("dataset", "removed"), [(name, not found.dry_run) for name in found.datasets])
    return Report(("\n".join([text, *failed]),), data, records)
