"""A Spark session for answers that need one."""

from __future__ import annotations

import os
import shutil
import sys

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from whence.errors import EngineError


def active_or_new() -> SparkSession:
    """The active session, or a local one that is started now, which is said on stderr."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    check_java()
    print("whence: this needs Spark; starting a local session …", file=sys.stderr)
    builder = (
        SparkSession.builder.master("local[*]")
        .appName("whence")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
    )
    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        first = str(error).strip().splitlines()[0]
        raise EngineError(f"this needs Spark, which did not start: {first}") from error


def check_java() -> None:
    """Raise if there is no Java for Spark to run on."""
    home = os.environ.get("JAVA_HOME")
    if not shutil.which("java") and not (home and os.path.exists(f"{home}/bin/java")):  # noqa: PTH110
        raise EngineError(
            "this needs Spark, and Spark needs Java 17 or newer, which was not found; on Debian: "
            "apt-get install openjdk-17-jre-headless"
        )
