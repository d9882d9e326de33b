"""Values of the JVM: Scala's sequences and options, classes by name, objects as bytes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from py4j.java_gateway import JavaObject

CATALYST = "org.apache.spark.sql.catalyst"

Plan = Any
Expression = Any


class Package:
    """The classes of a Java package; each is looked up in the JVM once."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._found, name)
        setattr(self, name, found)
        return found


class Classes:
    """What was looked up in one JVM: packages, classes and singletons."""

    def __init__(self, jvm: Any) -> None:
        catalyst = jvm.org.apache.spark.sql.catalyst
        self.expressions = Package(catalyst.expressions)
        self.aggregates = Package(catalyst.expressions.aggregate)
        self.logical = Package(catalyst.plans.logical)
        self.join_type = catalyst.plans.JoinType
        self.dataset = jvm.org.apache.spark.sql.classic.Dataset
        self.to_seq = jvm.PythonUtils.toSeq
        self.some = jvm.scala.Some
        self.named: dict[str, Any] = {}
        self.objects: dict[str, Any] = {}
        self.arities: dict[str, int] = {}
        self.schemas: list[tuple[Any, str]] = []


# A process has one JVM at a time; PySpark makes another view of it only with a new one.
classes_of = lru_cache(maxsize=1)(Classes)


class Values:
    """Scala's values, made and taken apart."""

    def __init__(self, jvm: Any, session: Any) -> None:
        self.jvm: Any = jvm
        self._java: Any = session
        self._classes = classes_of(jvm)
        self.expressions = self._classes.expressions
        self.aggregates = self._classes.aggregates
        self.logical = self._classes.logical
        self._names = 0

    def scala_object(self, name: str) -> Any:
        """The singleton of a Scala `object`."""
        if name not in self._classes.objects:
            loader = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
            found = self.jvm.java.lang.Class.forName(name + "$", True, loader)
            self._classes.objects[name] = found.getField("MODULE$").get(None)
        return self._classes.objects[name]

    def class_named(self, name: str) -> Any:
        """The Java class of that name."""
        if name not in self._classes.named:
            self._classes.named[name] = self.jvm.java.lang.Class.forName(name)
        return self._classes.named[name]

    def arity(self, name: str) -> int:
        """How many arguments the largest constructor of a class takes, which differs by version."""
        if name not in self._classes.arities:
            constructors = self.class_named(name).getConstructors()
            self._classes.arities[name] = max(c.getParameterCount() for c in constructors)
        return self._classes.arities[name]

    def seq(self, items: Iterable[Any], more: Iterable[Any] = ()) -> Any:
        """A Scala `Seq` of the items, and of some more.

        Items that are a `Seq` already stay in the JVM: a call for each would take long where there
        are hundreds of columns.
        """
        if isinstance(items, JavaObject):
            added = list(more)
            return items.appendedAll(self.seq(added)) if added else items
        values = [*items, *more]
        if not values:
            return self.scala_object("scala.collection.immutable.Nil")
        return self._classes.to_seq(values)

    def to_bytes(self, command: Any) -> bytes:
        """The bytes of a Scala `Seq[Byte]` or a Java byte array."""
        if isinstance(command, bytes | bytearray):
            return bytes(command)
        tag = self.scala_object("scala.reflect.ClassTag").Byte()
        return bytes(command.toArray(tag))

    @staticmethod
    def items(seq: Any) -> list[Any]:
        """The items of a Scala `Seq`."""
        return [seq.apply(i) for i in range(seq.size())]

    @staticmethod
    def kind(node: Any) -> str:
        """The simple class name of a plan's node or an expression."""
        return str(node.getClass().getSimpleName())

    @property
    def none(self) -> Any:
        """Scala's `None`."""
        return self.scala_object("scala.None")

    def some(self, value: Any) -> Any:
        """Scala's `Some(value)`."""
        return self._classes.some(value)

    def serialise(self, value: Any) -> bytes:
        """A Java object as bytes."""
        buffer = self.jvm.java.io.ByteArrayOutputStream()
        stream = self.jvm.java.io.ObjectOutputStream(buffer)
        stream.writeObject(value)
        stream.close()
        return bytes(buffer.toByteArray())

    def deserialise(self, data: bytes) -> Any:
        """The Java object that `serialise` made bytes of."""
        buffer = self.jvm.java.io.ByteArrayInputStream(bytearray(data))
        return self.jvm.java.io.ObjectInputStream(buffer).readObject()
