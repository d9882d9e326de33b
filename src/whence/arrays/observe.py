"""Between calls and views: signatures of calls, relations as plain data, and back."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.codec import decode, encode
from whence.arrays.containers import is_record, items_of
from whence.arrays.expand import expand
from whence.arrays.forms import COLUMNS, Boxes, Form, Reshape, empty
from whence.arrays.graph import Edge, Held, Input, Node
from whence.arrays.known import remember
from whence.arrays.provenance import Provenance
from whence.arrays.rules.reduce import arg_lane, at_index
from whence.arrays.rules.ufuncs import chosen, took_first
from whence.arrays.session import Reach
from whence.arrays.walks import relate
from whence.errors import ArrayError

if TYPE_CHECKING:
    from whence.arrays.call import Call
    from whence.arrays.capture import TrackedFunction

Array = np.ndarray[Any, Any]
ROWS_KEPT = 64
BYTES_KEPT = 1 << 20
_SCALARS = (int, float, complex, str, bytes, type(None), np.generic, np.dtype, slice)


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arguments of a call: arrays by name, and the text of everything else."""

    arrays: dict[str, Array]
    arguments: dict[str, str]

    @classmethod
    def of(cls, function: TrackedFunction, args: Any, kwargs: Any) -> Inputs | None:
        """None if an argument is neither an array nor a plain value."""
        arrays: dict[str, Array] = {}
        arguments: dict[str, str] = {}

        def take(value: Any, name: str) -> bool:
            if type(value) in (np.ndarray, np.memmap):
                arrays[name] = value
            elif isinstance(value, _SCALARS) or _is_builtin(value):
                arguments[name] = repr(value)
            elif type(value) in (list, tuple):
                arguments[f"{name}[]"] = f"{type(value).__name__} of {len(value)}"
                return all(take(v, f"{name}[{i}]") for i, v in enumerate(value))
            elif type(value) is dict and all(isinstance(k, _SCALARS) for k in value):
                arguments[f"{name}[]"] = f"dict of {list(value)}"
                return all(take(v, f"{name}[{k!r}]") for k, v in value.items())
            else:
                return False
            return True

        named = [*zip(function.name_arguments(args), args), *kwargs.items()]  # noqa: B905 more names
        fine = all(take(value, name) for name, value in named)
        return cls(arrays, arguments) if fine and arrays else None


def _is_builtin(value: Any) -> bool:
    """Whether a value is a type whose code is part of no program."""
    return isinstance(value, type) and value.__module__ in ("builtins", "numpy")


@dataclass(frozen=True, slots=True)
class Signature:
    """Sizes and kinds of the arrays, and the other arguments in the order they were given in."""

    sizes: tuple[tuple[str, Shape], ...]
    kinds: str
    arguments: dict[str, str]

    def key(self, without: frozenset[str] = frozenset()) -> str:
        """The dimensional signature."""
        return f"{self.sizes} {self._rest(without)}"

    def shape_key(self, without: frozenset[str] = frozenset()) -> str:
        """The signature with numbers of axes in place of sizes."""
        return f"{self.ranks()} {self._rest(without)}"

    def ranks(self) -> str:
        """Names and numbers of axes."""
        return ",".join(f"{name}:{len(shape)}" for name, shape in self.sizes)

    def flat_sizes(self) -> tuple[int, ...]:
        """All sizes in order."""
        return tuple(n for _, shape in self.sizes for n in shape)

    def _rest(self, without: frozenset[str]) -> str:
        kept = {k: v for k, v in self.arguments.items() if k not in without}
        return f"{self.kinds} {kept}"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"sizes": self.sizes, "kinds": self.kinds, "arguments": self.arguments}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Signature:
        """Back from plain data."""
        sizes = tuple((name, tuple(shape)) for name, shape in data["sizes"])
        return cls(sizes, data["kinds"], dict(data["arguments"]))


