"""The answer to a question: source rows by name, how good it is, and how rows were combined."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from whence.algebra.expression import Expression, render
from whence.algebra.locators import ROW_MASK
from whence.archive import Dataset
from whence.errors import UnknownNameError
from whence.trace.backward import Backward
from whence.trace.cells import Cells, cells_of
from whence.trace.cells.trees import RowTree, render_trees, row_trees
from whence.trace.followed import CELLS, CellReader
from whence.trace.forward import Forward
from whence.trace.grades import Grade, Guarantee, grade_of, guarantee_of
from whence.trace.how import How
from whence.trace.rows import (
    Fetched,
    SourceRows,
    checked_count,
    fetch_output,
    limit_sql,
    output_rows,
    role_sql,
)
from whence.trace.steps import StepView, unlike
from whence.trace.tables import Tables, text


@dataclass(frozen=True, slots=True)
class OperatorCount:
    """How many rows an operator handled on the way from the sources to the chosen rows."""

    run: str
    step: int
    operator: str
    rows: int


class Trace(Mapping[str, SourceRows]):
    """The inputs behind chosen output rows; a mapping from source names to their rows."""

    def __init__(
        self,
        tables: Tables,
        view: StepView,
        chosen: str,
        backward: Backward,
        cells: Cells | None = None,
        html: Callable[[Trace], str] | None = None,
    ) -> None:
        self._tables = tables
        self._html = html
        self._view = view
        self._chosen = chosen
        self._backward = backward
        self._pattern = cells is not None
        self._cells = cells
        found = backward if cells is None else cells
        self._names = _names(found.datasets)
        self._views = found.views or [view]
        self._sources = {
            self._names[dataset]: SourceRows(
                tables, found.datasets[dataset], hits, self._names[dataset], backward.engine
            )
            for dataset, hits in found.hits().items()
        }

    def __getitem__(self, source: str) -> SourceRows:
        if source in self._sources:
            return self._sources[source]
        untouched = self._untouched()
        if source not in untouched:
            raise UnknownNameError("source", source, [*self._sources, *untouched])
        none = self._tables.table("hits", "SELECT 0::BIGINT AS locator, true AS role WHERE false")
        dataset = untouched[source]
        return SourceRows(self._tables, dataset, none, source, self._backward.engine)

    def _untouched(self) -> dict[str, Dataset]:
        """Sources of the run that gave nothing to the chosen rows."""
        ids = [i for step in self._view.run.steps for i in step.inputs if i not in self._names]
        return {d.name: d for d in self._tables.datasets(ids) if d.kind != "output"}

    def __contains__(self, source: object) -> bool:
        return source in self._sources

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {len(rows):,}" for name, rows in self._sources.items())
        return f"<trace of {self.rows:,} rows of {self._view.run.name!r}: {parts or 'no inputs'}>"

    def _repr_html_(self) -> str | None:
        """Source rows as nested tables in a notebook."""
        return self._html(self) if self._html else None

    @property
    def rows(self) -> int:
        """How many output rows were chosen."""
        return self._tables.count(self._chosen)

    @property
    def grade(self) -> Grade:
        """exact, superset or unknown; `reasons` says why it is not exact."""
        return self._graded(with_cells=self._pattern)[0]

    @property
    def reasons(self) -> tuple[str, ...]:
        """What makes the answer less than exact, with the operators that cause it."""
        return self._graded(with_cells=self._pattern)[1]

    @property
    def cell_grade(self) -> Grade:
        """How good `cells` and `tree` are: for a trace of rows maybe less than `grade`."""
        return self._graded(with_cells=True)[0]

    @property
    def cell_reasons(self) -> tuple[str, ...]:
        """What makes the cells less than exact, with the operators that cause it."""
        return self._graded(with_cells=True)[1]

    def _graded(self, *, with_cells: bool) -> tuple[Grade, tuple[str, ...]]:
        grade, reasons = grade_of(self._views, self._backward.lost, self._backward.doubts)
        doubts = self._found_cells().reasons if with_cells else ()
        if doubts:
            reasons = tuple(dict.fromkeys((*reasons, *doubts)))
            grade = "superset" if grade == "exact" else grade
        return grade, reasons

    @property
    def replays(self) -> Guarantee:
        """Whether running the pipeline on only these rows is sure to give the chosen rows again."""
        return guarantee_of(self._views, one_row=self.rows <= 1)[0]

    @property
    def replay_reasons(self) -> tuple[str, ...]:
        """The operators because of which a replay is not guaranteed."""
        return guarantee_of(self._views, one_row=self.rows <= 1)[1]

    @property
    def notes(self) -> tuple[str, ...]:
        """Where the trace ends although the data may have come from further away."""
        if self._pattern and not self.rows:
            return ("the pattern matches nothing in this result",)
        ends = {"rdd": "an RDD or in-memory rows", "cached": "a cached frame"}
        return tuple(
            f"{name}: the trace ends here, at {ends[fmt]}"
            for name, rows in self._sources.items()
            if (fmt := rows.dataset.properties.get("format", "")) in ends
        )

    def how(self, *, rows: int = 10, terms: int = 20) -> str:
        """How each chosen row was combined from source rows, one line per row."""
        return "\n".join(render(e) for e in self.expressions(rows=rows, terms=terms))

    def expressions(self, *, rows: int = 10, terms: int = 20) -> list[Expression]:
        """The same as expressions, for programs."""
        reader = How(self._tables, self._backward, self._names, checked_count(terms))
        return reader.rows(self._view, self._chosen, checked_count(rows))

    def cells(self) -> Any:
        """The source cells behind what was chosen, as an Arrow table.

        Its columns are `source`, `file`, `row`, `path`, `role`, `accessed_by` and `moved_by`; the
        last two name the operators that looked at a cell, and that moved it or made other values
        of it. A row of which no cell was looked at, but that had to be there, has an empty path.
        """
        found = self._found_cells()
        parts = [
            f"SELECT {text(name)} AS source, {rows.file_sql()} AS file, "
            f"locator & {ROW_MASK} AS row, path, {role_sql('role')} AS role, "
            f"accessed_by, moved_by, locator FROM {found.table} "
            f"WHERE dataset = {text(rows.dataset.id)}"
            for name, rows in self._cell_sources().items()
        ]
        none = (
            "SELECT '' AS source, '' AS file, 0::BIGINT AS row, path, '' AS role, accessed_by, "
            f"moved_by, locator FROM {found.table} WHERE false"
        )
        union = " UNION ALL ".join(parts or [none])
        order = "source, locator, path"
        return self._tables.arrow(f"SELECT * EXCLUDE (locator) FROM ({union}) ORDER BY {order}")

    def tree(self, source: str, *, rows: int = 10) -> str:
        """The cells of a source's rows as trees: what belongs to one row stands together."""
        trees = self.trees(source, rows=rows)
        return render_trees(source, trees, len(self[source]) - len(trees))

    def trees(self, source: str, *, rows: int | None = None) -> list[RowTree]:
        """The same as data, for programs: values of rows, and a tree of their cells."""
        found = self._found_cells()
        own = self[source]
        kept = self._tables.table(
            "first", f"SELECT * FROM {own.hits} ORDER BY locator{limit_sql(rows)}"
        )
        first = SourceRows(self._tables, own.dataset, kept, source, None)
        cells = self._tables.arrow(
            f"SELECT {own.file_sql()} AS file, locator & {ROW_MASK} AS row, path, "
            f"{role_sql('role')} AS role, accessed_by, moved_by FROM {found.table} "
            f"WHERE dataset = {text(own.dataset.id)} "
            f"AND locator IN (SELECT locator FROM {kept}) ORDER BY locator, path"
        )
        return row_trees(cells.to_pylist(), first.to_arrow(extra=True).to_pylist())

    def _found_cells(self) -> Cells:
        if self._cells is None:
            self._cells = cells_of(self._tables, self._backward, self._view, self._chosen, None)
        return self._cells

    def _cell_sources(self) -> Mapping[str, SourceRows]:
        """The sources that have cells; a row may be used without any of its values."""
        found = self._found_cells()
        return {n: r for n, r in self._sources.items() if r.dataset.id in found.datasets}

    def array_cells(self, *, limit: int = 1000) -> Any:
        """Where Python functions were followed: which cells their cells were made of.

        An Arrow table: run, step, operator, row and column of its output, and the row and column of
        its input; `*` stands for all columns. Steps are listed as the trace meets them.
        """
        how = How(self._tables, self._backward, self._names, 20)
        reader = CellReader(self._tables, how, checked_count(limit))
        entries = (
            {name: entry[name] for name in CELLS} | {"input_row": render(entry["input_row"])}
            for view, chosen in self._backward.followed
            for entry in reader.rows(view, chosen)
        )
        return self._tables.arrow_of(list(islice(entries, limit)), CELLS)

    def operators(self) -> list[OperatorCount]:
        """How many rows each operator handled on the way."""
        return [
            OperatorCount(run, step, operator, rows)
            for (run, step, operator), rows in sorted(
                self._backward.counts.items(), key=lambda item: _order(item[0])
            )
        ]

    def output(self) -> Any:
        """The chosen output rows, as an Arrow table."""
        dataset = self._tables.archive.dataset(self._view.step.output)
        return output_rows(self._tables, dataset, self._chosen)

    def fetch(self, limit: int | None = None) -> Fetched:
        """The first of the chosen output rows, without Arrow."""
        dataset = self._tables.archive.dataset(self._view.step.output)
        return fetch_output(self._tables, dataset, self._chosen, limit)


