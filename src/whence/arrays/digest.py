"""Digests: of a function's code, so that views outlive a process; of values, for exact views."""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

_SIMPLE = (int, float, complex, str, bytes, bool, type(None), np.generic)


def function_digest(function: Any) -> str | None:
    """A digest of the code a function runs: its own, and that of the functions it names.

    None if it depends on something that has no stable description (an object in its closure).
    """
    parts: list[str] = [f"numpy {np.__version__}"]
    if not isinstance(function, FunctionType) or not _describe(function, parts, set()):
        return None
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _describe(value: Any, parts: list[str], seen: set[int]) -> bool:
    if id(value) in seen:
        return True
    if isinstance(value, _SIMPLE) or value is Ellipsis:
        parts.append(f"{type(value).__name__} {value!r}")
        return True
    seen.add(id(value))
    if isinstance(value, FunctionType):
        return _describe_function(value, parts, seen)
    if isinstance(value, CodeType):
        return _describe_code(value, parts, seen)
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        parts.append(array_digest([value]))
        return True
    if isinstance(value, tuple | list | frozenset | set):
        listed: Iterable[Any] = (
            sorted(value, key=repr) if isinstance(value, frozenset | set) else value
        )
        parts.append(type(value).__name__)
        return all(_describe(v, parts, seen) for v in listed)
    if isinstance(value, dict):
        return all(_describe(part, parts, seen) for item in value.items() for part in item)
    named = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(value, ModuleType):
        named = value.__name__, str(getattr(value, "__version__", ""))
    elif isinstance(value, np.ufunc):
        named = "numpy", value.__name__
    elif not isinstance(value, type) and not callable(value):
        return False
    if None in named:
        return False
    parts.append(f"{named[0]}.{named[1]}")
    return True


def _describe_function(function: FunctionType, parts: list[str], seen: set[int]) -> bool:
    parts.append(function.__qualname__)
    cells = [c.cell_contents for c in function.__closure__ or ()]
    held = [function.__code__, function.__defaults__, function.__kwdefaults__, *cells]
    fine = all(_describe(v, parts, seen) for v in held)
    return fine and all(_describe(v, parts, seen) for v in _named_globals(function))


def _named_globals(function: FunctionType) -> list[Any]:
    names = code_names(function.__code__)
    found = function.__globals__
    return [found[n] for n in sorted(names) if n in found and not hasattr(builtins, n)]


def code_names(code: CodeType) -> set[str]:
    """The names of globals and attributes in a function's code, also in functions inside it."""
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*(code_names(c) for c in inner))


def _describe_code(code: CodeType, parts: list[str], seen: set[int]) -> bool:
    parts.append(code.co_code.hex())
    parts.append(" ".join(code.co_names + code.co_varnames + code.co_freevars))
    return all(_describe(c, parts, seen) for c in code.co_consts)


def array_digest(arrays: Iterable[np.ndarray[Any, Any]]) -> str:
    """A digest of shapes, types and values."""
    state = hashlib.blake2b(digest_size=16)
    for array in arrays:
        state.update(f"{array.shape}{array.dtype.str}".encode())
        plain = np.ascontiguousarray(array)
        if plain.dtype.hasobject:
            state.update(repr(plain.tolist()).encode())
        elif plain.size and plain.ndim:
            state.update(plain.reshape(-1).view(np.uint8).data)
        else:
            state.update(plain.tobytes())
    return state.hexdigest()
