"""Whether a function uses tracked arrays: it, or a function it names, calls `whence.arrays`."""

from __future__ import annotations

import sys
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from whence.arrays.capture import TrackedFunction, track, tracked
from whence.arrays.digest import code_names

_LIBRARIES = frozenset({"numpy", "pandas", "pyarrow", "pyspark", "scipy", "sklearn", "whence"})


def uses_arrays(function: Any) -> bool:
    """Whether a tracked function, `track` or `tracked` can be reached from a function's names.

    >>> def f(frame): return tracked(frame["x"])
    >>> uses_arrays(f), uses_arrays(len)
    (True, False)
    """
    return _reaches(function, set())


def _reaches(value: Any, seen: set[int]) -> bool:
    if isinstance(value, TrackedFunction) or value is tracked or value is track:
        return True
    if id(value) in seen:
        return False
    seen.add(id(value))
    if isinstance(value, partial):
        return any(_reaches(v, seen) for v in (value.func, *value.args, *value.keywords.values()))
    if isinstance(value, MethodType):
        return _reaches(value.__func__, seen) or _reaches(value.__self__, seen)
    if isinstance(value, FunctionType):
        return any(_reaches(v, seen) for v in _named(value))
    if isinstance(value, type | ModuleType) or not callable(value):
        return False
    return any(_reaches(v, seen) for v in _parts(value))


def _named(function: FunctionType) -> list[Any]:
    """What a function's code can reach by name: globals, attributes of modules, its closure."""
    if _package(function.__module__) in _LIBRARIES:
        return []
    names = code_names(function.__code__)
    found = [function.__globals__[n] for n in sorted(names) if n in function.__globals__]
    for module in [value for value in found if isinstance(value, ModuleType)]:
        found += _attributes(module, names)
    found += [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    return [*found, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _attributes(module: ModuleType, names: set[str]) -> list[Any]:
    if module.__name__ == "whence" and "arrays" in names:
        module = sys.modules["whence.arrays"]
    if _package(module.__name__) in _LIBRARIES and module.__name__ != "whence.arrays":
        return []
    return [getattr(module, name) for name in sorted(names) if hasattr(module, name)]


def _parts(instance: Any) -> list[Any]:
    """What an object that can be called is made of."""
    held = list(getattr(instance, "__dict__", {}).values())
    return [*held, *(c.__dict__["__call__"] for c in type(instance).__mro__ if _calls(c))]


def _calls(kind: type) -> bool:
    return isinstance(kind.__dict__.get("__call__"), FunctionType)


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _package(name: str | None) -> str:
    return (name or "").partition(".")[0]
