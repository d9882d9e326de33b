from dataclasses import replace

import pytest
from build import filtered, joined, source

from whence.errors import UnknownNameError
from whence.plan import Filter, Operator, Source, by_id, find, map_plan, sources, walk
from whence.plan.tree import paths_to_leaves

PLAN = filtered(
    1, joined(3, "inner", source(4, "t", "a"), source(5, "u", "b")), source(2, "s", "c")
)


def test_walk_goes_to_subqueries_before_children() -> None:
    ids = [operator.id for operator in walk(PLAN)]
    assert ids == ["filter-1", "source-2", "join-3", "source-4", "source-5"]


def test_find_and_sources() -> None:
    assert [found.id for found in find(PLAN, Filter)] == ["filter-1"]
    assert [found.name for found in sources(PLAN)] == ["s", "t", "u"]


def test_by_id_offers_the_nearest() -> None:
    assert by_id(PLAN, "join-3") is PLAN.children[0]
    with pytest.raises(UnknownNameError, match="did you mean 'join-3'"):
        by_id(PLAN, "join-33")


def test_map_plan_changes_and_shares() -> None:
    def rename(operator: Operator) -> Operator:
        if isinstance(operator, Source) and operator.name == "t":
            return replace(operator, name="new")
        return operator

    changed = map_plan(PLAN, rename)
    assert [found.name for found in sources(changed)] == ["s", "new", "u"]
    assert changed.subqueries[0] is PLAN.subqueries[0]
    assert map_plan(PLAN, lambda operator: operator) is PLAN


def test_paths_to_leaves_go_through_subqueries() -> None:
    paths = [[operator.id for operator in path] for path in paths_to_leaves(PLAN)]
    assert paths == [
        ["filter-1", "source-2"],
        ["filter-1", "join-3", "source-4"],
        ["filter-1", "join-3", "source-5"],
    ]


def test_an_id_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="'filter-4' is not that of a source"):
        replace(source(4, "t", "a"), id="filter-4")
