"""Digests of user code: what a function does, not where it is written.

Digested are the code object, its constants, defaults, attributes, what its closure holds, and the
functions, classes and values that it names or imports, each in the same way. What an installed
package defines is known by its name and the package's version, what Python itself defines by its
name and Python's version; but what an object of such a class holds is digested like all else.
File names, line numbers and the function's own name play no part.
"""

from __future__ import annotations

import builtins
import copyreg
import gc
import hashlib
import sys
import warnings
import weakref
from collections.abc import Iterator
from functools import lru_cache, partial
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

from whence.spark.imports import PYTHON, find, imported, inner_codes, source, version

_SIMPLE = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range)
_BUILT_IN = (
    *_SIMPLE,
    tuple,
    list,
    set,
    frozenset,
    dict,
    FunctionType,
    CodeType,
    MethodType,
    partial,
    staticmethod,
    classmethod,
    property,
    BuiltinFunctionType,
)
_CACHED = type(lru_cache(len))
_WEAK = (weakref.ref, weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)
_EMPTY: dict[str, Any] = {}
_VIEWS = (MappingProxyType, *map(type, (_EMPTY.keys(), _EMPTY.values(), _EMPTY.items())))
_LONG = 1024
_Parts = Iterator["str | _Parts"]


def code_digest(function: Any) -> str:
    """The digest of a function, or of any object that is called, as 64 hexadecimal digits."""
    state = hashlib.sha256()
    for part in _texts(_Description().of(function)):
        data = part.encode()
        state.update(b"%d:" % len(data))
        state.update(data)
    return state.hexdigest()


def _texts(parts: _Parts) -> Iterator[str]:
    """The texts in parts and in parts of parts, without recursion: what is held can be deep."""
    pending = [parts]
    while pending:
        for part in pending[-1]:
            if isinstance(part, str):
                yield part
            else:
                pending.append(part)
                break
        else:
            pending.pop()


