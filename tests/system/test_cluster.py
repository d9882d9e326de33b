"""A real Spark cluster on loopback: driver and executors are processes of their own."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from processes import Child, child, script
from tpch_kit import EMPTY, FAILS, QUERIES

import whence

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.slow, pytest.mark.full]

OTHERS = ("json", "memory", "udf", "window", "range")
WORKERS = 2
LOOPBACK = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def spark_class(*arguments: str) -> list[str]:
    import pyspark

    return [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), *arguments]


def wait_until_open(port: int, process: Child) -> None:
    """Until something listens at a port."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        assert process.running(), process.complaint()
        with socket.socket() as probe:
            if probe.connect_ex((LOOPBACK, port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"nothing listens at {port}: {process.complaint()}")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One master and two workers with a core each; gone at the end."""
    folder = tmp_path_factory.mktemp("cluster")
    port = free_port()
    url = f"spark://{LOOPBACK}:{port}"
    memory = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"}
    with ExitStack() as stack:

        def start(kind: str, *arguments: str) -> Child:
            classes = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
            own = ["--host", LOOPBACK, "--webui-port", "0", *arguments]
            log = folder / f"{kind}.log"
            return stack.enter_context(child(spark_class(classes, *own), log, memory))

        wait_until_open(port, start("Master", "--port", str(port)))
        for number in range(WORKERS):
            work = str(folder / f"work-{number}")
            start("Worker", "--cores", "1", "--memory", "1g", "--work-dir", work, url)
        yield url


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared") / "archive"


@pytest.fixture(scope="module")
def seen(master: str, tpch_tables: Path, place: Path) -> dict[str, Any]:
    """What the driver saw, by query."""
    log = place.parent / "driver.log"
    with child(script("cluster_driver.py", master, tpch_tables, place), log) as driver:
        lines = [line.split(" ", 1) for line in driver.rest()]
        assert driver.wait() == 0, driver.complaint()
    return {name: json.loads(text) for name, text in lines}


def test_the_work_is_done_by_the_workers(seen, master):
    assert seen["cluster"] == {"master": master, "executors": WORKERS}


@pytest.mark.parametrize("name", [*QUERIES, *OTHERS])
def test_captured_on_the_cluster(seen, name):
    found = seen[name]
    assert found["output"]
    assert found["same traces"]
    assert found["traced"] == (name != EMPTY)
    assert found["replayed"]
    assert all(found["replayed"]) or name == FAILS


def test_all_modes_were_tried(seen):
    assert sum(found.get("modes", 0) > 1 for found in seen.values()) == 8


def test_the_archive_can_be_read_without_the_cluster(seen, place):
    """The eager runs, by a process that has no part in it."""
    eager = [run for run in whence.open(place).runs() if run.mode == "eager"]
    assert len(eager) == len(QUERIES) + len(OTHERS)
    for run in eager:
        assert len(run.trace()) >= 1
