"""Small plans for tests, and random ones."""

import dataclasses
import types
import typing
from typing import Any, get_args, get_origin

from hypothesis import strategies as st

from whence.plan import Column, Expression, Filter, Join, JoinType, Operator, Source
from whence.plan.codec import _hints

SAFE_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)


def source(number: int, name: str, *columns: str, location: str = "") -> Source:
    output = tuple(Column(c, "int", True, 100 * number + i) for i, c in enumerate(columns))
    return Source(
        id=f"source-{number}",
        node="LogicalRelation",
        output=output,
        name=name,
        format="parquet",
        location=location,
    )


def filtered(number: int, child: Operator, *subqueries: Operator) -> Filter:
    return Filter(
        id=f"filter-{number}",
        node="Filter",
        output=child.output,
        children=(child,),
        subqueries=subqueries,
        predicate=Expression("a > 1", ("GreaterThan",)),
    )


def joined(number: int, kind: JoinType, left: Operator, right: Operator) -> Join:
    return Join(
        id=f"join-{number}",
        node="Join",
        output=left.output + right.output,
        children=(left, right),
        type=kind,
    )


def operators() -> st.SearchStrategy[Operator]:
    """Random trees of all kinds, with random contents."""
    return st.recursive(_any_of(st.just(())), lambda below: _any_of(_few(below)), max_leaves=4)


def _few(of: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=2).map(tuple)


def _any_of(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Operator]:
    return st.one_of([_operator(cls, below) for cls in get_args(Operator)])


def _operator(cls: type[Any], below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = {name: _value(hint) for name, hint in _hints(cls.__name__).items() if name != "id"}
    fields |= {"children": below, "subqueries": below}
    numbers = st.integers(1, 99).map(lambda number: f"{cls.kind}-{number}")
    return st.builds(cls, id=numbers, **fields)


def _value(hint: Any) -> st.SearchStrategy[Any]:
    simple = {
        str: SAFE_TEXT,
        int: st.integers(-5, 2**40),
        bool: st.booleans(),
        float: st.floats(allow_nan=False, allow_infinity=False),
    }
    if hint in simple:
        return simple[hint]
    if get_origin(hint) is typing.Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) is tuple:
        return st.just(()) if _is_operator(get_args(hint)[0]) else _few(_value(get_args(hint)[0]))
    if get_origin(hint) in (types.UnionType, typing.Union):
        return st.one_of([_value(option) for option in get_args(hint)])
    if hint is type(None):
        return st.none()
    assert dataclasses.is_dataclass(hint), hint
    return st.builds(hint, **{name: _value(each) for name, each in _hints(hint.__name__).items()})


def _is_operator(hint: Any) -> bool:
    return hint == Operator
