"""Functions as bytes, by value where a worker or a later process could not import them."""

from __future__ import annotations

from typing import Any

from pyspark import cloudpickle

from whence.errors import ArrayError, EngineError


def dumps(value: Any) -> bytes:
    """A value as bytes."""
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:
        raise ArrayError(f"the function and its arguments cannot be stored: {error}") from error


def loads(data: bytes) -> Any:
    """The value that `dumps` wrote; as with all pickles, only of archives that are trusted."""
    try:
        return cloudpickle.loads(data)
    except Exception as error:
        raise EngineError(f"a stored function cannot be read: {error}") from error
