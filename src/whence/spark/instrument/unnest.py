"""Unnesting: an item is its parent row and a position; rollups and unpivots make rows of a row."""

from __future__ import annotations

from typing import Any

from whence import plan as ops
from whence.algebra.witness import Item
from whence.spark import instrument as family
from whence.spark.gateway import Plan
from whence.spark.instrument.traced import Context, Traced


def generate(context: Context, operator: ops.Generate, node: Plan) -> Traced:
    """explode and friends, with the position of each item where the generator can tell it."""
    gateway = context.gateway
    child = family.instrument(context, operator.children[0], node.child(), copied=True)
    kind = gateway.kind(node.generator())
    if kind == "Explode":
        return _exploded(context, operator, node, child)
    if kind == "PosExplode":
        plan = gateway.with_arguments(node, {5: child.plan})
        # Without items there is no position; Spark says so of what the operator gives alone.
        own = gateway.items(node.generatorOutput())[0].withNullability(node.outer())
        position = gateway.alias(own, gateway.fresh("p"))
        plan = gateway.widened(plan, [position])
        return _item(operator, child, plan, position.toAttribute())
    if kind == "Inline":
        return _inlined(context, operator, node, child)
    if kind == "Stack":
        return _stacked(context, operator, node, child)
    plan = gateway.with_arguments(node, {5: child.plan})
    shape = Item(child.shape, None, operator.id)
    return Traced(plan, child.slots, shape)


def _exploded(context: Context, operator: ops.Generate, node: Plan, child: Traced) -> Traced:
    """explode(a)   →   posexplode(a), the position being kept as a slot."""
    gateway = context.gateway
    position = gateway.new_attribute(gateway.fresh("p"), "int")
    generator = gateway.pos_explode(gateway.items(node.generator().children())[0])
    outputs = gateway.seq([position, *gateway.items(node.generatorOutput())])
    plan = gateway.with_arguments(node, {0: generator, 4: outputs, 5: child.plan})
    plan = gateway.project(node.output(), plan, [*child.slots.values(), position])
    return _item(operator, child, plan, position)


def _inlined(context: Context, operator: ops.Generate, node: Plan, child: Traced) -> Traced:
    """inline(a)   →   posexplode(a), and the fields of each struct."""
    gateway = context.gateway
    array = gateway.items(node.generator().children())[0]
    position = gateway.new_attribute(gateway.fresh("p"), "int")
    struct = gateway.new_attribute(gateway.fresh("s"), array.dataType().elementType())
    generator = gateway.pos_explode(array)
    outputs = gateway.seq([position, struct])
    plan = gateway.with_arguments(node, {0: generator, 4: outputs, 5: child.plan})
    fields = {
        attribute.exprId().id(): gateway.alias(
            gateway.field(struct, i), attribute.name(), attribute.exprId()
        )
        for i, attribute in enumerate(gateway.items(node.generatorOutput()))
    }
    kept = [fields.get(a.exprId().id(), a) for a in gateway.output(node)]
    plan = gateway.project([*kept, *child.slots.values(), position], plan)
    return _item(operator, child, plan, position)


def _stacked(context: Context, operator: ops.Generate, node: Plan, child: Traced) -> Traced:
    """stack(2, a, b, c, d)   →   stack(2, 0, a, b, 1, c, d), the number being kept as a slot."""
    gateway = context.gateway
    count, *values = gateway.items(node.generator().children())
    columns = gateway.items(node.generatorOutput())
    position = gateway.new_attribute(gateway.fresh("p"), "int")
    stacked = [count]
    for number in range(int(count.eval(None))):
        row = values[number * len(columns) :][: len(columns)]
        missing = [gateway.null(column.dataType()) for column in columns[len(row) :]]
        stacked += [gateway.literal(number), *row, *missing]
    generator = gateway.expressions.Stack(gateway.seq(stacked))
    outputs = gateway.seq([position, *columns])
    plan = gateway.with_arguments(node, {0: generator, 4: outputs, 5: child.plan})
    plan = gateway.project(node.output(), plan, [*child.slots.values(), position])
    return _item(operator, child, plan, position)


def _item(operator: ops.Generate | ops.Expand, child: Traced, plan: Plan, position: Any) -> Traced:
    """The witness of items: their parents', and the slot of their position."""
    name = str(position.name())
    return Traced(plan, {**child.slots, name: position}, Item(child.shape, name, operator.id))


def expand(context: Context, operator: ops.Expand, node: Plan) -> Traced:
    """Rollup, cube, grouping sets, unpivot: each copy of a row carries the row's slots.

    Where copies have a column from different ones, each has its number as a slot as well.
    """
    gateway = context.gateway
    child = family.instrument(context, operator.children[0], node.child(), copied=True)
    slots = list(child.slots.values())
    lists = gateway.items(node.projections())
    if all(move.at is None for move in operator.moves):
        projections = gateway.seq(gateway.seq(listed, slots) for listed in lists)
        output = gateway.seq(node.output(), slots)
        return child.over(gateway.with_arguments(node, {0: projections, 1: output, 2: child.plan}))
    position = gateway.new_attribute(gateway.fresh("p"), "int")
    projections = gateway.seq(
        gateway.seq(listed, [*slots, gateway.literal(number)])
        for number, listed in enumerate(lists)
    )
    output = gateway.seq(node.output(), [*slots, position])
    plan = gateway.with_arguments(node, {0: projections, 1: output, 2: child.plan})
    return _item(operator, child, plan, position)
