"""Parts of the items of long lists, of a few rows, read by Arrow.

DuckDB reads all fields of a list of structs, of every row of a row group. For a list of half a
million items that is most of what a question takes; Arrow reads one field, and no row after those
that are asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from whence.algebra.locators import ROW_BITS, ROW_MASK
from whence.archive import Dataset
from whence.plan.paths import Field, Item, Step
from whence.trace.tables import LOCATOR, Tables, local

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_LONG = 4096  # bytes of a row, compressed and on average, beyond which its lists are long
_FEW = 16
_ITEMS = 1 << 16  # that are read at a time
_ALIKE = frozenset(
    {"string", "boolean", "byte", "short", "integer", "long", "float", "double", "date", "binary"}
)
"""Types that Arrow and DuckDB read from Parquet as the same."""


def part_of_rows(
    tables: Tables,
    dataset: Dataset,
    column: str,
    parts: Mapping[tuple[Step, ...], str],
    locators: str,
) -> str | None:
    """SQL that gives a column as `v`, with some parts only, and the locator, of rows in a table.

    `parts` are plain values in the column, and their types. None where lists are not long or rows
    not few, and it is better left to DuckDB.
    """
    if not dataset.is_own or not dataset.rows or dataset.bytes < dataset.rows * _LONG:
        return None
    if not parts or not set(parts.values()) <= _ALIKE:
        return None
    paths = {_stored(column, steps) for steps in parts}
    wanted = tables.run(f"SELECT DISTINCT locator FROM {locators} LIMIT {_FEW + 1}")
    if None in paths or not 0 < len(wanted) <= _FEW:
        return None
    import pyarrow as pa

    try:
        found = _read(tables, dataset, sorted(filter(None, paths)), sorted(n for (n,) in wanted))
    except (OSError, pa.ArrowException):  # DuckDB says what is wrong with the file
        return None
    return None if found is None else _registered(tables, found, _last(parts))


def _stored(column: str, steps: Iterable[Step]) -> str | None:
    """The name of a plain value in a Parquet file."""
    names = [column]
    for step in steps:
        match step:
            case Field(name):
                names.append(name)
            case Item():
                names += ("list", "element")
            case _:
                return None
    return ".".join(names)


def _last(parts: Iterable[tuple[Step, ...]]) -> int | None:
    """The position of the only item that is asked of a column that is a list."""
    firsts = {steps[0] if steps else None for steps in parts}
    match firsts.pop():
        case Item(int(position)) if not firsts:
            return position
        case _:
            return None


def _registered(tables: Tables, found: Sequence[tuple[int, pa.Array]], last: int | None) -> str:
    import pyarrow as pa
    import pyarrow.compute as pc

    values = pa.chunked_array([value for _, value in found])
    if last is not None:
        values = pc.list_slice(values, 0, last + 1, return_fixed_size_list=False)
    name = tables.fresh("part")
    numbers = array("q", [locator for locator, _ in found])  # of a list Arrow would ask pandas
    locators = pa.Array.from_buffers(pa.int64(), len(found), [None, pa.py_buffer(numbers)])
    tables.register(name, pa.Table.from_arrays([locators, values], [LOCATOR, "v"]))
    return f"SELECT {LOCATOR}, v FROM {name}"


def _read(
    tables: Tables, dataset: Dataset, paths: list[str], wanted: list[int]
) -> list[tuple[int, pa.Array]] | None:
    """The locators of the rows, with their values."""
    import pyarrow.parquet as pq

    found: list[tuple[int, pa.Array]] = []
    files = zip(dataset.files, tables.archive.file_paths(dataset), strict=True)
    for slot, uri in ((file.slot, uri) for file, uri in files):
        rows = [n & ROW_MASK for n in wanted if n >> ROW_BITS == slot]
        if not rows:
            continue
        if urlparse(local(uri)).scheme:
            return None
        with pq.ParquetFile(local(uri)) as file:
            listed = [file.schema.column(i).path for i in range(len(file.schema))]
            if any(listed.count(path) != 1 for path in paths):
                return None
            values = _values(file, paths, rows)
            found += [((slot << ROW_BITS) + row, value) for row, value in values]
    return found


def _values(
    file: pq.ParquetFile, paths: list[str], rows: list[int]
) -> Iterator[tuple[int, pa.Array]]:
    """The values of some rows of a file, in order; nothing is read after the last of them."""
    start = 0
    for group in range(file.num_row_groups):
        known = file.metadata.row_group(group)
        mine = [row for row in rows if start <= row < start + known.num_rows]
        if mine:
            size = max(1, _ITEMS * known.num_rows // max(1, _most_values(known)))
            place = start
            for batch in file.iter_batches(size, [group], paths, use_threads=False):
                for row in mine:
                    if place <= row < place + batch.num_rows:
                        yield row, batch.column(0).slice(row - place, 1)
                place += batch.num_rows
                if place > mine[-1]:
                    break
        start += known.num_rows


def _most_values(group: Any) -> int:
    return max(int(group.column(i).num_values) for i in range(group.num_columns))
