"""The answer to a question: source rows by name, how good it is, and how rows were combined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from whence.algebra.expression import Expression, render
from whence.archive import Dataset
from whence.errors import EngineError, UnknownNameError
from whence.trace.backward import Backward
from whence.trace.engine import Engine
from whence.trace.followed import CELLS, CellReader
from whence.trace.forward import Forward
from whence.trace.grades import Grade, Guarantee, grade_of, guarantee_of
from whence.trace.how import How
from whence.trace.steps import StepView
from whence.trace.tables import LOCATOR, ROW_BITS, Tables, check_source, local, quoted


@dataclass(frozen=True, slots=True)
class OperatorCount:
    """How many rows an operator handled on the way from the sources to the chosen rows."""

    run: str
    step: int
    operator: str
    rows: int


class SourceRows:
    """The traced rows of one source."""

    def __init__(
        self, tables: Tables, dataset: Dataset, hits: str, name: str, engine: Engine | None
    ) -> None:
        self._tables = tables
        self._engine = engine
        self._hits = hits
        self.dataset = dataset
        self.name = name

    def __len__(self) -> int:
        return self._tables.count(self._hits)

    def __repr__(self) -> str:
        return f"<{len(self):,} rows of {self.name}>"

    @property
    def columns(self) -> list[str]:
        """The columns of the source, as far as the pipeline read them."""
        return [name for name, _ in self._stored_columns()]

    def locators(self) -> Any:
        """File, row index and role of each row, as an Arrow table."""
        return self._tables.arrow(
            f"SELECT {self._file()} AS file, locator & {(1 << ROW_BITS) - 1} AS row, "
            f"{_role('role')} AS role FROM {self._hits} ORDER BY locator"
        )

    def contributing(self) -> str:
        """A table with the locators of the contributing rows."""
        return self._tables.table("kept", f"SELECT locator FROM {self._hits} WHERE role")

    def to_arrow(self, *, role: str | None = None, extra: bool = False) -> Any:
        """The rows as an Arrow table, in the order of the source.

        `role` keeps only the contributing or only the influencing ones; `extra` adds the columns
        `_file`, `_row` and `_role`.
        """
        check_source(self.dataset)
        items = [f"{quoted(p)} AS {quoted(n)}" for n, p in self._stored_columns()]
        rows = self._tables.at(self.dataset, items, self._hits)
        chosen = ", ".join(f"r.{quoted(n)}" for n, _ in self._stored_columns())
        more = ""
        if extra:
            more = (
                f", {self._file()} AS _file, locator & {(1 << ROW_BITS) - 1} AS _row, "
                f"{_role('h.role')} AS _role"
            )
        where = "" if role is None else f" WHERE {_role('h.role')} = '{role}'"
        return self._tables.arrow(
            f"SELECT {chosen or '1 AS row'}{more} FROM ({rows}) AS r "
            f"JOIN {self._hits} AS h ON h.locator = r.{LOCATOR}{where} ORDER BY h.locator",
            self.dataset,
        )

    def to_pandas(self, *, role: str | None = None) -> Any:
        """The rows as a pandas DataFrame."""
        return self.to_arrow(role=role).to_pandas()

    def to_pylist(self, *, role: str | None = None) -> list[dict[str, Any]]:
        """The rows as dicts."""
        return list(self.to_arrow(role=role).to_pylist())

    def spark(self) -> Any:
        """The rows as a Spark DataFrame, in the active session."""
        if self._engine is None:
            raise EngineError("there is no Spark session at hand; use to_arrow() or to_pandas()")
        return self._engine.frame(self.to_arrow())

    def _stored_columns(self) -> list[tuple[str, str]]:
        """Names as people know them, beside the names they are stored under."""
        properties = self.dataset.properties
        if "columns" in properties:
            return list(zip(properties["columns"], properties["physical"], strict=True))
        import json

        return [(f["name"], f["name"]) for f in json.loads(self.dataset.schema)["fields"]]

    def _file(self) -> str:
        files = self.dataset.files
        if not files:
            return "NULL"
        paths = [local(p) for p in self._tables.archive.file_paths(self.dataset)]
        cases = " ".join(
            f"WHEN {file.slot} THEN '{path.replace(chr(39), chr(39) * 2)}'"
            for file, path in zip(files, paths, strict=True)
        )
        return f"CASE locator >> {ROW_BITS} {cases} END"


class Trace(Mapping[str, SourceRows]):
    """The inputs behind chosen output rows; a mapping from source names to their rows."""

    def __init__(self, tables: Tables, view: StepView, chosen: str, backward: Backward) -> None:
        self._tables = tables
        self._view = view
        self._chosen = chosen
        self._backward = backward
        self._names = _names(backward.datasets)
        self._sources = {
            self._names[dataset]: SourceRows(
                tables, backward.datasets[dataset], hits, self._names[dataset], backward.engine
            )
            for dataset, hits in backward.hits().items()
        }

    def __getitem__(self, source: str) -> SourceRows:
        if source in self._sources:
            return self._sources[source]
        raise UnknownNameError("source", source, self._sources)

    def __contains__(self, source: object) -> bool:
        return source in self._sources

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {len(rows):,}" for name, rows in self._sources.items())
        return f"<trace of {self.rows:,} rows of {self._view.run.name!r}: {parts or 'no inputs'}>"

    @property
    def rows(self) -> int:
        """How many output rows were chosen."""
        return self._tables.count(self._chosen)

    @property
    def grade(self) -> Grade:
        """exact, superset or unknown; `reasons` says why it is not exact."""
        return self._graded[0]

    @property
    def reasons(self) -> tuple[str, ...]:
        """What makes the answer less than exact, with the operators that cause it."""
        return self._graded[1]

    @property
    def _graded(self) -> tuple[Grade, tuple[str, ...]]:
        backward = self._backward
        return grade_of(backward.views, backward.lost, backward.doubts)

    @property
    def replays(self) -> Guarantee:
        """Whether running the pipeline on only these rows is sure to give the chosen rows again."""
        return guarantee_of(self._backward.views or [self._view], one_row=self.rows <= 1)[0]

    @property
    def replay_reasons(self) -> tuple[str, ...]:
        """The operators because of which a replay is not guaranteed."""
        return guarantee_of(self._backward.views or [self._view], one_row=self.rows <= 1)[1]

    @property
    def notes(self) -> tuple[str, ...]:
        """Where the trace ends although the data may have come from further away."""
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
        reader = How(self._tables, self._backward, self._names, terms)
        return reader.rows(self._view, self._chosen, rows)

    def array_cells(self, *, limit: int = 1000) -> Any:
        """Where Python functions were followed: which cells their cells were made of.

        An Arrow table: run, step, operator, row and column of its output, and the row and column of
        its input; `*` stands for all columns. Steps are listed as the trace meets them.
        """
        import pyarrow as pa

        how = How(self._tables, self._backward, self._names, 20)
        reader = CellReader(self._tables, how, limit)
        found = [
            {**entry, "input_row": render(entry["input_row"])}
            for view, chosen in self._backward.followed
            for entry in reader.rows(view, chosen)
        ]
        return pa.table({name: [entry[name] for entry in found[:limit]] for name in CELLS})

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

    def to_pandas(self) -> Any:
        """The output rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_pylist(self) -> list[dict[str, Any]]:
        """The output rows as dicts."""
        return list(self.to_arrow().to_pylist())


