"""A small shop as Parquet: customers and their orders."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CUSTOMERS = 7
ORDERS = 60


def orders(rows: int = ORDERS, customers: int = CUSTOMERS) -> pa.Table:
    ids = list(range(rows))
    return pa.table(
        {
            "id": ids,
            "customer": [i * i % customers for i in ids],
            "amount": [i * 7919 % 1009 for i in ids],
        }
    )


def customers(rows: int = CUSTOMERS) -> pa.Table:
    return pa.table({"key": list(range(rows)), "name": [f"c{i}" for i in range(rows)]})


def write_shop(folder: Path, rows: int = ORDERS, buyers: int = CUSTOMERS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(orders(rows, buyers), folder / "orders.parquet")
    pq.write_table(customers(buyers), folder / "customers.parquet")
    return folder


TOTALS = "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"
