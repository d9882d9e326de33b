"""Array runs: a function of arrays, called over columns of earlier runs, kept as a run of its own.

It has one step. Its operator is the function, its inputs are the outputs that the arrays are
columns of, and its rows list the ranges of input rows behind them. Spark takes no part.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from whence import plan as ops
from whence.algebra.witness import (
    Choice,
    Group,
    GroupShape,
    Members,
    Row,
    Witness,
    between,
    group_to_json,
    to_json,
)
from whence.archive import DataFile, Dataset, RunWriter, Step
from whence.archive.storage import file_errors
from whence.arraytypes import spark_field, spark_type, to_arrow, to_numpy
from whence.errors import ArrayError
from whence.trace.tables import LOCATOR, Tables

if TYPE_CHECKING:
    import numpy as np

    from whence.arrays.frames.answers import Answer

    Array = np.ndarray[Any, Any]

_OPERATOR = "arrayfunction-1"
_TOKEN, _CELLS, _DOUBT, _RANGES, _LOCATOR = "t", "cells", "doubt", "r", "w"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an array comes from: a column of a run's output, in an archive."""

    archive: Any
    """The open archive: has `location` and `tables`."""
    dataset: str
    column: int


@dataclass(frozen=True, slots=True)
class Placeholder:
    """Stands for a column in stored arguments."""

    side: int
    column: int


_origins: dict[int, tuple[weakref.ref[Any], Origin]] = {}


def column_array(values: Any, origin: Origin) -> Array:
    """A column as an array that remembers its origin as long as it lives; it cannot be written."""
    array: Array = to_numpy(values)
    array.flags.writeable = False
    key = id(array)
    _origins[key] = (weakref.ref(array, partial(_forget, key)), origin)
    return array


def _forget(key: int, _: Any) -> None:
    _origins.pop(key, None)


def origin_of(array: Any) -> Origin | None:
    """The origin of an array that `column_array` made."""
    known = _origins.get(id(array))
    return known[1] if known is not None and known[0]() is array else None


@dataclass(frozen=True, slots=True)
class Side:
    """One input: a dataset, its columns, and the locators of its rows in the arrays' order."""

    dataset: Dataset
    name: str
    """The run that made it."""
    locators: Any


def archive_of(arguments: Any) -> Any:
    """The archive that all columns in some arguments are from."""
    origins = [origin_of(array) for array in arrays_in(arguments)]
    archives = {origin.archive.location: origin.archive for origin in origins if origin}
    if not archives:
        raise ArrayError(
            "no argument is a column of a run; take columns with run.array('name') and give them "
            "as they are (an array computed from one is no column any more)"
        )
    if len(archives) > 1:
        raise ArrayError(
            f"the columns are from runs in several archives ({', '.join(sorted(archives))}); a "
            "trace stays in one"
        )
    return next(iter(archives.values()))


def sides_of(tables: Tables, arguments: Any) -> list[Side]:
    """The datasets that arrays are columns of, in the order of the arrays."""
    found: dict[str, Side] = {}
    for array in arrays_in(arguments):
        origin = origin_of(array)
        if origin is None or origin.dataset in found:
            continue
        dataset = tables.archive.dataset(origin.dataset)
        rows = tables.rows(dataset, ["1 AS x"])
        table = tables.arrow(f"SELECT {LOCATOR} AS w FROM ({rows}) ORDER BY w", dataset)
        producer = tables.archive.producer(dataset.id)
        name = dataset.name if producer is None else producer[0].name
        found[dataset.id] = Side(dataset, name, table.column("w"))
    return list(found.values())


def without_columns(value: Any, sides: Sequence[Side]) -> Any:
    """Arguments with placeholders for the columns in them, so that they can be stored."""
    origin = origin_of(value)
    if origin is not None:
        names = [side.dataset.id for side in sides]
        return Placeholder(names.index(origin.dataset), origin.column)
    if type(value) in (list, tuple):
        return type(value)(without_columns(item, sides) for item in value)
    if type(value) is dict:
        return {key: without_columns(item, sides) for key, item in value.items()}
    return value


def with_columns(value: Any, tables: Sequence[Any]) -> Any:
    """Arguments with columns of Arrow tables in place of the placeholders."""
    if isinstance(value, Placeholder):
        return to_numpy(tables[value.side].column(value.column))
    if type(value) in (list, tuple):
        return type(value)(with_columns(item, tables) for item in value)
    if type(value) is dict:
        return {key: with_columns(item, tables) for key, item in value.items()}
    return value


