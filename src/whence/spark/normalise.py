"""Bring a resolved plan into the few shapes that whence reads, with Spark's own rules.

Names and sugar go first (aliases, pipe markers, SQL functions, CTEs), then the correlated
subqueries become joins, then set operations become joins and aggregates. A predicate inside a
subquery joins the main tree only when the subquery around it has been rewritten, so the rewriting
repeats until nothing changes. What is left are uncorrelated scalar subqueries; their plans are
normalised in the same way, in place.

No rule here moves or prunes anything: the plan still says what the person wrote.
"""

from typing import Any

from whence.errors import UnsupportedError

_CATALYST = "org.apache.spark.sql.catalyst."
_ANALYSIS = _CATALYST + "analysis."
_OPTIMIZER = _CATALYST + "optimizer."

# In the order of Spark's "Finish Analysis" batch. A rule that this Spark lacks is passed over.
FINISH = (
    _ANALYSIS + "EliminateSubqueryAliases",
    _CATALYST + "expressions.EliminatePipeOperators",
    _ANALYSIS + "EliminateEventTimeWatermark",
    _OPTIMIZER + "EliminateSQLFunctionNode",
    _OPTIMIZER + "EvalInlineTables",
    _OPTIMIZER + "ReplaceTranspose",
    _OPTIMIZER + "ReplaceExpressions",
    _OPTIMIZER + "RewriteNonCorrelatedExists",
    _OPTIMIZER + "RewriteAsOfJoin",
    _OPTIMIZER + "RewriteNearestByJoin",
)
# Correlated subqueries to joins, repeated to a fixed point.
SUBQUERIES = (
    _OPTIMIZER + "OptimizeOneRowRelationSubquery",
    _OPTIMIZER + "PullOutNestedDataOuterRefExpressions",
    _OPTIMIZER + "PullupCorrelatedPredicates",
    _OPTIMIZER + "RewriteCorrelatedScalarSubquery",
    _OPTIMIZER + "RewriteLateralSubquery",
    _OPTIMIZER + "RewritePredicateSubquery",
)
# Set operations and distinct to joins and aggregates. EXCEPT ALL and INTERSECT ALL stay.
OPERATORS = (
    _OPTIMIZER + "ReplaceIntersectWithSemiJoin",
    _OPTIMIZER + "ReplaceExceptWithAntiJoin",
    _OPTIMIZER + "ReplaceDistinctWithAggregate",
    _OPTIMIZER + "ReplaceDeduplicateWithAggregate",
)
_MAX_ROUNDS = 32
_PIECE = 6000


def normalise(session: Any, jvm_plan: Any) -> Any:
    """The same plan with subqueries, CTEs, set operations and sugar rewritten away.

    `jvm_plan` is `df._jdf.queryExecution().withCachedData()`, so that cached frames show.
    """
    rules = _Rules.of(session)
    if rules.has(jvm_plan, "CTE"):
        jvm_plan = rules.inline_ctes(jvm_plan)
    return _normalise(rules, jvm_plan)


def plan_text(session: Any, jvm_plan: Any) -> str:
    """What `jvm_plan.toJSON()` gives, fetched in pieces.

    A reply of more than one buffer waits 40 ms in the bridge (Nagle's algorithm meets delayed
    acknowledgement), whatever its size; pieces that fit a buffer do not.
    """
    rules = _Rules.of(session)
    buffer = rules.json(jvm_plan)
    length = buffer.length()
    return "".join(buffer.substring(i, min(i + _PIECE, length)) for i in range(0, length, _PIECE))


def _normalise(rules: "_Rules", plan: Any) -> Any:
    """One plan to a fixed point, then the plans of the scalar subqueries that are left in it."""
    plan = rules.apply(FINISH, plan)
    for _ in range(_MAX_ROUNDS):
        if not rules.has(plan, "PLAN_EXPRESSION"):
            return rules.apply(OPERATORS, plan)
        rewritten = rules.apply((*SUBQUERIES, *FINISH), plan)
        if rewritten.fastEquals(plan):
            break
        plan = rewritten
    else:
        raise UnsupportedError(
            f"subqueries are nested more than {_MAX_ROUNDS} deep; write the inner ones as "
            "temporary views or joins"
        )
    plan = _rewrite_inner(rules, rules.apply(OPERATORS, plan))
    _refuse_leftovers(rules, plan)
    return plan


def _refuse_leftovers(rules: "_Rules", plan: Any) -> None:
    """Raise if a subquery is left that is not an uncorrelated scalar one."""
    for pattern, what in _LEFTOVERS.items():
        if rules.has(plan, pattern):
            raise UnsupportedError(
                f"{what} is left after Spark's own rewriting of subqueries:\n"
                f"{str(plan.toString())[:2000]}\nwrite it as a join"
            )


_LEFTOVERS = {
    "OUTER_REFERENCE": "a correlated subquery",
    "EXISTS_SUBQUERY": "an EXISTS subquery",
    "LIST_SUBQUERY": "an IN subquery",
    "LATERAL_SUBQUERY": "a lateral subquery",
    "CTE": "a common table expression",
}


