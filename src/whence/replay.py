"""Replay: the pipeline run on only the traced inputs must give the chosen rows again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from whence.archive import Dataset, Run, Step
from whence.errors import EngineError
from whence.plan import Aggregate, walk
from whence.trace.answer import Trace
from whence.trace.steps import StepView, step_view
from whence.trace.tables import Tables

if TYPE_CHECKING:
    from whence.spark.gateway import Gateway
    from whence.spark.rerun import Pipeline

_RELATIVE_ERROR = 1e-9
_STORED_OTHERWISE = ("interval", "variant")


class ReplayEngine(Protocol):
    """What a replay needs of Spark."""

    def gateway(self) -> Gateway:
        """Spark's JVM."""
        ...

    def pipeline(self, run: Run, step: Step) -> Pipeline:
        """A stored step, ready to be run again."""
        ...

    def stored_call(self, run: Run, step: Step) -> tuple[Any, Any, Any]:
        """The function of an array step, with its arguments."""
        ...

    def frame(self, table: Any) -> Any:
        """An Arrow table as a Spark DataFrame."""
        ...


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of one output row: `ok` if it came out again, else `why` not."""

    row: Mapping[str, Any]
    ok: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of replaying sampled rows."""

    rows: tuple[Replayed, ...]
    guaranteed: bool
    reasons: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every sampled row came out again."""
        return all(row.ok for row in self.rows)

    def __repr__(self) -> str:
        good = sum(row.ok for row in self.rows)
        note = "" if self.guaranteed else "; replay is not guaranteed for this pipeline"
        return f"<check: {good} of {len(self.rows)} rows came out again{note}>"


def replay_row(
    tables: Tables,
    engine: ReplayEngine,
    view: StepView,
    trace: Trace,
    values: Sequence[tuple[str, Any]],
) -> Replayed:
    """Run the pipeline on the contributing inputs of one output row, and look for the row.

    `values` are the row's, with the names of their columns.
    """
    row = dict(values)
    kept = {rows.dataset.id: _locators(tables, rows.contributing()) for rows in trace.values()}
    gateway = engine.gateway()
    try:
        plan = _plan(tables, engine, view.run, view.step, kept)
    except _FunctionError as error:
        return Replayed(row, False, str(error))
    found = _rows(tables, gateway, plan, len(values))
    wanted = [value for _, value in values]
    same = _same_row_in_any_order if _collects(view.run) else _same_row
    if any(same(wanted, other) for other in found):
        return Replayed(row, True)
    return Replayed(row, False, f"the pipeline gave {len(found)} other rows on the traced inputs")


def _rows(tables: Tables, gateway: Gateway, plan: Any, width: int) -> list[list[Any]]:
    """The rows of a plan; where Arrow knows their types otherwise, as DuckDB reads stored ones."""
    from whence.spark.rerun import write_rows

    kinds = str(plan.schema().json())
    if not any(name in kinds for name in _STORED_OTHERWISE):
        return gateway.collect(plan)
    folder = tables.scratch_file()
    write_rows(gateway, plan, folder)
    stored = tables.scan([f"{folder}/*.parquet"])
    items = ", ".join(f"c{i}" for i in range(width))
    columns = tables.arrow(f"SELECT {items} FROM {stored}").columns
    return [list(row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


def _plan(
    tables: Tables, engine: ReplayEngine, run: Run, step: Step, kept: Mapping[str, str]
) -> Any:
    """The step's plan over kept rows; inputs that other steps made are replayed as well."""
    from whence.spark.rerun import replay

    if step.document.get("arrays"):
        return _array_plan(tables, engine, run, step, kept)
    replaced: dict[str, Any] = {}
    for dataset_id in step.inputs:
        dataset: Dataset = tables.archive.dataset(dataset_id)
        producer = tables.archive.producer(dataset_id) if dataset.kind == "output" else None
        if producer is not None:
            inner = _plan(tables, engine, *producer, kept)
            physical = dataset.properties["physical"]
            replaced[dataset_id] = engine.gateway().named(inner, physical)
    return replay(engine.gateway(), engine.pipeline(run, step), kept, replaced)


class _FunctionError(Exception):
    """An array function failed on the traced rows."""


def _array_plan(
    tables: Tables, engine: ReplayEngine, run: Run, step: Step, kept: Mapping[str, str]
) -> Any:
    """What the function of an array step gives on the rows that its inputs come to."""
    from whence.arrayrun import call_again

    gateway = engine.gateway()
    inputs = []
    for dataset_id in step.inputs:
        producer = tables.archive.producer(dataset_id)
        if producer is None:
            raise EngineError(f"nothing is known of the run that made an input of {run.name!r}")
        plan = _plan(tables, engine, *producer, kept)
        plan.setAnalyzed()
        inputs.append(gateway.frame(plan).toArrow())
    stored = engine.stored_call(run, step)
    try:
        table = call_again(stored, inputs)
    except Exception as error:
        raise _FunctionError(f"the function raised on the traced rows: {error!r}") from error
    return gateway.analysed(engine.frame(table))


def _collects(run: Run) -> bool:
    """Whether a step of a run collects values into lists."""
    plans = [step_view(run, step).plan for step in run.steps]
    return any(isinstance(op, Aggregate) and op.collects for plan in plans for op in walk(plan))


def _locators(tables: Tables, rows: str) -> str:
    path = tables.scratch_file()
    tables.run(f"COPY (SELECT locator FROM {rows}) TO '{path}' (FORMAT parquet)")
    return path


def _same_row(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(map(_same, left, right))


def _same_row_in_any_order(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return _same_row(*([_ordered(value) for value in row] for row in (left, right)))


def _ordered(value: Any) -> Any:
    """A value whose lists have an order of their own, also inside other values."""
    if isinstance(value, Mapping):
        return {key: _ordered(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(map(_ordered, value), key=repr)
    return tuple(map(_ordered, value)) if isinstance(value, tuple) else value


def _same(left: Any, right: Any) -> bool:
    """Equality of values as DuckDB and Spark hand them to Python."""
    if left is None or right is None:
        return left is right
    if isinstance(left, float) or isinstance(right, float):
        a, b = float(left), float(right)
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=_RELATIVE_ERROR)
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return Decimal(left) == Decimal(right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return _same_row(left, right)
    return bool(left == right)
