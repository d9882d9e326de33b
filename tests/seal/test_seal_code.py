"""Digests of user code: what it does counts, where it is written does not."""

import copyreg
import doctest
import importlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import pytest

from whence.spark import imports
from whence.spark.code import code_digest

BASE = """
import math
LIMIT = 4
def helper(text):
    return text[:LIMIT]
class Rule:
    factor = 2
    def apply(self, x):
        return x * self.factor
def make(bound):
    def function(text, n=1):
        return helper(text) + str(math.floor(bound)) * n + str(Rule().apply(n))
    return function
function = make(3)
"""


def function(source: str = BASE, name: str = "<one>", blank: int = 0) -> Callable[..., Any]:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("\n" * blank + textwrap.dedent(source), name, "exec"), space)
    found: Callable[..., Any] = space["function"]
    return found


def test_file_and_line_do_not_count() -> None:
    assert code_digest(function()) == code_digest(function(name="/elsewhere/two.py", blank=40))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 4", "LIMIT = 5"),
        ("text[:LIMIT]", "text[LIMIT:]"),
        ("make(3)", "make(4)"),
        ("n=1", "n=2"),
        ("math.floor", "math.ceil"),
        ("factor = 2", "factor = 3"),
        ("x * self.factor", "x + self.factor"),
        ("helper(text) + ", "helper(text + '') + "),
    ],
)
def test_whatever_changes_what_it_does_counts(old: str, new: str) -> None:
    assert old in BASE
    assert code_digest(function()) != code_digest(function(BASE.replace(old, new)))


def test_names_of_functions_do_not_count_but_what_they_call_does() -> None:
    renamed = BASE.replace("def function(", "def other(").replace("return function", "return other")
    assert code_digest(function()) == code_digest(function(renamed))


def test_functions_that_call_themselves_and_each_other() -> None:
    source = """
        def even(n): return n == 0 or odd(n - 1)
        def odd(n): return n != 0 and even(n - 1)
        function = even
    """
    assert code_digest(function(source)) == code_digest(function(source))
    assert code_digest(function(source)) != code_digest(function(source.replace("== 0", "== 1")))


