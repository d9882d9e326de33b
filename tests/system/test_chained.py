"""Runs that read what earlier runs wrote: traces end in the sources of the first."""

from pathlib import Path
from typing import Any

import pytest
from shop import CUSTOMERS, TOTALS, orders, write_shop

import whence

pytestmark = pytest.mark.spark

ORDERS = orders().to_pylist()
TOTAL = {
    c: sum(row["amount"] for row in ORDERS if row["customer"] == c)
    for c in {row["customer"] for row in ORDERS}
}
NAMED = "SELECT name, total FROM customers JOIN totals ON key = customer"
BEST = "SELECT name, total FROM named WHERE total = (SELECT max(total) FROM named)"


class Chain:
    """Captures one pipeline after another into one archive."""

    def __init__(self, spark: Any, folder: Path, archive: Path) -> None:
        self.spark, self.archive = spark, archive
        for table in ("orders", "customers"):
            spark.read.parquet(f"{folder}/{table}.parquet").createOrReplaceTempView(table)

    def capture(self, sql: str, mode: str, **inputs: Any) -> Any:
        for name, frame in inputs.items():
            frame.createOrReplaceTempView(name)
        frame = self.spark.sql(sql)
        return whence.capture(frame, archive=self.archive, mode=mode, list_below=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def chain(spark: Any, folder: Path, tmp_path: Path) -> Chain:
    return Chain(spark, folder, tmp_path / "archive")


def folder_of(run: Any) -> str:
    store = run.archive.store
    return str(store.path(store.dataset(run.stored.output)))


def order_ids(trace: Any) -> set[int]:
    return {row["id"] for row in trace["orders"].to_pylist(role="contributing")}


def orders_of(customer: int) -> set[int]:
    return {row["id"] for row in ORDERS if row["customer"] == customer}


def assert_traced_to_sources(run: Any, customer: int) -> None:
    trace = run.trace(f"name = 'c{customer}'")
    assert set(trace) == {"orders", "customers"}
    assert order_ids(trace) == orders_of(customer)
    assert [row["key"] for row in trace["customers"].to_pylist()] == [customer]
    assert trace.grade == "exact"


@pytest.mark.parametrize("modes", ["lazy eager", "eager lazy", "auto auto"])
def test_a_trace_ends_in_the_sources_of_the_first_run(chain, modes):
    first, second = modes.split()
    a = chain.capture(TOTALS, first)
    b = chain.capture(NAMED, second, totals=a.output)
    for customer in (0, 1, 4):
        assert_traced_to_sources(b, customer)
    assert b.check(sample=2).ok


def test_the_folder_of_a_run_is_its_output(chain):
    a = chain.capture(TOTALS, "eager")
    b = chain.capture(NAMED, "eager", totals=chain.spark.read.parquet(folder_of(a)))
    assert_traced_to_sources(b, 2)
    assert sorted(b.to_arrow().column("total").to_pylist()) == sorted(TOTAL.values())


def test_the_files_of_a_run_are_its_output(chain):
    a = chain.capture(TOTALS, "eager")
    files = sorted(map(str, Path(folder_of(a)).glob("*.parquet")))
    b = chain.capture(NAMED, "eager", totals=chain.spark.read.parquet(*files))
    assert_traced_to_sources(b, 2)


@pytest.mark.parametrize("modes", ["eager eager", "auto lazy"])
def test_impact_goes_from_the_first_sources_to_the_last_output(chain, modes):
    first, second = modes.split()
    a = chain.capture(TOTALS, first)
    b = chain.capture(NAMED, second, totals=a.output)
    reached = b.impact("orders", "customer IN (1, 4)")
    assert {row["name"] for row in reached.to_pylist()} == {"c1", "c4"}
    assert reached.source_rows == len(orders_of(1) | orders_of(4))
    assert {row["name"] for row in b.impact("customers", "key = 2").to_pylist()} == {"c2"}
    assert len(b.impact("orders", "id < 0")) == 0


def test_three_runs(chain):
    a = chain.capture(TOTALS, "eager")
    b = chain.capture(NAMED, "lazy", totals=a.output)
    c = chain.capture(BEST, "eager", named=b.output)
    best = max(TOTAL, key=TOTAL.get)
    trace = c.trace()
    assert trace.output().to_pylist() == [{"name": f"c{best}", "total": TOTAL[best]}]
    assert order_ids(trace) == orders_of(best)
    assert c.check(sample=1).ok
    assert len(c.impact("orders", f"customer = {best}")) == 1


def test_an_earlier_run_is_found_without_its_session(chain):
    a = chain.capture(TOTALS, "eager")
    b = chain.capture(NAMED, "eager", totals=a.output)
    again = whence.open(chain.archive).run(b.id)
    assert_traced_to_sources(again, 1)
    assert {row["name"] for row in again.impact("orders", "customer = 1").to_pylist()} == {"c1"}


def test_a_run_that_reads_two_earlier_ones(chain):
    a = chain.capture(TOTALS, "eager")
    b = chain.capture("SELECT customer, count(*) AS n FROM orders GROUP BY customer", "auto")
    c = chain.capture(
        "SELECT t.customer, total / n AS mean FROM totals t JOIN counts USING (customer)",
        "eager",
        totals=a.output,
        counts=b.output,
    )
    trace = c.trace("customer = 1")
    assert order_ids(trace) == orders_of(1)
    assert c.check(sample=CUSTOMERS).ok
