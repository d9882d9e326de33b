"""A run: its plan as a tree, with the rows and bytes of what was read and stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from whence import plan as ops
from whence.archive import Dataset, Run
from whence.errors import ArchiveError, EngineError, SourceError
from whence.plan import Operator, render, walk
from whence.present.report import Grid, Report
from whence.present.stored import Amounts, amounts
from whence.present.text import Amount
from whence.present.values import count, place, size
from whence.trace.backward import Backward
from whence.trace.grades import guarantee_of
from whence.trace.steps import StepView, names_behind, step_view
from whence.trace.tables import LOCATOR, Tables, check_source, renamed

# Each gives as many rows as it gets.
_KEEPS_ROWS = (
    ops.Project,
    ops.View,
    ops.Sort,
    ops.Window,
    ops.Hint,
    ops.Number,
    ops.Observe,
    ops.Repartition,
)


@dataclass(frozen=True, slots=True)
class _Line:
    """An operator of the tree, with what is known of its rows."""

    step: int
    operator: Operator
    tree: str
    rows: int | None
    traced: int | None
    bytes: int | None


# Counting what all rows came through takes about a second for so many locators.
_MAX_COUNTED = 10_000_000


def show_report(run: Run, tables: Tables) -> Report:
    """A run in full."""
    views = [step_view(run, step) for step in run.steps]
    names = names_behind(tables.archive, run)
    known = {i: _amounts(tables, i, views, names) for view in views for i in _datasets(view)}
    counts = _traced(tables, views[-1], known)
    lines = [line for view in views for line in _lines(view, known, counts)]
    guarantee, reasons = guarantee_of(views[-1:])
    single, _ = guarantee_of(views[-1:], one_row=True)
    notes = [n for step in run.steps for n in step.document.get("notes", ())]
    notes += _changed(tables, views)
    stored = _stored_grid(views, known)
    told = guarantee if guarantee == single else f"{single} for single rows, {guarantee} for many"
    head = _head(run, known, told, reasons, notes)
    plan = _plan_grid(lines, len(views) > 1)
    data = _data(run, lines, known, views)
    data |= {"replays": guarantee, "replays_single_rows": single}
    data |= {"replay_reasons": reasons, "notes": notes}
    return Report((head, "plan", plan, "datasets", stored), data, _records(lines))


def _datasets(view: StepView) -> list[str]:
    return [*view.step.inputs, view.step.output, *view.step.groups]


def _amounts(
    tables: Tables, dataset_id: str, views: list[StepView], names: Mapping[str, str]
) -> tuple[Dataset, Amounts | None]:
    """A dataset with its amounts; None where its files are gone or have changed."""
    dataset = renamed(tables.archive.dataset(dataset_id), names)
    shapes = [view.shape for view in views if view.step.output == dataset_id]
    shapes += [
        shape.element
        for view in views
        for shape, group in view.groups.values()
        if group == dataset_id
    ]
    try:
        check_source(dataset)
        return dataset, amounts(tables, dataset, shapes[0] if shapes else None)
    except SourceError:
        return dataset, None


def _changed(tables: Tables, views: list[StepView]) -> list[str]:
    """What is wrong with the sources now."""
    found = []
    for dataset_id in dict.fromkeys(i for view in views for i in view.step.inputs):
        try:
            check_source(tables.archive.dataset(dataset_id))
        except SourceError as error:
            found.append(str(error))
    return found


def _traced(
    tables: Tables, view: StepView, known: Mapping[str, tuple[Dataset, Amounts | None]]
) -> Mapping[tuple[str, int, str], int]:
    """How many rows of each operator the output came from, if that is stored and not too much."""
    if sum(found.locators for _, found in known.values() if found) > _MAX_COUNTED:
        return {}
    output = known[view.step.output][0]
    backward = Backward(tables, None)
    try:
        rows = tables.rows(output, ["1 AS x"])
        chosen = tables.table("chosen", f"SELECT {LOCATOR} AS locator, true AS role FROM ({rows})")
        backward.from_output(view, chosen)
    except (EngineError, ArchiveError):
        return {}
    return backward.counts


# --- The tree -------------------------------------------------------------------------------


def _lines(
    view: StepView,
    known: Mapping[str, tuple[Dataset, Amounts | None]],
    counts: Mapping[tuple[str, int, str], int],
) -> list[_Line]:
    rows: dict[str, int | None] = {}
    sizes: dict[str, int | None] = {}
    for source, dataset_id in view.inputs.items():
        dataset, found = known[dataset_id]
        rows[source] = found.rows if found else dataset.rows
        sizes[source] = dataset.bytes if dataset.files else None
    dataset, found = known[view.step.output]
    rows[view.plan.id] = found.rows if found else dataset.rows
    sizes[view.plan.id] = dataset.bytes
    for _, (shape, group) in view.groups.items():
        operator = shape.operator.partition("/")[0]
        sizes[operator] = (sizes.get(operator) or 0) + known[group][0].bytes
    _spread(view.plan, rows)
    number = view.step.number
    return [
        _Line(
            step=number,
            operator=operator,
            tree=tree,
            rows=rows.get(operator.id),
            traced=counts.get((view.run.id, number, operator.id)),
            bytes=sizes.get(operator.id),
        )
        for operator, tree in zip(walk(view.plan), _tree(view.plan), strict=True)
    ]


def _spread(plan: Operator, rows: dict[str, int | None]) -> None:
    """An operator that keeps rows tells its input's number from its own, and the other way."""
    operators = list(walk(plan))
    for operator in operators:
        if isinstance(operator, _KEEPS_ROWS) and rows.get(operator.id) is not None:
            rows.setdefault(operator.children[0].id, rows[operator.id])
    for operator in reversed(operators):
        if isinstance(operator, _KEEPS_ROWS) and rows.get(operator.children[0].id) is not None:
            rows.setdefault(operator.id, rows[operator.children[0].id])


