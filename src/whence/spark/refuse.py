"""Pipelines that can be read, but whose rows or witnesses would come out wrong, are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from whence import plan as ops
from whence.errors import UnsupportedError
from whence.plan import Operator
from whence.spark.gateway import Gateway, Plan
from whence.spark.sources import Found
from whence.spark.usercode import remembers

_WITHOUT_FUNCTIONS = frozenset({"children", "subqueries", "output", "moves", "decides"})
_FILE_NAMES = frozenset({"InputFileName", "InputFileBlockStart", "InputFileBlockLength"})


def refuse(
    gateway: Gateway, operator: Operator, nodes: Mapping[str, Plan], found: Mapping[str, Found]
) -> None:
    """Raise if a plan holds an operator of that kind; nodes and leaves are by operator id."""
    for op in ops.walk(operator):
        if _FILE_NAMES & set(_functions(op)):
            _refuse_copies(op, found)
        if isinstance(op, ops.Generate) and op.function == "PythonUDTF" and ops.sources(op):
            _refuse_state(gateway, op, nodes[op.id].generator())


def _functions(value: Any) -> Iterator[str]:
    """The functions in an operator's own expressions."""
    if isinstance(value, ops.Expression):
        yield from value.functions
    elif isinstance(value, tuple):
        for item in value:
            yield from _functions(item)
    elif is_dataclass(value):
        for field in fields(value):
            if field.name not in _WITHOUT_FUNCTIONS:
                yield from _functions(getattr(value, field.name))


def _refuse_copies(op: Operator, found: Mapping[str, Found]) -> None:
    """Spark would name the file of a snapshot."""
    for source in ops.sources(op):
        if not found[source.id].is_kept:
            raise UnsupportedError(
                f"{op.id} calls input_file_name() or the like over a source that whence reads "
                f"from a copy ({found[source.id].format}); select _metadata.file_path instead"
            )


def _refuse_state(gateway: Gateway, op: Operator, function: Any) -> None:
    """Rows of a table function may depend on rows that it was given before."""
    if remembers(gateway, function):
        raise UnsupportedError(
            f"{op.id} calls {function.name()}, a Python table function with a state or a "
            "terminate(), so that nobody knows which rows made one of its; write it as "
            "mapInPandas or applyInPandas"
        )
