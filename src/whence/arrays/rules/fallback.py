"""Functions without a rule: run on annotated cells if small, else a superset that says so."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from whence.arrays.annotated import annotate
from whence.arrays.graph import Edge, Node
from whence.arrays.rules.base import all_cells, finish, into_out, name_of, plain_call
from whence.arrays.session import Session
from whence.arrays.tracked import tracked_in

ANNOTATED_LIMIT = 4096


@into_out
def unknown(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """Run a function that has no rule."""
    operands = tracked_in([args, kwargs])
    before = [t.data_.copy() for t in operands if t.data_.size <= ANNOTATED_LIMIT]
    result = plain_call(func, args, kwargs)
    op = name_of(func)
    if isinstance(result, tuple | list):
        made = [_superset(session, part, operands, op, args) for part in result]
        return type(result)(*made) if hasattr(result, "_fields") else type(result)(made)
    small = sum(t.data_.size for t in operands) <= ANNOTATED_LIMIT and _simple(result)
    small = small and not _calls_back([args, kwargs])
    same = len(before) == len(operands) and all(
        np.array_equal(a, t.data_, equal_nan=a.dtype.kind in "fc")
        for a, t in zip(before, operands, strict=True)
    )
    found = annotate(func, args, kwargs, result) if small and same else None
    if found is None:
        return _superset(session, result, operands, op, args)
    edges = []
    for operand, form in zip(operands, found.forms, strict=True):
        edges.append(Edge(operand.node_, partial(_as_is, form), by_values=True))
        if found.looked:
            edges.append(all_cells(operand, np.shape(result), False))
    return finish(session, result, edges, op, args, _nodes(operands) if found.looked else ())


def _nodes(operands: Any) -> list[Node]:
    return [operand.node_ for operand in operands]


def _calls_back(value: Any) -> bool:
    """Whether a function is among the arguments: what it does must not be done twice."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return any(_calls_back(item) for item in value)
    return callable(value) and not isinstance(value, type | np.ufunc)


def _as_is(form: Any) -> Any:
    return form


def _simple(result: Any) -> bool:
    return isinstance(result, np.ndarray | np.generic) and result.size <= ANNOTATED_LIMIT


def _superset(session: Session, result: Any, operands: Any, op: str, args: Any) -> Any:
    if not isinstance(result, np.ndarray | np.generic):
        for operand in operands:
            session.escape(operand.node_, op)
        return result
    edges = [all_cells(t, np.shape(result), doubt=op) for t in operands]
    return finish(session, result, edges, op, args, _nodes(operands))
