"""User code in a plan: which operators call it, and its digests."""

from __future__ import annotations

import dis
from dataclasses import fields, is_dataclass
from typing import Any

from pyspark.serializers import CloudPickleSerializer

from whence.plan import MapBatches, MapCogroups, MapGroups, Operator, walk
from whence.spark.code import code_digest
from whence.spark.gateway import Gateway, Plan
from whence.spark.rebuild import align

_OPAQUE = (MapBatches, MapGroups, MapCogroups)


def find_code(gateway: Gateway, operator: Operator, node: Plan) -> dict[str, list[str]]:
    """The digests of the user code that each operator calls, in the order of its expressions."""
    found: dict[str, list[str]] = {}
    wanted = {op.id for op in walk(operator) if isinstance(op, _OPAQUE) or _calls(op)}
    for op, part in align(gateway, operator, node) if wanted else ():
        if op.id not in wanted:
            continue
        digests = [
            digest
            for expression in gateway.items(part.expressions())
            for digest in _digests(gateway, expression)
        ]
        if digests:
            found[op.id] = digests
    return found


def _calls(value: Any) -> bool:
    """Whether an operator's own expressions name user code; its inputs do not count."""
    functions = getattr(value, "functions", None)
    if isinstance(functions, tuple) and any("UD" in str(name) for name in functions):
        return True
    if isinstance(value, tuple):
        return any(_calls(item) for item in value)
    if not is_dataclass(value):
        return False
    skipped = ("children", "subqueries", "moves", "reads", "decides", "output")
    return any(_calls(getattr(value, f.name)) for f in fields(value) if f.name not in skipped)


def remembers(gateway: Gateway, function: Any) -> bool:
    """Whether a Python table function may give rows that depend on more than the row it is given.

    It does so if it has a state, or gives rows after the last one.
    """
    found = CloudPickleSerializer().loads(gateway.to_bytes(function.func().command()))
    kind = found[0] if isinstance(found, tuple) else found
    own = {name: value for base in kind.__mro__[:-1] for name, value in vars(base).items()}
    if {"__init__", "terminate"} & own.keys():
        return True
    if any(isinstance(value, list | dict | set) for n, value in own.items() if n[:2] != "__"):
        return True
    codes = [value.__code__ for value in own.values() if hasattr(value, "__code__")]
    steps = (step.opname for code in codes for step in dis.get_instructions(code))
    return any(name in ("STORE_ATTR", "STORE_GLOBAL") for name in steps)


def _digests(gateway: Gateway, expression: Any) -> list[str]:
    kind = gateway.kind(expression)
    own: list[str] = []
    if kind.startswith("Python"):
        function = CloudPickleSerializer().loads(gateway.to_bytes(expression.func().command()))
        own = [code_digest(function[0] if isinstance(function, tuple) else function)]
    elif "UDF" in kind or "UDAF" in kind:
        own = [f"{kind}:{expression.name()}"]
    inner = [d for child in gateway.items(expression.children()) for d in _digests(gateway, child)]
    return own + inner
