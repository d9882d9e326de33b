"""Captures that fail for reasons outside the pipeline; prints what came of them as JSON.

failures.py full ARCHIVE [BYTES]     more than fits is captured; BYTES limits the size of files
failures.py dying ARCHIVE            the session is stopped, then its JVM is killed in a job
"""

import json
import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from local_session import new_session

import whence

ROOM = 1_000_000
SLOW = "SELECT max(sha2(CAST(id AS string), 512)) AS m FROM range(0, 200000000, 1, 8)"


def outcome(work: Callable[[], Any]) -> dict[str, Any]:
    """What calling something came to."""
    try:
        work()
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return {"kinds": kinds, "message": str(error)}
    return {"kinds": [], "message": ""}


def whole(archive: str) -> dict[str, Any]:
    """What is in the archive: runs, rows that a trace reaches, folders that nobody refers to."""
    opened = whence.open(archive)
    own = {dataset.id for dataset in opened.store.datasets() if dataset.is_own}
    left = {path.name for path in Path(archive, "datasets").iterdir()} - own
    eager = [run for run in opened.runs() if run.mode == "eager"]
    return {
        "runs": [run.name for run in opened.runs()],
        "traced": [len(run.trace()["range"]) for run in eager],
        "left": sorted(left),
    }


def wait_for_space(spark: Any, archive: str) -> None:
    """Hadoop leaves files that it failed to write open until they are collected as garbage."""
    for _ in range(100):
        spark._jvm.System.gc()
        if shutil.disk_usage(archive).free > ROOM:
            return
        time.sleep(0.2)


def full(archive: str, limit: str = "") -> dict[str, Any]:
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    spark = new_session()
    small = spark.range(100).where("id > 50")
    big = spark.range(200_000).selectExpr("id", "sha2(CAST(id AS string), 512) AS text")
    whence.capture(small, name="before", archive=archive, mode="eager")
    found = {}
    for kind, mode in (("eager", "eager"), ("lazy", "lazy"), ("cached", "eager")):
        frame = big.cache().where("id > 1") if kind == "cached" else big
        found[kind] = outcome(lambda f=frame, m=mode: whence.capture(f, archive=archive, mode=m))
        wait_for_space(spark, archive)
    whence.capture(small, name="after", archive=archive, mode="eager")
    return {**found, "archive": whole(archive)}


def dying(archive: str) -> dict[str, Any]:
    spark = new_session()
    small = spark.range(100).where("id > 50")
    whence.capture(small, name="before", archive=archive, mode="eager")
    lazy = whence.capture(small, name="lazy", archive=archive, mode="lazy")
    spark.stop()
    found = {
        "stopped": outcome(lambda: whence.capture(small, archive=archive)),
        "stopped trace": outcome(lazy.trace),
    }
    spark = new_session()
    again = whence.open(archive).run("lazy")
    found["new session"] = outcome(again.trace)
    slow = spark.sql(SLOW)
    process = spark.sparkContext._gateway.proc.pid
    threading.Timer(4, os.kill, (process, signal.SIGKILL)).start()
    found["killed"] = outcome(lambda: whence.capture(slow, name="slow", archive=archive))
    found["dead"] = outcome(lambda: whence.capture(slow, name="slow", archive=archive))
    found["dead trace"] = outcome(again.trace)
    found["dead check"] = outcome(again.check)
    found["dead output"] = outcome(lambda: again.output)
    return {**found, "archive": whole(archive)}


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    print("found", json.dumps({"full": full, "dying": dying}[kind](*rest)), flush=True)
    os._exit(0)  # a session that died cannot be closed
