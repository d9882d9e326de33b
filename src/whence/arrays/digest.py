"""Digests: of a function's code, so that views outlive a process; of values, for exact views.

A function is described by its bytecode and by all that it reaches by name: globals, its closure,
defaults, attributes of modules, the functions and classes among them. Libraries are described by
their version. Values may change while a program runs, so a digest is taken anew for each call.
"""

from __future__ import annotations

import dis
import hashlib
import sys
import sysconfig
from collections.abc import Hashable, Iterable
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from itertools import pairwise
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

import numpy as np

from whence.arrays.viewstore import FORMAT

_SIMPLE = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), np.generic, np.dtype)
_NAMED = (
    np.ufunc,
    type(np.sum),
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
# what gives something else each time, or looks at what is outside the program
_UNSTEADY = frozenset(
    {
        *("builtins.__import__", "builtins.eval", "builtins.exec", "builtins.globals"),
        *("builtins.input", "builtins.open", "importlib.import_module", "sys.getrecursionlimit"),
        *("numpy.get_printoptions", "numpy.geterr", "numpy.geterrcall", "numpy.getbufsize"),
        *("numpy.fromfile", "numpy.genfromtxt", "numpy.load", "numpy.loadtxt", "numpy.memmap"),
        *("datetime", "numpy.random", "os.environ", "os.getenv", "random", "secrets", "time"),
        "uuid",
    }
)
# what a class holds that says nothing about what it does
_INCIDENTAL = frozenset(
    {"__annotations__", "__dict__", "__doc__", "__firstlineno__", "__module__", "__weakref__"}
)


_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"})


class _Unsteady(Exception):
    """Something has no stable description."""


def function_digest(function: Any) -> str | None:
    """A digest of the code a function runs: its own, and that of the functions it names.

    None if it depends on something that has no stable description: an object in its closure,
    random numbers, a global that it sets.
    """
    if not isinstance(function, FunctionType):
        return None
    description = _Description()
    try:
        description.add(function)
    except _Unsteady:
        return None
    text = "\n".join([f"numpy {np.__version__}", f"views {FORMAT}", *description.parts])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class _Description:
    """Lines of text; what is described already is referred to by its number."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._seen: dict[Hashable, int] = {}

    def add(self, value: Any) -> None:
        """Describe a value and all that it is made of."""
        if isinstance(value, _SIMPLE):
            self.parts.append(f"{type(value).__qualname__} {value!r}")
        elif not self._is_known(id(value)):
            self._add_new(value)

    def _is_known(self, key: Hashable) -> bool:
        if key in self._seen:
            self.parts.append(f"see {self._seen[key]}")
            return True
        self._seen[key] = len(self._seen)
        return False

    def _add_new(self, value: Any) -> None:
        match value:
            case FunctionType():
                self._function(value)
            case ModuleType():
                self._module(value, ())
            case type():
                self._class(value)
            case tuple() | list():
                self._listed(type(value).__qualname__, value)
            case set() | frozenset():
                self._listed("set", sorted(value, key=repr))
            case dict():
                self._listed("dict", [part for item in value.items() for part in item])
            case slice() | range():
                self._listed(type(value).__name__, (value.start, value.stop, value.step))
            case np.ndarray() if not value.dtype.hasobject:
                self.parts.append(array_digest([value]))
            case _:
                self._callable(value)

    def _listed(self, title: str, values: Iterable[Any]) -> None:
        self.parts.append(f"{title} (")
        for value in values:
            self.add(value)
        self.parts.append(")")

    def _function(self, function: FunctionType) -> None:
        cells = [_contents(cell) for cell in function.__closure__ or ()]
        if _is_library(function.__globals__.get("__name__", "")):  # it may wrap a function
            self._listed(_title(function), cells)
            return
        found = _read(function.__code__)
        if found.changes:
            raise _Unsteady
        held = (function.__defaults__, function.__kwdefaults__, vars(function))
        self._listed(f"{function.__qualname__} {found.digest}", held)
        reached = [
            *zip(function.__code__.co_freevars, cells, strict=True),
            *((n, function.__globals__[n]) for n in found.names if n in function.__globals__),
        ]
        for name, value in reached:
            if name in found.whole and isinstance(value, ModuleType):
                self._module(value, ("__dict__",))
            self._attribute(name, value, found.names)
        for name in found.names:
            if name in function.__globals__:
                continue
            if f"builtins.{name}" in _UNSTEADY:
                raise _Unsteady

    def _attribute(self, name: str, value: Any, names: tuple[str, ...]) -> None:
        """What a name stands for; of a module, what the names in the same code stand for."""
        self.parts.append(f"{name} =")
        if isinstance(value, ModuleType):
            self._module(value, names)
        else:
            self.add(value)

    def _module(self, module: ModuleType, names: tuple[str, ...]) -> None:
        title, library = module.__name__, _is_library(module.__name__)
        if title in _UNSTEADY or any(f"{title}.{name}" in _UNSTEADY for name in names):
            raise _Unsteady
        self.parts.append(f"module {title} {getattr(module, '__version__', '')}")
        if not library and (not names or "__dict__" in names):
            raise _Unsteady  # what is taken from it cannot be told
        if self._is_known((id(module), names)):
            return
        for name in names:
            value = vars(module).get(name)
            if isinstance(value, ModuleType) or (name in vars(module) and not library):
                self._attribute(name, value, names)

    def _class(self, kind: type) -> None:
        if _is_library(kind.__module__):
            self.parts.append(_title(kind))
            return
        held = [item for item in vars(kind).items() if item[0] not in _INCIDENTAL]
        self._listed(_title(kind), [*kind.__bases__, *(part for item in held for part in item)])

    def _callable(self, value: Any) -> None:
        """Things that are called and are no plain functions, by what they call."""
        match value:
            case MethodType():
                self._listed("method", (value.__func__, value.__self__))
            case partial():
                self._listed("partial", (value.func, value.args, value.keywords))
            case property():
                self._listed("property", (value.fget, value.fset, value.fdel))
            case _ if _title(value) in _UNSTEADY:
                raise _Unsteady
            case BuiltinFunctionType() if isinstance(value.__self__, ModuleType | type):
                self._listed(_title(value), (value.__self__,))
            case _ if isinstance(value, _NAMED):
                self.parts.append(_title(value))
            case _ if _is_library(type(value).__module__) and hasattr(value, "__wrapped__"):
                self._listed(_title(type(value)), (value.__wrapped__,))
            case _:
                raise _Unsteady


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing is in it yet
        return None


def _title(value: Any) -> str:
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    return f"{getattr(value, '__module__', '')}.{name}"


@cache
def _is_library(module: str) -> bool:
    """Whether a module belongs to Python, to an installed package or to this one."""
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names or package == __name__.partition(".")[0]:
        return True
    if package == "__main__":
        return False
    try:
        found = sys.modules.get(package) or find_spec(package)
    except (ImportError, ValueError):
        return False
    file = getattr(found, "__file__", None) or getattr(found, "origin", None) or ""
    return file.startswith(tuple(sysconfig.get_paths()[k] for k in ("purelib", "platlib")))


class _Code(NamedTuple):
    """What bytecode says, with the functions inside it."""

    digest: str
    names: tuple[str, ...]
    whole: frozenset[str]
    """Names whose values are used as such, and not only to take an attribute."""
    changes: bool


@lru_cache(maxsize=1024)
def _read(code: CodeType) -> _Code:
    text: list[str] = []
    _spell(code, text)
    digest = hashlib.sha256("\n".join(text).encode()).hexdigest()[:32]
    changes = any(_changes(step, name, code) for step, name in _steps(code))
    return _Code(digest, tuple(sorted(code_names(code))), frozenset(_whole(code)), changes)


def _whole(code: CodeType) -> Iterable[str]:
    """The globals and variables of outer functions that are loaded for more than an attribute."""
    steps = list(dis.get_instructions(code))
    for step, following in pairwise(steps):  # the last one returns
        if step.opname in _LOADS and following.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            yield str(step.argval)
    for inner in _inner(code):
        yield from _whole(inner)


def _changes(step: str, name: Any, code: CodeType) -> bool:
    """Whether a step sets what outlives a call, or brings in code that is not known before."""
    match step:
        case "STORE_GLOBAL" | "DELETE_GLOBAL":
            return True
        case "STORE_DEREF" | "DELETE_DEREF":
            return name in code.co_freevars
        case "IMPORT_NAME":
            return name in _UNSTEADY or not _is_library(name)
        case "IMPORT_FROM":
            return name in _UNSTEADY
        case _:
            return False


def _steps(code: CodeType) -> Iterable[tuple[str, Any]]:
    yield from ((step.opname, step.argval) for step in dis.get_instructions(code))
    for inner in _inner(code):
        yield from _steps(inner)


def _spell(code: CodeType, text: list[str]) -> None:
    shape = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    text.append(f"{shape} {names} {code.co_code.hex()} {code.co_exceptiontable.hex()}")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _spell(constant, text)
        else:
            listed = sorted(constant, key=repr) if isinstance(constant, frozenset) else constant
            text.append(f"{type(constant).__name__} {listed!r}")


def _inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def code_names(code: CodeType) -> set[str]:
    """The names of globals and attributes in a function's code, also in functions inside it."""
    return set(code.co_names).union(*(code_names(inner) for inner in _inner(code)))


def array_digest(arrays: Iterable[np.ndarray[Any, Any]]) -> str:
    """A digest of shapes, types and values."""
    state = hashlib.blake2b(digest_size=16)
    for array in arrays:
        state.update(f"{array.shape}{array.dtype}".encode())
        plain = np.ascontiguousarray(array)
        if plain.dtype.hasobject:
            state.update(repr(plain.tolist()).encode())
        elif plain.size and plain.ndim:
            state.update(plain.reshape(-1).view(np.uint8).data)
        else:
            state.update(plain.tobytes())
    return state.hexdigest()
