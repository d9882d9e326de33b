"""The only module that touches the JVM: builds and takes apart Spark's plans and expressions.

Nodes are made from parsed SQL text wherever possible (`Gateway.parse`), and changed with
`TreeNode.makeCopy`, so that little depends on the constructors of one Spark version.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from whence.errors import CaptureError, UnsupportedError, WhenceError
from whence.spark.stored import Stored

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"

Plan = Any
Expression = Any


_NESTED_PRUNING = (
    "spark.sql.optimizer.nestedSchemaPruning.enabled",
    "spark.sql.optimizer.expression.nestedPruning.enabled",
)
# Set in a session of our own beside the user's. Timestamps that DuckDB reads as Spark means them.
_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.writeLegacyFormat": "false",
}


_FULL = ("No space left on device", "File too large", "Disk quota exceeded")
_STOPPED = ("stopped SparkContext", "SparkContext was shut down", "SparkContext has been shutdown")


def is_stopped(session: SparkSession) -> bool:
    """Whether a session can no longer be used since its context was stopped."""
    return session.sparkContext._jsc is None


@contextmanager
def spark_errors(doing: str, ours: type[WhenceError], *, own: bool) -> Iterator[None]:
    """Say what Spark's failures mean; with `own`, what the pipeline raises passes as it is."""
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as error:
        text = str(error)
        if any(sign in text for sign in _FULL):
            raise ours(
                f"no space left on disk while {doing}; the archive is unchanged: free some space "
                "and run again"
            ) from error
        if _is_gone(error, text):
            raise ours(
                f"the Spark session died or was stopped while {doing}; the archive is unchanged: "
                "run again in a new session"
            ) from error
        if own and isinstance(error, PySparkException | Py4JJavaError):
            raise
        raise ours(f"Spark failed while {doing}: {text[:1000]}") from error


def _is_gone(error: Exception, text: str) -> bool:
    if isinstance(error, ConnectionError | Py4JNetworkError):
        return True
    if any(sign in text for sign in _STOPPED):
        return True
    return type(error) is Py4JError and "Trace:" not in text  # no answer to a call under way


