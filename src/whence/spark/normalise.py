"""Bring a resolved plan into the few shapes that whence reads, with Spark's own rules.

Names and sugar go first (aliases, pipe markers, SQL functions, CTEs), then the correlated
subqueries become joins, then set operations become joins and aggregates. A subquery can stand
inside another one: as in Spark's optimizer the inner one is rewritten first, after the predicates
that tie the outer one to its surroundings have been pulled out of it. What is left are
uncorrelated scalar subqueries; their plans are normalised in the same way, in place.

No rule here moves or prunes anything: the plan still says what the person wrote.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from whence.errors import UnsupportedError
from whence.spark.jvm.plans import Plans
from whence.spark.untold import told

_CATALYST = "org.apache.spark.sql.catalyst."
_ANALYSIS = _CATALYST + "analysis."
_OPTIMIZER = _CATALYST + "optimizer."

# What depends on when and by whom a query is run. Spark fixes it once per query, too.
SETTLE = (
    _OPTIMIZER + "SpecialDatetimeValues",
    _OPTIMIZER + "ComputeCurrentTime",
)
# In the order of Spark's "Finish Analysis" batch. A rule that this Spark lacks is passed over.
FINISH = (
    _ANALYSIS + "EliminateSubqueryAliases",
    _CATALYST + "expressions.EliminatePipeOperators",
    _ANALYSIS + "EliminateEventTimeWatermark",
    _OPTIMIZER + "EliminateSQLFunctionNode",
    _OPTIMIZER + "EvalInlineTables",
    _OPTIMIZER + "ReplaceTranspose",
    _OPTIMIZER + "ReplaceExpressions",
    _OPTIMIZER + "RewriteAsOfJoin",
    _OPTIMIZER + "RewriteNearestByJoin",
)
# Correlated predicates out of subqueries.
PULL_UP = (
    _OPTIMIZER + "OptimizeOneRowRelationSubquery",
    _OPTIMIZER + "PullOutNestedDataOuterRefExpressions",
    _OPTIMIZER + "PullupCorrelatedPredicates",
)
# Subqueries to joins.
SUBQUERIES = (
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
_PIECE = 6000


def settle(session: Any, jvm_plan: Any) -> Any:
    """The same plan with the current time, user and database as literals.

    Whatever is run again, the day after or by another user, then gives the same values.
    """
    rules = _Rules.of(session)
    current = rules.replace_current(session)
    return current.apply(rules.apply(SETTLE, jvm_plan))


def normalise(session: Any, jvm_plan: Any) -> Any:
    """The same plan with subqueries, CTEs, set operations and sugar rewritten away.

    `jvm_plan` is `df._jdf.queryExecution().withCachedData()`, so that cached frames show.
    """
    rules = _Rules.of(session)
    if rules.has(jvm_plan, "CTE"):
        jvm_plan = rules.inline_ctes(jvm_plan)
    return _normalise(rules, jvm_plan)


def plan_text(session: Any, jvm_plan: Any) -> str:
    """What `jvm_plan.toJSON()` gives, fetched in pieces, and what it does not tell.

    A reply of more than one buffer waits 40 ms in the bridge (Nagle's algorithm meets delayed
    acknowledgement), whatever its size; pieces that fit a buffer do not.
    """
    rules = _Rules.of(session)
    text = rules.json(jvm_plan)
    if '"projections":null' in text:
        jvm_plan = _listed(rules, jvm_plan)
        text = rules.json(jvm_plan)
    return told(jvm_plan, text)


def _normalise(rules: "_Rules", plan: Any) -> Any:
    """One plan, with the plans of its subqueries."""
    plan = rules.apply(FINISH, plan)
    if rules.has(plan, "PLAN_EXPRESSION"):
        plan = rules.apply(PULL_UP, plan)
        if any(rules.has(inner, "PLAN_EXPRESSION") for inner in rules.items(plan.subqueriesAll())):
            plan = _map_subqueries(rules, plan, _normalise_nested)
        plan = _rewrite_subqueries(rules, plan)
    plan = rules.apply(OPERATORS, plan)
    _refuse_leftovers(rules, plan)
    if rules.has(plan, "SCALAR_SUBQUERY"):
        plan = _map_subqueries(rules, plan, _normalise)
    return plan


def _rewrite_subqueries(rules: "_Rules", plan: Any) -> Any:
    """Subqueries as joins.

    Spark makes of an EXISTS without correlation a scalar subquery of one row. Here every row is an
    alternative, so it is taken for a correlated one and becomes a semi join, without a condition.
    """
    if rules.has(plan, "EXISTS_SUBQUERY"):
        plan = _map_subqueries(rules, plan, _same, _correlated)
    lateral = rules.has(plan, "LATERAL_SUBQUERY")
    plan = rules.apply((*SUBQUERIES, *FINISH), plan)
    return _named_apart(rules, plan) if lateral else plan


def _named_apart(rules: "_Rules", plan: Any) -> Any:
    """`plan` with no name twice in a later branch of a union, where names do not count.

    A lateral subquery's branch that selects y of the query around it has y twice then: as its own
    column, and as one to join on. Spark's optimizer makes one column of the two, and finds that
    wrong.
    """
    if not rules.has(plan, "UNION"):
        return plan
    children = [_named_apart(rules, child) for child in rules.items(plan.children())]
    if plan.getClass().getSimpleName() == "Union":
        children[1:] = [_renamed(rules, child) for child in children[1:]]
    return plan.withNewChildren(rules.seq(children))


def _renamed(rules: "_Rules", plan: Any) -> Any:
    """A projection of a plan that gives the second column of a name, and so on, another one."""
    columns = rules.items(plan.output())
    names = [str(column.name()) for column in columns]
    if len(set(names)) == len(names):
        return plan
    again = [name in names[:i] for i, name in enumerate(names)]
    listed = [
        rules.alias(column, f"__whence_{i}") if twice else column
        for i, (column, twice) in enumerate(zip(columns, again, strict=True))
    ]
    return rules.project(listed, plan)


def _correlated(rules: "_Rules", subquery: Any) -> Any:
    """An EXISTS that looks at nothing outside, as one that looks at TRUE there.

    Before 4.2 Spark takes for granted that such a subquery has a condition, too.
    """
    if subquery.getClass().getSimpleName() != "Exists" or not subquery.children().isEmpty():
        return subquery
    names = rules.items(subquery.productElementNames().toSeq())
    looked_at = ["outerAttrs"] if rules.version >= (4, 2) else ["outerAttrs", "joinCond"]
    changes = {names.index(name): rules.seq([rules.true]) for name in looked_at}
    return rules.with_arguments(subquery, changes)


def _normalise_nested(rules: "_Rules", plan: Any) -> Any:
    """A subquery's plan, if it holds subqueries of its own; else its time has not come."""
    return _normalise(rules, plan) if rules.has(plan, "PLAN_EXPRESSION") else plan


