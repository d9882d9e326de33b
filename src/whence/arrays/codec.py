"""The bytes of a ProvRC table: a short header, then columns of small differences.

A few rows are written as variable-length integers. Many rows are written column by column, each as
the difference that suits it best, split into byte planes and deflated; the smaller wins.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from whence.arrays.cells import Ints, Shape
from whence.arrays.expand import expand
from whence.arrays.forms import Boxes, Form, Gather, Pairs, pairs
from whence.arrays.provrc import absolute_where_single, compress
from whence.errors import ArrayError

FORMAT = 1
_PLAIN, _PLANES, _FILTER, _BINS, _FULL_BINS = range(5)
_SMALL = 1 << 10
_SAMPLES, _SAMPLE = 8, 1 << 11


def encode(form: Form) -> bytes:
    """A relation as bytes: bit planes if it is a filter or a binning, else its ProvRC table."""
    head = [FORMAT, len(form.out_shape), len(form.in_shape), *form.out_shape, *form.in_shape]
    if isinstance(form, Pairs | Gather):
        bits = _bit_planes(expand(form))
        if bits is not None:
            return bytes(_varints([*head, 0])) + bits
    table = _relative_where_usual(compress(form))
    head.append(len(table))
    columns = _columns(table)
    best = bytes(_varints([*head, _PLANES])) + _planes(columns)
    if len(table) * len(columns) <= _SMALL:
        values = [int(v) for column in columns for v in _zigzag(column)]
        plain = bytes(_varints([*head, _PLAIN, *values]))
        best = min(best, plain, key=len)
    return best


def decode(data: bytes) -> Form:
    """The relation that `encode` wrote."""
    try:
        return _decode(data)
    except (IndexError, ValueError, zlib.error, StopIteration) as error:
        raise ArrayError(f"these bytes hold no array relation: {error}") from error


def _decode(data: bytes) -> Form:
    stream = _Reader(data)
    version = stream.number()
    if version != FORMAT:
        raise ValueError(f"format {version}, this version reads {FORMAT}")
    outs, ins = stream.number(), stream.number()
    out_shape = tuple(stream.number() for _ in range(outs))
    in_shape = tuple(stream.number() for _ in range(ins))
    n, mode = stream.number(), stream.number()
    count = 2 * outs + 3 * ins
    if mode == _PLAIN:
        coded = np.array([stream.number() for _ in range(n * count)], dtype=np.uint64)
        columns = [_unzigzag(c) for c in coded.reshape(count, n)]
    elif mode == _PLANES:
        columns = _read_planes(data[stream.at :], count, n)
    else:
        return _read_bits(stream, mode, out_shape, in_shape)
    return absolute_where_single(_restore(columns, out_shape, in_shape, n))


def _relative_where_usual(table: Boxes) -> Boxes:
    """Write rows of one output cell relative, like most longer rows: smaller differences."""
    ref, lo, hi = table.ref.copy(), table.lo.copy(), table.hi.copy()
    for i in range(len(table.in_shape)):
        used = ref[:, i][ref[:, i] >= 0]
        if not len(used):
            continue
        usual = int(np.bincount(used).argmax())
        low = table.out_lo[:, usual]
        one = (ref[:, i] < 0) & (low == table.out_hi[:, usual])
        ref[one, i] = usual
        lo[one, i] -= low[one]
        hi[one, i] -= low[one]
    factor = (ref >= 0).astype(np.int64)
    shapes = table.out_shape, table.in_shape
    return Boxes(*shapes, table.out_lo, table.out_hi, ref, lo, factor, hi, factor)


def _bit_planes(listed: Pairs) -> bytes | None:
    """A filter as one bit per input cell, or few bins as the bin's number per input cell."""
    size = math.prod(listed.in_shape)
    breaks = np.count_nonzero(listed.inp[1:] - listed.inp[:-1] != 1)
    if breaks < _SMALL or breaks * 64 < size:
        return None
    count = math.prod(listed.out_shape)
    labels = np.zeros(size, dtype=np.uint8)
    if len(listed.out) == count and _rising(listed.inp) and _rising(listed.out):
        labels[listed.inp] = 1
        planes, mode = 1, _FILTER
    elif count < 255:
        bins = listed.out.astype(np.uint8)
        bins += 1
        labels[listed.inp] = bins
        if np.count_nonzero(labels) != len(listed.inp):
            return None
        full = bool(labels.all())
        labels -= full
        planes, mode = int(labels.max()).bit_length(), _FULL_BINS if full else _BINS
    else:
        return None
    packed = b"".join(np.packbits((labels >> p) & 1).tobytes() for p in range(planes))
    best = b"\0" + packed
    if _shrinks(packed):
        best = min(best, b"\1" + zlib.compress(packed, 1), key=len)
    return bytes(_varints([mode, planes])) + best


def _rising(flat: Ints) -> bool:
    return bool((flat[1:] > flat[:-1]).all())


