"""Expressions evaluated over shapes: what each function does with the parts of its arguments.

A function that is not listed computes one value from all of its arguments, which is exact for
Spark's built-in scalar functions. Functions that Spark cannot look into either are opaque.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from whence.plan.catalyst import nested, types, whole
from whence.plan.catalyst.arguments import Arguments, Rule, Variables
from whence.plan.catalyst.nodes import Node, classes
from whence.plan.catalyst.shapes import NOTHING, Copy, Shape, made
from whence.plan.catalyst.types import DataType
from whence.plan.paths import Path

OPAQUE = classes(
    "PythonUDF PythonUDAF PythonUDTF ScalaUDF ScalaUDAF ScalaAggregator HiveSimpleUDF "
    "SimpleTypedAggregateExpression ComplexTypedAggregateExpression HiveGenericUDF HiveGenericUDTF "
    "HiveUDAFFunction CallMethodViaReflection ApplyFunctionExpression V2Aggregator"
)
# One argument handed on as it is; of aggregates, the value in one of the rows.
_SAME = classes(
    "Alias PipeOperator KnownNotNull KnownNotContainsNull PromotePrecision CheckOverflow "
    "NormalizeNaNAndZero KnownFloatingPointNormalized TempResolvedColumn First Last "
    "AnyValue NthValue CommonExpressionDef ToPrettyString GeneratorOuter Collate"
)
_RULES: dict[str, Rule] = nested.RULES | whole.RULES


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Evaluates expressions of one operator, given where its inputs' attributes stand."""

    inputs: Mapping[int, Path]
    subqueries: Mapping[int, Path]
    types: Mapping[int, DataType]

    def shape(self, node: Node, variables: Variables | None = None) -> Shape:
        """The shape of an expression's value; `variables` are those of lambdas around it."""
        known = variables or {}
        name = node.name
        if name == "AttributeReference":
            path = self.inputs.get(node.id)
            return Copy(path) if path else NOTHING
        if name == "NamedLambdaVariable":
            return known.get(node.id, NOTHING)
        if name == "CommonExpressionRef":
            return known.get(nested.COMMON, NOTHING)
        if name == "ScalarSubquery":
            return Copy(self.subqueries[node.id])
        if name in _SAME and node.children:
            return self.shape(node.children[0], known)
        arguments = Arguments(self.shape, node, known, self.types)
        rule = _RULES.get(name)
        if rule is not None:
            return rule(arguments)
        return made(arguments.shapes(), opaque=name in OPAQUE)

    def type(self, node: Node) -> DataType:
        """The type of an expression, where it is plain."""
        return types.infer(node, self.types)
