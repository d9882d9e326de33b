"""Random nested schemas, rows and pipelines, and a slow oracle that any of them go through.

Every leaf of every input row is tagged. A value knows the tags of the cells that made it and of
those that were looked at for it, so that pipelines can be put together in any way. A question asks
for one value; what several asked together share is tested elsewhere.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from whence.plan.paths import quote

Tag = tuple[int, str]
Tags = frozenset[Tag]
NONE: Tags = frozenset()


# --- Types and rows ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Simple:
    name: str

    def ddl(self) -> str:
        return self.name


@dataclass(frozen=True)
class Struct:
    fields: tuple[tuple[str, "Type"], ...]

    def ddl(self) -> str:
        return f"struct<{', '.join(f'`{n}`: {t.ddl()}' for n, t in self.fields)}>"


@dataclass(frozen=True)
class List:
    of: "Type"

    def ddl(self) -> str:
        return f"array<{self.of.ddl()}>"


@dataclass(frozen=True)
class Map:
    of: "Type"

    def ddl(self) -> str:
        return f"map<string, {self.of.ddl()}>"


Type = Simple | Struct | List | Map
TEXT, NUMBER = Simple("string"), Simple("int")
SIMPLE = st.sampled_from([TEXT, TEXT, NUMBER])
NAMES = ("a", "b", "odd name", "Select")
KEYS = ("p", "q")


def structs(inner: Any, least: int = 1) -> Any:
    names = st.lists(st.sampled_from(NAMES), min_size=least, max_size=2, unique=True)
    return names.flatmap(
        lambda chosen: st.tuples(*[inner] * len(chosen)).map(
            lambda types: Struct(tuple(zip(chosen, types, strict=True)))
        )
    )


TYPES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(structs(inner), structs(inner), inner.map(List), inner.map(Map)),
    max_leaves=6,
)
# A column of its own for text, and lists of structs, so that no pipeline is without them.
SCHEMAS = st.tuples(TYPES, structs(TYPES)).map(
    lambda t: Struct((("key", TEXT), ("some", t[0]), ("items", List(t[1]))))
)


def values(kind: Type) -> Any:
    match kind:
        case Simple("string"):
            return st.sampled_from(["x", "y", "z", None])
        case Simple():
            return st.sampled_from([0, 1, None])
        case Struct(fields):
            filled = st.fixed_dictionaries({name: values(t) for name, t in fields})
            return st.one_of(filled, filled, filled, st.none())
        case List(of):
            return st.one_of(*[st.lists(values(of), max_size=3)] * 3, st.none())
        case Map(of):
            filled = st.dictionaries(st.sampled_from(KEYS), values(of), max_size=2)
            return st.one_of(filled, filled, st.none())


def rows_of(schema: Struct) -> Any:
    row = st.fixed_dictionaries({name: values(kind) for name, kind in schema.fields})
    return st.lists(row, min_size=1, max_size=5)


# --- Values that know where they come from ----------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A value. `parts` are its fields, items or entries; a leaf, or a null, has a `value` only.

    An `item` of a collected list is that of one member of a group, whose key is `shared` by all.
    """

    value: Any = None
    parts: dict[Any, "Node"] | None = None
    tags: Tags = NONE
    near: Tags = NONE
    item: bool = False
    shared: bool = False

    @property
    def missing(self) -> bool:
        return self.parts is None and self.value is None


@dataclass(frozen=True)
class Row:
    """Columns, and the cells that were looked at for the row to be there.

    `keyed` are those of keys of groups: of an item of such a group, only its member's own count.
    """

    columns: dict[str, Node]
    looked: Tags = NONE
    keyed: Tags = NONE


@dataclass(frozen=True)
class Table:
    types: dict[str, Type]
    rows: list[Row] = field(default_factory=list)


def tagged(number: int, kind: Type, value: Any, path: str) -> Node:
    if value is None or isinstance(kind, Simple):
        return Node(value, tags=frozenset({(number, path)}))
    match kind:
        case Struct(fields):
            inner = {n: tagged(number, t, value[n], join(path, n)) for n, t in fields}
            return Node(dict, inner)
        case List(of):
            return Node(
                list,
                {i: tagged(number, of, item, f"{path}[{i}]") for i, item in enumerate(value)},
            )
        case Map(of):
            return Node(
                dict, {k: tagged(number, of, v, f"{path}{{{k!r}}}") for k, v in value.items()}
            )


def join(path: str, name: str) -> str:
    return f"{path}.{quote(name)}" if path else quote(name)


def source(schema: Struct, rows: list[dict[str, Any]]) -> Table:
    made = [tagged(i, schema, row, "").parts or {} for i, row in enumerate(rows)]
    return Table(dict(schema.fields), [Row(columns) for columns in made])


