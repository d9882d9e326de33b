import json

import pytest
from build import filtered, operators, source
from hypothesis import given, settings

from whence.errors import FormatError
from whence.plan import Operator, from_json, to_json


@settings(max_examples=60, deadline=None)
@given(operators())
def test_a_plan_comes_back_as_it_was(operator: Operator) -> None:
    assert from_json(json.loads(json.dumps(to_json(operator)))) == operator


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(FormatError, match="'teleport' is no kind of operator"):
        from_json({"kind": "teleport"})


def test_an_unknown_field_is_named() -> None:
    written = to_json(filtered(1, source(2, "t", "a")))
    with pytest.raises(FormatError, match="a Filter has no speed"):
        from_json(written | {"speed": 3})


def test_a_missing_field_is_named() -> None:
    written = to_json(filtered(1, source(2, "t", "a")))
    del written["predicate"]
    with pytest.raises(FormatError, match="predicate"):
        from_json(written)
