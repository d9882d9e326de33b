"""TPC-H tables without rows: enough for reading plans; which modes are tried in a quick run."""

from pathlib import Path
from typing import Any

import pytest

TABLES = {
    "region": "r_regionkey long, r_name string, r_comment string",
    "nation": "n_nationkey long, n_name string, n_regionkey long, n_comment string",
    "supplier": "s_suppkey long, s_name string, s_address string, s_nationkey long, "
    "s_phone string, s_acctbal decimal(15,2), s_comment string",
    "customer": "c_custkey long, c_name string, c_address string, c_nationkey long, "
    "c_phone string, c_acctbal decimal(15,2), c_mktsegment string, c_comment string",
    "part": "p_partkey long, p_name string, p_mfgr string, p_brand string, p_type string, "
    "p_size int, p_container string, p_retailprice decimal(15,2), p_comment string",
    "partsupp": "ps_partkey long, ps_suppkey long, ps_availqty int, "
    "ps_supplycost decimal(15,2), ps_comment string",
    "orders": "o_orderkey long, o_custkey long, o_orderstatus string, "
    "o_totalprice decimal(15,2), o_orderdate date, o_orderpriority string, o_clerk string, "
    "o_shippriority int, o_comment string",
    "lineitem": "l_orderkey long, l_partkey long, l_suppkey long, l_linenumber int, "
    "l_quantity decimal(15,2), l_extendedprice decimal(15,2), l_discount decimal(15,2), "
    "l_tax decimal(15,2), l_returnflag string, l_linestatus string, l_shipdate date, "
    "l_commitdate date, l_receiptdate date, l_shipinstruct string, l_shipmode string, "
    "l_comment string",
}


_MANY = (
    "test_groups",
    "test_opaque",
    "test_rows",
    "test_sets",
    "test_joins",
    "test_unnest",
    "test_windows",
    "test_types",
    "test_cells",
    "test_followed",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is left to the full run: every second case of long lists, and one of two modes by key.

    Where a test is there in all modes that is `auto`: it refers to groups as `lazy` does, and finds
    their members by the same plans.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if Path(__file__).parent in item.path.parents and hasattr(item, "callspec"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        modes = [item.callspec.params.get("mode") for item in cases]  # type: ignore[attr-defined]
        left = [item for item, mode in zip(cases, modes, strict=True) if mode == "auto"]
        if "lazy" not in modes:
            left = cases[1::2] if cases[0].path.stem in _MANY else []
        for item in left:
            item.add_marker(pytest.mark.full)


@pytest.fixture(scope="session")
def tpch(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The eight tables as temporary views over empty Parquet files."""
    folder = tmp_path_factory.mktemp("tpch")
    for name, schema in TABLES.items():
        path = str(folder / name)
        spark.createDataFrame([], schema).coalesce(1).write.parquet(path)
        spark.read.parquet(path).createOrReplaceTempView(name)
    return folder


@pytest.fixture(scope="session")
def workshop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Where pipelines are captured and held against the oracle."""
    from kit import Workshop

    return Workshop(spark, tmp_path_factory.mktemp("workshop"))