def signature_of(inputs: Inputs) -> Signature:
    """The signature of a call."""
    sizes = tuple((name, array.shape) for name, array in inputs.arrays.items())
    kinds = " ".join(f"{a.dtype} {_memory_order(a)}" for a in inputs.arrays.values())
    return Signature(sizes, kinds, inputs.arguments)


def _memory_order(array: Array) -> str:
    """How cells lie in memory: `ravel` and kin can follow it, or give a copy that is written to.

    An error can tell that an array is read-only.
    """
    locked = "" if array.flags.writeable else " read-only"
    if array.flags.c_contiguous:
        return f"C{locked}"
    if array.flags.f_contiguous:
        return f"F{locked}"
    axes = [(n, step) for n, step in zip(array.shape, array.strides, strict=True) if n != 1]
    steps = sorted({0, *(abs(step) for _, step in axes)})
    order = [steps.index(abs(step)) * (1 if step > 0 else -1) for _, step in axes]
    # whether two axes are as good as one, by rows or by columns
    even = [(p == q * m, p * n == q) for (n, p), (m, q) in pairwise(axes)]
    return f"{order} {even}{locked}"


@dataclass(frozen=True, slots=True)
class Part:
    """One edge of a view: a relation with an input, or a recipe that finds it from values."""

    name: str
    contributing: bool
    kind: str
    data: Any

    def to_json(self) -> list[Any]:
        """Plain data."""
        return [self.name, self.contributing, self.kind, self.data]


