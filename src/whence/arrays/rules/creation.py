"""Functions that make arrays without asking their arguments: replaced while a tracked call runs.

`np.asarray(x)` offers no dispatch on x, and `np.zeros(n)` has nothing to dispatch on. While at
least one tracked call runs, NumPy's module has a class with wrappers under these names: they
forward, unless the call comes from the tracked code and involves a tracked array (or makes a blank
one). Libraries that the tracked code uses get the original, so nothing changes for them. To change
the class of a module takes a tenth of the time that putting fifteen names into it takes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from functools import partial, wraps
from importlib import import_module
from itertools import repeat
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from whence.arrays.forms import identity, reshaped
from whence.arrays.graph import Edge
from whence.arrays.rules.arguments import of_list, parameters, settled
from whence.arrays.rules.base import all_cells, finish, same_cells
from whence.arrays.rules.brackets import Brackets
from whence.arrays.rules.flat import Flat
from whence.arrays.rules.strided import is_interface, laid_out_anew
from whence.arrays.session import Session
from whence.arrays.tracked import STRIDES, TrackedArray, raw, tracked_in
from whence.errors import ArrayError

current: ContextVar[Session | None] = ContextVar("whence_arrays_session", default=None)

_ARRAYS = (TrackedArray, np.ndarray, np.generic)
_lock = threading.Lock()
_running = 0
_own_class = type(np)

_CONVERTING = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray")
_CHECKING = ("asarray_chkfinite", "require")
_UNIT = ("eye", "identity")
_BLANK = ("zeros", "ones", "empty", "full", *_UNIT)
_JOINING = ("r_", "c_")
_LIKE = ("zeros_like", "ones_like", "empty_like", "full_like")
_original: dict[str, Any] = {
    name: getattr(np, name)
    for name in (
        *_CONVERTING,
        *_CHECKING,
        *_BLANK,
        *_LIKE,
        "arange",
        "isscalar",
        "nditer",
        *_JOINING,
    )
}


def _served(frame: FrameType) -> bool:
    """Whether the caller belongs to the tracked code; other libraries get the original."""
    session = current.get()
    name = frame.f_globals.get("__name__", "")
    if session is None:
        return False
    if frame.f_code is STRIDES:
        return True
    return name in session.packages or name.partition(".")[0] in session.packages


def _converting(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def convert(*args: Any, **kwargs: Any) -> Any:
        if not _served(sys._getframe(1)):
            return original(*args, **kwargs)
        if args and type(args[0]) is Flat:
            args = (args[0].copy(), *args[1:])
        if args and _in_frames():
            args = (_taken_out(args[0]), *args[1:])
        elif args and is_interface(args[0]):
            return laid_out_anew(original, args[0])
        elif args and _wraps(args[0]) and type(given := args[0].__array__()) is TrackedArray:
            args = (given, *args[1:])
        if args and type(args[0]) is TrackedArray:
            return _same_cells(original, args, kwargs)
        if args and type(args[0]) in (list, tuple) and tracked_in(args[0]):
            return _of_list(original, args, kwargs)
        return original(*args, **kwargs)

    return convert


def _wraps(value: Any) -> bool:
    """Whether a value is no array and gives one: of a tracked one NumPy would say it is none."""
    return hasattr(type(value), "__array__") and not isinstance(value, _ARRAYS)


def _in_frames() -> bool:
    session = current.get()
    return session is not None and session.frames


def _taken_out(value: Any) -> Any:
    """The tracked array in a column of a frame."""
    from whence.arrays.frames.column import unwrapped

    return unwrapped(value)


def _plain(
    original: Callable[..., Any], args: Any, kwargs: Any, found: Sequence[TrackedArray]
) -> Any:
    """What the function gives for plain values; an error is a branch on the tracked ones."""
    try:
        return original(*raw(args), **raw(kwargs))
    except Exception as error:
        found[0].session_.raised(error, found)
        raise


def _of_list(original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    found = tracked_in(args[0])
    result = _plain(original, args, kwargs, found)
    return of_list(found[0].session_, result, args[0], original.__name__)


def _same_cells(original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    array = args[0]
    result = _plain(original, args, kwargs, [array])
    if result is array.data_:
        return array
    if result.shape == array.data_.shape:
        edge = Edge(array.node_, partial(identity, result.shape))
    else:  # ndmin
        edge = Edge(array.node_, partial(reshaped, result.shape, array.data_.shape))
    return finish(array.session_, result, [edge], original.__name__, (array,))


def blank(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """zeros, zeros_like and kin: of a prototype the shape is used, not the values.

    A unit matrix of truth values is a mask that sizes tell, and stays plain.
    """
    result = _original[func.__name__](*raw(args), **raw(kwargs))
    if func.__name__ in _UNIT and result.dtype == bool and not session.deciding:
        return result
    first = [*args[:1], kwargs.get("a"), kwargs.get("prototype")]
    rest = (args[1:], {k: v for k, v in kwargs.items() if k not in ("a", "prototype")})
    edges = [same_cells(t, result.shape) for t in tracked_in(rest)]
    shapes = [t.node_.loose for t in tracked_in(first) if t.node_.loose is not None]
    return finish(session, result, edges, func.__name__, rest, shapes)


def _blank(original: Callable[..., Any]) -> Callable[..., Any]:
    rule = settled(blank, parameters(original))

    @wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        session, caller = current.get(), sys._getframe(1)
        if session is None or not _served(caller) or not _names(caller, original):
            return original(*args, **kwargs)
        try:
            return rule(session, original, args, kwargs)
        except Exception as error:
            session.raised(error, tracked_in([args, kwargs]))
            raise

    return make


def _ranging(original: Callable[..., Any]) -> Callable[..., Any]:
    """`np.arange` of tracked times; of tracked numbers it asks for plain ones by itself."""

    @wraps(original)
    def arange(*args: Any, **kwargs: Any) -> Any:
        found = tracked_in([args, kwargs])
        times = any(t.data_.dtype.kind in "mM" for t in found)
        if not times or not _served(sys._getframe(1)):
            return original(*args, **kwargs)
        result = _plain(original, args, kwargs, found)
        places = ("start", "stop", "step") if len(args) > 1 else ("stop",)
        given = {**dict(zip(places, args, strict=False)), **kwargs}
        edges = [
            all_cells(t, result.shape, name != "stop")
            for name, value in given.items()
            for t in tracked_in(value)
        ]
        sized_by = [t.node_ for t in found]
        return finish(found[0].session_, result, edges, "arange", args, sized_by)

    return arange


def _asking(original: Callable[..., Any]) -> Callable[..., Any]:
    """`np.isscalar` of a tracked number says what it says of a number."""

    @wraps(original)
    def isscalar(element: Any) -> bool:
        if type(element) is TrackedArray:
            return bool(element.scalar_)
        return bool(original(element))

    return isscalar


def _iterating(original: Callable[..., Any]) -> Callable[..., Any]:
    """`np.nditer` writes into memory by itself, which nobody would see."""

    @wraps(original)
    def nditer(op: Any, flags: Any = None, op_flags: Any = None, *args: Any, **more: Any) -> Any:
        several = type(op) in (list, tuple)
        told = op_flags or ()
        each = told if several and told and type(told[0]) is not str else repeat(told)
        for operand, words in zip(op if several else [op], each, strict=False):
            if type(operand) is TrackedArray and {"readwrite", "writeonly"} & set(words):
                raise ArrayError(
                    "np.nditer cannot write into a tracked array; loop over np.ndindex(x.shape), "
                    "or let it allocate its result (None)"
                )
        return original(op, flags, op_flags, *args, **more)

    return nditer


def _names(caller: FrameType, function: Callable[..., Any]) -> bool:
    """Whether the caller's code names a function.

    Code in C (a generator of random numbers, say) has no frame: the frame is that of its caller.
    """
    return function.__name__ in caller.f_code.co_names


class _Followed(ModuleType):
    """NumPy while a tracked call runs."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        """Some pickle modules by their exact class."""
        return import_module, (self.__name__,)


def _attribute(name: str, wrapper: Any) -> property:
    """A wrapper in place of what the module has, for the tracked code.

    Others find the original: libraries that are imported meanwhile would keep the wrapper, and
    pickling in another thread would not know it. What somebody else has put there is left to them;
    who puts back what was found before, as patches do, puts back the original.
    """
    original = _original[name]

    def find(module: ModuleType) -> Any:
        try:
            found = module.__dict__[name]
        except KeyError:
            raise AttributeError(f"module 'numpy' has no attribute {name!r}") from None
        return wrapper if found is original and _served(sys._getframe(1)) else found

    def change(module: ModuleType, value: Any) -> None:
        module.__dict__[name] = original if value is wrapper else value

    def remove(module: ModuleType) -> None:
        find(module)
        del module.__dict__[name]

    return property(find, change, remove)


for _name in (*_CONVERTING, *_CHECKING):
    setattr(_Followed, _name, _attribute(_name, _converting(_original[_name])))
for _name in (*_BLANK, *_LIKE):
    setattr(_Followed, _name, _attribute(_name, _blank(_original[_name])))
for _name, _wrapped in (("arange", _ranging), ("isscalar", _asking), ("nditer", _iterating)):
    setattr(_Followed, _name, _attribute(_name, _wrapped(_original[_name])))

for _name in _JOINING:
    setattr(_Followed, _name, _attribute(_name, Brackets(_original[_name], _name)))


def enter(session: Session) -> Token[Session | None]:
    """Let a tracked call run here; the first one puts the wrappers in place."""
    global _running
    _lock.acquire()  # not `with`, which takes three times as long
    try:
        _running += 1
        if _running == 1:
            np.__class__ = _Followed
    finally:
        _lock.release()
    return current.set(session)


def leave(token: Token[Session | None]) -> None:
    """End a tracked call; the last one takes the wrappers away."""
    global _running
    current.reset(token)
    _lock.acquire()
    try:
        _running -= 1
        if _running == 0:
            np.__class__ = _own_class
    finally:
        _lock.release()
