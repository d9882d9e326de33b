"""Keys of groups as values that are equal wherever Spark takes the keys for equal.

Members of a group are told by its key later, outside of Spark, which knows no collations and takes
maps for different if their entries are in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whence.spark.gateway import Expression, Gateway, Plan


def comparable(gateway: Gateway, plan: Plan, keys: Sequence[Expression]) -> list[Expression]:
    """The keys, expressions over a plan, with collated text and maps in one form of their own.

    SELECT … GROUP BY name COLLATE UTF8_LCASE   →   collation_key(name)
    """
    return [_comparable(gateway, plan, key) for key in keys]


def _comparable(gateway: Gateway, plan: Plan, key: Expression) -> Expression:
    kind = str(key.dataType().catalogString())
    if "map<" not in kind and " collate " not in kind:
        return key
    named = gateway.alias(key, gateway.fresh("c"))
    text = _form(gateway, f"`{named.name()}`", key.dataType(), 0)
    done = gateway.resolved_project([], gateway.project([named], plan), [("form", text)])
    form = _with_collation_keys(gateway, gateway.items(done.projectList())[0].child())
    return gateway.replace_in(form, [(named.toAttribute(), key)])


# Spark's function of the same use has no name in SQL; this one, of the same
# type, stands for it until it is resolved.
_STANDS_IN = "unhex"


def _with_collation_keys(gateway: Gateway, form: Expression) -> Expression:
    kids = [_with_collation_keys(gateway, kid) for kid in gateway.items(form.children())]
    if gateway.kind(form) == "Unhex":
        return gateway.expressions.CollationKey(kids[0])
    return form.withNewChildren(gateway.seq(kids)) if kids else form


def _form(gateway: Gateway, text: str, kind: Any, depth: int) -> str:
    """SQL that gives a value's form, by its Java type."""
    name = f"x{depth}"
    match gateway.kind(kind):
        case "StringType":
            return f"{_STANDS_IN}({text})" if "collate" in str(kind.catalogString()) else text
        case "ArrayType":
            inner = _form(gateway, name, kind.elementType(), depth + 1)
            return text if inner == name else f"transform({text}, {name} -> {inner})"
        case "MapType":
            parts = [f"{name}.key", f"{name}.value"]
            kinds = (kind.keyType(), kind.valueType())
            both = (_form(gateway, p, k, depth + 1) for p, k in zip(parts, kinds, strict=True))
            entries = f"transform(map_entries({text}), {name} -> struct({', '.join(both)}))"
            return f"sort_array({entries})"
        case "StructType":
            fields = [
                (f"{text}.`{str(f.name()).replace('`', '``')}`", f.dataType())
                for f in kind.fields()
            ]
            inner = ", ".join(_form(gateway, part, k, depth) for part, k in fields)
            return f"if({text} IS NULL, NULL, struct({inner}))" if fields else text
        case _:
            return text


def is_merged(key: Expression) -> bool:
    """Whether a grouping key is a session window: rows of several keys become one group."""
    named = Gateway.kind(key) in ("AttributeReference", "Alias")
    return named and bool(key.metadata().contains("spark.sessionWindow"))