class Gateway:
    """Spark's JVM, through a session of our own that shares the user's context and cache."""

    total_job_seconds = 0.0
    """Time spent in jobs that write, over all gateways of the process; benchmarks read it."""

    def __init__(self, session: SparkSession) -> None:
        jvm = getattr(session, "_jvm", None)
        if jvm is None:
            raise UnsupportedError(
                "this is a Spark Connect session, whose plans cannot be read from here; "
                "run the pipeline in a classic session (SparkSession.builder.master(...))"
            )
        if is_stopped(session):
            raise CaptureError("the Spark session was stopped; run again in a new session")
        self.jvm: Any = jvm
        self._names = 0
        self._objects: dict[str, Any] = {}
        self._arities: dict[str, int] = {}
        self._java: Any = session._jsparkSession.cloneSession()
        self.session = SparkSession(session.sparkContext, self._java)
        for key, value in _SETTINGS.items():
            self._java.conf().set(key, value)

    # --- Scala values -----------------------------------------------------------------------

    def scala_object(self, name: str) -> Any:
        """The singleton of a Scala `object`."""
        if name not in self._objects:
            loader = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
            found = self.jvm.java.lang.Class.forName(name + "$", True, loader)
            self._objects[name] = found.getField("MODULE$").get(None)
        return self._objects[name]

    def arity(self, name: str) -> int:
        """How many arguments the largest constructor of a class takes, which differs by version."""
        if name not in self._arities:
            constructors = self.jvm.java.lang.Class.forName(name).getConstructors()
            self._arities[name] = max(c.getParameterCount() for c in constructors)
        return self._arities[name]

    def seq(self, items: Iterable[Any]) -> Any:
        """A Scala `Seq` of the items."""
        return self.jvm.PythonUtils.toSeq(list(items))

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

    @property
    def none(self) -> Any:
        """Scala's `None`."""
        return self.scala_object("scala.None")

    def some(self, value: Any) -> Any:
        """Scala's `Some(value)`."""
        return self.jvm.scala.Some(value)

    # --- Expressions ------------------------------------------------------------------------

    def fresh(self, stem: str) -> str:
        """A slot name that nothing else has."""
        self._names += 1
        return f"__whence_{stem}{self._names}"

    def parse(self, text: str) -> Expression:
        """An unresolved expression from SQL text."""
        return self._java.sessionState().sqlParser().parseExpression(text)

    def alias(
        self, expression: Expression, name: str, expr_id: Any = None, metadata: Any = None
    ) -> Any:
        """`expression AS name`, with the given identity or a new one."""
        expressions = self.jvm.org.apache.spark.sql.catalyst.expressions
        if expr_id is None:
            expr_id = expressions.NamedExpression.newExprId()
        empty = self.seq([])
        explicit = self.none if metadata is None else self.some(metadata)
        return expressions.Alias(expression, name, expr_id, empty, explicit, empty)

    def literal(self, value: Any) -> Expression:
        """A literal of a Python bool, int or str."""
        return self.scala_object(f"{_EXPRESSIONS}.Literal").apply(value)

    def null_safe_equal(self, left: Expression, right: Expression) -> Expression:
        """`left <=> right`."""
        return self.jvm.org.apache.spark.sql.catalyst.expressions.EqualNullSafe(left, right)

    def not_null(self, value: Expression) -> Expression:
        """`value IS NOT NULL`."""
        return self.jvm.org.apache.spark.sql.catalyst.expressions.IsNotNull(value)

    def default_false(self, value: Expression) -> Expression:
        """`coalesce(value, false)`."""
        expressions = self.jvm.org.apache.spark.sql.catalyst.expressions
        return expressions.Coalesce(self.seq([value, self.literal(False)]))

    def close_to(self, left: Expression, right: Expression) -> Expression:
        """Whether two floating-point numbers are equal but for rounding, or both null."""
        e = self.jvm.org.apache.spark.sql.catalyst.expressions
        a, b = self.cast(left, "double"), self.cast(right, "double")
        factor = e.Multiply(e.Abs(b), self.literal(1e-9))
        # Infinity and NaN are near everything in this arithmetic; they are told by equality alone.
        finite = e.LessThan(e.Abs(b), self.literal(float("inf")))
        near = e.And(finite, e.LessThanOrEqual(e.Abs(e.Subtract(a, b)), factor))
        return e.Or(self.null_safe_equal(a, b), e.Coalesce(self.seq([near, self.literal(False)])))

    def listed(self, value: Expression, values: Any) -> Expression:
        """Whether a value is one of some constants, a Scala `Seq` of Spark's own values."""
        expressions = self.jvm.org.apache.spark.sql.catalyst.expressions
        among = expressions.InSet(value, values.toSet())
        return expressions.Or(among, expressions.IsNull(value)) if values.contains(None) else among

    def conjunction(self, predicates: Sequence[Expression]) -> Expression:
        """All predicates joined by AND; TRUE if there are none."""
        if not predicates:
            return self.literal(True)
        result = predicates[0]
        for predicate in predicates[1:]:
            result = self.jvm.org.apache.spark.sql.catalyst.expressions.And(result, predicate)
        return result

    def struct(self, fields: Sequence[tuple[str, Expression]]) -> Expression:
        """`named_struct(...)` of already resolved expressions."""
        flat = [part for name, value in fields for part in (self.literal(name), value)]
        return self.jvm.org.apache.spark.sql.catalyst.expressions.CreateNamedStruct(self.seq(flat))

    def null(self, kind: Any) -> Expression:
        """A null of a Java data type."""
        return self.scala_object(f"{_EXPRESSIONS}.Literal").create(None, kind)

    def cast(self, value: Expression, kind: str) -> Expression:
        """`CAST(value AS kind)`."""
        return self.cast_to(value, self.data_type(kind))

    def cast_to(self, value: Expression, kind: Any) -> Expression:
        """`CAST(value AS kind)`, the kind being a Java data type."""
        if value.dataType().equals(kind):
            return value
        zone = self.some(self._java.sessionState().conf().sessionLocalTimeZone())
        return self.jvm.org.apache.spark.sql.catalyst.expressions.Cast(value, kind, zone)

    def as_type(self, value: Expression, kind: Any) -> Expression:
        """A value that came back from outside Spark, as the Java data type that it had.

        Parquet holds intervals as plain numbers of microseconds or months.
        """
        text, have = str(kind.catalogString()), str(value.dataType().catalogString())
        if text.startswith("interval ") and not have.startswith("interval"):
            expressions = self.jvm.org.apache.spark.sql.catalyst.expressions
            months = "year" in text or "month" in text
            unit = "INTERVAL '1' MONTH" if months else "INTERVAL '0.000001' SECOND"
            times = expressions.MultiplyYMInterval if months else expressions.MultiplyDTInterval
            return self.cast_to(times(self.parse(unit), value), kind)
        return value if text == have else self.cast_to(value, kind.asNullable())

    def known_not_null(self, value: Expression) -> Expression:
        """The value, taken to be never null."""
        return self.jvm.org.apache.spark.sql.catalyst.expressions.KnownNotNull(value)

    def data_type(self, text: str) -> Any:
        """A Java data type from its DDL text."""
        return self._java.sessionState().sqlParser().parseDataType(text)

    def new_attribute(self, name: str, kind: Any) -> Any:
        """An attribute of its own, of a Java data type or one given as DDL text."""
        data_type = self.data_type(kind) if isinstance(kind, str) else kind
        return self.alias(self.null(data_type), name).toAttribute()

    def struct_type(self, schema: str) -> Any:
        """A Java struct type from a schema's JSON."""
        return self.jvm.org.apache.spark.sql.types.DataType.fromJson(schema)

    def attributes(self, schema: Any) -> list[Any]:
        """New attributes for the fields of a Java struct type."""
        expressions = self.jvm.org.apache.spark.sql.catalyst.expressions
        empty = self.seq([])
        return [
            expressions.AttributeReference(
                field.name(),
                field.dataType(),
                field.nullable(),
                field.metadata(),
                expressions.NamedExpression.newExprId(),
                empty,
            )
            for field in schema.fields()
        ]

    def column_text(self, column: Any) -> str:
        """A Column as Spark SQL text."""
        return str(self._java.expression(column._jc).sql())

    def field(self, struct: Expression, position: int) -> Expression:
        """The field of a struct at a position."""
        expressions = self.jvm.org.apache.spark.sql.catalyst.expressions
        return expressions.GetStructField(struct, position, self.none)

    def pos_explode(self, array: Expression) -> Expression:
        """`posexplode(array)`."""
        return self.jvm.org.apache.spark.sql.catalyst.expressions.PosExplode(array)

    def default(self, value: Expression, default: int) -> Expression:
        """`coalesce(value, default)`."""
        expressions = self.jvm.org.apache.spark.sql.catalyst.expressions
        return expressions.Coalesce(self.seq([value, self.literal(default)]))

    def replace_in(self, expression: Expression, mapping: Sequence[tuple[Any, Any]]) -> Expression:
        """`expression` with each subexpression that is one of the first items made the second."""
        for old, new in mapping:
            if expression.semanticEquals(old):
                return new
        kids = self.items(expression.children())
        if not kids:
            return expression
        replaced = [self.replace_in(kid, mapping) for kid in kids]
        if all(a is b for a, b in zip(kids, replaced, strict=True)):
            return expression
        return expression.withNewChildren(self.seq(replaced))

    # --- Aggregate functions ----------------------------------------------------------------

    @property
    def _aggregates(self) -> Any:
        return self.jvm.org.apache.spark.sql.catalyst.expressions.aggregate

    def collect_list(self, value: Expression) -> Expression:
        """`collect_list(value)`, resolved."""
        return self._aggregates.CollectList(value).toAggregateExpression()

    def extreme(self, kind: str, value: Expression, when: Expression | None) -> Expression:
        """`min(value)` or `max(value)`, with a FILTER clause if there is one."""
        function = getattr(self._aggregates, kind)(value)
        return function.toAggregateExpression(False, self.none if when is None else self.some(when))

    def rank(self, order: Sequence[Any]) -> Expression:
        """`rank()` over the given order."""
        keys = [o.child() for o in order]
        return self.jvm.org.apache.spark.sql.catalyst.expressions.Rank(self.seq(keys))

    def over(self, function: Expression, partition: Any, order: Any, frame: Any) -> Expression:
        """`function OVER (PARTITION BY … ORDER BY … frame)`."""
        expressions = self.jvm.org.apache.spark.sql.catalyst.expressions
        spec = expressions.WindowSpecDefinition(partition, order, frame)
        return expressions.WindowExpression(function, spec)

    def aggregate_expressions(self, node: Plan) -> list[Expression]:
        """The distinct aggregate expressions of an aggregate node."""
        found: list[Expression] = []

        def visit(expression: Expression) -> None:
            if self.kind(expression) == "AggregateExpression":
                if not any(expression.semanticEquals(other) for other in found):
                    found.append(expression)
                return
            for child in self.items(expression.children()):
                visit(child)

        for expression in self.items(node.aggregateExpressions()):
            visit(expression)
        return found

    # --- Plans ------------------------------------------------------------------------------

    @staticmethod
    def kind(node: Any) -> str:
        """The simple class name of a node."""
        return str(node.getClass().getSimpleName())

    @staticmethod
    def output(plan: Plan) -> list[Any]:
        """The attributes that a plan gives."""
        return Gateway.items(plan.output())

    @staticmethod
    def attribute_ids(attributes: Any) -> set[int]:
        """The ids in an `AttributeSet`, taken from its text in one call."""
        return {int(i) for i in re.findall(r"#(\d+)L?(?=[,}\]])", str(attributes.toString()))}

    @staticmethod
    def referenced_ids(node: Plan) -> set[int]:
        """The ids of the attributes that a node's expressions look at."""
        return Gateway.attribute_ids(node.references())

    def project(self, expressions: Sequence[Any], child: Plan) -> Plan:
        """`SELECT expressions FROM child`."""
        return self.jvm.org.apache.spark.sql.catalyst.plans.logical.Project(
            self.seq(expressions), child
        )

    def filter(self, condition: Expression, child: Plan) -> Plan:
        """`SELECT * FROM child WHERE condition`."""
        return self.jvm.org.apache.spark.sql.catalyst.plans.logical.Filter(condition, child)

    def join(self, left: Plan, right: Plan, how: str, condition: Expression | None) -> Plan:
        """A join of two resolved plans; `how` is inner, left, right, full, cross or semi."""
        kind = self.jvm.org.apache.spark.sql.catalyst.plans.JoinType.apply(how)
        hint = self.scala_object(f"{_LOGICAL}.JoinHint").NONE()
        on = self.none if condition is None else self.some(condition)
        return self.jvm.org.apache.spark.sql.catalyst.plans.logical.Join(
            left, right, kind, on, hint
        )

    def union(self, plans: Sequence[Plan]) -> Plan:
        """`plan UNION ALL plan …`, columns by position."""
        logical = self.jvm.org.apache.spark.sql.catalyst.plans.logical
        return logical.Union(self.seq(plans), False, False)

    def set_operation(self, kind: str, sides: Sequence[Plan], every: bool) -> Plan:
        """`left EXCEPT [ALL] right` or INTERSECT; `kind` is Spark's class name."""
        logical = self.jvm.org.apache.spark.sql.catalyst.plans.logical
        return getattr(logical, kind)(*sides, every)

    def aggregate(self, grouping: Sequence[Any], expressions: Sequence[Any], child: Plan) -> Plan:
        """`SELECT expressions FROM child GROUP BY grouping`."""
        logical = self.jvm.org.apache.spark.sql.catalyst.plans.logical
        arguments = [self.seq(grouping), self.seq(expressions), child]
        if self.arity(f"{_LOGICAL}.Aggregate") > len(arguments):
            arguments.append(self.none)
        return logical.Aggregate(*arguments)

    def resolved_project(
        self, kept: Sequence[Any], child: Plan, texts: Sequence[tuple[str, str]]
    ) -> Plan:
        """`SELECT kept, text AS name, … FROM child`, the texts being SQL over slot names."""
        child.setAnalyzed()
        aliases = [self.alias(self.parse(text), name) for name, text in texts]
        return self.resolve(self.project([*kept, *aliases], child))

    def resolved(self, plan: Plan, column: Any, write: Callable[[str], str]) -> Expression:
        """A resolved expression over one column of a plan; `write` gives its SQL over a name."""
        name = self.fresh("c")
        named = self.project([column, self.alias(column, name)], plan)
        done = self.resolved_project([], named, [(name, write(f"`{name}`"))])
        expression = self.items(done.projectList())[0].child()
        return self.replace_in(expression, [(self.attribute(named, name), column)])

    def distinct(self, plan: Plan) -> Plan:
        """`SELECT DISTINCT * FROM plan`."""
        columns = self.output(plan)
        return self.aggregate(columns, columns, plan)

    def window(
        self,
        expressions: Sequence[Any],
        partition: Sequence[Any],
        order: Sequence[Any],
        child: Plan,
    ) -> Plan:
        """A window operator with resolved window expressions."""
        logical = self.jvm.org.apache.spark.sql.catalyst.plans.logical
        arguments = [self.seq(expressions), self.seq(partition), self.seq(order), child]
        if self.arity(f"{_LOGICAL}.Window") > len(arguments):
            arguments.append(self.none)
        return logical.Window(*arguments)

    def with_children(self, node: Plan, kids: Sequence[Plan]) -> Plan:
        """The same node over other children."""
        return node.withNewChildren(self.seq(kids))

    def with_arguments(self, node: Any, changes: dict[int, Any]) -> Any:
        """The same node with some constructor arguments changed, by position."""
        count = node.productArity()
        values = [changes[i] if i in changes else node.productElement(i) for i in range(count)]
        array = self.seq(values).toArray(self.scala_object("scala.reflect.ClassTag").AnyRef())
        return node.makeCopy(array)

    def map_expressions(self, node: Plan, change: Callable[[Any], Any | None]) -> Plan:
        """The node with its expressions changed, outermost first; None keeps an expression."""
        changes: dict[int, Any] = {}
        for i in range(node.productArity()):
            value = node.productElement(i)
            fresh = self._map_value(value, change)
            if fresh is not value:
                changes[i] = fresh
        return self.with_arguments(node, changes) if changes else node

    def map_subqueries(self, node: Plan, change: Callable[[int, Any], Any]) -> Plan:
        """The node with the scalar subqueries in its expressions changed, by position."""
        count = iter(range(10**9))

        def visit(expression: Any) -> Any | None:
            if self.kind(expression) != "ScalarSubquery":
                return None
            return change(next(count), expression)

        return self.map_expressions(node, visit)

    def _map_value(self, value: Any, change: Callable[[Any], Any | None]) -> Any:
        if not isinstance(value, JavaObject):
            return value
        if self._is(value, f"{_EXPRESSIONS}.Expression"):
            return self._map_expression(value, change)
        if self._is(value, "scala.Some"):
            inner = value.get()
            fresh = self._map_value(inner, change)
            return value if fresh is inner else self.some(fresh)
        if self._is(value, "scala.collection.Seq"):
            items = self.items(value)
            fresh_items = [self._map_value(item, change) for item in items]
            same = all(a is b for a, b in zip(items, fresh_items, strict=True))
            return value if same else self.seq(fresh_items)
        return value

    def _map_expression(self, expression: Any, change: Callable[[Any], Any | None]) -> Any:
        changed = change(expression)
        if changed is not None:
            return changed
        kids = self.items(expression.children())
        fresh = [self._map_expression(kid, change) for kid in kids]
        if all(a is b for a, b in zip(kids, fresh, strict=True)):
            return expression
        return expression.withNewChildren(self.seq(fresh))

    def _is(self, value: Any, name: str) -> bool:
        if name not in self._objects:
            self._objects[name] = self.jvm.java.lang.Class.forName(name)
        return bool(self._objects[name].isInstance(value))

    def empty_relation(self, output: Sequence[Any]) -> Plan:
        """A relation without rows that has the given attributes."""
        more = self.arity(f"{_LOGICAL}.LocalRelation") - 3
        return self.jvm.org.apache.spark.sql.catalyst.plans.logical.LocalRelation(
            self.seq(output), self.seq([]), False, *[self.none] * more
        )

    def logical_node(self, name: str, arguments: Sequence[Any]) -> Plan:
        """A logical plan node of a class, from its constructor's arguments."""
        return getattr(self.jvm.org.apache.spark.sql.catalyst.plans.logical, name)(*arguments)

    def scalar_subquery(self, plan: Plan) -> Expression:
        """A scalar subquery over a resolved plan."""
        return self.parse("(SELECT 1)").withNewPlan(plan)

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

    @property
    def version(self) -> str:
        """Spark's version."""
        return str(self.session.version)

    # --- File systems -----------------------------------------------------------------------

    def _file_system(self, path: Any) -> Any:
        return path.getFileSystem(self._java.sessionState().newHadoopConf())

    def hadoop_stat(self, uri: str) -> tuple[int, int]:
        """Size and modification time in milliseconds, of a file on any file system."""
        path = self.jvm.org.apache.hadoop.fs.Path(self.jvm.java.net.URI(uri))
        found = self._file_system(path).getFileStatus(path)
        return int(found.getLen()), int(found.getModificationTime())

    def hadoop_list(self, folder: str) -> list[tuple[str, int, int]]:
        """Name, size and modification time of the files in a folder on any file system."""
        path = self.jvm.org.apache.hadoop.fs.Path(folder)
        return [
            (str(f.getPath().getName()), int(f.getLen()), int(f.getModificationTime()))
            for f in self._file_system(path).listStatus(path)
        ]

    # --- Frames -----------------------------------------------------------------------------

    def analysed(self, frame: DataFrame) -> Plan:
        """The resolved plan of a frame, with cached parts shown as such."""
        return frame._jdf.queryExecution().withCachedData()

    def frame(self, plan: Plan) -> DataFrame:
        """The DataFrame of a plan."""
        dataset = self.jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._java, plan)
        return DataFrame(dataset, self.session)

    def read_parquet(self, folder: str, schema: str) -> Plan:
        """The relation over a folder of Parquet files with a schema given as JSON."""
        struct = StructType.fromJson(json.loads(schema))
        frame = self.session.read.schema(struct).parquet(folder)
        return self._exactly_typed(frame, struct)

    def _exactly_typed(self, frame: DataFrame, struct: StructType) -> Plan:
        """The relation of a frame over files, its columns typed as they were written.

        Spark takes every column and item read from files to be nullable, whatever the schema says.
        """
        relation = frame._jdf.queryExecution().analyzed()
        wanted = {f.name(): f for f in self.struct_type(struct.json()).fields()}
        columns = [
            a.withDataType(wanted[a.name()].dataType()) if a.name() in wanted else a
            for a in self.output(relation)
        ]
        return self.with_arguments(relation, {1: self.seq(columns)})

    def read_files(self, paths: Sequence[str], stored: Stored) -> Plan:
        """The relation over some Parquet files of a dataset."""
        schema = stored.properties.get("stored") or json.loads(stored.schema)
        struct = StructType.fromJson(schema)
        reader = self.session.read.schema(struct)
        if stored.properties.get("partitions"):
            reader = reader.option("basePath", stored.location)
        if stored.kind == "source":
            # Spark names files as URIs, and reads names that are not.
            paths = [unquote(path) for path in paths]
        frame = reader.option("__globPaths__", False).parquet(*paths)
        return self._exactly_typed(frame, struct)

    def renamed(self, plan: Plan, wanted: Sequence[Any]) -> Plan:
        """A plan's columns, found by name, under the identities of the wanted ones; else null."""
        have = {str(a.name()): a for a in self.output(plan)}
        columns = [
            self.alias(have.get(str(w.name())) or self.null(w.dataType()), w.name(), w.exprId())
            for w in wanted
        ]
        return self.project(columns, plan)

    def write_parquet(self, frame: DataFrame, folder: str) -> None:
        """Write a frame so that locators take little space: delta encoding, zstd."""
        writer = frame.write.option("compression", "zstd").option("parquet.writer.version", "v2")
        started = time.monotonic()
        try:
            writer.parquet(folder)
        except Exception as error:
            if "INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND" not in str(error):
                raise
            self._write_unpruned(writer, folder)
        finally:
            Gateway.total_job_seconds += time.monotonic() - started

    def _write_unpruned(self, writer: Any, folder: str) -> None:
        """Once more, reading nested columns whole.

        Spark's pruning of nested columns around generators loses one of several fields in some
        plans, and then fails.
        """
        before = {key: self._java.conf().get(key) for key in _NESTED_PRUNING}
        for key in before:
            self._java.conf().set(key, "false")
        try:
            writer.mode("overwrite").parquet(folder)
        finally:
            for key, value in before.items():
                self._java.conf().set(key, value)

    def content_digest(self, folder: str, schema: str) -> str:
        """A digest of the rows in a folder and of their places, computed by Spark."""
        frame = self.session.read.schema(StructType.fromJson(json.loads(schema))).parquet(folder)
        columns = ", ".join(f"`{name}`" for name in frame.columns)
        row = f"to_json(struct({columns})), _metadata.file_block_start, _metadata.row_index"
        found = frame.selectExpr(
            "count(*)", f"bit_xor(xxhash64('a', {row}))", f"bit_xor(xxhash64('b', {row}))"
        ).first()
        return f"content:{found[0]}:{found[1] or 0:x}:{found[2] or 0:x}:{schema}"

    def values(self, rows: Sequence[Sequence[str]], schema: StructType) -> Plan:
        """A relation of SQL literals."""
        names = [f"v{i}" for i in range(len(schema.fields))]
        listed = ", ".join(f"({', '.join(row)})" for row in rows)
        casts = ", ".join(
            f"CAST({n} AS {f.dataType.simpleString()}) AS `{f.name}`"
            for n, f in zip(names, schema.fields, strict=True)
        )
        text = f"SELECT {casts} FROM VALUES {listed} AS t({', '.join(names)})"
        if not rows:
            nulls = ", ".join(f"NULL AS {n}" for n in names)
            text = f"SELECT {casts} FROM (SELECT {nulls}) WHERE false"
        return self.session.sql(text)._jdf.queryExecution().analyzed()

    def named(self, plan: Plan, names: Sequence[str]) -> Plan:
        """The plan's columns, by position, under other names."""
        pairs = zip(self.output(plan), names, strict=True)
        return self.project([self.alias(a, n) for a, n in pairs], plan)

    def collect(self, plan: Plan) -> list[list[Any]]:
        """The rows of a plan, as lists of plain values."""
        plan.setAnalyzed()
        table = self.frame(plan).toArrow()
        columns = [column.to_pylist() for column in table.columns]
        return [list(row) for row in zip(*columns, strict=True)] if columns else []

    def resolve(self, plan: Plan) -> Plan:
        """The plan with everything in it resolved."""
        dataset = self.jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._java, plan)
        return dataset.queryExecution().analyzed()

    def attribute(self, plan: Plan, name: str) -> Any:
        """The last attribute of that name in a plan's output."""
        for attribute in reversed(self.output(plan)):
            if attribute.name() == name:
                return attribute
        raise CaptureError(f"internal: {name} is not in the output of {self.kind(plan)}")


__all__ = ["Expression", "Gateway", "JavaObject", "Plan"]
