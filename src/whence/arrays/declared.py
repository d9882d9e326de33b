"""Rules that people declare for functions that whence does not know."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Literal

import numpy as np

from whence.arrays.forms import Form, pairs
from whence.arrays.graph import Edge
from whence.arrays.relation import Relation
from whence.arrays.rules.base import all_cells, finish, name_of, plain_call
from whence.arrays.rules.movement import elementwise, moved_as_declared
from whence.arrays.session import Session
from whence.arrays.tracked import RULES, FunctionRule, TrackedArray, tracked_in
from whence.errors import ArrayError

Declared = dict[int | str, Relation | tuple[Any, Any]]
Kind = Literal["element-wise", "moves cells", "everything"]


def declare(function: Callable[..., Any], rule: Kind | Callable[..., Declared]) -> Any:
    """Say how a function's result comes from its arrays; gives the function to call in its place.

    `element-wise`: each cell from the cell it lines up with. `moves cells`: the function only moves
    cells, so it can be run on an index. `everything`: each cell from all cells. A callable gets the
    plain result and arguments, and gives per array argument (position or name) a `Relation`, or
    flat positions of output and input cells that belong together.
    """
    if not callable(function):
        raise ArrayError(f"declare expects a function, not {type(function).__name__}")
    chosen = _rule(rule)
    if type(function).__name__ == "_ArrayFunctionDispatcher":
        RULES[function] = chosen
        return function

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        operands = tracked_in([args, kwargs])
        if not operands:
            return function(*args, **kwargs)
        return chosen(operands[0].session_, function, args, kwargs)

    return call


def _rule(rule: Any) -> FunctionRule:
    match rule:
        case "element-wise":
            return elementwise
        case "moves cells":
            return moved_as_declared
        case "everything":
            return _everything
        case _ if callable(rule):
            return partial(_told, rule)
        case _:
            raise ArrayError(
                f"{rule!r} is no rule; expected 'element-wise', 'moves cells', 'everything' or a "
                "function"
            )


def _everything(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    result = plain_call(func, args, kwargs)
    edges = [all_cells(t, np.shape(result)) for t in tracked_in([args, kwargs])]
    return finish(session, result, edges, name_of(func), args)


def _told(
    rule: Callable[..., Declared], session: Session, func: Any, args: Any, kwargs: Any
) -> Any:
    result = plain_call(func, args, kwargs)
    told = plain_call(partial(rule, result), args, kwargs)
    edges = []
    for key, operand in [*enumerate(args), *kwargs.items()]:
        if type(operand) is not TrackedArray:
            doubt = f"{name_of(func)} of a list"
            edges += [all_cells(t, np.shape(result), doubt=doubt) for t in tracked_in(operand)]
            continue
        if key not in told:
            raise ArrayError(
                f"the rule declared for {name_of(func)} says nothing about argument {key!r}; "
                f"it speaks of {list(told)}"
            )
        form = _form(told[key], np.shape(result), operand.data_.shape, func)
        edges.append(Edge(operand.node_, partial(_given, form), by_values=True))
    return finish(session, result, edges, name_of(func), args)


def _form(told: Any, shape: tuple[int, ...], in_shape: tuple[int, ...], func: Any) -> Form:
    if isinstance(told, Relation):
        form = told.form
    else:
        out, inp = (np.asarray(part, dtype=np.int64).reshape(-1) for part in told)
        _check(out, shape, func)
        _check(inp, in_shape, func)
        form = pairs(shape, in_shape, out, inp)
    if (form.out_shape, form.in_shape) != (shape, in_shape):
        raise ArrayError(
            f"the rule declared for {name_of(func)} relates shapes {form.out_shape} and "
            f"{form.in_shape}; the call has {shape} and {in_shape}"
        )
    return form


def _check(flat: Any, shape: tuple[int, ...], func: Any) -> None:
    size = int(np.prod(shape, dtype=np.int64))
    if len(flat) and not (int(flat.min()) >= 0 and int(flat.max()) < size):
        raise ArrayError(
            f"the rule declared for {name_of(func)} names a cell outside an array of shape {shape}"
        )


def _given(form: Form) -> Form:
    return form
