"""What all tests share."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Machines are noisy, and what is found must be found again: no deadlines, and the same examples
# unless more of them are asked for.
settings.register_profile("whence", deadline=None, derandomize="WHENCE_EXAMPLES" not in os.environ)
settings.load_profile("whence")

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
# In tests the mode `auto` refers to groups by key however small the data is.
os.environ.setdefault("WHENCE_LIST_BELOW", "0")
# Every JVM here is short-lived: compiling well takes longer than what it saves.
# Hadoop starts a process for each file whose permissions it sets.
JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable "
    "-Djdk.lang.Process.launchMechanism=VFORK"
)
# An aggregate takes its memory in pages of up to 64 MB, which have to be cleared and collected for
# a handful of rows.
_DRIVER = "-Dspark.buffer.pageSize=1m"
CLASSES = Path(sys.prefix) / "spark.jsa"  # both are made by tests/classes.py
DEFAULTS = Path(sys.prefix) / "hadoop.jar"
_OPTIONS = f"{JVM_OPTIONS} -XX:SharedArchiveFile={CLASSES}" if CLASSES.exists() else JVM_OPTIONS
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{_OPTIONS} {_DRIVER}")
os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", _OPTIONS)
if CLASSES.exists():
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--driver-class-path {DEFAULTS} pyspark-shell")
    os.environ.setdefault("SPARK_DAEMON_CLASSPATH", str(DEFAULTS))


# Files that take longest come first, and those without Spark last, so that no process is left with
# a long one at the end.
_LONG = ("test_cluster", "test_tpch", "test_crash", "test_examples", "test_groups", "test_seal")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        found = (i for i, name in enumerate(_LONG) if item.path.stem.startswith(name))
        return next(found, len(_LONG) + (item.get_closest_marker("spark") is None))

    items.sort(key=place)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Whole files go to a process, and the sealed archive that a folder shares to one."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            own = "tests/seal/"
            return own if nodeid.startswith(own) else str(super()._split_scope(nodeid))

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master(os.environ.get("WHENCE_TEST_MASTER", "local[2]"))
        .appName("whence-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "2g")
        # Compiling, and planning again between stages, takes longer than these few rows; TPC-H and
        # the examples run with both.
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
