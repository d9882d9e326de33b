"""Spark's logical plans, made and changed: with `TreeNode.makeCopy` wherever possible."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from py4j.java_gateway import JavaObject

from whence.errors import CaptureError
from whence.spark.jvm.expressions import Expressions
from whence.spark.jvm.values import CATALYST, Expression, Plan

_LOGICAL = f"{CATALYST}.plans.logical"


class Plans(Expressions):
    """Spark's logical plans."""

    @staticmethod
    def output(plan: Plan) -> list[Any]:
        """The attributes that a plan gives."""
        return Plans.items(plan.output())

    @staticmethod
    def attribute_ids(attributes: Any) -> set[int]:
        """The ids in an `AttributeSet`, taken from its text in one call."""
        return {int(i) for i in re.findall(r"#(\d+)L?(?=[,}\]])", str(attributes.toString()))}

    @staticmethod
    def referenced_ids(node: Plan) -> set[int]:
        """The ids of the attributes that a node's expressions look at."""
        return Plans.attribute_ids(node.references())

    def project(self, expressions: Sequence[Any], child: Plan, more: Sequence[Any] = ()) -> Plan:
        """`SELECT expressions, more FROM child`."""
        return self.logical.Project(self.seq(expressions, more), child)

    def widened(self, plan: Plan, more: Sequence[Any]) -> Plan:
        """`SELECT *, more FROM plan`."""
        return self.project(plan.output(), plan, more)

    def filter(self, condition: Expression, child: Plan) -> Plan:
        """`SELECT * FROM child WHERE condition`."""
        return self.logical.Filter(condition, child)

    def join(self, left: Plan, right: Plan, how: str, condition: Expression | None) -> Plan:
        """A join of two resolved plans; `how` is inner, left, right, full, cross or semi."""
        kind = self._classes.join_type.apply(how)
        hint = self.scala_object(f"{_LOGICAL}.JoinHint").NONE()
        on = self.none if condition is None else self.some(condition)
        return self.logical.Join(left, right, kind, on, hint)

    def is_in(self, values: Sequence[Expression], plan: Plan) -> Expression:
        """`(values) IN (plan)`."""
        query = self.parse("1 IN (SELECT 1)").query()
        names = [str(query.productElementName(i)) for i in range(query.productArity())]
        changes = {names.index("plan"): plan, names.index("numCols"): len(values)}
        return self.expressions.InSubquery(self.seq(values), self.with_arguments(query, changes))

    def union(self, plans: Sequence[Plan]) -> Plan:
        """`plan UNION ALL plan …`, columns by position."""
        logical = self.logical
        return logical.Union(self.seq(plans), False, False)

    def set_operation(self, kind: str, sides: Sequence[Plan], every: bool) -> Plan:
        """`left EXCEPT [ALL] right` or INTERSECT; `kind` is Spark's class name."""
        logical = self.logical
        return getattr(logical, kind)(*sides, every)

    def numbered(self, column: Any, child: Plan) -> Plan:
        """Each row of a plan with its number among all rows."""
        arguments = [column, child]
        if self.arity(f"{_LOGICAL}.AttachDistributedSequence") > len(arguments):
            arguments.append(True)  # whether rows are kept between counting and numbering them
        return self.logical.AttachDistributedSequence(*arguments)

    def aggregate(self, grouping: Sequence[Any], expressions: Sequence[Any], child: Plan) -> Plan:
        """`SELECT expressions FROM child GROUP BY grouping`."""
        logical = self.logical
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
        return self.resolve(self.project(kept, child, aliases))

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
        logical = self.logical
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

    def map_arguments(self, node: Any, change: Callable[[Any], Any]) -> Any:
        """The node with the plans and expressions among its arguments changed, made anew.

        Spark's own way to other children keeps the node if it holds them for equal to the old.
        """
        changes: dict[int, Any] = {}
        for i in range(node.productArity()):
            value = node.productElement(i)
            fresh = self._map_value(value, change)
            if fresh is not value:
                changes[i] = fresh
        return self.with_arguments(node, changes) if changes else node

    def map_expressions(self, node: Plan, change: Callable[[Any], Any | None]) -> Plan:
        """The node with its expressions changed, outermost first; None keeps an expression."""

        def changed(part: Any) -> Any:
            return self._map_expression(part, change) if self.is_expression(part) else part

        return self.map_arguments(node, changed)

    def map_subqueries(self, node: Plan, change: Callable[[int, Any], Any]) -> Plan:
        """The node with the scalar subqueries in its expressions changed, by position."""
        count = iter(range(10**9))

        def visit(expression: Any) -> Any | None:
            if self.kind(expression) != "ScalarSubquery":
                return None
            return change(next(count), expression)

        return self.map_expressions(node, visit)

    def is_expression(self, value: Any) -> bool:
        """Whether a node is an expression, not a plan."""
        return self._is(value, f"{CATALYST}.expressions.Expression")

    def _map_value(self, value: Any, change: Callable[[Any], Any]) -> Any:
        if not isinstance(value, JavaObject):
            return value
        if self._is(value, f"{CATALYST}.trees.TreeNode"):
            return change(value)
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
        return bool(self.class_named(name).isInstance(value))

    def empty_relation(self, output: Any) -> Plan:
        """A relation without rows that has the given attributes: some, or a Scala `Seq` of them."""
        more = self.arity(f"{_LOGICAL}.LocalRelation") - 3
        return self.logical.LocalRelation(
            self.seq(output), self.seq([]), False, *[self.none] * more
        )

    def logical_node(self, name: str, arguments: Sequence[Any]) -> Plan:
        """A logical plan node of a class, from its constructor's arguments."""
        return getattr(self.logical, name)(*arguments)

    def resolve(self, plan: Plan) -> Plan:
        """The plan with everything in it resolved."""
        dataset = self._classes.dataset.ofRows(self._java, plan)
        return dataset.queryExecution().analyzed()

    @staticmethod
    def is_metadata(attribute: Any) -> bool:
        """Whether an attribute is a hidden column of a relation, such as `_metadata` of files."""
        return bool(attribute.metadata().contains("__metadata_col"))

    def attribute(self, plan: Plan, name: str) -> Any:
        """The last attribute of that name in a plan's output."""
        position = plan.schema().getFieldIndex(name)
        if position.isEmpty():
            raise CaptureError(f"internal: {name} is not in the output of {self.kind(plan)}")
        return plan.output().apply(position.get())
