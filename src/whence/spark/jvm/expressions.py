"""Spark's expressions, made and changed.

They are made from parsed SQL text wherever possible (`Expressions.parse`), so that little depends
on the constructors of one Spark version.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from whence.spark.jvm.values import CATALYST, Expression, Plan, Values

_EXPRESSIONS = f"{CATALYST}.expressions"
_IDS_AT_ONCE = 10_000
_SCHEMAS_KEPT = 16


class Expressions(Values):
    """Spark's expressions."""

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
        expressions = self.expressions
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
        return self.expressions.EqualNullSafe(left, right)

    def not_null(self, value: Expression) -> Expression:
        """`value IS NOT NULL`."""
        return self.expressions.IsNotNull(value)

    def default_false(self, value: Expression) -> Expression:
        """`coalesce(value, false)`."""
        expressions = self.expressions
        return expressions.Coalesce(self.seq([value, self.literal(False)]))

    def close_to(self, left: Expression, right: Expression) -> Expression:
        """Whether two floating-point numbers are equal but for rounding, or both null."""
        e = self.expressions
        a, b = self.cast(left, "double"), self.cast(right, "double")
        factor = e.Multiply(e.Abs(b), self.literal(1e-9))
        # Infinity and NaN are near everything in this arithmetic; they are told by equality alone.
        finite = e.LessThan(e.Abs(b), self.literal(float("inf")))
        near = e.And(finite, e.LessThanOrEqual(e.Abs(e.Subtract(a, b)), factor))
        return e.Or(self.null_safe_equal(a, b), e.Coalesce(self.seq([near, self.literal(False)])))

    def listed(self, value: Expression, values: Any) -> Expression:
        """Whether a value is one of some constants, a Scala `Seq` of Spark's own values."""
        expressions = self.expressions
        among = expressions.InSet(value, values.toSet())
        return expressions.Or(among, expressions.IsNull(value)) if values.contains(None) else among

    def conjunction(self, predicates: Sequence[Expression]) -> Expression:
        """All predicates joined by AND; TRUE if there are none."""
        if not predicates:
            return self.literal(True)
        result = predicates[0]
        for predicate in predicates[1:]:
            result = self.expressions.And(result, predicate)
        return result

    def struct(self, fields: Sequence[tuple[str, Expression]]) -> Expression:
        """`named_struct(...)` of already resolved expressions."""
        flat = [part for name, value in fields for part in (self.literal(name), value)]
        return self.expressions.CreateNamedStruct(self.seq(flat))

    def null(self, kind: Any) -> Expression:
        """A null of a Java data type."""
        return self.scala_object(f"{_EXPRESSIONS}.Literal").create(None, kind)

    def hash(self, value: Expression) -> Expression:
        """`xxhash64(value)`, null for a null."""
        e = self.expressions
        return e.If(
            e.IsNull(value), self.null(self.data_type("bigint")), e.XxHash64(self.seq([value]))
        )

    def cast(self, value: Expression, kind: str) -> Expression:
        """`CAST(value AS kind)`."""
        return self.cast_to(value, self.data_type(kind))

    def cast_to(self, value: Expression, kind: Any) -> Expression:
        """`CAST(value AS kind)`, the kind being a Java data type."""
        if value.dataType().equals(kind):
            return value
        zone = self.some(self._java.sessionState().conf().sessionLocalTimeZone())
        return self.expressions.Cast(value, kind, zone)

    def as_type(self, value: Expression, kind: Any) -> Expression:
        """A value that came back from outside Spark, as the Java data type that it had.

        Parquet holds intervals as plain numbers of microseconds or months.
        """
        text, have = str(kind.catalogString()), str(value.dataType().catalogString())
        if text.startswith("interval ") and not have.startswith("interval"):
            expressions = self.expressions
            months = "year" in text or "month" in text
            unit = "INTERVAL '1' MONTH" if months else "INTERVAL '0.000001' SECOND"
            times = expressions.MultiplyYMInterval if months else expressions.MultiplyDTInterval
            return self.cast_to(times(self.parse(unit), value), kind)
        return value if text == have else self.cast_to(value, kind.asNullable())

    def known_not_null(self, value: Expression) -> Expression:
        """The value, taken to be never null."""
        return self.expressions.KnownNotNull(value)

    def data_type(self, text: str) -> Any:
        """A Java data type from its DDL text."""
        return self._java.sessionState().sqlParser().parseDataType(text)

    def new_attribute(self, name: str, kind: Any) -> Any:
        """An attribute of its own, of a Java data type or one given as DDL text."""
        data_type = self.data_type(kind) if isinstance(kind, str) else kind
        return self.alias(self.null(data_type), name).toAttribute()

    def new_id(self) -> int:
        """The number of a new identity; no attribute had it or a greater one before."""
        return int(self.expressions.NamedExpression.newExprId().id())

    def pass_ids(self, most: int) -> None:
        """Let no new identity have a number up to this one.

        An attribute of another JVM and one of this JVM that have the same number are the same to
        parts of Spark's optimizer. Attributes take the numbers, many in one call.
        """
        types = self.scala_object(f"{CATALYST}.types.DataTypeUtils")
        left = most - self.new_id()
        while left > 0:
            taken = min(left, _IDS_AT_ONCE)
            column = {"type": "integer", "nullable": True, "metadata": {}}
            fields = [{"name": f"c{i}", **column} for i in range(taken)]
            types.toAttributes(self.struct_type(json.dumps({"type": "struct", "fields": fields})))
            left -= taken

    def struct_type(self, schema: str) -> Any:
        """A Java struct type from a schema's JSON."""
        return self.jvm.org.apache.spark.sql.types.DataType.fromJson(schema)

    def schema_json(self, schema: Any) -> str:
        """A Java struct type as JSON; writing that of hundreds of columns takes Spark 40 ms."""
        known = self._classes.schemas
        text = next((text for other, text in known if schema.equals(other)), None)
        if text is None:
            text = str(schema.json())
            known.append((schema, text))
            del known[:-_SCHEMAS_KEPT]
        return text

    def attributes(self, schema: Any) -> list[Any]:
        """New attributes for the fields of a Java struct type."""
        expressions = self.expressions
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

    def by_name(self, column: Any) -> Expression:
        """The expression of a Column, in which columns of other frames are told by their names."""

        def unbound(expression: Expression) -> Expression:
            if self.kind(expression) == "AttributeReference":
                name = str(expression.name()).replace("`", "``")
                return self.parse(f"`{name}`")
            kids = self.items(expression.children())
            fresh = [unbound(kid) for kid in kids]
            if all(a is b for a, b in zip(kids, fresh, strict=True)):
                return expression
            return expression.withNewChildren(self.seq(fresh))

        return unbound(self._java.expression(column._jc))

    def field(self, struct: Expression, position: int) -> Expression:
        """The field of a struct at a position."""
        expressions = self.expressions
        return expressions.GetStructField(struct, position, self.none)

    def pos_explode(self, array: Expression) -> Expression:
        """`posexplode(array)`."""
        return self.expressions.PosExplode(array)

    def default(self, value: Expression, default: int) -> Expression:
        """`coalesce(value, default)`."""
        expressions = self.expressions
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

    def collect_list(self, value: Expression) -> Expression:
        """`collect_list(value)`, resolved."""
        return self.aggregates.CollectList(value).toAggregateExpression()

    def extreme(self, kind: str, value: Expression, when: Expression | None) -> Expression:
        """`min(value)` or `max(value)`, with a FILTER clause if there is one."""
        function = getattr(self.aggregates, kind)(value)
        return function.toAggregateExpression(False, self.none if when is None else self.some(when))

    def rank(self, order: Sequence[Any]) -> Expression:
        """`rank()` over the given order."""
        keys = [o.child() for o in order]
        return self.expressions.Rank(self.seq(keys))

    def over(self, function: Expression, partition: Any, order: Any, frame: Any) -> Expression:
        """`function OVER (PARTITION BY … ORDER BY … frame)`."""
        expressions = self.expressions
        spec = expressions.WindowSpecDefinition(partition, order, frame)
        return expressions.WindowExpression(function, spec)

    def aggregate_expressions(self, node: Plan) -> list[Expression]:
        """The distinct aggregate expressions of an aggregate node."""
        return self.aggregates_in(self.items(node.aggregateExpressions()))

    def aggregates_in(self, expressions: Sequence[Expression]) -> list[Expression]:
        """The distinct aggregate expressions inside of expressions."""
        found: list[Expression] = []

        def visit(expression: Expression) -> None:
            if self.kind(expression) == "AggregateExpression":
                if not any(expression.semanticEquals(other) for other in found):
                    found.append(expression)
                return
            for child in self.items(expression.children()):
                visit(child)

        for expression in expressions:
            visit(expression)
        return found

    def scalar_subquery(self, plan: Plan) -> Expression:
        """A scalar subquery over a resolved plan."""
        return self.parse("(SELECT 1)").withNewPlan(plan)
