"""Which paths a replay on traced rows alone can rely on."""

from dataclasses import replace

import pytest
from build import filtered, joined, source

from whence.plan import (
    Aggregate,
    AggregateCall,
    Expression,
    JoinType,
    Limit,
    Offset,
    Operator,
    Path,
    Window,
    WindowCall,
    non_monotonic,
    replay_grades,
    unsafe_paths,
)

T, U, V = source(90, "t", "a", "b"), source(91, "u", "c"), source(92, "v", "d")


def grouped(number: int, child: Operator, *, calls: bool = True, keys: bool = True) -> Aggregate:
    call = AggregateCall("Sum", "sum(a)", (), False, None, 1, True)
    return Aggregate(
        id=f"aggregate-{number}",
        node="Aggregate",
        output=child.output,
        children=(child,),
        keys=(Expression("a"),) if keys else (),
        results=(),
        aggregates=(call,) if calls else (),
    )


def limited(number: int, child: Operator) -> Limit:
    return Limit(
        id=f"limit-{number}",
        node="GlobalLimit",
        output=child.output,
        children=(child,),
        limit=Expression("3"),
    )


@pytest.mark.parametrize(
    ("frame", "safe"),
    [
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", True),
        ("ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING", True),
        ("ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING", True),
        ("ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", True),
        ("RANGE BETWEEN 3 PRECEDING AND 2 PRECEDING", True),
        ("ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING", False),
        ("ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING", False),
    ],
)
def test_rows_between_a_row_and_its_frame_are_not_traced(frame: str, safe: bool) -> None:
    call = WindowCall("Sum", "sum(a)", (), frame, 7)
    window = Window(
        id="window-1",
        node="Window",
        output=T.output,
        children=(T,),
        partition=(),
        order=(),
        functions=(call,),
    )
    assert unsafe_paths(window) == (() if safe else (("window-1",),))


def test_one_non_monotonic_operator_is_safe() -> None:
    assert unsafe_paths(grouped(1, joined(2, "inner", T, U))) == ()
    assert unsafe_paths(joined(1, "anti", joined(2, "inner", T, T), U)) == ()


def test_what_differs_each_time_is_not() -> None:
    plan = filtered(1, joined(2, "inner", replace(filtered(3, T), deterministic=False), U))
    assert unsafe_paths(plan) == (("filter-3",),)


def test_two_over_a_join_are_not() -> None:
    plan = grouped(1, grouped(2, joined(3, "inner", T, U)))
    assert unsafe_paths(plan) == (("aggregate-1", "aggregate-2"),)


def test_groups_of_groups_over_a_source_read_once_are_safe() -> None:
    plan = grouped(1, grouped(2, filtered(3, T)))
    assert replay_grades(plan)["aggregate-2"] == "exact"
    assert unsafe_paths(plan) == ()


def test_the_same_over_a_source_read_elsewhere_is_not() -> None:
    again = replace(T, id="source-93")
    plan = joined(0, "inner", grouped(1, grouped(2, T)), again)
    assert unsafe_paths(plan) == (("aggregate-1", "aggregate-2"),)


def test_leaves_with_the_same_columns_may_be_the_same_source() -> None:
    twin = replace(T, id="source-93", name="other")
    below = grouped(1, grouped(2, T))
    assert unsafe_paths(joined(0, "inner", below, twin))
    placed = grouped(1, grouped(2, replace(T, location="/t")))
    assert not unsafe_paths(joined(0, "inner", placed, replace(twin, location="/other")))


def test_a_global_aggregate_always_gives_a_row() -> None:
    plan = grouped(1, grouped(2, T, keys=False))
    assert unsafe_paths(plan) == (("aggregate-1", "aggregate-2"),)


def test_distinct_is_monotonic() -> None:
    assert not non_monotonic(grouped(1, T, calls=False))
    assert unsafe_paths(grouped(1, grouped(2, joined(3, "inner", T, U), calls=False))) == ()


@pytest.mark.parametrize("kind", ["anti", "left", "right", "full", "existence"])
def test_an_aggregate_over_a_join_of_sources_read_once(kind: JoinType) -> None:
    assert unsafe_paths(grouped(1, joined(2, kind, T, U))) == ()


@pytest.mark.parametrize("kind", ["anti", "left", "full", "existence"])
def test_an_aggregate_over_a_join_that_keeps_a_joined_side(kind: JoinType) -> None:
    plan = grouped(1, joined(2, kind, joined(3, "inner", T, U), V))
    assert unsafe_paths(plan) == (("aggregate-1", "join-2"),)


def test_a_partial_group_can_hide_a_row_of_an_anti_join() -> None:
    plan = joined(1, "anti", T, grouped(2, joined(3, "inner", U, V)))
    assert unsafe_paths(plan) == (("join-1", "aggregate-2"),)


def test_a_subquery_is_on_the_path_of_its_operator() -> None:
    plan = grouped(1, filtered(2, T, grouped(3, U, keys=False)))
    assert unsafe_paths(plan) == (("aggregate-1", "aggregate-3"),)


def test_limits_over_a_plain_source_are_safe() -> None:
    assert unsafe_paths(limited(1, limited(2, filtered(3, T)))) == ()
    assert unsafe_paths(limited(1, grouped(2, joined(3, "inner", T, U)))) == (
        ("limit-1", "aggregate-2"),
    )


def test_an_offset_alone_is_unsafe() -> None:
    plan = Offset(
        id="offset-1", node="Offset", output=T.output, children=(T,), offset=Expression("1")
    )
    assert unsafe_paths(plan) == (("offset-1",),)


def decided(operator: Operator, *columns: tuple[int, int]) -> Operator:
    """The operator with paths that decide: (input, number of the column)."""
    paths = tuple(Path(number, "k", (), i) for i, number in columns)
    return replace(operator, decides=paths, reads=paths)


TU = joined(5, "inner", T, U)
A_OF_T, B_OF_T, C_OF_U = 9000, 9001, 9100


def test_groups_by_one_source_read_once_are_exact_over_a_join() -> None:
    groups = decided(grouped(2, TU), (0, A_OF_T), (0, B_OF_T))
    assert replay_grades(groups)["aggregate-2"] == "exact"
    assert unsafe_paths(grouped(1, groups)) == ()


def test_groups_by_two_sources_are_exact_for_one_row_only() -> None:
    groups = decided(grouped(2, TU), (0, A_OF_T), (0, C_OF_U))
    assert unsafe_paths(limited(1, groups)) == (("limit-1", "aggregate-2"),)
    assert unsafe_paths(limited(1, groups), one_row=True) == ()
    mixed = replace(groups, keys=(Expression("a + c", ("Add",)),))
    assert unsafe_paths(limited(1, mixed), one_row=True)


def test_one_row_of_a_group_of_groups_is_many_groups() -> None:
    groups = decided(grouped(2, TU), (0, A_OF_T), (0, C_OF_U))
    assert unsafe_paths(grouped(1, groups), one_row=True) == (("aggregate-1", "aggregate-2"),)


def test_an_anti_join_that_looks_at_one_source_row_is_settled() -> None:
    anti = decided(joined(2, "anti", TU, V), (0, A_OF_T), (1, 9200))
    assert replay_grades(anti)["join-2"] == "faithful"
    both = decided(joined(2, "anti", TU, V), (0, A_OF_T), (0, C_OF_U), (1, 9200))
    assert replay_grades(both)["join-2"] == "loose"