def _refuse_leftovers(rules: "_Rules", plan: Any) -> None:
    """Raise if a subquery is left that is not an uncorrelated scalar one."""
    for pattern, what in _LEFTOVERS.items():
        if rules.has(plan, pattern):
            raise UnsupportedError(
                f"{what} is left after Spark's own rewriting of subqueries, in\n"
                f"{str(plan.toString())[:2000]}\nwrite it as a join"
            )


_LEFTOVERS = {
    "OUTER_REFERENCE": "a reference from a correlated subquery to the query around it",
    "EXISTS_SUBQUERY": "an EXISTS subquery",
    "LIST_SUBQUERY": "an IN subquery",
    "LATERAL_SUBQUERY": "a lateral subquery",
}
_Change = Callable[["_Rules", Any], Any]


def _same(rules: "_Rules", value: Any) -> Any:
    """A plan or subquery as it is."""
    return value


def _map_subqueries(
    rules: "_Rules", plan: Any, change: _Change, change_expression: _Change = _same
) -> Any:
    """`plan` with each subquery in its expressions changed: its plan, or the expression."""
    if not rules.has(plan, "PLAN_EXPRESSION"):
        return plan
    children = rules.items(plan.children())
    fresh = [_map_subqueries(rules, child, change, change_expression) for child in children]
    if any(new is not old for new, old in zip(fresh, children, strict=True)):
        plan = plan.withNewChildren(rules.seq(fresh))
    if plan.subqueries().isEmpty():
        return plan

    def changed(expression: Any) -> Any | None:
        if not rules.has(expression, "PLAN_EXPRESSION"):
            return expression
        if not rules.is_subquery(expression):
            return None
        inner = expression.plan()
        fresh = change(rules, inner)
        return change_expression(
            rules, expression if fresh is inner else expression.withNewPlan(fresh)
        )

    return rules.map_expressions(plan, changed)


