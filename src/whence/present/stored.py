"""How much a dataset holds, told by the footers of its Parquet files."""

from __future__ import annotations

from dataclasses import dataclass

from whence.algebra.witness import Members, Row, Witness, slots, walk
from whence.archive import Dataset
from whence.trace.tables import Tables, local, text


@dataclass(frozen=True, slots=True)
class Amounts:
    """Rows of a dataset, bytes of the columns that hold witnesses, locators in those."""

    rows: int
    witness_bytes: int
    locators: int


def amounts(tables: Tables, dataset: Dataset, shape: Witness | None) -> Amounts:
    """The amounts of a dataset whose rows have witnesses of this shape, if they have any."""
    if dataset.kind == "range":
        return Amounts(int(dataset.properties["range"]["rows"]), 0, 0)
    if not dataset.files:
        return Amounts(0, 0, 0)
    paths = [local(path) for path in tables.archive.file_paths(dataset)]
    listed = ", ".join(text(path) for path in paths)
    rows = f"SELECT coalesce(sum(num_rows), 0) FROM parquet_file_metadata([{listed}])"
    ((total,),) = tables.run(rows, dataset)
    if shape is None:
        return Amounts(int(total), 0, 0)
    found = tables.run(
        "SELECT path_in_schema, sum(total_compressed_size), "
        "sum(num_values - coalesce(stats_null_count, 0)) "
        f"FROM parquet_metadata([{listed}]) GROUP BY path_in_schema",
        dataset,
    )
    columns = [([part.strip() for part in path.split(",")], b, n) for path, b, n in found]
    own, held = set(slots(shape)), _locator_columns(shape)
    return Amounts(
        rows=int(total),
        witness_bytes=int(sum(b for path, b, _ in columns if path[0] in own)),
        locators=int(
            sum(n for path, _, n in columns if path[0] in own and _holds_locators(path, held))
        ),
    )


def _locator_columns(shape: Witness) -> set[str]:
    """The slots that hold locators, and the lists that hold them bare."""
    names = {part.slot for part in walk(shape) if isinstance(part, Row)}
    for part in walk(shape):
        if isinstance(part, Members) and (part.is_bare or part.packed):
            names |= {part.slot} if names & set(slots(part.element)) else set()
    return names


def _holds_locators(path: list[str], names: set[str]) -> bool:
    """Whether a leaf column is one of them; a list's leaf lies two levels below its name."""
    plain = [part for part in path if part not in ("list", "element", "bag", "array")]
    return bool(plain) and plain[-1] in names