def output_rows(tables: Tables, dataset: Dataset, chosen: str) -> Any:
    """Output rows by locator, in their order, under their own names."""
    pairs = zip(dataset.properties["columns"], dataset.properties["physical"], strict=True)
    names = [(n, p) for n, p in pairs]
    items = [quoted(p) for _, p in names] or ["1 AS row"]
    table = tables.arrow(f"{tables.at(dataset, items, chosen)} ORDER BY {LOCATOR}", dataset)
    table = table.drop_columns([LOCATOR])
    return table.rename_columns([n for n, _ in names]) if names else table


def _names(datasets: Mapping[str, Dataset]) -> dict[str, str]:
    """A name for each dataset, unlike all others."""
    taken: dict[str, str] = {}
    for dataset_id, dataset in datasets.items():
        name, number = dataset.name, 2
        while name in taken.values():
            name, number = f"{dataset.name}-{number}", number + 1
        taken[dataset_id] = name
    return taken


def _role(column: str) -> str:
    return f"CASE WHEN {column} THEN 'contributing' ELSE 'influencing' END"


def _order(key: tuple[str, int, str]) -> tuple[str, int, int]:
    run, step, operator = key
    number = operator.rsplit("-", 1)[-1]
    return run, step, int(number) if number.isdigit() else 0
