"""Functions that use tracked arrays: what is behind each of their rows comes back with it.

Such a function is called through a wrapper that has it followed (by what `api` hands over) and
puts beside each output row the ranges of input rows behind it, the same by cells, and what casts
doubt on them. An output row refers to ranges of the rows its call has taken; these are stored once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructField

from whence.algebra.witness import Choice, Group, Members, Nothing, Witness
from whence.spark.gateway import Gateway, Plan
from whence.spark.wrappers import labelled

Function = Callable[..., Any]
# Columns that wrappers add, named after the fields of an answer.
ANSWER = ("side", "lo", "hi", "role", "cells", "doubt")


@dataclass(frozen=True, slots=True)
class Follow:
    """What follows functions over frames.

    `uses` says whether a function uses tracked arrays; `groups` and `batches` run it twice and give
    its results, each with an answer that has the fields `ANSWER`, or none for what is no frame.
    """

    uses: Callable[[Function], bool]
    groups: Callable[..., tuple[Any, Any]]
    batches: Callable[..., Iterator[tuple[Any, Any]]]


@dataclass(frozen=True, slots=True)
class CellSlots:
    """Where a followed step keeps its cells.

    `slot` and `token` are columns of the output, `outputs` and `inputs` the names of the function's
    columns (by side), and `groups` where the rows of each side are stored.
    """

    slot: str
    outputs: tuple[str, ...]
    inputs: tuple[tuple[str, ...], ...]
    groups: tuple[str, ...]
    token: str


def answer_fields() -> list[StructField]:
    """The columns of an answer."""
    numbers: DataType = ArrayType(LongType())
    kinds = dict.fromkeys(ANSWER[:-1], numbers) | {"doubt": StringType()}
    return [StructField(f"__whence_{name}", kinds[name]) for name in ANSWER]


def listed_ranges(
    gateway: Gateway, plan: Plan, token: str, operator: str, groups: Sequence[tuple[str, Witness]]
) -> tuple[Plan, str, Witness]:
    """The plan with the ranges of each row as a list of group keys, and the list's slot and shape.

    `groups` are the sides' groups with the shape of their members.
    """
    slot = gateway.fresh("r")
    key = f"named_struct('k0', `{token}`, 'k1', r.`__whence_lo`, 'k2', r.`__whence_hi`)"
    zipped = ", ".join(f"`__whence_{name}`" for name in ANSWER[:4])
    text = (
        f"transform(arrays_zip({zipped}), r -> named_struct("
        f"'s', cast(r.`__whence_side` AS int), 'g', {key}, 'c', r.`__whence_role` = 1))"
    )
    plan = gateway.resolved_project(plan.output(), plan, [(slot, text)])
    branches: list[Witness] = [
        Nothing() if isinstance(shape, Nothing) else Group("g", group) for group, shape in groups
    ]
    element = branches[0] if len(branches) == 1 else Choice("s", tuple(branches))
    return plan, slot, Members(slot, operator, element, ("c",))


def _extra(answer: Any) -> dict[str, Any]:
    return {f"__whence_{name}": getattr(answer, name) for name in ANSWER}


# --- Wrappers: they run in Python workers ------------------------------------------------------


def following_batches(
    function: Function, command: bytes, names: Sequence[str], members: str, follow: Function
) -> Function:
    """A function over batches, followed; `command` holds the same function once more."""
    label = labelled(names)

    def noting(batches: Iterator[Any]) -> Iterator[Any]:
        import uuid

        from pyspark import cloudpickle

        token, taken, number = uuid.uuid4().hex, [], 0

        def feed() -> Iterator[Any]:
            nonlocal number
            for batch in batches:
                taken.extend(batch["__whence_row"].tolist())
                number += len(batch)
                yield batch.drop(columns=["__whence_row"])

        other = cloudpickle.loads(command)[0]
        for result, answer in follow(function, other, feed()):
            if answer is None:
                yield result
                continue
            column: list[Any] = [None] * len(result)
            extra = {"__whence_token": token, "__whence_number": number - len(taken)}
            if column:
                column[0] = list(taken)
                taken.clear()
            extra[members] = column
            yield label(result, {**extra, **_extra(answer)})

    return noting


def following_groups(
    function: Function,
    command: bytes,
    names: Sequence[str],
    drops: Sequence[list[str]],
    members: Sequence[str],
    follow: Function,
) -> Function:
    """A function over groups of one side or two, followed."""
    label = labelled(names)
    takes_key = len(inspect.signature(function).parameters) == len(drops) + 1
    copies: list[Function] = []

    def call(key: Any, *groups: Any) -> Any:
        import uuid

        from pyspark import cloudpickle

        if not copies:
            copies.append(cloudpickle.loads(command)[0])
        rows = [group["__whence_row"].tolist() for group in groups]
        plain = [group.drop(columns=drop) for group, drop in zip(groups, drops, strict=True)]
        given = key if takes_key else None
        result, answer = follow(function, copies[0], given, plain)
        if answer is None:
            return result
        extra: dict[str, Any] = {"__whence_token": uuid.uuid4().hex, "__whence_number": 0}
        for name, taken in zip(members, rows, strict=True):
            column: list[Any] = [None] * len(result)
            if column:
                column[0] = taken
            extra[name] = column
        return label(result, {**extra, **_extra(answer)})

    def one(key: Any, group: Any) -> Any:
        return call(key, group)

    def two(key: Any, left: Any, right: Any) -> Any:
        return call(key, left, right)

    return one if len(drops) == 1 else two
