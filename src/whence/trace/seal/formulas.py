"""The formulas of tokens as SQL; `whence.archive.tokens` has the same ones in Python.

DuckDB and Spark share nearly all of it. Binary data is put in order and joined as hexadecimal text,
since that is what both can do with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from whence.algebra.canonical import Column, Dialect, row_sql
from whence.algebra.locators import ROW_BITS, ROW_MASK
from whence.algebra.witness import Members
from whence.trace.seal.settings import FileRange, Scheme
from whence.trace.steps import member_columns
from whence.trace.tables import LOCATOR, RECORD

ROW = f"({LOCATOR} & {ROW_MASK})"
SLOT = f"({LOCATOR} >> {ROW_BITS})"
START, _PREFIX = "__whence_start", "__whence_prefix"


def binary(data: bytes) -> str:
    """SQL: binary data that is known."""
    return f"unhex('{data.hex()}')"


def optional(token: str, source: str) -> str:
    """SQL: a token that may be missing, and whether it is that of a source row."""
    form = f"CASE WHEN {source} THEN unhex('02') ELSE unhex('01') END"
    return f"coalesce({form} || {token}, unhex('00'))"


def entry(token: str, contributes: str, source: str, times: str) -> str:
    """SQL: a member of a group, with how often it occurs, in hexadecimal."""
    role = (
        f"CASE WHEN {source} THEN CASE WHEN {contributes} THEN '03' ELSE '02' END "
        f"WHEN {contributes} THEN '01' ELSE '00' END"
    )
    return f"concat(hex({token}), {role}, lpad(hex({times}), 16, '0'))"


def shortened(data: str, bits: int) -> str:
    """SQL: the token of a full hash."""
    return data if bits == 256 else f"unhex(left(hex({data}), {bits // 4}))"


@dataclass(frozen=True, slots=True)
class Formulas:
    """The formulas in one dialect."""

    dialect: Dialect

    @property
    def _spark(self) -> bool:
        return self.dialect == "spark"

    # --- The dialect ------------------------------------------------------------------------

    def name(self, name: str) -> str:
        """A name of a column."""
        mark = "`" if self._spark else '"'
        return mark + name.replace(mark, mark * 2) + mark

    def struct(self, fields: Mapping[str, str]) -> str:
        """A struct of named values."""
        if self._spark:
            listed = ", ".join(f"'{name}', {value}" for name, value in fields.items())
            return f"named_struct({listed})"
        listed = ", ".join(f"{self.name(name)} := {value}" for name, value in fields.items())
        return f"struct_pack({listed})"

    def each(self, items: str) -> str:
        """What to select for one row per item of a list."""
        return f"{'explode' if self._spark else 'unnest'}({items})"

    def each_with_place(self, items: str) -> str:
        """What to select for one row per item `m` of a list, with its place `__pos`."""
        if self._spark:
            return f"posexplode({items}) AS (__pos, m)"
        return f"generate_subscripts({items}, 1) AS __pos, unnest({items}) AS m"

    def members(self, shape: Members, names: Iterable[str]) -> list[str]:
        """What to select for some slots of a list's member `m`, each under its name."""
        return member_columns(shape, names, self.name)

    def branch(self, where: str, slot: str, number: int) -> str:
        """SQL: whether a row `x` for which `where` holds is of one branch."""
        return f"{where} AND x.{self.name(slot)} = {number}"

    def sequence(self, first: str, last: str) -> str:
        """A list of all whole numbers between two."""
        if self._spark:
            return f"sequence({first}, {last})"
        return f"generate_series({first}, {last})"

    def divided(self, number: str, by: int) -> str:
        """A whole number divided, without a fraction."""
        return f"({number} {'div' if self._spark else '//'} {by})"

    @property
    def semi_join(self) -> str:
        """A join that only asks whether there is a partner."""
        return "LEFT SEMI JOIN" if self._spark else "SEMI JOIN"

    def in_order(self, text: str) -> str:
        """An aggregate: all texts of a group, in order, one after another."""
        if self._spark:
            return f"array_join(sort_array(collect_list({text})), '')"
        return f"array_to_string(list_sort(list({text})), '')"

    def sha(self, data: str) -> str:
        """The SHA-256 of binary data, as binary data."""
        return f"unhex({f'sha2({data}, 256)' if self._spark else f'sha256({data})'})"

    def sha_text(self, text: str) -> str:
        """The SHA-256 of text, as binary data."""
        return self.sha(f"CAST({text} AS BINARY)" if self._spark else text)

    def short(self, data: str) -> str:
        """A number by which binary data can be told apart nearly always."""
        return f"{'xxhash64' if self._spark else 'hash'}({data})"

    # --- Nodes ------------------------------------------------------------------------------

    def joint(self, label: str, inputs: Sequence[tuple[str, str]]) -> str:
        """The full hash of a node whose inputs (as for `optional`) are used together, in order."""
        parts = [binary(b"J" + bytes.fromhex(label)), *(optional(*found) for found in inputs)]
        return self.sha(" || ".join(parts))

    def one(self, label: str, index: str, token: str, source: str) -> str:
        """The full hash of an item or a branch; `index` gives its position, or null."""
        text = f"coalesce('i' || CAST({index} AS STRING) || ';', 'n;')"
        start = binary(b"K" + bytes.fromhex(label))
        return self.sha(f"{start} || CAST({text} AS BINARY) || {optional(token, source)}")

    def bucket(self, entries: str) -> str:
        """An aggregate: the members of a group that begin with one byte, from and as text."""
        hashed = self.sha(f"{binary(b'b')} || unhex({self.in_order(entries)})")
        return f"CASE WHEN count(*) = 1 THEN '01' || min({entries}) ELSE '02' || hex({hashed}) END"

    def bag(self, label: str, buckets: str) -> str:
        """An aggregate: the full hash of a group, from its buckets (byte and members, as text)."""
        start = binary(b"B" + bytes.fromhex(label))
        return self.sha(f"{start} || unhex({self.in_order(buckets)})")

    def empty_bag(self, label: str) -> str:
        """The full hash of a group without members."""
        return self.sha(binary(b"B" + bytes.fromhex(label)))

    # --- Rows -------------------------------------------------------------------------------

    def record(self, columns: Sequence[Column], start: str = "") -> str:
        """The SHA-256 of a row's canonical bytes, `start` before them; rows are called `RECORD`.

        A column is its name, its stored name and its type.
        """
        listed = [(name, f"{RECORD}.{self.name(stored)}", kind) for name, stored, kind in columns]
        return self.sha_text(row_sql(listed, self.dialect, start))

    def source_row(self, columns: Sequence[Column] | None) -> str:
        """The full hash of a source row; without columns its place names it, which is `placed`."""
        if columns is not None:
            return self.record(columns, "S")
        return self.sha(f"{_PREFIX} || CAST('i' || CAST({ROW} AS STRING) || ';' AS BINARY)")


