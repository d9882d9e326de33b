"""Functions over pandas frames, followed: which input rows and cells each output row is made of.

The function is called twice. The first call is the real one: its result and its errors are what
counts. The second gets the same frames with tracked columns in them. If it comes to the same
result, what was recorded says where each cell is from; if it does not, all input rows are behind
every output row, and the answer says why.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import random
import warnings
from collections.abc import Callable, Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whence.arrays.frames import replaced
from whence.arrays.frames.answers import Answer, Part, assembled, whole
from whence.arrays.frames.column import TrackedColumn
from whence.arrays.graph import Node, doubts, leaves, ordered
from whence.arrays.parts import (
    ROLES,
    TOO_MANY,
    cell_by_cell,
    one_for_each,
    ranges_between,
    roles_in,
)
from whence.arrays.rowranges import enclosing, everywhere, for_every, united
from whence.arrays.rules import creation
from whence.arrays.rules.base import all_cells
from whence.arrays.session import Session
from whence.arrays.tracked import TrackedArray, raw, tracked_in

Function = Callable[..., Any]
# Values that hold no others.
_PLAIN = (str, bytes, int, float, complex, Decimal, date, time, timedelta, np.generic, type(None))
_calls = itertools.count()
_END = object()
_NODES = 50_000  # arrays and numbers behind a column, before all rows stand for them
_TOO_MANY_NODES = "it is made of too many single numbers to follow each"
_REMEMBERED = 64  # branches and values that left, before all earlier rows stand for them


class _Column(NamedTuple):
    """What an input column stands for; a key of the group has side −1."""

    side: int
    position: int
    first: int


class Following:
    """One followed call: its session, and which rows its columns stand for."""

    def __init__(self, function: Function) -> None:
        package = (getattr(function, "__module__", None) or "").partition(".")[0]
        packages = frozenset({package}) - {"numpy", "pandas", ""}
        self.session = Session(packages=packages, frames=True)
        self._number = next(_calls)
        self._columns: dict[str, _Column] = {}
        self._past = 0

    def frame(self, frame: pd.DataFrame, side: int, first: int) -> pd.DataFrame:
        """The frame with tracked columns; its first row has the number `first`."""
        made: dict[int, Any] = {}
        for position in range(frame.shape[1]):
            column = frame.iloc[:, position]
            node = self._leaf(_Column(side, position, first), (len(frame),))
            if isinstance(column.dtype, np.dtype):
                made[position] = TrackedColumn(TrackedArray(column.to_numpy(), node, self.session))
            else:
                made[position] = column
                self.session.escape(node, f"column {frame.columns[position]!r} ({column.dtype})")
        tracked = pd.DataFrame(made, index=frame.index, copy=False)
        tracked.columns = frame.columns
        return tracked

    def key(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        """The key of a group: seen when it is used, but no row in particular is behind it."""
        made = []
        for position, value in enumerate(key):
            plain = isinstance(value, int | float | np.number | np.bool_)
            data = np.array(value, dtype=None if plain else object)
            node = self._leaf(_Column(-1, position, 0), ())
            made.append(TrackedArray(data, node, self.session, scalar=True))
        return tuple(made)

    def _leaf(self, column: _Column, shape: tuple[int, ...]) -> Node:
        label = f"{self._number}/{len(self._columns)}"
        self._columns[label] = column
        return Node(shape, (), "input", label)

    @contextlib.contextmanager
    def running(self, dice: _Dice) -> Iterator[None]:
        """While tracked code runs: same random numbers as in the real call, nothing printed."""
        after = _Dice()
        dice.set()
        token = creation.enter(self.session)
        replaced.enter()
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                yield
        finally:
            replaced.leave()
            creation.leave(token)
            after.set()

    def answer(self, result: pd.DataFrame, other: Any, taken: list[int]) -> Answer:
        """What is behind the rows of a result; `taken` rows of each side were read by then."""
        why = _difference(result, other)
        if why:
            return whole(len(result), taken, why)
        parts: list[Part] = []
        reasons: list[str] = []
        rows = len(result)
        for position in range(result.shape[1]):
            node = self._node_of(other.iloc[:, position])
            if node is None:
                reasons.append(f"column {result.columns[position]!r} is not made of tracked values")
                parts += self._all_rows(rows, position, taken)
                continue
            found, doubtful = self._parts(node, position, taken)
            parts += found
            reasons += [f"column {result.columns[position]!r}: {why}" for why in doubtful]
        found, doubtful = self._looked_at(result.shape, taken)
        parts += found
        reasons += doubtful
        if self._past:
            parts.append(Part(-1, 0, -1, everywhere(rows, 1, self._past), True))
            reasons.append("it branched on values of many batches")
        self._forget(taken)
        return assembled(rows, taken, parts, list(dict.fromkeys(reasons)))

    def _node_of(self, column: pd.Series[Any]) -> Node | None:
        """What a column comes from; None if nobody can tell."""
        values = column.array
        if isinstance(values, TrackedColumn):
            return values.tracked_.node_
        items = list(values) if column.dtype == object else []
        if tracked_in(items):
            found = [self._node_of_item(item) for item in items]
            return None if None in found else cell_by_cell([node for node in found if node])
        # Plain values hold nothing of the input but what left or was branched on, or a count.
        if self.session.counted or not all(isinstance(item, _PLAIN) for item in items):
            return None
        shape = (len(column),)
        return Node(shape, self.session.tainted(shape), "constant")

    def _node_of_item(self, item: Any) -> Node | None:
        """What one value comes from; a list or an array may hold several that are tracked."""
        if type(item) is TrackedArray and not item.data_.ndim:
            return item.node_
        inside = tracked_in([item.tolist() if isinstance(item, np.ndarray) else item])
        if not inside and (self.session.counted or not isinstance(item, _PLAIN)):
            return None
        return Node((), [all_cells(part, ()) for part in inside] + self.session.tainted(()))

    def _parts(self, node: Node, position: int, taken: list[int]) -> tuple[list[Part], list[str]]:
        """The ranges behind one output column, and what makes them more than matter."""
        if len(ordered(node)) > _NODES:
            return self._all_rows(node.shape[0], position, taken), [_TOO_MANY_NODES]
        parts: list[Part] = []
        reasons: list[str] = []
        roles = roles_in(node)
        for label, column in self._inputs(node, reasons):
            for role in roles:
                found, why = ranges_between(node, label, role)
                reasons += [why] if why else []
                if len(found.out):
                    made = found.shifted(column.first)
                    parts.append(
                        Part(position, column.side, column.position, made, role == ROLES[0])
                    )
        return parts, reasons

    def _looked_at(self, shape: tuple[int, ...], taken: list[int]) -> tuple[list[Part], list[str]]:
        """Branches on values influence every cell of a result; so may values that left."""
        rows, columns = shape
        known = {(id(node), ""): node for node in self.session.steering}
        known |= {(id(n), f"a value left through {op}"): n for n, op in self.session.left}
        node = one_for_each((found, doubt) for (_, doubt), found in known.items())
        if len(ordered(node)) > _NODES:
            return self._all_rows(rows, -1, taken), [_TOO_MANY_NODES]
        parts: list[Part] = []
        reasons: list[str] = []
        for label, column in self._inputs(node, reasons):
            found, why = ranges_between(node, label, "influencing")
            shared = united([found._replace(out=np.zeros_like(found.out))])
            if len(shared.out) > _REMEMBERED:
                shared, why = enclosing(shared), TOO_MANY
            reasons += [why] if why else []
            made = for_every(rows, shared.shifted(column.first))
            parts += [
                Part(position, column.side, column.position, made, False)
                for position in range(columns)
            ]
        return parts, reasons

    def _inputs(self, node: Node, reasons: list[str]) -> Iterator[tuple[str, _Column]]:
        """The input columns behind a node, whose doubts are noted."""
        for label in leaves(node):
            column = self._columns.get(label)
            if column is None:
                reasons.append("it holds values of an earlier call, which are not traced")
            elif column.side >= 0:
                reasons += doubts(node, label)
                yield label, column

    def _all_rows(self, rows: int, position: int, taken: list[int]) -> list[Part]:
        return [
            Part(position, side, -1, everywhere(rows, 1, count), True)
            for side, count in enumerate(taken)
        ]

    def _forget(self, taken: list[int]) -> None:
        """Keep what is remembered of earlier batches small."""
        session = self.session
        if len(session.steering) + len(session.left) > _REMEMBERED:
            self._past = taken[0]
            session.forget()


class _Dice:
    """The state of the random numbers that functions share."""

    def __init__(self) -> None:
        self._numpy, self._python = np.random.get_state(), random.getstate()

    def set(self) -> None:
        """Go on from here."""
        np.random.set_state(self._numpy)
        random.setstate(self._python)


def follow_groups(
    real: Function, other: Function, key: tuple[Any, ...] | None, frames: list[pd.DataFrame]
) -> tuple[Any, Answer | None]:
    """The function's result for one group (of each side), and what is behind its rows.

    `other` is the same function, with state of its own. There is no answer for what is no frame.
    """
    spare = [frame.copy() for frame in frames]
    dice = _Dice()
    result = real(*frames) if key is None else real(key, *frames)
    if not isinstance(result, pd.DataFrame):
        return result, None
    taken = [len(frame) for frame in spare]
    following = Following(other)
    tracked = [following.frame(frame, side, 1) for side, frame in enumerate(spare)]
    try:
        with following.running(dice):
            given = tracked if key is None else [following.key(key), *tracked]
            again = other(*given)
        return result, following.answer(result, again, taken)
    except Exception as error:
        return result, whole(len(result), taken, _failure(error))


def follow_batches(
    real: Function, other: Function, batches: Iterator[pd.DataFrame]
) -> Iterator[tuple[Any, Answer | None]]:
    """The function's results for batches, each with what is behind its rows.

    Both calls go on side by side, so that no more than the batches in hand are kept.
    """
    waiting: list[tuple[pd.DataFrame, int]] = []
    following = Following(other)
    taken = 0

    def real_feed() -> Iterator[pd.DataFrame]:
        nonlocal taken
        for batch in batches:
            if not lost:
                waiting.append((batch.copy(), taken + 1))
            taken += len(batch)
            yield batch

    def other_feed() -> Iterator[pd.DataFrame]:
        while waiting:
            yield following.frame(waiting[0][0], 0, waiting.pop(0)[1])

    lost = ""
    results, again = iter(real(real_feed())), None
    while True:
        dice = _Dice()
        result = next(results, _END)
        if result is _END:
            return
        if not isinstance(result, pd.DataFrame):
            yield result, None
            continue
        if not lost:
            try:
                with following.running(dice):
                    again = again if again is not None else iter(other(other_feed()))
                    same = next(again, None)
                answer = following.answer(result, same, [taken])
                lost = _difference(result, same)
            except Exception as error:
                lost = _failure(error)
        if lost:
            waiting.clear()
            answer = whole(len(result), [taken], lost)
        yield result, answer


def _failure(error: Exception) -> str:
    text = (str(error) or "no message").splitlines()[0]
    return f"on tracked columns it raised {type(error).__name__}: {text[:120]}"


def _difference(result: pd.DataFrame, other: Any) -> str:
    """Why the second call is not to be trusted; nothing if it gave the same rows."""
    if not isinstance(other, pd.DataFrame):
        return f"on tracked columns it gave {type(other).__name__}, no frame"
    if list(result.columns) != list(other.columns):
        return "on tracked columns it gave other columns"
    if len(result) != len(other):
        return "on tracked columns it gave another number of rows"
    for position, name in enumerate(result.columns):
        if not _same_values(result.iloc[:, position], other.iloc[:, position]):
            return f"on tracked columns it gave other values in column {name!r}"
    return ""


def _same_values(column: pd.Series[Any], other: pd.Series[Any]) -> bool:
    values = other.array
    if isinstance(values, TrackedColumn):
        found: Any = values.tracked_.data_
    else:
        found = other.to_numpy()
        if found.dtype == object:
            found = [v.data_[()] if type(v) is TrackedArray else raw(v) for v in found]
            if column.dtype.kind in "iufcb" and found:
                found = np.array(found)
    wanted = column.to_numpy()
    kinds = wanted.dtype.kind + getattr(getattr(found, "dtype", None), "kind", "O")
    if set(kinds) <= set("iufcb"):
        return bool(np.allclose(wanted, found, rtol=1e-9, atol=0, equal_nan=True))
    if kinds in ("MM", "mm"):
        return bool(np.array_equal(wanted, found.astype(wanted.dtype), equal_nan=True))
    return all(map(_same_value, wanted, found))


def _same_value(one: Any, two: Any) -> bool:
    if one is two:
        return True
    if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
        return np.shape(one) == np.shape(two) and all(map(_same_value, one, two))
    same = one == two
    missing = one != one and two != two
    return bool(same is True or (isinstance(same, np.bool_) and same) or missing is True)
