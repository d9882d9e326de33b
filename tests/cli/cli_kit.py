"""An archive to ask questions of, and how to ask them."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

import whence
from whence.cli import app

LATE = """
SELECT o_key, c_name, count(*) AS late, sum(price) AS value
FROM orders JOIN items ON i_order = o_key
WHERE days > 0 GROUP BY o_key, c_name ORDER BY o_key
"""


@dataclass(frozen=True)
class Home:
    """A folder with sources and an archive."""

    folder: Path

    @property
    def archive(self) -> Path:
        return self.folder / "provenance"

    def source(self, name: str) -> Path:
        return next((self.folder / name).glob("*.parquet"))

    def run(self, *arguments: str) -> Result:
        """What a command gives, in this process."""
        return CliRunner().invoke(app, [*arguments, "--archive", str(self.archive)])


ABOVE = "SELECT i_order, price FROM items WHERE price > (SELECT avg(price) FROM items)"


def make_home(spark: Any, folder: Path) -> Home:
    orders = [(1, "Ann"), (2, "Bob"), (3, "Cid")]
    items = [(1, "5.00", 2), (1, "7.50", 1), (1, "1.00", 0), (2, "3.25", 4), (3, "9.99", -1)]
    rows = [(order, Decimal(price), days) for order, price, days in items]
    frames = {
        "orders": spark.createDataFrame(orders, "o_key long, c_name string"),
        "items": spark.createDataFrame(rows, "i_order long, price decimal(8,2), days int"),
    }
    for name, frame in frames.items():
        path = str(folder / name)
        frame.coalesce(1).write.parquet(path)
        spark.read.parquet(path).createOrReplaceTempView(name)
    home = Home(folder)
    whence.capture(odd_values(spark), name="odd", archive=home.archive, mode="eager")
    whence.capture(spark.sql(ABOVE), name="above", archive=home.archive, mode="eager")
    late = spark.sql(LATE)
    whence.capture(late, name="late-auto", archive=home.archive, mode="auto")
    whence.capture(late, name="late", archive=home.archive, mode="eager")
    return home


def odd_values(spark: Any) -> Any:
    """Values that JSON and CSV have no form for, and a column name that stands twice."""
    rows = [
        (1, date(2024, 2, 29), bytearray(b"\x00\xff"), float("nan"), [1, None], "a,b"),
        (2, None, None, None, None, 'two\nlines "quoted"'),
    ]
    types = "a long, day date, raw binary, ratio double, list array<int>, text string"
    frame = spark.createDataFrame(rows, types)
    return frame.select("*", frame.a.alias("a"), frame.a.alias("a.b"))
