"""Digests of user code: what a function does, not where it is written.

Digested are the code object, its constants, defaults, what its closure holds, and the functions,
classes and values that it names, each in the same way. What an installed package defines is known
by its name and the package's version, what Python itself defines by its name and Python's version.
File names, line numbers and the function's own name play no part.
"""

from __future__ import annotations

import builtins
import hashlib
import pickle
import sys
from collections.abc import Iterator
from functools import partial
from importlib import metadata
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any

_SIMPLE = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), range)
_PYTHON = f"python {sys.version_info.major}.{sys.version_info.minor}"


def code_digest(function: Any) -> str:
    """The digest of a function, or of any object that is called, as 64 hexadecimal digits."""
    state = hashlib.sha256()
    for part in _Description().of(function):
        data = part.encode()
        state.update(b"%d:" % len(data))
        state.update(data)
    return state.hexdigest()


class _Description:
    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []

    def of(self, value: Any) -> Iterator[str]:
        if isinstance(value, _SIMPLE):
            yield f"{type(value).__name__} {value!r}"
            return
        if id(value) in self._seen:
            yield f"again {self._seen[id(value)]}"
            return
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)  # so that no other object gets its id
        match value:
            case ModuleType():
                yield from self._module(value.__name__)
            case FunctionType():
                yield from self._function(value)
            case CodeType():
                yield from self._code(value)
            case MethodType():
                yield "method"
                yield from self.of(value.__func__)
                yield from self.of(value.__self__)
            case partial():
                yield "partial"
                yield from self._each((value.func, value.args, value.keywords))
            case staticmethod() | classmethod():
                yield type(value).__name__
                yield from self.of(value.__func__)
            case property():
                yield "property"
                yield from self._each((value.fget, value.fset, value.fdel))
            case BuiltinFunctionType():
                yield f"builtin {value.__module__}.{value.__qualname__}"
                yield from self._module(value.__module__ or "builtins")
            case type():
                yield from self._class(value)
            case tuple() | list():
                yield f"{type(value).__name__} {len(value)}"
                yield from self._each(value)
            case set() | frozenset():
                yield f"{type(value).__name__} {len(value)}"
                yield from sorted("\n".join(_Description().of(item)) for item in value)
            case dict():
                yield f"dict {len(value)}"
                for key, item in value.items():
                    yield from self._each((key, item))
            case _:
                yield from self._object(value)

    def _each(self, values: Any) -> Iterator[str]:
        for value in values:
            yield from self.of(value)

    def _module(self, name: str) -> Iterator[str]:
        yield f"module {name} {_version(name) or ''}"

    def _function(self, function: FunctionType) -> Iterator[str]:
        version = _version(function.__module__)
        if version is not None:
            yield f"function {function.__module__}.{function.__qualname__} {version}"
            return
        yield "function"
        yield from self.of(function.__code__)
        yield from self.of(function.__defaults__)
        yield from self.of(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            try:
                yield from self.of(cell.cell_contents)
            except ValueError:
                yield "empty cell"
        names = _names(function.__code__)
        for name in sorted(names):
            if name in function.__globals__:
                yield f"global {name}"
                yield from self._global(function.__globals__[name], names)
            elif hasattr(builtins, name):
                yield f"builtin {name}"

    def _global(self, value: Any, names: set[str]) -> Iterator[str]:
        """A value that code names; of a module of the user's, what else the code names in it."""
        if not isinstance(value, ModuleType) or _version(value.__name__) is not None:
            yield from self.of(value)
            return
        yield f"module {value.__name__}"
        held = vars(value)
        for name in sorted(names & held.keys()):
            yield f"attribute {name}"
            yield from self._global(held[name], names - {name})

    def _code(self, code: CodeType) -> Iterator[str]:
        yield _PYTHON
        yield code.co_code.hex()
        yield code.co_exceptiontable.hex()
        yield " ".join(code.co_names)
        yield " ".join((*code.co_varnames, "/", *code.co_freevars, "/", *code.co_cellvars))
        yield f"{code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount}"
        yield f"{code.co_flags}"
        yield from self._each(code.co_consts)

    def _class(self, kind: type) -> Iterator[str]:
        version = _version(kind.__module__)
        if version is not None:
            yield f"class {kind.__module__}.{kind.__qualname__} {version}"
            return
        yield f"class {kind.__name__} {len(kind.__bases__)}"
        yield from self._each(kind.__bases__)
        for name in sorted(vars(kind)):
            if name not in _CLASS_NOISE:
                yield f"member {name}"
                yield from self.of(vars(kind)[name])

    def _object(self, value: Any) -> Iterator[str]:
        """An instance: its class and its state, or else its pickled bytes."""
        yield "object"
        yield from self.of(type(value))
        state = getattr(value, "__dict__", None)
        if state is not None and _version(type(value).__module__) is None:
            yield from self.of(state)
            return
        try:
            yield pickle.dumps(value, protocol=4).hex()
        except Exception:  # what cannot be pickled is known by its class and what it holds
            yield "opaque"
            yield from self.of(dict(value) if isinstance(value, MappingProxyType) else state)


_CLASS_NOISE = frozenset(
    {
        "__module__",
        "__doc__",
        "__dict__",
        "__weakref__",
        "__slotnames__",  # made when an instance is pickled
        "__qualname__",
        "__firstlineno__",
        "__static_attributes__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
    }
)


def _names(code: CodeType) -> set[str]:
    """Every name that the code, or code inside it, looks up."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*(_names(constant) for constant in inner))


def _version(module: str | None) -> str | None:
    """The version of the package that a module belongs to; None for the user's own modules."""
    top = (module or "__main__").partition(".")[0]
    if top == "__main__":
        return None
    if top in sys.stdlib_module_names or top == "builtins":
        return _PYTHON
    try:
        return metadata.version(top)
    except metadata.PackageNotFoundError:
        loaded = sys.modules.get(top)
        found = getattr(loaded, "__version__", None)
        return None if found is None else str(found)