def plain(node: Node) -> Any:
    if node.parts is None:
        return node.value
    if node.value is list:
        return [plain(part) for part in node.parts.values()]
    return {name: plain(part) for name, part in node.parts.items()}


def every(node: Node) -> Iterator[Node]:
    yield node
    for part in (node.parts or {}).values():
        yield from every(part)


def tags(node: Node) -> Tags:
    return NONE.union(*(part.tags for part in every(node)))


def near(node: Node) -> Tags:
    return NONE.union(*(part.near for part in every(node)))


def all_of(node: Node) -> Tags:
    return tags(node) | near(node)


def nearer(node: Node, more: Tags, keyed: Tags = NONE) -> Node:
    """The value, with more cells looked at for it and for all that is in it."""
    parts = node.parts and {name: nearer(part, more, keyed) for name, part in node.parts.items()}
    return replace(node, parts=parts, near=node.near | more | (NONE if node.item else keyed))


def marked(node: Node, **flags: bool) -> Node:
    """The value, with flags for it and for all that is in it."""
    parts = node.parts and {name: marked(part, **flags) for name, part in node.parts.items()}
    return replace(node, parts=parts, **flags)


def looking(row: Row, node: Node) -> Row:
    """The row, for which a value was looked at."""
    shared = NONE.union(*(part.tags | part.near for part in every(node) if part.shared))
    own = NONE.union(*(part.tags | part.near for part in every(node) if not part.shared))
    return replace(row, looked=row.looked | own, keyed=row.keyed | shared)


def at(node: Node, path: tuple[str, ...]) -> Node:
    """A field inside; inside of nothing is nothing, for the same reason."""
    for name in path:
        node = node if node.parts is None else node.parts[name]
    return replace(node, value=None, parts=None) if node.missing else node


def merged(nodes: list[Node]) -> Node:
    """Equal values of several rows as one."""
    first = nodes[0]
    parts = first.parts and {
        name: merged([(node.parts or {})[name] for node in nodes]) for name in first.parts
    }
    return Node(
        first.value,
        parts,
        NONE.union(*(node.tags for node in nodes)),
        NONE.union(*(node.near for node in nodes)),
    )


# --- Operators: over frames, and over the oracle's tables -------------------------------------


@dataclass(frozen=True)
class Place:
    """A column and the names of fields inside."""

    names: tuple[str, ...]
    type: Type

    def column(self) -> Any:
        return F.col(".".join(f"`{name}`" for name in self.names))

    def of(self, row: Row) -> Node:
        return at(row.columns[self.names[0]], self.names[1:])


def places(types: dict[str, Type]) -> list[Place]:
    """All values of a row that can be named without going into lists or maps."""

    def inside(names: tuple[str, ...], kind: Type) -> Iterator[Place]:
        yield Place(names, kind)
        if isinstance(kind, Struct):
            for name, inner in kind.fields:
                yield from inside((*names, name), inner)

    return [place for name, kind in types.items() for place in inside((name,), kind)]


@dataclass(frozen=True)
class Operator:
    """The same operation on a frame and on a table."""

    text: str
    spark: Callable[[DataFrame], DataFrame]
    oracle: Callable[[Table], Table]

    def __repr__(self) -> str:
        return self.text


def select(chosen: list[tuple[str, Place]], kept: list[str]) -> Operator:
    """Some columns kept, others made from places."""

    def slow(table: Table) -> Table:
        types = {k: table.types[k] for k in kept} | {n: p.type for n, p in chosen}
        rows = [
            Row({k: r.columns[k] for k in kept} | {n: p.of(r) for n, p in chosen}, r.looked)
            for r in table.rows
        ]
        return Table(types, rows)

    return Operator(
        f"select({kept}, {[(n, p.names) for n, p in chosen]})",
        lambda f: f.select(*kept, *(p.column().alias(n) for n, p in chosen)),
        slow,
    )


def pack(name: str, parts: list[tuple[str, Place]], kept: list[str]) -> Operator:
    """A struct made of places, beside some columns."""

    def slow(table: Table) -> Table:
        kind = Struct(tuple((n, p.type) for n, p in parts))
        types = {k: table.types[k] for k in kept} | {name: kind}
        rows = []
        for r in table.rows:
            made = Node(dict, {n: p.of(r) for n, p in parts})
            rows.append(Row({k: r.columns[k] for k in kept} | {name: made}, r.looked))
        return Table(types, rows)

    return Operator(
        f"pack({name}, {[(n, p.names) for n, p in parts]}, {kept})",
        lambda f: f.select(*kept, F.struct(*(p.column().alias(n) for n, p in parts)).alias(name)),
        slow,
    )


