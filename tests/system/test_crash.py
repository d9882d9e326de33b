"""Captures that are killed, and captures at the same time: each run is whole or absent."""

import json
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from processes import Child, child, environment, script
from shop import orders, write_shop

import whence

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.full]

KILLS = 5
ORDERS = orders(500).to_pylist()
ABOVE = sum(row["amount"] for row in ORDERS) / len(ORDERS)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shop(tmp_path_factory.mktemp("shop"), len(ORDERS))


def look(archive: Path) -> dict[str, Any]:
    """What a process without Spark finds in an archive."""
    done = subprocess.run(
        script("look.py", archive), capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def assert_whole(found: dict[str, Any]) -> None:
    """All rows of each run are there, and one that was traced has all that made it."""
    for run in found.values():
        assert {row["id"] for row in run["rows"]} == {
            row["id"] for row in ORDERS if row["amount"] > ABOVE
        }
        # The scalar subquery's average takes all orders; the customer is the one that ordered.
        assert sorted(row["id"] for row in run["sources"]["orders"]) == list(range(len(ORDERS)))
        assert [row["name"] for row in run["sources"]["customers"]] == [run["row"]["name"]]
        assert run["grade"] == "exact"


def folders(archive: Path) -> set[str]:
    return {path.name for path in (archive / "datasets").iterdir()}


def own_datasets(archive: Path) -> set[str]:
    return {d.id for d in whence.open(archive).store.datasets() if d.is_own}


def kill_at_work(worker: Child, commits: int, chance: random.Random) -> list[str]:
    """Kill a worker somewhere in a capture; the runs it said it had committed."""
    assert worker.line() == "ready"
    worker.tell("go")
    told, seconds = [], 0.0
    for _ in range(commits):
        assert worker.line() == "begin"
        _, run, taken = worker.line().split()
        told.append(run)
        seconds = float(taken)
    assert worker.line() == "begin"
    time.sleep(chance.uniform(0, seconds))
    worker.kill()
    return told + [line.split()[1] for line in worker.rest() if line.startswith("commit")]


def test_killed_at_random_moments_of_a_capture(shop, tmp_path):
    archive, chance = tmp_path / "archive", random.Random(4)
    runs: list[str] = []
    cleared = 0
    for _ in range(KILLS):
        with child(script("capture_worker.py", shop, archive, 99), tmp_path / "log") as worker:
            told = kill_at_work(worker, chance.randint(1, 2), chance)
        found = look(archive)
        assert list(found)[: len(runs) + len(told)] == runs + told
        assert len(found) <= len(runs) + len(told) + 1  # committed, and killed before it said so
        assert_whole(found)
        report = whence.open(archive).gc(grace_seconds=0)
        assert not report.failed
        cleared += report.count
        assert folders(archive) == own_datasets(archive)
        assert look(archive) == found
        runs = list(found)
    assert cleared  # some kills did hit a capture that had written files


def test_two_processes_capture_into_one_archive(shop, tmp_path):
    archive, count = tmp_path / "archive", 3
    command = script("capture_worker.py", shop, archive, count)
    told = []
    with child(command, tmp_path / "log-1") as one, child(command, tmp_path / "log-2") as two:
        for worker in (one, two):
            assert worker.line() == "ready"
        for worker in (one, two):
            worker.tell("go")
        for worker in (one, two):
            lines = worker.rest()
            assert worker.wait() == 0, worker.complaint()
            told += [line.split()[1] for line in lines if line.startswith("commit")]
    found = look(archive)
    assert sorted(found) == sorted(told)
    assert len(found) == 2 * count
    assert_whole(found)
    assert whence.open(archive).gc(grace_seconds=0).count == 0
