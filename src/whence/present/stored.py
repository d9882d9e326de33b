"""How much a dataset holds, told by the footers of its Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
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
        locators=int(sum(n * _held_in(path, held) for path, _, n in columns if path[0] in own)),
    )


def _locator_columns(shape: Witness) -> dict[str, int]:
    """The slots that hold locators, the lists that hold them bare or packed, and how many each."""
    names = {part.slot: 1 for part in walk(shape) if isinstance(part, Row)}
    for part in walk(shape):
        if isinstance(part, Members) and part.packed:
            names[part.slot] = sum(field.kind == "locator" for field in part.packed)
        elif isinstance(part, Members) and part.is_bare and part.bare_slot in names:
            names[part.slot] = 1
    return names


def _held_in(path: list[str], names: Mapping[str, int]) -> int:
    """How many locators are in a value of a leaf column, which a list has two levels below."""
    plain = [part for part in path if part not in ("list", "element", "bag", "array")]
    return names.get(plain[-1], 0) if plain else 0