def present(place: Place) -> Operator:
    """Rows in which there is a value."""

    def slow(table: Table) -> Table:
        kept = [looking(r, place.of(r)) for r in table.rows if not place.of(r).missing]
        return replace(table, rows=kept)

    return Operator(f"present({place.names})", lambda f: f.where(place.column().isNotNull()), slow)


def upper(place: Place, name: str) -> Operator:
    """A value computed from another, in a column of its own."""

    def slow(table: Table) -> Table:
        rows = []
        for r in table.rows:
            found = place.of(r)
            text = found.value.upper() if found.value is not None else None
            flags = {"item": found.item, "shared": found.shared}
            made = Node(text, tags=tags(found), near=near(found), **flags)
            rows.append(replace(r, columns={**r.columns, name: made}))
        return Table({**table.types, name: TEXT}, rows)

    return Operator(
        f"upper({place.names}, {name})",
        lambda f: f.withColumn(name, F.upper(place.column())),
        slow,
    )


def explode(place: Place, name: str) -> Operator:
    """A row for each item of a list."""
    assert isinstance(place.type, List)

    def slow(table: Table) -> Table:
        rows = []
        for r in table.rows:
            for item in (place.of(r).parts or {}).values():
                rows.append(looking(replace(r, columns={**r.columns, name: item}), item))
        return Table({**table.types, name: place.type.of}, rows)

    return Operator(
        f"explode({place.names}, {name})",
        lambda f: f.select("*", F.explode(place.column()).alias(name)),
        slow,
    )


def grouped(table: Table, key: str) -> list[list[Row]]:
    """The rows with each value of a column."""
    groups: dict[str, list[Row]] = {}
    for row in table.rows:
        groups.setdefault(repr(plain(row.columns[key])), []).append(row)
    return list(groups.values())


def collect(key: str, value: str, name: str) -> Operator:
    """The values of a column that are there, listed by another."""

    def slow(table: Table) -> Table:
        rows = []
        for members in grouped(table, key):
            # What was looked at for each member, its key among it.
            seen = [looking(m, m.columns[key]) for m in members]
            looked = [m.looked | m.keyed for m in seen]
            giving = [
                marked(nearer(m.columns[value], m.looked, m.keyed), item=True, shared=False)
                for m in seen
                if not m.columns[value].missing
            ]
            # A null that was left out had its say in the list as a whole.
            pairs = list(zip((m.columns[value] for m in members), looked, strict=True))
            left = [(v, about) for v, about in pairs if v.missing]
            listed = Node(
                list,
                dict(enumerate(giving)),
                NONE.union(*(tags(v) for v, _ in left)),
                NONE.union(*(about | near(v) for v, about in left)),
            )
            whole = merged([m.columns[key] for m in members])
            own = marked(nearer(whole, NONE.union(*looked)), item=False, shared=True)
            rows.append(Row({key: own, name: listed}))
        return Table({key: table.types[key], name: List(table.types[value])}, rows)

    return Operator(
        f"collect({key}, {value}, {name})",
        lambda f: f.groupBy(F.col(f"`{key}`")).agg(F.collect_list(f"`{value}`").alias(name)),
        slow,
    )


def counted(key: str, name: str) -> Operator:
    """How many rows there are for each value of a column: made of no cell, but of all of them."""

    def slow(table: Table) -> Table:
        rows = []
        for members in grouped(table, key):
            seen = [looking(m, m.columns[key]) for m in members]
            looked = NONE.union(*(m.looked | m.keyed for m in seen))
            own = nearer(merged([m.columns[key] for m in members]), looked)
            count = Node(len(members), near=looked)
            rows.append(Row({key: marked(own, item=False, shared=True), name: count}))
        return Table({key: table.types[key], name: Simple("bigint")}, rows)

    return Operator(
        f"counted({key}, {name})",
        lambda f: f.groupBy(F.col(f"`{key}`")).agg(F.count("*").alias(name)),
        slow,
    )


def union(left: list[Operator], right: list[Operator]) -> Operator:
    """Both branches over the same rows."""

    def slow(table: Table) -> Table:
        first, second = run(left, table), run(right, table)
        assert first.types == second.types
        return replace(first, rows=first.rows + second.rows)

    def fast(frame: DataFrame) -> DataFrame:
        branches = []
        for operators in (left, right):
            branch = frame
            for operator in operators:
                branch = operator.spark(branch)
            branches.append(branch)
        return branches[0].union(branches[1])

    return Operator(f"union({left}, {right})", fast, slow)


