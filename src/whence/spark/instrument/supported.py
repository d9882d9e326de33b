"""The operators that whence supports: what contributes, the grade, and the tests that show it.

`python -m whence.spark.instrument.supported` prints `docs/operators.md`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

Grade = Literal["exact", "superset"]


@dataclass(frozen=True, slots=True)
class Supported:
    """One row of the table. `tests` are given as `file::test`, under `tests/spark/`."""

    operator: str
    contributes: str
    tests: tuple[str, ...]
    grade: Grade = "exact"


_ROW = "the row"
_GROUP = "every row of the group"
_CHOSEN = "the rows whose value is returned; the other rows of the group influence"
_FRAME = (
    "the row itself, and the rows of its frame; where rows tie at the edge of a ROWS frame all of "
    "them, and the answer is a superset"
)
_BOTH = "the row of each side; nothing for a null-extended side"
_SEMI = "the left row, with every matching right row as an alternative"
_LEAF = "a snapshot is written once, rows are found in it"

SOURCES = (
    Supported("Parquet", "used where it lies", ("test_sources.py::test_parquet_file",)),
    Supported(
        "Parquet: several files, odd file names",
        "used where it lies",
        ("test_sources.py::test_parquet_of_several_files",),
    ),
    Supported(
        "Parquet: Hive partitions", "used where it lies", ("test_sources.py::test_hive_partitions",)
    ),
    Supported("JSON", _LEAF, ("test_sources.py::test_other_files[json]",)),
    Supported("CSV", _LEAF, ("test_sources.py::test_other_files[csv]",)),
    Supported("ORC", _LEAF, ("test_sources.py::test_other_files[orc]",)),
    Supported("text", _LEAF, ("test_sources.py::test_text",)),
    Supported("createDataFrame (list, pandas)", _LEAF, ("test_sources.py::test_list_and_pandas",)),
    Supported("range", "a row is told by its value", ("test_sources.py::test_range",)),
    Supported(
        "tables, temporary views",
        "what they are made of",
        ("test_sources.py::test_saved_table_and_view_of_it",),
    ),
    Supported(
        "cached frames",
        "the rows that were cached; the trace ends there and says so",
        ("test_sources.py::test_cached_rows_are_the_ones_that_were_cached",),
    ),
    Supported(
        "RDDs, checkpoints",
        "the trace ends there and says so",
        ("test_sources.py::test_rdd_and_checkpoint",),
    ),
)

ROWS = (
    Supported("select", _ROW, ("test_rows.py::test_rows[select]",)),
    Supported("withColumn", _ROW, ("test_rows.py::test_rows[withColumn]",)),
    Supported("filter, where", _ROW, ("test_rows.py::test_rows[filter]",)),
    Supported("orderBy, sort", _ROW, ("test_rows.py::test_rows[sort]",)),
    Supported("limit", _ROW, ("test_rows.py::test_rows[sort and limit]",)),
    Supported("offset", _ROW, ("test_rows.py::test_rows[offset]",)),
    Supported("sample with a seed", _ROW, ("test_rows.py::test_sample",)),
    Supported(
        "zipWithIndex, the index of pandas on Spark", _ROW, ("test_rows.py::test_numbered_rows",)
    ),
    Supported("repartition, coalesce", _ROW, ("test_rows.py::test_rows[repartition]",)),
    Supported("hints", _ROW, ("test_rows.py::test_rows[hints]",)),
    Supported("observe", _ROW, ("test_rows.py::test_rows[observe]",)),
    Supported("Python UDF", _ROW, ("test_rows.py::test_function[python udf]",)),
    Supported("pandas UDF", _ROW, ("test_rows.py::test_function[pandas udf]",)),
)

JOINS = (
    Supported("inner join", _BOTH, ("test_joins.py::test_join[inner]",)),
    Supported("left join", _BOTH, ("test_joins.py::test_join[left]",)),
    Supported("right join", _BOTH, ("test_joins.py::test_join[right]",)),
    Supported("full join", _BOTH, ("test_joins.py::test_join[full]",)),
    Supported("cross join", _BOTH, ("test_joins.py::test_join[cross]",)),
    Supported(
        "join on any condition",
        _BOTH,
        ("test_joins.py::test_join[full range condition]", "test_joins.py::test_join[null-safe]"),
    ),
    Supported("self join", "rows of one source", ("test_joins.py::test_join[self]",)),
    Supported(
        "semi join",
        _SEMI,
        ("test_joins.py::test_join[semi]", "test_joins.py::test_join[semi range]"),
    ),
    Supported("existence join", _SEMI, ("test_joins.py::test_join[existence]",)),
    Supported(
        "anti join",
        "the left row",
        ("test_joins.py::test_join[anti]", "test_joins.py::test_join[anti range]"),
    ),
)

SETS = (
    Supported("union, UNION ALL", "the row", ("test_rows.py::test_union[union all]",)),
    Supported(
        "unionByName, with missing columns",
        "the row",
        ("test_rows.py::test_union[union by name]",),
    ),
    Supported("UNION", "all duplicates", ("test_sets.py::test_set[union distinct]",)),
    Supported(
        "INTERSECT",
        "all equal rows of both sides",
        ("test_sets.py::test_set[intersect]",),
    ),
    Supported(
        "INTERSECT ALL",
        "all equal rows of both sides",
        ("test_sets.py::test_set[intersect all]",),
    ),
    Supported("EXCEPT", "all equal rows of the left", ("test_sets.py::test_set[except]",)),
    Supported("EXCEPT ALL", "all equal rows of the left", ("test_sets.py::test_set[except all]",)),
    Supported("distinct", "all duplicates", ("test_groups.py::test_distinct[distinct]",)),
    Supported(
        "dropDuplicates",
        "rows equal to the one kept; the others of the key influence",
        ("test_groups.py::test_distinct[drop duplicates]",),
    ),
)

GROUPS = (
    Supported("sum, count, avg", _GROUP, ("test_groups.py::test_aggregate[sum, count, avg]",)),
    Supported(
        "collect_list, collect_set", _GROUP, ("test_groups.py::test_aggregate[collections]",)
    ),
    Supported(
        "count(DISTINCT)",
        _GROUP,
        (
            "test_groups.py::test_aggregate[count distinct]",
            "test_groups.py::test_aggregate[count distinct of two]",
        ),
    ),
    Supported("every other aggregate", _GROUP, ("test_groups.py::test_other_aggregates",)),
    Supported(
        "min, max",
        _CHOSEN,
        ("test_groups.py::test_aggregate[min]", "test_groups.py::test_aggregate[max]"),
    ),
    Supported(
        "first, last, any_value",
        _CHOSEN,
        (
            "test_groups.py::test_aggregate[first]",
            "test_groups.py::test_aggregate[last]",
            "test_groups.py::test_aggregate[any value]",
        ),
    ),
    Supported(
        "min_by, max_by",
        _CHOSEN,
        ("test_groups.py::test_aggregate[min by]", "test_groups.py::test_aggregate[max by]"),
    ),
    Supported("mode", _CHOSEN, ("test_groups.py::test_aggregate[mode]",)),
    Supported(
        "FILTER (WHERE …)",
        "the rows let through; the others influence",
        ("test_groups.py::test_aggregate[filter clauses]",),
    ),
    Supported(
        "pandas and Arrow functions of a group",
        _GROUP,
        (
            "test_groups.py::test_aggregate[pandas]",
            "test_groups.py::test_aggregate[arrow]",
            "test_groups.py::test_aggregate[pandas over max, summed]",
        ),
    ),
    Supported("HAVING", "as the group", ("test_groups.py::test_aggregate[having]",)),
    Supported(
        "global aggregates",
        "every row; an empty group has none",
        (
            "test_groups.py::test_aggregate[global]",
            "test_groups.py::test_aggregate[global of nothing]",
        ),
    ),
    Supported(
        "session windows", "as the group", ("test_windows.py::test_rows_that_become_one_session",)
    ),
    Supported("rollup", "as the group", ("test_groups.py::test_grouping_sets[rollup]",)),
    Supported("cube", "as the group", ("test_groups.py::test_grouping_sets[cube]",)),
    Supported(
        "GROUPING SETS", "as the group", ("test_groups.py::test_grouping_sets[grouping sets]",)
    ),
    Supported(
        "pivot",
        "as the aggregate, from rows under a listed value; the others influence",
        ("test_groups.py::test_pivot[pivot sum]", "test_groups.py::test_pivot[pivot max]"),
    ),
    Supported(
        "unpivot",
        _ROW,
        (
            "test_unnest.py::test_unnest[unpivot]",
            "test_unnest.py::test_unnest[group over unpivot]",
            "test_unnest.py::test_unnest[scalar over unpivot]",
        ),
    ),
)

WINDOWS = (
    Supported(
        "row_number, rank, dense_rank",
        _FRAME,
        (
            "test_windows.py::test_window[row_number]",
            "test_windows.py::test_window[rank]",
            "test_windows.py::test_window[dense_rank]",
        ),
    ),
    Supported(
        "percent_rank, ntile, cume_dist",
        "the partition",
        ("test_windows.py::test_window[percent_rank]", "test_windows.py::test_window[ntile]"),
    ),
    Supported(
        "lag, lead",
        "the row itself, and the row looked at; with IGNORE NULLS the partition",
        (
            "test_windows.py::test_window[lag]",
            "test_windows.py::test_window[lag and lead]",
            "test_windows.py::test_window[lag without nulls]",
        ),
    ),
    Supported(
        "aggregates over ROWS frames",
        _FRAME,
        (
            "test_windows.py::test_window[running sum]",
            "test_windows.py::test_window[moving count]",
            "test_windows.py::test_window[frame that may be empty]",
        ),
    ),
    Supported(
        "aggregates over RANGE frames", _FRAME, ("test_windows.py::test_window[range frame]",)
    ),
    Supported(
        "aggregates over whole partitions",
        "the partition",
        (
            "test_windows.py::test_window[whole partition]",
            "test_windows.py::test_window[whole table]",
        ),
    ),
)

NESTED = (
    Supported("explode", "the row the item is in", ("test_unnest.py::test_unnest[explode]",)),
    Supported("explode_outer", _ROW, ("test_unnest.py::test_unnest[explode_outer]",)),
    Supported(
        "posexplode, posexplode_outer",
        "the row the item is in",
        (
            "test_unnest.py::test_unnest[posexplode]",
            "test_unnest.py::test_unnest[posexplode_outer]",
        ),
    ),
    Supported(
        "inline, inline_outer",
        "the row the item is in",
        ("test_unnest.py::test_unnest[inline]", "test_unnest.py::test_unnest[inline_outer]"),
    ),
    Supported("stack", _ROW, ("test_unnest.py::test_unnest[stack]",)),
    Supported(
        "Python table functions without a state",
        _ROW,
        ("test_unnest.py::test_python_table_functions",),
    ),
    Supported(
        "LATERAL VIEW [OUTER]",
        "the row the item is in",
        (
            "test_unnest.py::test_unnest[lateral view]",
            "test_unnest.py::test_unnest[lateral view outer]",
        ),
    ),
)

SUBQUERIES = (
    Supported(
        "scalar subquery",
        "the row, jointly with what made the value",
        (
            "test_subqueries.py::test_subquery[scalar]",
            "test_subqueries.py::test_subquery[scalar in having]",
        ),
    ),
    Supported(
        "correlated scalar subquery",
        "the row, jointly with what made the value",
        ("test_subqueries.py::test_subquery[correlated scalar]",),
    ),
    Supported("IN", _SEMI, ("test_subqueries.py::test_subquery[in]",)),
    Supported("NOT IN", "the left row", ("test_subqueries.py::test_subquery[not in]",)),
    Supported(
        "EXISTS",
        _SEMI,
        (
            "test_subqueries.py::test_subquery[exists]",
            "test_subqueries.py::test_subquery[exists uncorrelated]",
        ),
    ),
    Supported("NOT EXISTS", "the left row", ("test_subqueries.py::test_subquery[not exists]",)),
    Supported(
        "common table expressions",
        "as what they stand for",
        ("test_subqueries.py::test_subquery[cte used twice]",),
    ),
)

PYTHON = (
    Supported(
        "mapInPandas",
        "every row of the input",
        ("test_opaque.py::test_map_in_pandas_takes_all_rows_read_so_far",),
        "superset",
    ),
    Supported(
        "mapInArrow", "every row of the input", ("test_opaque.py::test_map_in_arrow",), "superset"
    ),
    Supported(
        "groupBy().applyInPandas",
        _GROUP,
        ("test_opaque.py::test_apply_in_pandas_takes_the_group",),
        "superset",
    ),
    Supported(
        "groupBy().applyInArrow",
        _GROUP,
        ("test_opaque.py::test_apply_in_arrow_takes_the_group",),
        "superset",
    ),
    Supported(
        "applyInPandas, applyInArrow over iterators of batches",
        "every row of the group that was read so far",
        ("test_opaque.py::test_groups_in_batches_take_what_was_read_so_far",),
        "superset",
    ),
    Supported(
        "cogroup().applyInPandas",
        "every row of both groups",
        ("test_opaque.py::test_cogroup_takes_both_groups",),
        "superset",
    ),
    Supported(
        "cogroup().applyInArrow",
        "every row of both groups",
        ("test_opaque.py::test_cogroup_of_arrow_takes_both_groups",),
        "superset",
    ),
    Supported(
        "mapInPandas with tracked arrays",
        "the rows behind the row's cells",
        ("test_followed.py::test_batches_of_a_partition_are_told_apart",),
    ),
    Supported(
        "applyInPandas with tracked arrays",
        "the rows behind the row's cells",
        (
            "test_followed.py::test_neighbours_in_a_group_are_traced_in_every_mode",
            "test_followed.py::test_two_sides",
        ),
    ),
)

SECTIONS = {
    "Sources": SOURCES,
    "Rows": ROWS,
    "Joins": JOINS,
    "Sets": SETS,
    "Groups": GROUPS,
    "Windows": WINDOWS,
    "Nested items": NESTED,
    "Subqueries": SUBQUERIES,
    "Python functions over many rows": PYTHON,
}

_HEAD = """# Supported operators

Generated by `python -m whence.spark.instrument.supported`; edit the table there.

What *contributes* to an output row is needed to produce it; what *influences* it was only looked
at. *exact* means all of it and nothing else, *superset* all of it and maybe more. Each row names
the tests that show it, against a slow oracle in plain Python and in every mode. An operator that is
not listed raises an error that names it.
"""


def render() -> str:
    """The table as Markdown."""
    parts = [_HEAD]
    for title, entries in SECTIONS.items():
        lines = [f"## {title}", "", "| operator | what contributes | grade | tests |"]
        lines.append("|---|---|---|---|")
        for entry in entries:
            tests = "<br>".join(f"`{test}`" for test in entry.tests)
            lines.append(f"| {entry.operator} | {entry.contributes} | {entry.grade} | {tests} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(render())
