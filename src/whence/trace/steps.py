"""A stored step, parsed: its plan, the shape of its witnesses and of its groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from whence.algebra.packing import member_sql
from whence.algebra.witness import GroupShape, Members, Witness, from_json, group_from_json
from whence.archive import Archive, Run, Step
from whence.archive.model import LEAF_KINDS
from whence.plan import Operator
from whence.plan import from_json as plan_from_json
from whence.trace.tables import quoted


@dataclass(frozen=True, slots=True)
class StepView:
    """What tracing needs to know of a step."""

    run: Run
    step: Step
    plan: Operator
    pipeline: Operator
    """The plan as it was written, before parts of it were cut off as steps of their own."""
    shape: Witness
    inputs: Mapping[str, str]
    groups: Mapping[str, tuple[GroupShape, str]]
    scopes: Mapping[str, tuple[str, ...]]
    exact: tuple[str, ...]
    """Opaque operators whose functions go row by row, or are followed."""
    doubts: Mapping[str, str]
    """For followed operators, the slot that says why a row's witness is not exact."""
    cells: Mapping[str, Mapping[str, Any]]
    """For followed operators, where their cells are kept."""


def step_view(run: Run, step: Step) -> StepView:
    """A step's document, parsed."""
    document = step.document
    plan = plan_from_json(document["plan"])
    whole = document.get("pipeline")
    return StepView(
        run=run,
        step=step,
        plan=plan,
        pipeline=plan if whole is None else plan_from_json(whole),
        shape=from_json(document["witness"]),
        inputs=document["inputs"],
        groups={
            name: (group_from_json(entry["shape"]), entry["dataset"])
            for name, entry in document["groups"].items()
        },
        scopes={name: tuple(slots) for name, slots in document["scopes"].items()},
        exact=tuple(document.get("exact", ())),
        doubts=document.get("doubts", {}),
        cells=document.get("cells", {}),
    )


def names_in(run: Run) -> dict[str, str]:
    """What a run calls the sources that it reads, by dataset: the catalog has the last name."""
    return {
        dataset: name
        for step in run.steps
        for dataset, name in step.document.get("names", {}).items()
    }


def names_behind(archive: Archive, run: Run) -> dict[str, str]:
    """The same for all runs that one builds on, no name twice; its own come first."""
    found: dict[str, str] = {}
    pending, seen = [run], {run.id}
    while pending:
        run = pending.pop(0)
        for dataset_id, name in names_in(run).items():
            if dataset_id not in found:
                found[dataset_id] = unlike(name, found.values())
        read = dict.fromkeys(i for step in run.steps for i in step.inputs)
        for dataset in archive.datasets(read):
            producer = archive.producer(dataset.id) if dataset.kind == "output" else None
            if producer is not None and producer[0].id not in seen:
                seen.add(producer[0].id)
                pending.append(producer[0])
    return found


def unlike(name: str, others: Collection[str]) -> str:
    """A name that no other has."""
    found, number = name, 2
    while found in others:
        found, number = f"{name}-{number}", number + 1
    return found


def sources_by_name(archive: Archive) -> dict[str, set[str]]:
    """The sources of an archive by every name that a run has for them."""
    found: dict[str, set[str]] = {}
    for dataset in archive.datasets():
        if dataset.kind in LEAF_KINDS:
            found.setdefault(dataset.name, set()).add(dataset.id)
    for run in archive.runs():
        for dataset_id, name in names_in(run).items():
            found.setdefault(name, set()).add(dataset_id)
    return found


def membership(group: GroupShape, key: str, member: str) -> str:
    """SQL that tells whether a member belongs to a group; what the two are called is given."""
    tests = [f"{key}.{quoted(n)} IS NOT DISTINCT FROM {member}.{quoted(n)}" for n in group.keys]
    tests += [
        f"{key}.{quoted(test.key)} {test.comparison} {member}.{quoted(test.field)}"
        for test in group.tests
    ]
    return " AND ".join(tests) or "true"


def member_columns(
    shape: Members, names: Iterable[str], name: Callable[[str], str] = quoted
) -> list[str]:
    """What to select for some slots and flags of a list's member `m`, each under its name.

    `name` quotes a name, as DuckDB has it if not told otherwise.
    """
    return [f"{member_sql(shape, own, name)} AS {name(own)}" for own in names]