def run(operators: list[Operator], table: Table) -> Table:
    for operator in operators:
        table = operator.oracle(table)
    return table


# --- Pipelines --------------------------------------------------------------------------------


@st.composite
def pipelines(draw: Any, schema: Struct) -> list[Operator]:
    """Up to five operators that fit each other."""
    types = dict(schema.fields)
    done: list[Operator] = []
    for number in range(draw(st.integers(1, 5))):
        operator = draw(_next(types, number))
        done.append(operator)
        types = operator.oracle(Table(types)).types
    return done


@st.composite
def _next(draw: Any, types: dict[str, Type], number: int) -> Operator:
    found = places(types)
    name = f"c{number}"
    lists = [p for p in found if isinstance(p.type, List)]
    texts = [p for p in found if p.type == TEXT]
    keys = [n for n, t in types.items() if _groupable(t)]
    kinds = ["select", "pack", "present"]
    kinds += ["explode"] * 2 if lists else []
    kinds += ["collect"] * 2 if keys and len(types) > 1 else []
    kinds += ["counted"] if keys else []
    kinds += ["upper", "union"] if texts else []
    place = st.sampled_from(found)
    match draw(st.sampled_from(kinds)):
        case "select":
            kept = draw(st.lists(st.sampled_from(list(types)), max_size=2, unique=True))
            return select([(name, draw(place))], kept)
        case "pack":
            parts = draw(st.lists(place, min_size=1, max_size=2))
            kept = draw(st.lists(st.sampled_from(list(types)), max_size=2, unique=True))
            return pack(name, [(f"f{i}", p) for i, p in enumerate(parts)], kept)
        case "present":
            return present(draw(place))
        case "upper":
            return upper(draw(st.sampled_from(texts)), name)
        case "explode":
            return explode(draw(st.sampled_from(lists)), name)
        case "collect":
            key = draw(st.sampled_from(keys))
            value = draw(st.sampled_from([n for n in types if n != key]))
            return collect(key, value, name)
        case "counted":
            return counted(draw(st.sampled_from(keys)), name)
        case _:
            return union(*(draw(_branch(types, name)) for _ in range(2)))


def _groupable(kind: Type) -> bool:
    """Whether Spark can group by it, and equal values have equal parts."""
    match kind:
        case Simple():
            return True
        case Struct(fields):
            return all(_groupable(inner) for _, inner in fields)
        case _:
            return False


@st.composite
def _branch(draw: Any, types: dict[str, Type], name: str) -> list[Operator]:
    """A column of text, from wherever there is one."""
    lists = [p for p in places(types) if isinstance(p.type, List)]
    done: list[Operator] = []
    if lists and draw(st.booleans()):
        done.append(explode(draw(st.sampled_from(lists)), f"{name}x"))
        types = done[0].oracle(Table(types)).types
    texts = [p for p in places(types) if p.type == TEXT]
    return [*done, select([(name, draw(st.sampled_from(texts)))], [])]


# --- Questions --------------------------------------------------------------------------------


def questions(table: Table) -> dict[str, list[tuple[Tags, Tags]]]:
    """Every value in every row, as a pattern, with the answers for the rows that have it."""
    found: dict[str, list[tuple[Tags, Tags]]] = {}

    def visit(row: Row, node: Node, kind: Type, path: str) -> None:
        keyed = NONE if node.item else row.keyed
        found.setdefault(path, []).append((tags(node), near(node) | row.looked | keyed))
        match kind:
            case Struct(fields):
                for name, inner in fields:
                    visit(row, at(node, (name,)), inner, f"{path}.{quote(name)}")
            case List(of):
                for i, item in (node.parts or {}).items():
                    visit(row, item, of, f"{path}[{i}]")
            case Map(of):
                for key, value in (node.parts or {}).items():
                    visit(row, value, of, f"{path}.{quote(key)}")

    for row in table.rows:
        for name, kind in table.types.items():
            visit(row, row.columns[name], kind, quote(name))
    return found


def leaves(schema: Struct, rows: list[dict[str, Any]], cell: dict[str, Any]) -> Tags:
    """The leaves that a cell of an answer stands for: a list stands for all that is in it."""
    number, path = cell["row"], cell["path"]
    pattern = re.escape(path).replace(r"\[\*\]", r"\[\d+\]").replace(r"\{\}", r"\{'\w+'\}")
    own = tags(tagged(number, schema, rows[number], ""))
    return frozenset(
        tag
        for tag in own
        if re.fullmatch(rf"{pattern}(?:[.\[{{].*)?", tag[1])
        # or it is in a value that is null
        or path.startswith((f"{tag[1]}.", f"{tag[1]}[", f"{tag[1]}{{"))
    )
