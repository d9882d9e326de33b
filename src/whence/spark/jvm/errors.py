"""What Spark's failures mean, as errors of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from whence.errors import WhenceError

_FULL = ("No space left on device", "File too large", "Disk quota exceeded")
_STOPPED = ("stopped SparkContext", "SparkContext was shut down", "SparkContext has been shutdown")


def is_stopped(session: SparkSession) -> bool:
    """Whether a session can no longer be used since its context was stopped."""
    return session.sparkContext._jsc is None


@contextmanager
def spark_errors(doing: str, ours: type[WhenceError], *, own: bool) -> Iterator[None]:
    """Say what Spark's failures mean; with `own`, what the pipeline raises passes as it is."""
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as error:
        text = str(error)
        if any(sign in text for sign in _FULL):
            raise ours(
                f"no space left on disk while {doing}; the archive is unchanged: free some space "
                "and run again"
            ) from error
        if _is_gone(error, text):
            raise ours(
                f"the Spark session died or was stopped while {doing}; the archive is unchanged: "
                "run again in a new session"
            ) from error
        if own and isinstance(error, PySparkException | Py4JJavaError):
            raise
        raise ours(f"Spark failed while {doing}: {text[:1000]}") from error


def _is_gone(error: Exception, text: str) -> bool:
    if isinstance(error, ConnectionError | Py4JNetworkError):
        return True
    if any(sign in text for sign in _STOPPED):
        return True
    return type(error) is Py4JError and "Trace:" not in text  # no answer to a call under way