def call_again(stored: tuple[Any, Any, Any], tables: Sequence[Any]) -> Any:
    """What the function of a stored step gives on other rows, as an Arrow table."""
    import pyarrow as pa

    from whence.arrays.rows import named_columns

    function, args, kwargs = stored
    plain = getattr(function, "function", function)
    columns = named_columns(plain(*with_columns(args, tables), **with_columns(kwargs, tables)))
    return pa.table({f"c{i}": to_arrow(array) for i, array in enumerate(columns.values())})


def arrays_in(value: Any) -> list[Any]:
    """The NumPy arrays in arguments, also in lists, tuples and dicts."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [array for item in value for array in arrays_in(item)]
    return []


def write_run(
    writer: RunWriter,
    tables: Tables,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    pickled: Callable[[Any], bytes],
) -> None:
    """Call the function and write its rows, its witnesses and the step."""
    from whence.arrays.rows import Link, call_for_rows

    sides = sides_of(tables, [args, kwargs])
    numbers = {side.dataset.id: i for i, side in enumerate(sides)}

    def link(array: Any) -> Link | None:
        origin = origin_of(array)
        return None if origin is None else Link(numbers[origin.dataset], origin.column)

    taken = [len(side.locators) for side in sides]
    found = call_for_rows(function, args, kwargs, link, taken)
    name = getattr(function, "__name__", type(function).__name__)
    plan = _plan(name, found.columns, sides)
    groups = [f"{_OPERATOR}/{i}" for i in range(len(sides))]
    written = [_write_group(writer, group, side) for group, side in zip(groups, sides, strict=True)]
    output = _write_output(writer, found.columns, found.answer, plan)
    for side in sides:
        writer.add_dataset(side.dataset)
    for dataset in (output, *written):
        writer.add_dataset(dataset)
    sources = [child.id for child in plan.children]
    notes = [f"{n} is no column of a run: its cells are not traced" for n in found.loose]
    document = {
        "plan": ops.to_json(plan),
        "pipeline": None,
        "witness": to_json(_shape(groups)),
        "inputs": dict(zip(sources, (side.dataset.id for side in sides), strict=True)),
        "groups": {
            group: {"shape": group_to_json(_group_shape(group, source)), "dataset": dataset.id}
            for group, source, dataset in zip(groups, sources, written, strict=True)
        },
        "scopes": {},
        "ordered": True,
        "exact": [_OPERATOR],
        "doubts": {_OPERATOR: _DOUBT},
        "cells": {_OPERATOR: _cells(found.columns, sides, groups)},
        "notes": notes,
        "code": {_OPERATOR: [_code(function, args, kwargs, sides)]},
        "arrays": True,
    }
    inputs = tuple(side.dataset.id for side in sides)
    attachment = pickled((function, without_columns(args, sides), without_columns(kwargs, sides)))
    writer.add_step(Step(0, output.id, inputs, tuple(d.id for d in written), document, attachment))


def _code(function: Callable[..., Any], args: Any, kwargs: Any, sides: Sequence[Side]) -> str:
    """The digest of what was called, and of the arguments that are not columns of runs."""
    from whence.spark.code import code_digest

    plain = getattr(function, "function", function)
    return code_digest(
        partial(plain, *without_columns(args, sides), **without_columns(kwargs, sides))
    )


def _shape(groups: Sequence[str]) -> Witness:
    branches: list[Witness] = [Group("g", group) for group in groups]
    element = branches[0] if len(branches) == 1 else Choice("s", tuple(branches))
    return Members(_RANGES, _OPERATOR, element, ("c",))


def _group_shape(group: str, source: str) -> GroupShape:
    return GroupShape(group, ("k0",), Row(_LOCATOR, source), (), between("k1", "k2"))


def _cells(columns: Mapping[str, Any], sides: Sequence[Side], groups: Sequence[str]) -> Any:
    return {
        "slot": _CELLS,
        "token": _TOKEN,
        "outputs": list(columns),
        "inputs": [list(side.dataset.properties["columns"]) for side in sides],
        "groups": list(groups),
    }


def _plan(name: str, columns: Mapping[str, Array], sides: Sequence[Side]) -> ops.ArrayFunction:
    number = 0
    children = []
    for position, side in enumerate(sides):
        fields = json.loads(side.dataset.schema)["fields"]
        listed = []
        for field in fields:
            number += 1
            kind = field["type"] if isinstance(field["type"], str) else field["type"]["type"]
            listed.append(ops.Column(field["name"], kind, field["nullable"], number))
        children.append(
            ops.Source(
                id=f"source-{position + 2}",
                node="Output",
                output=tuple(listed),
                name=side.name,
                format="parquet",
                location=side.dataset.location,
            )
        )
    made = tuple(
        ops.Column(column, _type_text(spark_type(to_arrow(array).type)), True, number + 1 + i)
        for i, (column, array) in enumerate(columns.items())
    )
    return ops.ArrayFunction(
        id=_OPERATOR, node="ArrayFunction", output=made, children=tuple(children), function=name
    )


def _type_text(kind: Any) -> str:
    return kind if isinstance(kind, str) else f"array<{_type_text(kind['elementType'])}>"


# --- Files ----------------------------------------------------------------------------------------


def _write_output(
    writer: RunWriter, columns: Mapping[str, Array], answer: Answer, plan: ops.ArrayFunction
) -> Dataset:
    import pyarrow as pa

    names = list(columns)
    physical = [f"c{i}" for i in range(len(names))]
    arrays = [to_arrow(array) for array in columns.values()]
    fields = [spark_field(p, a.type) for p, a in zip(physical, arrays, strict=True)]
    slots = {
        _RANGES: _ranges(answer),
        _TOKEN: pa.array([_TOKEN] * len(answer.doubt), pa.string()),
        _CELLS: _lists(answer.cells),
        _DOUBT: pa.array(answer.doubt, pa.string()),
    }
    table = pa.table({**dict(zip(physical, arrays, strict=True)), **slots})
    named = [{**f, "name": n} for f, n in zip(fields, names, strict=True)]
    properties = {
        "columns": names,
        "physical": physical,
        "slot": "0L",
        "stored": {
            "type": "struct",
            "fields": [*fields, *(spark_field(n, a.type) for n, a in slots.items())],
        },
    }
    schema = json.dumps({"type": "struct", "fields": named})
    return _written(writer, table, "output", "output", schema, properties)


def _write_group(writer: RunWriter, group: str, side: Side) -> Dataset:
    """The rows of an input, numbered from 1 in the order of the arrays."""
    import pyarrow as pa

    count = len(side.locators)
    table = pa.table(
        {
            "k0": pa.array([_TOKEN] * count, pa.string()),
            "rank": pa.array(range(1, count + 1), pa.int64()),
            _LOCATOR: side.locators,
        }
    )
    return _written(writer, table, "group", group, "", {"group": group, "slot": "0L"})


def _written(
    writer: RunWriter, table: Any, kind: Any, name: str, schema: str, properties: Mapping[str, Any]
) -> Dataset:
    dataset_id, folder = writer.new_dataset()
    file = _write_file(folder, table)
    return Dataset(
        id=dataset_id,
        kind=kind,
        name=name,
        location=f"datasets/{dataset_id}",
        schema=schema,
        fingerprint=dataset_id,
        files=(file,),
        rows=table.num_rows,
        bytes=file.size,
        properties=properties,
    )


def _write_file(folder: str, table: Any) -> DataFile:
    import pyarrow.parquet as pq
    from pyarrow import fs

    with file_errors("writing", folder):
        files, root = fs.LocalFileSystem(), folder.removeprefix("file:")
        if "://" in folder:
            files, root = fs.FileSystem.from_uri(folder)
        files.create_dir(root, recursive=True)
        name = "part-0.parquet"
        pq.write_table(table, f"{root}/{name}", filesystem=files, compression="zstd")
        info = files.get_file_info(f"{root}/{name}")
    return DataFile(name, 0, info.size, (info.mtime_ns or 0) // 1_000_000, table.num_rows)


def _ranges(answer: Answer) -> Any:
    """The ranges of each row as a list of group keys with their side and role."""
    import pyarrow as pa

    flat = {name: _lists(getattr(answer, name)) for name in ("side", "lo", "hi", "role")}
    values = {name: lists.values for name, lists in flat.items()}
    token = pa.array([_TOKEN] * len(values["lo"]), pa.string())
    key = pa.StructArray.from_arrays([token, values["lo"], values["hi"]], ["k0", "k1", "k2"])
    members = pa.StructArray.from_arrays(
        [values["side"].cast(pa.int32()), key, values["role"].cast(pa.bool_())], ["s", "g", "c"]
    )
    return pa.ListArray.from_arrays(flat["lo"].offsets, members)


def _lists(rows: Sequence[Any]) -> Any:
    """Arrays of numbers, one per row, as an Arrow list array."""
    import numpy as np
    import pyarrow as pa

    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)])
    flat = np.concatenate([np.empty(0, dtype=np.int64), *rows])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(flat, pa.int64()))