def _tree(plan: Operator) -> list[str]:
    """The lines of the rendered plan, one per operator in the order of `walk`."""
    text = render(plan, lambda _: "\0")
    return [" ".join(line.split("\n")).rstrip() for line in text.split("\0\n")[:-1]]


def _plan_grid(lines: list[_Line], several: bool) -> Grid:
    rows = []
    for line in lines:
        numbers = (_number(line.rows), _number(line.traced), _bytes(line.bytes))
        rows.append((*([line.step] if several else []), *numbers, line.tree))
    names = ("rows", "traced", "bytes", "operator")
    return Grid(("step", *names) if several else names, rows)


def _number(value: int | None) -> str:
    return Amount("-" if value is None else f"{value:,}")


def _bytes(value: int | None) -> str:
    return Amount("-" if value is None else size(value))


def _records(lines: list[_Line]) -> Grid:
    return Grid(
        ("step", "operator", "kind", "description", "rows", "traced", "bytes"),
        [
            (
                line.step,
                line.operator.id,
                line.operator.kind,
                ops.describe(line.operator),
                line.rows,
                line.traced,
                line.bytes,
            )
            for line in lines
        ],
    )


# --- The rest -------------------------------------------------------------------------------


def _head(
    run: Run,
    known: Mapping[str, tuple[Dataset, Amounts | None]],
    guarantee: str,
    reasons: tuple[str, ...],
    notes: list[str],
) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    found = known[run.output][1]
    lines = [
        f"{run.name}  {run.id}",
        f"captured  {run.created:%Y-%m-%d %H:%M:%S} UTC in {run.seconds:.1f} s",
        f"mode      {run.mode}",
        f"versions  {versions}",
        f"output    {count(found.rows, 'row')}" if found else "output    -",
        f"replays   {guarantee}",
        *(f"          {reason}" for reason in reasons),
        *(f"note      {note}" for note in notes),
    ]
    return "\n".join(lines)


def _stored_grid(
    views: list[StepView], known: Mapping[str, tuple[Dataset, Amounts | None]]
) -> Grid:
    """Every dataset of the run: what it takes, and how much of that is witnesses."""
    rows = []
    for dataset_id in dict.fromkeys(i for view in views for i in _datasets(view)):
        dataset, found = known[dataset_id]
        own = found if dataset.kind in ("output", "group") else None
        rows.append(
            (
                dataset.name,
                dataset.kind,
                _number(found.rows if found else dataset.rows),
                _bytes(dataset.bytes if dataset.files else None),
                _bytes(own.witness_bytes if own else None),
                _number(own.locators if own else None),
                place(dataset.location),
            )
        )
    columns = ("dataset", "kind", "rows", "bytes", "witness", "locators", "location")
    return Grid(columns, rows)


def _data(
    run: Run,
    lines: list[_Line],
    known: Mapping[str, tuple[Dataset, Amounts | None]],
    views: list[StepView],
) -> dict[str, Any]:
    return {
        "id": run.id,
        "name": run.name,
        "created": run.created,
        "seconds": run.seconds,
        "mode": run.mode,
        "versions": dict(run.versions),
        "operators": [
            {
                "step": line.step,
                "id": line.operator.id,
                "kind": line.operator.kind,
                "description": ops.describe(line.operator),
                "inputs": [child.id for child in line.operator.inputs],
                "rows": line.rows,
                "traced": line.traced,
                "bytes": line.bytes,
            }
            for line in lines
        ],
        "datasets": [
            {
                "id": dataset.id,
                "name": dataset.name,
                "kind": dataset.kind,
                "location": dataset.location,
                "files": len(dataset.files),
                "rows": found.rows if found else dataset.rows,
                "bytes": dataset.bytes,
                "witness_bytes": found.witness_bytes if found else None,
                "locators": found.locators if found else None,
            }
            for dataset, found in known.values()
        ],
    }