class _Description:
    """The parts of a value as text; what was met before is known by its number."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []
        self._sources: dict[str, CodeType | bytes] = {}

    def of(self, value: Any) -> _Parts:
        if type(value) in _SIMPLE:
            yield _simple(type(value), value)
            return
        if id(value) in self._seen:
            yield f"again {self._seen[id(value)]}"
            return
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)  # so that no other object gets its id
        kind = type(value)  # not `isinstance`: a proxy may claim to be what it stands for
        if issubclass(kind, ModuleType):
            yield self._module(value)
        elif issubclass(kind, type):
            yield self._class(value)
        elif issubclass(kind, _BUILT_IN):
            yield self._built_in(value)
            if kind not in _BUILT_IN:
                yield self._added(value)
        elif isinstance(value, _CACHED):
            yield "cached"
            yield self.of(value.__wrapped__)
        else:
            yield self._object(value)

    def _each(self, values: Any) -> _Parts:
        for value in values:
            yield self.of(value)

    def _built_in(self, value: Any) -> _Parts:
        match value:
            case tuple() | list():
                items = _items(value)
                yield f"{type(value).__name__} {len(items)}"
                yield self._each(items)
            case dict():
                pairs = list(dict.items(value))
                yield f"dict {len(pairs)}"
                yield from map(self._each, pairs)
            case set() | frozenset():
                yield f"{type(value).__name__} {len(_items(value))}"
                yield from sorted("\n".join(_texts(self._apart(i))) for i in _items(value))
            case FunctionType():
                yield self._function(value)
            case CodeType():
                yield self._code(value)
            case MethodType():
                yield "method"
                yield self._each((value.__func__, value.__self__))
            case partial():
                yield "partial"
                yield self._each((value.func, value.args, value.keywords))
                if vars(value):
                    yield self.of(vars(value))
            case staticmethod() | classmethod():
                yield type(value).__name__
                yield self.of(value.__func__)
            case property():
                yield "property"
                yield self._each((value.fget, value.fset, value.fdel))
            case BuiltinFunctionType():
                yield f"builtin {value.__module__}.{value.__qualname__}"
                yield _named_module(value.__module__ or "builtins")
                if not isinstance(value.__self__, ModuleType | None):
                    yield self.of(value.__self__)
            case _:
                yield _simple(next(k for k in _SIMPLE if isinstance(value, k)), value)

    def _apart(self, value: Any) -> _Parts:
        """A member of a set: described as if the others had not been, since they have no order."""
        other = _Description()
        other._seen, other._kept = dict(self._seen), self._kept
        other._sources = self._sources
        return other.of(value)

    def _module(self, module: ModuleType) -> _Parts:
        """A module that is held as a value: of one of the user's, all that is in it."""
        yield _named_module(module.__name__)
        if version(module.__name__) is None:
            for name in sorted(vars(module)):
                if not name.startswith("__"):
                    yield f"attribute {name}"
                    yield self.of(vars(module)[name])

    def _function(self, function: FunctionType) -> _Parts:
        found = version(function.__module__)
        if found is not None:
            yield f"function {function.__module__}.{function.__qualname__} {found}"
            if "<locals>" in function.__qualname__:
                yield self._held(function, set())
            return
        if function.__code__.co_qualname == "singledispatch.<locals>.wrapper":
            yield "singledispatch"
            yield self.of(dict(vars(function)["registry"]))
            return
        yield "function"
        yield self.of(function.__code__)
        names = _names(function.__code__)
        yield self._held(function, names)
        for name in sorted(names):
            if name in function.__globals__:
                yield f"global {name}"
                yield self._global(function.__globals__[name], names)
            elif hasattr(builtins, name):
                yield f"builtin {name}"
        yield self._imports(function.__code__, function.__globals__.get("__package__"))
        if vars(function):
            yield "attributes"
            yield self.of(vars(function))

    def _held(self, function: FunctionType, names: set[str]) -> _Parts:
        """What a function has beside its code."""
        yield self.of(function.__defaults__)
        yield self.of(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            try:
                yield self._global(cell.cell_contents, names)
            except ValueError:
                yield "empty cell"

    def _global(self, value: Any, names: set[str]) -> _Parts:
        """A value that code names; of a module of the user's, what else the code names in it."""
        if not isinstance(value, ModuleType) or version(value.__name__) is not None:
            yield self.of(value)
            return
        yield f"module {value.__name__}"
        held = vars(value)
        for name in sorted(names & held.keys()):
            yield f"attribute {name}"
            yield self._global(held[name], names - {name})

    def _imports(self, code: CodeType, package: str | None) -> _Parts:
        """The modules that code imports when it runs."""
        for name in imported(code, package or ""):
            loaded = sys.modules.get(name)
            if version(name) is not None:
                yield _named_module(name)
            elif loaded is not None:
                yield f"import {name}"
                yield self._global(loaded, _names(code))
            else:
                yield self._source(name)

    def _source(self, name: str) -> _Parts:
        """A module of the user's that is not loaded, by its source; it may be no module at all."""
        spec = find(name)
        if spec is None:
            return
        yield f"source {name}"
        if name not in self._sources:
            self._sources[name] = source(spec)
        found = self._sources[name]
        known = id(found) in self._seen
        yield self.of(found)
        if isinstance(found, CodeType) and not known:
            yield self._imports(found, spec.parent)

    def _code(self, code: CodeType) -> _Parts:
        yield PYTHON
        yield code.co_code.hex()
        yield code.co_exceptiontable.hex()
        yield " ".join(code.co_names)
        yield " ".join((*code.co_varnames, "/", *code.co_freevars, "/", *code.co_cellvars))
        yield f"{code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount}"
        yield f"{code.co_flags}"
        yield self._each(code.co_consts)

    def _class(self, kind: type) -> _Parts:
        found = version(kind.__module__)
        if found is not None:
            yield f"class {kind.__module__}.{kind.__qualname__} {found}"
            return
        yield f"class {kind.__name__} {len(kind.__bases__)}"
        yield self._each(kind.__bases__)
        for name in sorted(vars(kind)):
            if name not in _CLASS_NOISE:
                yield f"member {name}"
                yield self.of(vars(kind)[name])
        if type(kind) is not type:
            yield "metaclass"
            yield self.of(type(kind))

    def _added(self, value: Any) -> _Parts:
        """What an instance of a subclass has beside what the built-in class keeps."""
        yield "object"
        yield self.of(type(value))
        yield self._state(value)

    def _object(self, value: Any) -> _Parts:
        """An instance: its class and its state; what a package keeps in it, as it is pickled."""
        yield "object"
        yield self.of(type(value))
        if isinstance(value, _WEAK):
            return  # a cache, or what somebody else holds
        if version(type(value).__module__) is None:
            yield self._state(value)
            if all(version(base.__module__) is None for base in type(value).__mro__[:-1]):
                return
        found = _reduced(value)
        if isinstance(found, tuple):
            yield self._each(found)
        else:
            yield found
            yield self._opaque(value)

    def _state(self, value: Any) -> _Parts:
        """Attributes and slots."""
        held = getattr(value, "__dict__", None)
        if held is not None:
            yield self.of(held)
        for name, found in _members(value, MemberDescriptorType):
            yield f"slot {name}"
            yield self.of(found)

    def _opaque(self, value: Any) -> _Parts:
        """What cannot be taken apart: what it shows, and the functions that it refers to."""
        if type(value) in _VIEWS:
            yield self.of(dict(value) if type(value) is MappingProxyType else list(value))
            return
        yield self._state(value)
        for name, found in _members(value, GetSetDescriptorType):
            if type(found) in _SIMPLE and not name.startswith("__"):
                yield f"shows {name} {_simple(type(found), found)}"
        held = gc.get_referents(value)
        yield self._each(item for item in held if isinstance(item, FunctionType | MethodType))


_CLASS_NOISE = frozenset(
    {
        "__module__",
        "__doc__",
        "__dict__",
        "__weakref__",
        "__slotnames__",  # made when an instance is pickled
        "_abc_impl",  # remembers what isinstance was asked
        "__qualname__",
        "__firstlineno__",
        "__static_attributes__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
    }
)


def _simple(kind: Any, value: Any) -> str:
    """A simple value, whatever a subclass says of itself; of much data, the digest."""
    if kind is bytes and len(value) > _LONG:
        return f"bytes {len(value)} {hashlib.sha256(value).hexdigest()}"
    return f"{kind.__name__} {kind.__repr__(value)}"


def _members(value: Any, kind: Any) -> Iterator[tuple[str, Any]]:
    """The members of an object that its classes describe in one way, in a fixed order."""
    for base in type(value).__mro__:
        for name, member in sorted(vars(base).items()):
            if isinstance(member, kind):
                try:
                    yield name, member.__get__(value, type(value))
                except Exception:
                    yield name, "no value"


def _items(value: Any) -> list[Any]:
    """What a built-in collection holds, whatever a subclass says of itself."""
    base: Any = next(kind for kind in (tuple, list, set, frozenset) if isinstance(value, kind))
    return list(base.__iter__(value))


def _named_module(name: str) -> str:
    return f"module {name} {version(name) or ''}"


def _names(code: CodeType) -> set[str]:
    """Every name that the code, or code inside it, looks up."""
    return {name for part in inner_codes(code) for name in part.co_names}


def _reduced(value: Any) -> tuple[Any, ...] | str:
    """What pickle would make of an object: its parts, or else a word on why there are none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reduce = copyreg.dispatch_table.get(type(value))
            found = value.__reduce_ex__(4) if reduce is None else reduce(value)
            if isinstance(found, str):
                return f"named {getattr(value, '__module__', '')}.{found}"
            return tuple(list(part) if isinstance(part, Iterator) else part for part in found)
    except Exception:
        return "opaque"