def _shrinks(data: bytes) -> bool:
    """Whether some of the data can be deflated, before all of it is tried."""
    step = max(len(data) // _SAMPLES, _SAMPLE)
    some = b"".join(data[at : at + _SAMPLE] for at in range(0, len(data), step))
    return len(zlib.compress(some, 1)) < 0.98 * len(some)


def _read_bits(stream: _Reader, mode: int, out_shape: Shape, in_shape: Shape) -> Pairs:
    if mode not in (_FILTER, _BINS, _FULL_BINS):
        raise ValueError(f"coding {mode} is not known")
    planes, deflated = stream.number(), stream.number()
    body = stream.data[stream.at :]
    raw = np.frombuffer(zlib.decompress(body) if deflated else body, dtype=np.uint8)
    size = math.prod(in_shape)
    labels = np.zeros(size, dtype=np.int64)
    for plane, part in enumerate(raw.reshape(planes, -1)):
        labels |= np.unpackbits(part, count=size).astype(np.int64) << plane
    if mode == _FILTER:
        inp = np.flatnonzero(labels)
        return Pairs(out_shape, in_shape, np.arange(len(inp)), inp)
    if mode == _BINS:
        inp = np.flatnonzero(labels)
        return pairs(out_shape, in_shape, labels[inp] - 1, inp)
    return pairs(out_shape, in_shape, labels, np.arange(size))


def _columns(table: Boxes) -> list[Ints]:
    """Differences: per output axis start and width, per input axis ref, start and width."""
    out: list[Ints] = []
    for j in range(len(table.out_shape)):
        out += _interval(table.out_lo[:, j], table.out_hi[:, j])
    for i in range(len(table.in_shape)):
        out.append(np.diff(table.ref[:, i], prepend=0))
        out += _interval(table.lo[:, i], table.hi[:, i])
    return out


def _interval(lo: Ints, hi: Ints) -> list[Ints]:
    """Start relative to the end of the row before, and width: runs that follow on become zeros."""
    before = np.concatenate([np.zeros(1, dtype=np.int64), hi[:-1] + 1])[: len(lo)]
    return [lo - before, hi - lo]


def _restore(
    columns: list[Ints], out_shape: tuple[int, ...], in_shape: tuple[int, ...], n: int
) -> Boxes:
    outs, ins = len(out_shape), len(in_shape)
    shapes = ((n, outs), (n, outs), (n, ins), (n, ins), (n, ins))
    out_lo, out_hi, ref, lo, hi = (np.empty(s, dtype=np.int64) for s in shapes)
    for j in range(outs):
        out_lo[:, j], out_hi[:, j] = _unfold(columns[2 * j], columns[2 * j + 1])
    for i in range(ins):
        at = 2 * outs + 3 * i
        ref[:, i] = np.cumsum(columns[at])
        lo[:, i], hi[:, i] = _unfold(columns[at + 1], columns[at + 2])
    factor = (ref >= 0).astype(np.int64)
    return Boxes(out_shape, in_shape, out_lo, out_hi, ref, lo, factor, hi, factor)


def _unfold(start: Ints, width: Ints) -> tuple[Ints, Ints]:
    steps = start.copy()
    steps[1:] += width[:-1] + 1
    lo = np.cumsum(steps)
    return lo, lo + width


def _zigzag(column: Ints) -> Any:
    return ((column << 1) ^ (column >> 63)).astype(np.uint64)


def _unzigzag(coded: Any) -> Ints:
    half = (coded >> np.uint64(1)).astype(np.int64)
    sign = -(coded & np.uint64(1)).astype(np.int64)
    found: Ints = half ^ sign
    return found


def _planes(columns: list[Ints]) -> bytes:
    out = bytearray()
    for column in columns:
        coded = _zigzag(column)
        top = int(coded.max()) if len(coded) else 0
        if len(coded) and bool((coded == coded[0]).all()):
            out += bytes(_varints([0, int(coded[0])]))
            continue
        width = max(1, (top.bit_length() + 7) // 8)
        raw = coded.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
        body = zlib.compress(np.ascontiguousarray(raw.T).tobytes(), 6)
        out += bytes(_varints([width, len(body)])) + body
    return bytes(out)


def _read_planes(data: bytes, count: int, n: int) -> list[Ints]:
    stream = _Reader(data)
    columns = []
    for _ in range(count):
        width, value = stream.number(), stream.number()
        if width == 0:
            coded = np.full(n, value, dtype=np.uint64)
        else:
            raw = np.frombuffer(zlib.decompress(stream.take(value)), dtype=np.uint8)
            wide = np.zeros((n, 8), dtype=np.uint8)
            wide[:, :width] = raw.reshape(width, n).T
            coded = wide.view("<u8").reshape(-1)
        columns.append(_unzigzag(coded))
    return columns


def _varints(values: Iterable[int]) -> Iterator[int]:
    for value in values:
        while value > 127:
            yield (value & 127) | 128
            value >>= 7
        yield value


class _Reader:
    """Reads variable-length integers and byte strings from the front."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def take(self, count: int) -> bytes:
        part = self.data[self.at : self.at + count]
        if len(part) < count:
            raise ValueError("the data ends early")
        self.at += count
        return part