class Impact:
    """The output rows that chosen source rows took part in."""

    def __init__(
        self, tables: Tables, forward: Forward, source: str, rows: int, found: str
    ) -> None:
        self._tables = tables
        self._forward = forward
        self._view = forward.views[0]
        self._found = found
        self.source = source
        self.source_rows = rows

    def __len__(self) -> int:
        return self._tables.count(self._found)

    def __repr__(self) -> str:
        return (
            f"<impact of {self.source_rows:,} rows of {self.source!r}: "
            f"{len(self):,} rows of {self._view.run.name!r}>"
        )

    @property
    def grade(self) -> Grade:
        """exact, superset or unknown."""
        return grade_of(self._forward.views, (), self._forward.doubts)[0]

    def to_arrow(self) -> Any:
        """The output rows as an Arrow table."""
        dataset = self._tables.archive.dataset(self._view.step.output)
        return output_rows(self._tables, dataset, self._found)

    def fetch(self, limit: int | None = None) -> Fetched:
        """The first of the output rows, without Arrow."""
        dataset = self._tables.archive.dataset(self._view.step.output)
        return fetch_output(self._tables, dataset, self._found, limit)

    def to_pandas(self) -> Any:
        """The output rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_pylist(self) -> list[dict[str, Any]]:
        """The output rows as dicts."""
        return list(self.to_arrow().to_pylist())


def _names(datasets: Mapping[str, Dataset]) -> dict[str, str]:
    """A name for each dataset, unlike all others."""
    taken: dict[str, str] = {}
    for dataset_id, dataset in datasets.items():
        taken[dataset_id] = unlike(dataset.name, taken.values())
    return taken


def _order(key: tuple[str, int, str]) -> tuple[str, int, int]:
    run, step, operator = key
    number = operator.rsplit("-", 1)[-1]
    return run, step, int(number) if number.isdigit() else 0