@dataclass(frozen=True, slots=True)
class Output:
    """One output of a view: where it stands in the result, its shape, its parts."""

    path: str
    shape: Shape
    parts: tuple[Part, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"path": self.path, "shape": self.shape, "parts": [p.to_json() for p in self.parts]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Output:
        """Back from plain data."""
        parts = tuple(Part(*part) for part in data["parts"])
        return cls(data["path"], tuple(data["shape"]), parts)


def observe(call: Call, exact: bool = False) -> list[Output] | None:
    """The relations of a finished call as plain data; None if they depend on values.

    With `exact`, relations taken from values are kept too: they hold for these values.
    """
    if call.left or (call.steering and not exact) or call.foreign or call.changed:
        return None
    if call.reach is Reach.NOWHERE:
        return None
    out = []
    for path, answer in call.answers.items():
        if answer.grade != "exact":
            return None
        parts = _static_parts(answer) if exact else _parts(answer)
        if parts is None:
            return None
        out.append(Output(path, answer.shape, tuple(parts)))
    return out


def _parts(answer: Provenance) -> list[Part] | None:
    node = answer.node
    if not answer.by_values:
        return _static_parts(answer)
    direct = all(edge.parent.label is not None for edge in node.edges)
    if not direct or any(e.by_values and e.recipe is None for e in node.edges):
        return None
    pairs = [e for e in node.edges if e.recipe is not None and e.recipe[0] == "pair"]
    if pairs and len(pairs) != 2:
        return None
    parts = []
    for edge in node.edges:
        name = str(edge.parent.label)
        if edge.recipe is not None:
            data = _plain(edge.recipe[1:])
            if edge.recipe[0] == "pair":
                data += [str(e.parent.label) for e in pairs]
            parts.append(Part(name, edge.contributing, edge.recipe[0], data))
        else:
            part = _part(name, edge.contributing, edge.form())
            if part is None:
                return None
            parts.append(part)
    return parts


def _plain(values: Iterable[Any]) -> list[Any]:
    return [list(v) if isinstance(v, tuple) else v for v in values]


def _static_parts(answer: Provenance) -> list[Part] | None:
    parts = []
    for name in answer.inputs:
        for contributing in (True, False):
            try:
                form = relate(answer.node, name, "contributing" if contributing else "influencing")
                part = None if form is None else _part(name, contributing, form)
            except ArrayError:  # too large to be written out
                return None
            if form is not None and part is None:
                return None
            if part is not None:
                parts.append(part)
    return parts


def _part(name: str, contributing: bool, form: Form) -> Part | None:
    match form:
        case Reshape():
            return Part(name, contributing, "reshape", list(form.in_shape))
        case Boxes() if len(form) <= ROWS_KEPT:
            order = np.lexsort(_table(form).T[::-1]) if len(form) > 1 else np.arange(len(form))
            rows = _table(form.take(order)).tolist()
            return Part(name, contributing, "boxes", [list(form.in_shape), rows])
        case _:
            data = encode(form)
            if len(data) > BYTES_KEPT:
                return None
            return Part(name, contributing, "bytes", base64.b64encode(data).decode())


def _table(form: Boxes) -> Any:
    return np.concatenate([getattr(form, column) for column in COLUMNS], axis=1)


def _form(part: Part, shape: Shape) -> Form:
    match part.kind:
        case "reshape":
            return Reshape(shape, tuple(part.data))
        case "boxes":
            in_shape, rows = tuple(part.data[0]), part.data[1]
            outs, ins = len(shape), len(in_shape)
            table = np.array(rows, dtype=np.int64).reshape(len(rows), 2 * outs + 5 * ins)
            cuts = np.cumsum([outs, outs, ins, ins, ins, ins])
            return Boxes(shape, in_shape, *np.split(table, cuts, axis=1))
        case _:
            return decode(base64.b64decode(part.data))


def same_output(one: list[Output], two: list[Output]) -> bool:
    """Whether two observations tell the same relations."""
    if [(o.path, o.shape) for o in one] != [(o.path, o.shape) for o in two]:
        return False
    for left, right in zip(one, two, strict=True):
        if [(p.name, p.contributing) for p in left.parts] != [
            (p.name, p.contributing) for p in right.parts
        ]:
            return False
        pairs = zip(left.parts, right.parts, strict=True)
        if not all(p == q or _same_relation(p, q, left.shape) for p, q in pairs):
            return False
    return True


def _same_relation(one: Part, two: Part, shape: Shape) -> bool:
    static = ("reshape", "boxes", "bytes")
    if one.kind not in static or two.kind not in static or one.kind == two.kind != "bytes":
        return False
    mine, theirs = expand(_form(one, shape)), expand(_form(two, shape))
    return np.array_equal(mine.out, theirs.out) and np.array_equal(mine.inp, theirs.inp)


def numbers_of(outputs: list[Output]) -> tuple[str, list[int]] | None:
    """An observation split into its structure (text) and its numbers; None if it has no pattern."""
    structure: list[Any] = []
    numbers: list[int] = []
    for output in outputs:
        structure.append((output.path, len(output.shape)))
        numbers += output.shape
        for part in output.parts:
            structure.append((part.name, part.contributing, part.kind))
            if part.kind == "bytes":
                return None
            if part.kind == "boxes":
                in_shape, rows = part.data
                structure.append((len(in_shape), len(rows), _fixed(output, part)))
                numbers += [n for row in rows for n in row]
            elif part.kind != "reshape":
                structure.append(part.data)
    return repr(structure), numbers


def _fixed(output: Output, part: Part) -> list[list[int]]:
    """The columns that say which output axis is followed, and how: part of the structure."""
    outs, ins = len(output.shape), len(part.data[0])
    at = [*range(2 * outs, 2 * outs + ins), *range(2 * outs + 2 * ins, 2 * outs + 3 * ins)]
    at += range(2 * outs + 4 * ins, 2 * outs + 5 * ins)
    return [[row[i] for i in at] for row in part.data[1]]


def rewrite(
    outputs: list[Output], numbers: list[int], sizes: tuple[int, ...]
) -> list[Output] | None:
    """Outputs with other numbers in place; None if a row would be empty or out of bounds."""
    stream = iter(numbers)
    made = []
    for output in outputs:
        shape = tuple(next(stream) for _ in output.shape)
        if any(n < 0 for n in shape):
            return None
        parts = []
        for part in output.parts:
            data = part.data
            if part.kind == "boxes":
                rows = [[next(stream) for _ in row] for row in data[1]]
                data = [_SIZE_UNKNOWN, rows]
            parts.append(Part(part.name, part.contributing, part.kind, data))
        made.append(Output(output.path, shape, tuple(parts)))
    return made


_SIZE_UNKNOWN: list[int] = []


def rebuild(
    function: TrackedFunction, result: Any, inputs: Inputs, outputs: list[Output], kind: str
) -> list[Provenance] | None:
    """Provenance of a plain result by a view; None if the result does not have the view's shape."""
    found = dict(_leaves_of(result))
    if set(found) != {o.path for o in outputs}:
        return None
    answers = []
    shapes = {name: array.shape for name, array in inputs.arrays.items()}
    for output in outputs:
        value = found[output.path]
        if np.shape(value) != output.shape:
            return None
        node = _node(output, value, inputs)
        if node is None:
            return None
        name = f"{function.__name__}{output.path}"
        answers.append(Provenance(node, shapes, name, view=kind))
    for output, answer in zip(outputs, answers, strict=True):
        remember(found[output.path], answer)
    return answers


def _leaves_of(result: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        named = zip(result._fields, result, strict=True)
        return [leaf for f, r in named for leaf in _leaves_of(r, f"{path}.{f}")]
    if type(result) in (list, tuple):
        return [leaf for i, r in enumerate(result) for leaf in _leaves_of(r, f"{path}[{i}]")]
    if type(result) is dict:
        return [leaf for k, r in result.items() for leaf in _leaves_of(r, f"{path}[{k!r}]")]
    if is_record(result):
        return [leaf for f, r in items_of(result).items() for leaf in _leaves_of(r, f"{path}.{f}")]
    return [] if result is None else [(path, result)]


def _node(output: Output, value: Any, inputs: Inputs) -> Node | None:
    leaves = {n: Input(a.shape, n) for n, a in inputs.arrays.items()}
    edges = []
    for part in output.parts:
        array = inputs.arrays.get(part.name)
        if array is None:
            return None
        form = _form_for(part, value, array, inputs)
        if form is None:
            return None
        edges.append(Edge(leaves[part.name], partial(_given, form), part.contributing))
    missing = [n for n in leaves if n not in {p.name for p in output.parts}]
    edges += [Edge(leaves[n], partial(empty, output.shape, leaves[n].shape)) for n in missing]
    return Node(output.shape, edges, "view")


def _given(form: Form) -> Form:
    return form


def _form_for(part: Part, result: Any, array: Array, inputs: Inputs) -> Form | None:
    shape = np.shape(result)
    match part.kind:
        case "winner":
            axes = tuple(part.data[1])
            index = arg_lane(array, part.data[0], axes)
            return None if index is None else at_index(index, axes, array.shape, shape)
        case "pair":
            ufunc, which, one, two = part.data
            operands = inputs.arrays[one], inputs.arrays[two]
            held = Held(took_first(getattr(np, ufunc), *operands, result))
            return chosen(held, which, shape, array.shape)
        case "reshape":
            return Reshape(shape, array.shape) if np.prod(shape) == array.size else None
        case "boxes":
            form = _form(Part(part.name, True, "boxes", [list(array.shape), part.data[1]]), shape)
            return form if isinstance(form, Boxes) and _sensible(form) else None
        case _:
            form = _form(part, shape)
            return form if form.in_shape == array.shape else None


def _sensible(form: Boxes) -> bool:
    """Every output box is non-empty and inside, and so is every interval at its ends."""
    out_limit, in_limit = np.array(form.out_shape), np.array(form.in_shape)
    if (form.out_lo > form.out_hi).any() or (form.out_lo < 0).any():
        return False
    if (form.out_hi >= out_limit).any():
        return False
    for corner in (form.out_lo, form.out_hi):
        at: Any = 0
        if form.out_shape:
            at = np.take_along_axis(corner, np.maximum(form.ref, 0), 1)
        low, high = form.lo + form.lo_k * at, form.hi + form.hi_k * at
        if (low > high).any() or (low < 0).any() or (high >= in_limit).any():
            return False
    return True