def test_packages_count_by_version(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import duckdb\ndef function(x): return duckdb.sql(x)\n"
    before = code_digest(function(source))
    monkeypatch.setattr(imports, "distribution_version", lambda name: "99")
    assert code_digest(function(source)) != before


def test_what_is_called_in_a_module_of_the_users_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    source = "import own_helpers\ndef function(x): return own_helpers.clean(x)\n"

    def digest(body: str) -> str:
        (tmp_path / "own_helpers.py").write_text(body)
        monkeypatch.delitem(sys.modules, "own_helpers", raising=False)
        importlib.invalidate_caches()
        return code_digest(function(source))

    clean = "def clean(x): return x.strip()\ndef other(x): return 1\n"
    before = digest(clean)
    assert digest(clean.replace("strip", "rstrip  ")) != before
    assert digest(clean.replace("return 1", "return 22")) == before


@pytest.mark.parametrize("loaded", [True, False], ids=["loaded", "not loaded"])
@pytest.mark.parametrize(
    "body",
    [
        "import own_inner; return own_inner.clean(x)",
        "from own_inner import clean; return clean(x)",
        "from own_package import inner; return inner.clean(x)",
        "import own_package.inner; return own_package.inner.clean(x)",
        "import own_user; return own_user.call(x)",
    ],
)
def test_what_a_body_imports_counts(
    body: str, loaded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not imported for that: if it is not loaded, its source is read."""
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = ["own_inner", "own_package", "own_package.inner", "own_user"]
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "__init__.py").write_text("")
    (tmp_path / "own_user.py").write_text(
        "from own_inner import clean\ndef call(x): return clean(x)"
    )

    def digest(clean: str) -> str:
        for name in ("own_inner.py", "own_package/inner.py"):
            (tmp_path / name).write_text(f"def clean(x): return {clean}\n")
        for name in modules:
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        if loaded:
            for name in modules:
                importlib.import_module(name)
        found = code_digest(function(f"def function(x): {body}\n"))
        assert loaded == ("own_inner" in sys.modules)
        return found

    before = digest("x.strip()")
    assert digest("x.rstrip()  ") != before
    assert digest("x.strip()") == before


def test_the_names_of_what_code_imports() -> None:
    assert doctest.testmod(imports) == (0, 1)
    relative = compile("from . import a; from ..b import c", "", "exec")
    assert imports.imported(relative, "p.q") == ["p", "p.q", "p.q.a", "p.b", "p.b.c"]
    many = "; ".join(f"a{i}" for i in range(300))
    assert imports.imported(compile(f"{many}; from c import d", "", "exec"), "") == ["c", "c.d"]


def test_packages_that_a_body_imports_count_by_version(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def function(x):\n    import duckdb\n    return duckdb.sql(x)\n"
    before = code_digest(function(source))
    monkeypatch.setattr(imports, "distribution_version", lambda name: "99")
    assert code_digest(function(source)) != before


HELD = """
import collections, functools, operator, re, struct, types
import numpy
def plus(x): return x + 1
def uses(held):
    def function(x): return held
    return function
class Words(dict):
    def __missing__(self, word): return 1
class Items(list):
    def total(self): return 1
class Number(int):
    def shown(self): return 1
class Kind(type):
    def __call__(self): return 1
class Made(metaclass=Kind): pass
class Slots:
    __slots__ = ("held",)
    def __init__(self, held): self.held = held
class Queue(collections.deque): pass
@functools.singledispatch
def shown(x): return 0
@shown.register
def _(x: int): return 1
def attribute(x): return x * attribute.factor
attribute.factor = 1
module = types.ModuleType("own_module")
module.call = lambda x: x + 1
def through(module):
    def function(x): return module.call(x)
    return function
@functools.lru_cache
def cached(x): return x + 1
"""


@pytest.mark.parametrize(
    "made",
    [
        "{'a': 1}.get",
        "uses(re.compile('1').sub)",
        "[1].__contains__",
        "struct.Struct('1i').unpack",
        "{1: 2}.keys()",
        "cached",
        "lambda x: cached(x)",
        "uses(Words())",
        "uses(Items())",
        "uses(Number(3))",
        "uses(Made)",
        "uses(Slots(plus))",
        "uses(Queue([1]))",
        "uses(collections.defaultdict(lambda: 1))",
        "uses(collections.deque([plus]))",
        "uses(types.SimpleNamespace(call=plus))",
        "uses(numpy.array([plus], dtype=object))",
        "numpy.vectorize(plus)",
        "numpy.frompyfunc(plus, len('a'), len('a'))",
        "functools.cmp_to_key(lambda a, b: 1)",
        "shown",
        "attribute",
        "through(module)",
        "uses([module])",
        "functools.partial(plus, 1)",
    ],
)
def test_whatever_a_value_holds_counts(made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a module where everything has a name, under which it would be pickled."""

    def digest(source: str) -> str:
        module = ModuleType("own_values")
        monkeypatch.setitem(sys.modules, "own_values", module)
        exec(source, vars(module))
        return code_digest(vars(module)["function"])

    source = f"{HELD}\nfunction = {made}\n"
    assert digest(source) == digest(source)
    assert digest(source) != digest(source.replace("1", "2"))


@pytest.mark.parametrize("made", ["cached", "shown", "uses(Made)"])
def test_calls_leave_a_digest_as_it_is(made: str) -> None:
    found = function(f"{HELD}\nfunction = {made}\n")
    before = code_digest(found)
    found(7)
    assert code_digest(found) == before


def test_a_set_that_holds_what_names_it() -> None:
    source = """
        members = set()
        def function(x): return x in members, 1
        members.update([function, 'a', 'b'])
    """
    assert code_digest(function(source)) == code_digest(function(source))
    assert code_digest(function(source)) != code_digest(function(source.replace("1", "2")))


def test_what_is_deep_is_followed_to_its_end() -> None:
    def chain(last: int) -> Any:
        found: Any = SimpleNamespace(next=last)
        for _ in range(3000):
            found = SimpleNamespace(next=[found])
        return found

    assert code_digest(chain(1)) == code_digest(chain(1)) != code_digest(chain(2))


def test_what_a_collection_says_of_itself_does_not_count() -> None:
    source = """
        class Shy(list):
            def __iter__(self): raise RuntimeError
            def __len__(self): return 0
        function = Shy([1])
    """
    assert code_digest(function(source)) != code_digest(function(source.replace("[1]", "[2]")))


def test_no_order_of_hashes_counts() -> None:
    """A set inside an object that a package defines has another order in every process."""
    words = "{'a', 'b', 'c', 'd', 'e'}"
    script = f"""
import collections, types
from whence.spark import imports
from whence.spark.code import code_digest
class Slots:
    __slots__ = ("words",)
    def __init__(self): self.words = {words}
class Own(set): pass
for value in (
    types.SimpleNamespace(words={words}), Slots(), collections.deque([{words}]), Own({words}),
    lambda x: x in {words},
):
    print(code_digest(value))
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1
    (digests,) = found
    assert len(set(digests.split())) == 5


def test_what_cannot_be_pickled_is_known_by_what_it_holds() -> None:
    def held(number: int) -> SimpleNamespace:
        return SimpleNamespace(number=number, call=lambda: None)

    assert code_digest(held(1)) != code_digest(held(2))
    assert code_digest(MappingProxyType({1: 2})) != code_digest(MappingProxyType({1: 3}))


def test_pickling_an_instance_changes_nothing() -> None:
    class Held:
        pass

    before = code_digest(Held)
    copyreg._slotnames(Held)  # type: ignore[attr-defined]
    assert code_digest(Held) == before


def test_partials_and_other_callables() -> None:
    class Adder:
        def __init__(self, n: int) -> None:
            self.n = n

        def __call__(self, x: int) -> int:
            return x + self.n

    assert code_digest(Adder(1)) != code_digest(Adder(2))
    assert code_digest(partial(max, 1)) != code_digest(partial(max, 2))
    assert code_digest(len) != code_digest(max)
    assert code_digest({1, 2, 3}) == code_digest({3, 2, 1})