def _rewrite_inner(rules: "_Rules", plan: Any) -> Any:
    """Normalise the plans of the scalar subqueries that stand in `plan`'s expressions."""
    if not rules.has(plan, "SCALAR_SUBQUERY"):
        return plan
    children = _list(plan.children())
    fresh = [_rewrite_inner(rules, child) for child in children]
    if any(new is not old for new, old in zip(fresh, children, strict=True)):
        plan = plan.withNewChildren(rules.seq(fresh))
    if plan.subqueries().isEmpty():
        return plan
    arguments, changed = [], False
    for value in _list(plan.productIterator().toSeq()):
        new = _rewrite_value(rules, value)
        changed |= new is not value
        arguments.append(new)
    return plan.makeCopy(rules.array(arguments)) if changed else plan


def _rewrite_value(rules: "_Rules", value: Any) -> Any:
    """An argument of a plan node with the subqueries in it normalised; itself if none changed."""
    if not hasattr(value, "getClass"):
        return value
    if rules.is_a(value, "expression"):
        return _rewrite_expression(rules, value)
    if rules.is_a(value, "some"):
        inner = value.get()
        new = _rewrite_value(rules, inner)
        return value if new is inner else rules.some(new)
    if rules.is_a(value, "seq"):
        items = _list(value)
        fresh = [_rewrite_value(rules, item) for item in items]
        if all(new is old for new, old in zip(fresh, items, strict=True)):
            return value
        return rules.seq(fresh)
    return value


def _rewrite_expression(rules: "_Rules", expression: Any) -> Any:
    if not rules.has(expression, "SCALAR_SUBQUERY"):
        return expression
    if rules.is_a(expression, "subquery"):
        plan = expression.plan()
        fresh = _normalise(rules, plan)
        return expression if fresh.fastEquals(plan) else expression.withNewPlan(fresh)
    children = _list(expression.children())
    fresh = [_rewrite_expression(rules, child) for child in children]
    if all(new is old for new, old in zip(fresh, children, strict=True)):
        return expression
    return expression.withNewChildren(rules.seq(fresh))


def _list(seq: Any) -> list[Any]:
    return [seq.apply(i) for i in range(seq.size())]


class _Rules:
    """Spark's rules by name, looked up once per JVM."""

    _cached: "tuple[Any, _Rules] | None" = None

    @classmethod
    def of(cls, session: Any) -> "_Rules":
        jvm = session._jvm
        if cls._cached is None or cls._cached[0] is not jvm:
            cls._cached = (jvm, cls(jvm))
        return cls._cached[1]

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        patterns = self._object(_CATALYST + "trees.TreePattern")
        names = {*_LEFTOVERS, "PLAN_EXPRESSION", "SCALAR_SUBQUERY"}
        self._patterns = {name: getattr(patterns, name)() for name in names}
        self._classes = {
            "expression": self._class(_CATALYST + "expressions.Expression"),
            "subquery": self._class(_CATALYST + "expressions.SubqueryExpression"),
            "some": self._class("scala.Some"),
            "seq": self._class("scala.collection.Seq"),
        }
        self._rules = {
            name: self._object(name, missing_ok=True) for name in (*FINISH, *SUBQUERIES, *OPERATORS)
        }
        self._json = self._object("org.json4s.jackson.JsonMethods").mapper()
        self._inline_ctes = self._make_inline_ctes()

    def apply(self, names: tuple[str, ...], plan: Any) -> Any:
        """`plan` after each of the named rules."""
        for name in names:
            rule = self._rules[name]
            if rule is not None:
                plan = rule.apply(plan)
        return plan

    def inline_ctes(self, plan: Any) -> Any:
        """`plan` with each reference to a CTE replaced by its definition."""
        return self._inline_ctes.apply(plan)

    def has(self, tree: Any, pattern: str) -> bool:
        """Whether the tree, or a subquery in it, holds a node of this pattern."""
        return bool(tree.containsPattern(self._patterns[pattern]))

    def is_a(self, value: Any, kind: str) -> bool:
        """Whether a Java object is an instance of one of the classes known here."""
        return bool(self._classes[kind].isInstance(value))

    def json(self, plan: Any) -> Any:
        """A plan's JSON text, left in the JVM."""
        writer = self._jvm.java.io.StringWriter()
        self._json.writeValue(writer, plan.jsonValue())
        return writer.getBuffer()

    def seq(self, items: list[Any]) -> Any:
        """A Scala Seq."""
        return self._jvm.PythonUtils.toSeq(items)

    def some(self, value: Any) -> Any:
        """A Scala Some."""
        return self._jvm.scala.Some(value)

    def array(self, items: list[Any]) -> Any:
        """A Java Object[]."""
        return self.seq(items).toArray(self._object("scala.reflect.ClassTag").AnyRef())

    def _make_inline_ctes(self) -> Any:
        # InlineCTE(alwaysInline, ...): later Sparks added flags that are false here.
        name = _OPTIMIZER + "InlineCTE"
        arity = self._class(name).getConstructors()[0].getParameterCount()
        return self._jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(
            True, *[False] * (arity - 1)
        )

    def _class(self, name: str) -> Any:
        return self._jvm.java.lang.Class.forName(name, True, self._loader)

    def _object(self, name: str, missing_ok: bool = False) -> Any:
        try:
            return self._class(name + "$").getField("MODULE$").get(None)
        except Exception as error:
            if missing_ok and "ClassNotFoundException" in str(error):
                return None
            raise
