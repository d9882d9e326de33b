"""`track`, `tracked` and `provenance`: how functions and arrays are followed."""

from __future__ import annotations

import contextlib
import inspect
import weakref
from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any

import numpy as np

from whence.arrays.call import Call, with_steering
from whence.arrays.graph import Input, Node, leaves
from whence.arrays.known import known, only
from whence.arrays.provenance import Provenance
from whence.arrays.rules import creation
from whence.arrays.session import Session
from whence.arrays.tracked import TrackedArray, new, tracked_in
from whence.errors import ArrayError

_prompt: list[weakref.ref[Session]] = []
_named: weakref.WeakValueDictionary[str, Node] = weakref.WeakValueDictionary()
_NESTING = frozenset({list, tuple, dict})


def tracked(array: Any, name: str = "a") -> TrackedArray:
    """Follow an array interactively; `provenance` of anything computed from it refers to `name`.

    If an array of that name is still followed, the new one is called `name-2`, and so on.
    """
    if type(array) is TrackedArray:
        return array
    session = creation.current.get()
    if session is not None and session.frames:
        from whence.arrays.frames.column import unwrapped

        array = unwrapped(array)
        if type(array) is TrackedArray:
            return array
    data = np.array(array)
    if session is not None:  # inside a tracked call: an array without provenance of its own
        return TrackedArray(data, Node(data.shape, session.tainted(data.shape), "tracked"), session)
    node = Input(data.shape, _own_name(name))
    _named[str(node.label)] = node
    return TrackedArray(data, node, _prompt_session())


def _own_name(name: str) -> str:
    number, found = 2, name
    while found in _named:
        found, number = f"{name}-{number}", number + 1
    return found


def _prompt_session() -> Session:
    """One session for all interactive use, as a value that leaves one array may enter another.

    It goes when no tracked array is left.
    """
    session = _prompt[0]() if _prompt else None
    if session is None:
        session = Session(lasting=True)
        _prompt[:] = [weakref.ref(session)]
    return session


def provenance(result: Any) -> Provenance:
    """The provenance of an array that a tracked function returned, or of a tracked array."""
    if type(result) is TrackedArray:
        node = with_steering(result.node_, result.session_)
        return Provenance(node, {n: leaf.shape for n, leaf in leaves(node).items()}, "array")
    if (found := known(result)) is not None:
        return found
    raise ArrayError(
        f"no provenance is known for this {type(result).__name__}; expected an array (or NumPy "
        "number) as returned by a function under @whence.arrays.track, or a tracked array; the "
        "`.last` of a tracked function has the provenance of its last call"
    )


class TrackedFunction:
    """A function whose array results have provenance. Calling it gives what the function gives."""

    def __init__(self, function: Callable[..., Any], follow: tuple[str, ...], views: Any) -> None:
        update_wrapper(self, function)
        self.__name__ = str(getattr(function, "__name__", type(function).__name__))
        with contextlib.suppress(TypeError, ValueError):  # what PySpark asks before it takes it
            self.__signature__ = inspect.signature(function)
        self.function = function
        self.views = views
        self.last: Any = None
        package = (getattr(function, "__module__", None) or "").partition(".")[0]
        self._packages = frozenset({package, *follow}) - {"numpy", ""}
        self.names, self._rest = _parameters(function)
        self._named = len(self.names)

    def __getstate__(self) -> dict[str, Any]:
        """All but what the last call recorded: that can be large, and belongs to this process."""
        return {**self.__dict__, "last": None}

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives; `provenance` of it tells where its cells come from."""
        session = creation.current.get()
        if session is not None:
            return self._within(session, args, kwargs)
        for value in args:
            kind = type(value)
            if kind is TrackedArray or (kind in _NESTING and tracked_in(value)):
                return self.function(*args, **kwargs)
        if kwargs and tracked_in(kwargs):
            return self.function(*args, **kwargs)
        if self.views is not None:
            return self.views.call(self, args, kwargs)
        return self.run(args, kwargs)[0]

    def _within(self, session: Session, args: Any, kwargs: Any) -> Any:
        """Part of a larger tracked call, whose arrays it may reach."""
        session.packages |= self._packages
        if session.frames:  # the columns of a frame are followed already
            from whence.arrays.frames.column import unwrapped

            return self.function(*unwrapped(args), **unwrapped(kwargs))
        return self.function(*args, **kwargs)

    def run(self, args: Any, kwargs: Any) -> tuple[Any, Call]:
        """Call with tracking; gives the result and what was recorded."""
        call = new(Call)
        call.function, call.packages, call.args = self, self._packages, args
        own_args = call.admit(args)
        own_kwargs = call.admit_named(kwargs) if kwargs else kwargs
        if len(call.shapes) > 1:
            call.link_inputs(own_args, own_kwargs)
        token = creation.enter(call)
        try:
            result = self.function(*own_args, **own_kwargs)
        finally:
            call.over = True
            creation.leave(token)
            if call.lent:
                call.give_back()
        given = call.hand_out(result)
        if call.held:
            call.release([*call.inputs.values(), *call.results])
        answers = call.answers
        self.last = answers[""] if "" in answers else only(answers.values())
        return given, call

    def name_arguments(self, args: Any) -> list[str]:
        """A name for every positional argument; there may be more names."""
        names = self.names
        while len(names) < len(args):
            names.append(f"{self._rest}[{len(names) - self._named}]")
        return names

    def __repr__(self) -> str:
        return f"track({self.function!r})"


def _parameters(function: Callable[..., Any]) -> tuple[list[str], str]:
    """Names of positional parameters, and of the one that takes the rest."""
    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [], "args"
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in listed if p.kind in positional]
    rest = [p.name for p in listed if p.kind is inspect.Parameter.VAR_POSITIONAL]
    return names, rest[0] if rest else "args"


def track(
    function: Callable[..., Any] | None = None,
    *,
    follow: tuple[str, ...] = (),
    views: Any = None,
) -> Any:
    """Follow a function of arrays; `follow` names other packages whose NumPy code takes part.

    The function's results are ordinary; `provenance(result)` tells where their cells come from.
    """
    if function is None:
        return partial(track, follow=follow, views=views)
    if not callable(function):
        raise ArrayError(f"track expects a function, not {type(function).__name__}")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise ArrayError("async functions are not followed; track the functions that they call")
    return TrackedFunction(function, tuple(follow), views)
