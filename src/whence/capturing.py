"""Capturing, from the frame or function that is given to the run that the archive keeps."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal

from whence.archive import Archive as Store
from whence.archive import Run as StoredRun
from whence.errors import CaptureError, SelectionError, UnsupportedError
from whence.wiring import Shelf, commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from whence.spark.followed import Follow

Mode = Literal["eager", "lazy", "auto"]


def capture_frame(
    frame: DataFrame,
    name: str | None,
    archive: str | os.PathLike[str],
    catalog: str | None,
    mode: Mode,
    list_below: int | None,
    progress: Callable[[str], None],
) -> tuple[Store, StoredRun]:
    """Capture a frame into an archive; see `whence.capture`."""
    from whence.spark.capture import Capture
    from whence.spark.gateway import Gateway, spark_errors

    if mode not in ("eager", "lazy", "auto"):
        raise SelectionError(f"unknown mode {mode!r}; it is 'eager', 'lazy' or 'auto'")
    started = time.monotonic()
    with spark_errors("the run was being captured", CaptureError, own=True):
        _check_frame(frame)
        gateway = Gateway(frame.sparkSession)
        store = Store.open(archive, catalog=catalog, create=True)
        with store.writer(name, mode) as writer:
            shelf = Shelf(store, writer)
            limit = _list_below(list_below)
            steps = Capture(gateway, shelf, mode, progress, _follow(), limit).run(frame)
            progress("committing")
            stored = commit(writer, shelf, steps, time.monotonic() - started, gateway)
    return store, stored


def capture_function(
    function: Callable[..., Any], args: Any, kwargs: Any, name: str | None
) -> tuple[Any, StoredRun]:
    """Capture a call of a function of arrays, into the archive that its columns are from."""
    import numpy

    from whence.arrayrun import archive_of, write_run
    from whence.spark.pickles import dumps

    started = time.monotonic()
    archive = archive_of([args, kwargs])
    with archive.store.writer(name, "eager") as writer:
        write_run(writer, archive.tables, function, args, kwargs, dumps)
        versions = {
            "whence": metadata.version("whence"),
            "numpy": numpy.__version__,
            "python": platform.python_version(),
        }
        stored = writer.commit(seconds=time.monotonic() - started, versions=versions)
    return archive, stored


def _follow() -> Follow:
    """What follows Python functions that use tracked arrays."""
    from whence.arrays.frames.uses import uses_arrays
    from whence.spark.followed import Follow

    def groups(*args: Any) -> Any:
        from whence.arrays.frames.follow import follow_groups

        return follow_groups(*args)

    def batches(*args: Any) -> Any:
        from whence.arrays.frames.follow import follow_batches

        return follow_batches(*args)

    return Follow(uses_arrays, groups, batches)


def _list_below(given: int | None) -> int:
    """The size of sources below which the mode `auto` lists witnesses."""
    if given is not None:
        if not isinstance(given, int):
            raise SelectionError(f"list_below is a number of bytes, not {given!r}")
        return given
    text = os.environ.get("WHENCE_LIST_BELOW", "")
    if text and not text.isdigit():
        raise SelectionError(f"WHENCE_LIST_BELOW is a number of bytes, not {text!r}")
    return int(text) if text else 64 << 20


def _check_frame(frame: Any) -> None:
    kind = type(frame)
    if "pyspark.sql.connect" in kind.__module__:
        raise UnsupportedError(
            "this frame belongs to a Spark Connect session, whose plans cannot be read from here; "
            "run the pipeline in a classic session (SparkSession.builder.master(...))"
        )
    if not hasattr(frame, "_jdf"):
        raise SelectionError(f"capture takes a Spark DataFrame, not {kind.__name__}")
    if frame.isStreaming:
        raise UnsupportedError(
            "this is a streaming frame; capture inside foreachBatch, or read the data as a batch"
        )
