"""Witnesses take space linear in the rows read and written: twice the data, twice the size."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import whence

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 20_000
BUYERS = 20
LINEAR = 2.6  # doubling gives 2, and 4 where rows hold copies of what they share
SLOTS = "__whence_"

PIPELINES = {
    "joined aggregate": """
        SELECT id, amount / total AS share
        FROM orders JOIN (SELECT customer AS c, sum(amount) AS total FROM orders GROUP BY customer)
        ON customer = c""",
    "aggregate of a joined aggregate": """
        SELECT customer, avg(amount / total) AS mean
        FROM orders JOIN (SELECT customer AS c, sum(amount) AS total FROM orders GROUP BY customer)
        ON customer = c GROUP BY customer""",
    "window over one partition": """
        SELECT id, sum(amount) OVER () AS whole, rank() OVER (ORDER BY amount) AS place
        FROM orders""",
    "running window": """
        SELECT id, sum(amount) OVER (PARTITION BY customer ORDER BY id) AS running FROM orders""",
    "scalar subquery": """
        SELECT id, amount - (SELECT avg(amount) FROM orders) AS above FROM orders
        WHERE amount > (SELECT min(amount) FROM orders)""",
    "correlated scalar subquery": """
        SELECT id FROM orders o
        WHERE amount > (SELECT avg(amount) FROM orders i WHERE i.customer = o.customer)""",
    "self join": """
        SELECT a.id, b.amount FROM orders a JOIN orders b ON a.id = b.id + 1""",
    "self join of aggregates": """
        WITH totals AS (SELECT customer, sum(amount) AS total FROM orders GROUP BY customer)
        SELECT o.id, a.total, b.total AS other FROM orders o
        JOIN totals a ON o.customer = a.customer JOIN totals b ON o.id % 20 = b.customer""",
    "semi join": """
        SELECT id FROM orders o
        WHERE EXISTS (SELECT 1 FROM orders i WHERE i.customer = o.customer AND i.amount > 900)""",
    "semi join by one key": """
        SELECT id FROM orders WHERE customer IN (SELECT customer FROM orders WHERE amount > 500)""",
    "semi join of equal and unequal": """
        SELECT id FROM orders o
        WHERE EXISTS (SELECT 1 FROM orders i WHERE i.customer = o.customer AND i.id <> o.id)""",
    "distinct below a join": """
        SELECT id FROM orders JOIN (SELECT DISTINCT customer AS c FROM orders) ON customer = c""",
    "intersect": "SELECT amount FROM orders INTERSECT SELECT amount FROM orders WHERE id > 100",
}

QUICK = {
    "aggregate of a joined aggregate",
    "running window",
    "scalar subquery",
    "semi join of equal and unequal",
}


@dataclass(frozen=True)
class Size:
    """What witnesses take on disk, and how many numbers they hold."""

    bytes: int
    values: int


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Orders of few customers, in no order that would compress well; and twice as many."""
    folder = tmp_path_factory.mktemp("shops")
    paths = [folder / str(rows) / "orders.parquet" for rows in (ROWS, 2 * ROWS)]
    for rows, path in zip((ROWS, 2 * ROWS), paths, strict=True):
        chance = random.Random(rows)
        table = {
            "id": chance.sample(range(rows), rows),
            "customer": [chance.randrange(BUYERS) for _ in range(rows)],
            "amount": [chance.randrange(1000) for _ in range(rows)],
        }
        path.parent.mkdir()
        pq.write_table(pa.table(table), path)
    return paths


def columns_size(path: str, prefix: str) -> Size:
    """The size of the columns whose names start so, from a file's footer."""
    footer = pq.read_metadata(path)
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
    chosen = [chunk for chunk in chunks if chunk.path_in_schema.startswith(prefix)]
    return Size(sum(c.total_compressed_size for c in chosen), sum(c.num_values for c in chosen))


def witness_size(run: Any) -> Size:
    """Slots of the outputs, all of the groups, and all of the steps that the pipeline is cut into.

    A group's file holds nothing but witnesses, and neither does a cut's, whose rows the pipeline
    itself does not write.
    """
    store = run.archive.store
    sizes = []
    for step in run.stored.steps:
        cut = step.output != run.stored.output
        for dataset, prefix in [
            (step.output, "" if cut else SLOTS),
            *((g, "") for g in step.groups),
        ]:
            paths = store.file_paths(store.dataset(dataset))
            sizes += [columns_size(path, prefix) for path in paths]
    return Size(sum(s.bytes for s in sizes), sum(s.values for s in sizes))


@pytest.mark.parametrize(
    "pipeline",
    [pytest.param(p, marks=[] if p in QUICK else pytest.mark.full) for p in PIPELINES],
)
def test_twice_the_data_takes_twice_the_space(spark, shops, tmp_path, pipeline):
    sizes = []
    for shop in shops:
        spark.read.parquet(str(shop)).createOrReplaceTempView("orders")
        frame = spark.sql(PIPELINES[pipeline])
        sizes.append(witness_size(whence.capture(frame, archive=tmp_path, mode="eager")))
    small, large = sizes
    assert small.values >= ROWS
    assert large.values < LINEAR * small.values
    assert large.bytes < LINEAR * small.bytes
