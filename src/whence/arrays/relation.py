"""What people get for one input: the relation R(b1…, a1…), compressed, with SQL on top."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, assert_never

import numpy as np

from whence.arrays import cells as cellset
from whence.arrays.cells import Cells, Ints, Shape
from whence.arrays.codec import decode, encode
from whence.arrays.compose import compose
from whence.arrays.expand import expand
from whence.arrays.forms import Boxes, Form, Gather, Pairs, Reshape, identity
from whence.arrays.provrc import compress
from whence.arrays.query import backward, forward
from whence.errors import ArrayError

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class InputAxis:
    """An input axis in a row: `start … stop`, added to output axis `relative_to` if given."""

    start: int
    stop: int
    relative_to: int | None = None

    def __str__(self) -> str:
        text = str(self.start) if self.start == self.stop else f"[{self.start}, {self.stop}]"
        return text if self.relative_to is None else f"{text} (b{self.relative_to + 1})"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the ProvRC table: ranges of output positions, and where they come from."""

    outputs: tuple[Range, ...]
    inputs: tuple[InputAxis, ...]

    def __str__(self) -> str:
        left = ", ".join(str(a) if a == b else f"[{a}, {b}]" for a, b in self.outputs)
        return f"{left} ← {', '.join(map(str, self.inputs))}"


class Relation:
    """The cells of one input behind those of one output. A scalar counts as one axis of size 1."""

    def __init__(self, form: Form) -> None:
        self.form = form

    @classmethod
    def from_bytes(cls, data: bytes) -> Relation:
        """The relation that `to_bytes` wrote."""
        return cls(decode(data))

    @property
    def out_shape(self) -> Shape:
        """Shape of the output."""
        return self.form.out_shape

    @property
    def in_shape(self) -> Shape:
        """Shape of the input."""
        return self.form.in_shape

    @cached_property
    def table(self) -> Boxes:
        """The ProvRC table, scalars as one axis of size 1."""
        return compress(_at_least_one_axis(self.form))

    def rows(self) -> list[Row]:
        """The ProvRC rows, zero-based, in order."""
        table = self.table
        out = np.stack([table.out_lo, table.out_hi], axis=2).tolist()
        inner = np.stack([table.lo, table.hi, table.ref], axis=2).tolist()
        return [
            Row(
                tuple((a, b) for a, b in ranges),
                tuple(InputAxis(a, b, None if r < 0 else r) for a, b, r in axes),
            )
            for ranges, axes in zip(out, inner, strict=True)
        ]

    def to_bytes(self) -> bytes:
        """The compressed relation, as it is kept on disk."""
        return self._encoded

    @cached_property
    def _encoded(self) -> bytes:
        return encode(_at_least_one_axis(self.form))

    @property
    def nbytes(self) -> int:
        """Size of the compressed relation."""
        return len(self._encoded)

    def __len__(self) -> int:
        return len(expand(self.form).out)

    def backward(self, selector: Any) -> tuple[Ints, ...]:
        """Index arrays of the input cells behind the chosen output cells."""
        return self.backward_cells(selector).indices()

    def forward(self, selector: Any) -> tuple[Ints, ...]:
        """Index arrays of the output cells that the chosen input cells go to."""
        return self.forward_cells(selector).indices()

    def backward_cells(self, selector: Any) -> Cells:
        """As `backward`, without listing the cells."""
        return backward(self.form, cellset.select(self.out_shape, selector))

    def forward_cells(self, selector: Any) -> Cells:
        """As `forward`, without listing the cells."""
        return forward(self.form, cellset.select(self.in_shape, selector))

    def then(self, later: Relation) -> Relation:
        """Join with the relation of a later step: its input is this one's output."""
        if later.in_shape != self.out_shape:
            raise ArrayError(
                f"cannot join: the later step reads shape {later.in_shape}, "
                f"this one makes {self.out_shape}"
            )
        return Relation(compose(later.form, self.form))

    def pairs(self) -> tuple[Ints, Ints]:
        """Flat output and input positions of every pair, sorted."""
        listed = expand(self.form)
        return listed.out, listed.inp

    def to_arrow(self, compressed: bool = False) -> Any:
        """R(b1…, a1…) as an Arrow table; `compressed` gives the ProvRC rows instead."""
        import pyarrow as pa

        if compressed:
            return pa.table(_compressed_columns(self.table))
        form = _at_least_one_axis(self.form)
        listed = expand(form)
        names = _names(form)
        columns = [
            *np.unravel_index(listed.out, form.out_shape),
            *np.unravel_index(listed.inp, form.in_shape),
        ]
        return pa.table({n: pa.array(np.asarray(c)) for n, c in zip(names, columns, strict=True)})

    def sql(self, query: str) -> Any:
        """Run DuckDB SQL over `relation` (b1…, a1…) and `compressed` (ProvRC rows); gives Arrow."""
        import duckdb

        connection = duckdb.connect()
        try:
            connection.register("compressed", self.to_arrow(compressed=True))
            connection.execute(f"CREATE VIEW relation AS {_expansion_sql(self.table)}")
            return connection.sql(query).to_arrow_table()
        except duckdb.Error as error:
            names = ", ".join(_names(self.table))
            raise ArrayError(
                f"the query failed: {error}; there is relation({names}) and compressed"
            ) from error
        finally:
            connection.close()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Relation):
            return NotImplemented
        if (self.out_shape, self.in_shape) != (other.out_shape, other.in_shape):
            return False
        if self._encoded == other._encoded:
            return True
        mine, theirs = self.pairs(), other.pairs()
        return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Relation({self.out_shape} ← {self.in_shape}, {len(self.table)} rows)"

    def _repr_html_(self) -> str:
        from whence.arrays.picture import relation_html

        return relation_html(self)


