"""Which readings raised this alarm? Spark, then NumPy, then Spark again, traced end to end.

The rise of three river gauges is computed in Spark (`applyInPandas`), the three highest rises are
found in NumPy, and joined in Spark to who is to be called. Run it with
`python examples/gauges/gauges.py`; it writes `data/` and `provenance/` in the folder it is run in.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

import whence
import whence.arrays

GAUGES, HOURS = ("bridge", "mill", "weir"), 24


@whence.arrays.track
def rises(level: np.ndarray) -> np.ndarray:
    """How far each level is above the lowest one so far."""
    return level - np.minimum.accumulate(level)


def rise_of_gauge(readings: pd.DataFrame) -> pd.DataFrame:
    """One gauge: its hours in order, with the rise."""
    readings = readings.sort_values("hour")
    rise = rises(readings["level"].to_numpy())
    return pd.DataFrame({"gauge": readings["gauge"], "hour": readings["hour"], "rise": rise})


def highest(
    gauge: np.ndarray, hour: np.ndarray, rise: np.ndarray, count: int
) -> dict[str, np.ndarray]:
    """The hours with the highest rises, over all gauges."""
    first = np.argsort(-rise, kind="stable")[:count]
    return {"gauge": gauge[first], "hour": hour[first], "rise": rise[first]}


def write_data(folder: Path) -> None:
    """Levels with floods at the mill and at the weir, and a list of people to call."""
    hours = np.arange(HOURS)
    rows = []
    for number, gauge in enumerate(GAUGES):
        flood = (0.2, 1.4, 2.2)[number] * np.exp(-(((hours - 9 - 4 * number) / 3.0) ** 2))
        level = np.round(1.0 + 0.1 * number + flood + 0.05 * np.sin(hours * (number + 2)), 3)
        rows.append(pd.DataFrame({"gauge": gauge, "hour": hours, "level": level}))
    folder.mkdir(parents=True, exist_ok=True)
    pd.concat(rows, ignore_index=True).to_parquet(folder / "levels.parquet")
    people = pd.DataFrame({"gauge": GAUGES, "person": ["Ada", "Ben", "Cleo"]})
    people.to_parquet(folder / "people.parquet")


def main() -> int:
    """Capture three runs, trace an alarm back to readings, and replay it."""
    data, archive = Path("data"), Path("provenance")
    write_data(data)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    levels = spark.read.parquet(str(data / "levels.parquet"))
    schema = "gauge string, hour long, rise double"
    made = levels.groupBy("gauge").applyInPandas(rise_of_gauge, schema)
    hours = whence.capture(made.orderBy("gauge", "hour"), name="hours", archive=archive)

    columns = {name: hours.array(name) for name in ("gauge", "hour", "rise")}
    top = whence.capture_arrays(highest, **columns, count=3, name="highest")

    people = spark.read.parquet(str(data / "people.parquet"))
    alarms = top.output.join(people, "gauge").orderBy("gauge", "hour")
    run = whence.capture(alarms, name="alarms", archive=archive)
    print(run.to_arrow().to_pandas().round(3).to_string(index=False))

    trace = run.trace("gauge = 'weir' AND hour = 17")
    print(f"\nThe alarm of hour 17, {trace.grade}: {trace.how()}")
    print(trace["levels"].to_pandas(role="contributing").to_string(index=False))
    print("\nthe cells behind its rise, step by step")
    cells = trace.array_cells().to_pandas()
    shown = cells[(cells.role == "contributing") & (cells.column == "rise")]
    print(shown[["run", "column", "input_row", "input_column"]].to_string(index=False))
    asked = run.trace(whence.pattern("gauge = 'weir', hour = 17, rise"))
    print(f"\nand in the source, {asked.grade}")
    cells = asked.cells().to_pandas()
    print(cells[cells.role == "contributing"][["source", "row", "path"]].to_string(index=False))
    touched = run.impact("levels", "gauge = 'mill' AND hour = 13").to_pylist()
    print(f"\nThe mill's reading of hour 13 has a say in {len(touched)} alarms.")
    check = run.check()
    print(f"{sum(row.ok for row in check.rows)} of {len(check.rows)} alarms came out again.")
    spark.stop()
    return 0 if check.ok else 1


if __name__ == "__main__":
    sys.exit(main())
