"""A real Spark cluster on loopback: driver and executors are processes of their own."""

import os
import re
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from processes import HERE, Child, child
from tpch_kit import QUERIES

import whence

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.slow]

WORKERS = 2
# Every eighth one, unless more of everything is asked for: `make test-full` runs all of them.
ASKED = sorted(QUERIES) if "WHENCE_EXAMPLES" in os.environ else sorted(QUERIES)[::8]
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
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def ran(master: str, place: Path) -> str:
    """The tests of TPC-H and of other sources, run whole by a driver of that cluster."""
    settings = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": os.environ.get("SPARK_DAEMON_JAVA_OPTS", ""),
        "spark.executor.extraClassPath": os.environ.get("SPARK_DAEMON_CLASSPATH", ""),
        "spark.driver.extraClassPath": os.environ.get("SPARK_DAEMON_CLASSPATH", ""),
        "spark.cores.max": str(WORKERS),
        "spark.driver.host": LOOPBACK,
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "180s",
    }
    given = " ".join(shlex.quote(f"--conf={name}={value}") for name, value in settings.items())
    more = {
        "WHENCE_TEST_MASTER": master,
        "WHENCE_TEST_EXECUTORS": str(WORKERS),
        "PYSPARK_SUBMIT_ARGS": f"{given} pyspark-shell",
        "PYTEST_ADDOPTS": "",
    }
    tests = [str(HERE / f"{name}.py") for name in ("test_elsewhere", "test_tpch")]
    chosen = " or ".join(["test_elsewhere", *ASKED])
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(place / "own"), "-k", chosen]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    with child(command, place / "driver.log", more) as driver:
        printed = "\n".join(driver.rest())
        assert driver.wait() == 0, f"{printed}\n{driver.complaint()}"
    return printed


def test_tpch_and_other_sources_on_the_cluster(ran: str) -> None:
    """In every mode: same output, same traces, and replays in DuckDB; see `test_tpch`."""
    found = re.search(r"(\d+) passed", ran)
    assert found is not None, ran
    assert int(found[1]) == 3 * len(ASKED) + 6
    assert "skipped" not in ran


def test_the_archive_can_be_read_without_the_cluster(ran: str, place: Path) -> None:
    """The eager runs, by a process that has no part in it."""
    archive = place / "own" / "tpch-archive0"
    eager = [run for run in whence.open(archive).runs() if run.mode == "eager"]
    assert len(eager) == len(ASKED)
    for run in eager:
        assert len(run.trace()) >= 1