def placed(rows: str, ranges: Sequence[FileRange], scheme: Scheme) -> str:
    """SQL: rows with the first node id of their file and what names it."""
    if len(ranges) == 1:
        start, prefix = ranges[0].start, binary(_prefix(ranges[0], scheme))
        return f"SELECT x.*, {start} AS {START}, {prefix} AS {_PREFIX} FROM {rows} AS x"
    if not ranges:
        return f"SELECT x.*, 0 AS {START}, {binary(b'')} AS {_PREFIX} FROM {rows} AS x WHERE false"
    listed = [f"({r.slot}, {r.start}, {binary(_prefix(r, scheme))})" for r in ranges]
    files = f"(VALUES {', '.join(listed)}) AS p(slot, {START}, {_PREFIX})"
    return f"SELECT x.*, p.{START}, p.{_PREFIX} FROM {rows} AS x JOIN {files} ON p.slot = {SLOT}"


def _prefix(found: FileRange, scheme: Scheme) -> bytes:
    """What the rows of a file begin with where their place names them."""
    if scheme == "value":
        return b""
    uri = found.uri.encode()
    about = f"i{found.modified};" if scheme == "origin" else f"s64:{found.digest}"
    tag = b"O" if scheme == "origin" else b"C"
    return tag + b"s%d:%s" % (len(uri), uri) + about.encode()
