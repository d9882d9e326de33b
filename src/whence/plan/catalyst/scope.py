"""What is known of a plan's attributes while it is read: numbers, types, names that clash."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from whence.errors import UnsupportedError
from whence.plan.catalyst import types
from whence.plan.catalyst.nodes import Node
from whence.plan.catalyst.types import DataType
from whence.plan.operators import Column
from whence.plan.paths import quote


@dataclass(slots=True)
class Attributes:
    """All attributes of one plan, by Spark's expression id."""

    types: dict[int, DataType] = field(default_factory=dict)
    nullable: dict[int, bool] = field(default_factory=dict)
    qualifiers: dict[int, str] = field(default_factory=dict)
    _numbers: dict[int, int] = field(default_factory=dict)
    _keys: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, items: Any) -> "Attributes":
        """What the references anywhere in a plan's JSON say of their attributes."""
        found = cls()
        for item in _references(items):
            key = item["exprId"]["id"]
            if key not in found.types:
                refuse_twins(item["name"], item["dataType"])
            found.number(key)
            found.types.setdefault(key, item["dataType"])
            found.nullable.setdefault(key, item["nullable"])
            qualifier = item.get("qualifier")
            if isinstance(qualifier, str) and qualifier.strip("[]"):
                found.qualifiers.setdefault(key, qualifier.strip("[]").split(", ")[-1])
        return found

    def number(self, key: int) -> int:
        """The plan's own number for an expression id, given out in order of first use."""
        if key not in self._numbers:
            self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return self._numbers[key]

    def key(self, number: int) -> int:
        """The expression id behind one of the plan's own numbers."""
        return self._keys[number]

    def qualifier(self, number: int) -> str | None:
        """The alias under which a column is known, by the plan's own number."""
        return self.qualifiers.get(self.key(number))

    def column(self, node: Node) -> Column:
        """The output column that an attribute or an alias makes."""
        key, name = node.id, str(node.fields["name"])
        if node.name == "AttributeReference":
            data_type, nullable = node.fields["dataType"], bool(node.fields["nullable"])
        else:
            data_type = self.types.get(key)
            if data_type is None:
                data_type = types.infer(node, self.types)
                self.types[key] = data_type
            nullable = self.nullable.get(key, True)
        return Column(name, types.text(data_type), nullable, self.number(key))


def refuse_twins(column: str, data_type: DataType) -> None:
    """Raise if a column's structs have fields that paths do not tell apart."""
    for one, other in types.twins(data_type):
        raise UnsupportedError(
            f"the column {column!r} holds a struct with the fields {one!r} and {other!r}, whose "
            "names differ in case alone: a path could mean either; rename one of them, or leave "
            "the column out where it is read (spark.read.schema)"
        )


_REFERENCES = (
    "org.apache.spark.sql.catalyst.expressions.AttributeReference",
    "org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable",
)


def _references(value: Any) -> Iterator[dict[str, Any]]:
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending.extend(reversed(value))
        elif isinstance(value, dict):
            if value.get("class") in _REFERENCES:
                yield value
            else:
                parts = [v for k, v in value.items() if k != "cacheBuilder"]
                pending.extend(reversed(parts))


def _clashes(columns: Iterable[Column]) -> dict[str, set[int]]:
    """The names that several columns have, in any case, with the numbers of these."""
    by_name: dict[str, set[int]] = {}
    for column in columns:
        by_name.setdefault(column.name.lower(), set()).add(column.number)
    return {name: numbers for name, numbers in by_name.items() if len(numbers) > 1}


class Names:
    """How one operator's expressions call their columns: plain, qualified only where needed."""

    __slots__ = ("_attributes", "_clashes")

    def __init__(self, attributes: Attributes, inputs: Iterable[Column]) -> None:
        self._attributes = attributes
        self._clashes = _clashes(inputs)

    def text(self, node: Node) -> str:
        """The name of an attribute."""
        name = str(node.fields["name"])
        rivals = self._clashes.get(name.lower())
        if not rivals:
            return quote(name)
        qualifiers = [self._attributes.qualifier(number) for number in rivals]
        mine = self._attributes.qualifiers.get(node.id)
        if mine and None not in qualifiers and len(set(qualifiers)) == len(qualifiers):
            return f"{quote(mine)}.{quote(name)}"
        return f"{quote(name)}#{self._attributes.number(node.id)}"


class Places:
    """How labels call an operator's columns: plain, with the place only where names clash.

    `a@1` is the column a of the second input, `a@1.2` the third one of that name there. A name that
    is not plain is in backticks, so that none can look like this.
    """

    __slots__ = ("_attributes", "_clashes", "_places")

    def __init__(self, attributes: Attributes, inputs: Sequence[Sequence[Column]]) -> None:
        self._attributes = attributes
        self._clashes = _clashes(column for columns in inputs for column in columns)
        self._places: dict[int, str] = {}
        for position, columns in enumerate(inputs):
            taken: dict[str, int] = {}
            for column in columns:
                order = taken.get(column.name, 0)
                taken[column.name] = order + 1
                place = f"@{position}" + (f".{order}" if order else "")
                self._places.setdefault(column.number, place)

    def text(self, node: Node) -> str:
        """The name of an attribute."""
        name = str(node.fields["name"])
        if name.lower() not in self._clashes:
            return quote(name)
        return quote(name) + self._places.get(self._attributes.number(node.id), "@")