def _at_least_one_axis(form: Form) -> Form:
    """A scalar as an array of one cell, so that every relation has b1 and a1."""
    if form.out_shape and form.in_shape:
        return form
    out_shape, in_shape = form.out_shape or (1,), form.in_shape or (1,)
    match form:
        case Boxes():
            zeros = np.zeros((len(form), 1), dtype=np.int64)
            out = (form.out_lo, form.out_hi) if form.out_shape else (zeros, zeros)
            inner = (form.ref, form.lo, form.lo_k, form.hi, form.hi_k)
            if not form.in_shape:
                inner = (zeros - 1, zeros, zeros, zeros, zeros)
            return Boxes(out_shape, in_shape, *out, *inner)
        case Gather():
            return Gather(out_shape, in_shape, form.index.reshape(out_shape))
        case Pairs():
            return Pairs(out_shape, in_shape, form.out, form.inp)
        case Reshape():
            return identity((1,))
        case _:
            assert_never(form)


def _names(form: Form) -> list[str]:
    outputs = [f"b{i + 1}" for i in range(len(form.out_shape))]
    return outputs + [f"a{i + 1}" for i in range(len(form.in_shape))]


def _compressed_columns(table: Boxes) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for j in range(len(table.out_shape)):
        out[f"b{j + 1}_lo"], out[f"b{j + 1}_hi"] = table.out_lo[:, j], table.out_hi[:, j]
    for i in range(len(table.in_shape)):
        out[f"a{i + 1}_lo"], out[f"a{i + 1}_hi"] = table.lo[:, i], table.hi[:, i]
        out[f"a{i + 1}_relative_to"] = table.ref[:, i] + 1
    return out


def _expansion_sql(table: Boxes) -> str:
    """SQL that unnests the compressed rows; nothing is expanded before a query asks for it."""
    outputs = [f"b{j + 1}" for j in range(len(table.out_shape))]
    inputs = [f"a{i + 1}" for i in range(len(table.in_shape))]
    inner = ", ".join(["c.*", *(f"unnest(range({b}_lo, {b}_hi + 1)) AS {b}" for b in outputs[:1])])
    source = f"SELECT {inner} FROM compressed c"
    for b in outputs[1:]:
        source = f"SELECT *, unnest(range({b}_lo, {b}_hi + 1)) AS {b} FROM ({source})"
    for a in inputs:
        base = "CASE " + " ".join(
            f"WHEN {a}_relative_to = {j + 1} THEN {b}" for j, b in enumerate(outputs)
        )
        shift = f"{base} ELSE 0 END"
        source = (
            f"SELECT *, unnest(range({a}_lo + {shift}, {a}_hi + {shift} + 1)) AS {a} "
            f"FROM ({source})"
        )
    return f"SELECT {', '.join([*outputs, *inputs])} FROM ({source})"