def _listed(rules: "_Rules", node: Any) -> Any:
    """`node` with the projections of each Expand in it as Scala Lists: Spark writes no others."""
    if rules.is_expression(node):
        has_plan = rules.has(node, "PLAN_EXPRESSION")
        return rules.map_arguments(node, partial(_listed, rules)) if has_plan else node
    if node.children().isEmpty() and node.subqueries().isEmpty():
        return node
    node = rules.map_arguments(node, partial(_listed, rules))
    if node.getClass().getSimpleName() != "Expand":
        return node
    projections = rules.seq([p.toList() for p in rules.items(node.projections())]).toList()
    return rules.with_arguments(node, {0: projections, 1: node.output().toList()})


class _Rules(Plans):
    """Spark's rules by name, looked up once per JVM."""

    _cached: "tuple[Any, _Rules] | None" = None

    @classmethod
    def of(cls, session: Any) -> "_Rules":
        jvm = session._jvm
        if cls._cached is None or cls._cached[0] is not jvm:
            cls._cached = (jvm, cls(jvm, str(session.version)))
        return cls._cached[1]

    def __init__(self, jvm: Any, version: str) -> None:
        super().__init__(jvm, None)
        major, minor, *_ = version.split(".")
        self.version = (int(major), int(minor))
        patterns = self.scala_object(_CATALYST + "trees.TreePattern")
        names = {*_LEFTOVERS, "PLAN_EXPRESSION", "SCALAR_SUBQUERY", "CTE", "UNION"}
        self._patterns = {name: getattr(patterns, name)() for name in names}
        self._rules = {
            name: self._rule(name) for name in (*SETTLE, *FINISH, *PULL_UP, *SUBQUERIES, *OPERATORS)
        }
        self._json = self.scala_object("org.json4s.jackson.JsonMethods").mapper()
        self._inline_ctes = self._make_inline_ctes()
        self.true = self.scala_object(_CATALYST + "expressions.Literal").TrueLiteral()

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

    def replace_current(self, session: Any) -> Any:
        """Spark's rule for the current user, catalog and database of a session."""
        manager = session._jsparkSession.sessionState().catalogManager()
        return self.jvm.org.apache.spark.sql.catalyst.optimizer.ReplaceCurrentLike(manager)

    def has(self, tree: Any, pattern: str) -> bool:
        """Whether the tree, or a subquery in it, holds a node of this pattern."""
        return bool(tree.containsPattern(self._patterns[pattern]))

    def is_subquery(self, expression: Any) -> bool:
        """Whether an expression is a subquery, of any kind."""
        return self._is(expression, _CATALYST + "expressions.SubqueryExpression")

    def json(self, plan: Any) -> str:
        """A plan's JSON text."""
        writer = self.jvm.java.io.StringWriter()
        self._json.writeValue(writer, plan.jsonValue())
        buffer = writer.getBuffer()
        length = buffer.length()
        pieces = range(0, length, _PIECE)
        return "".join(buffer.substring(i, min(i + _PIECE, length)) for i in pieces)

    def _make_inline_ctes(self) -> Any:
        # InlineCTE(alwaysInline, ...): later Sparks added flags that are false here.
        name = _OPTIMIZER + "InlineCTE"
        arity = self.class_named(name).getConstructors()[0].getParameterCount()
        return self.jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(
            True, *[False] * (arity - 1)
        )

    def _rule(self, name: str) -> Any:
        """A rule; None if this Spark lacks it."""
        try:
            return self.scala_object(name)
        except Exception as error:
            if "ClassNotFoundException" in str(error):
                return None
            raise
