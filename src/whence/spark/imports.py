"""Modules that user code names: whose they are, and their source where they are not loaded.

Nothing is imported here: a module's code must not run because somebody asks what it does.
"""

from __future__ import annotations

import dis
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType

PYTHON = f"python {sys.version_info.major}.{sys.version_info.minor}"
_IMPORT = dis.opmap["IMPORT_NAME"]


def version(module: str | None) -> str | None:
    """The version of the package that a module belongs to; None for the user's own modules."""
    top = module.partition(".")[0] if isinstance(module, str) else "__main__"
    if top == "__main__":
        return None
    if top.startswith("_cython_"):  # the classes that Cython gives to what it compiles
        return top
    if top in sys.stdlib_module_names or top == "builtins":
        return PYTHON
    found = distribution_version(top)
    if found is not None:
        return found
    loaded = sys.modules.get(top)
    if loaded is None:
        return _installed(top)
    found = getattr(loaded, "__version__", None)
    return None if found is None else str(found)


@cache
def distribution_version(name: str) -> str | None:
    """The version of what was installed under a name."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@cache
def _installed(top: str) -> str | None:
    """The version of a package that is not loaded and is not called as its distribution is."""
    origin = getattr(find(top), "origin", None)
    places = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    if origin is None or not any(Path(origin).is_relative_to(place) for place in places):
        return None
    names = metadata.packages_distributions().get(top)
    return metadata.version(names[0]) if names else None


def inner_codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from inner_codes(constant)


def imported(code: CodeType, package: str) -> list[str]:
    """The full names of the modules that code imports, and of what it may import from them.

    `package` is the one that relative imports start from.

    >>> imported(compile("import a.b; from c import d", "", "exec"), "")
    ['a', 'a.b', 'c', 'c.d']
    """
    found: dict[str, None] = {}
    for part in inner_codes(code):
        if _IMPORT not in part.co_code[::2]:
            continue
        steps = [s for s in dis.get_instructions(part) if s.opname != "EXTENDED_ARG"]
        for level, names, step in zip(steps, steps[1:], steps[2:], strict=False):
            if step.opcode == _IMPORT:
                base = _absolute(step.argval, level.argval, package)
                inside = [f"{base}.{name}" for name in names.argval or ()]
                found.update(dict.fromkeys([*_prefixes(base), *inside]))
    return list(found)


def _absolute(name: str, level: int, package: str) -> str:
    try:
        return importlib.util.resolve_name("." * level + name, package)
    except ImportError:  # it fails when it runs, too
        return name


def _prefixes(name: str) -> list[str]:
    words = name.split(".")
    return [".".join(words[: i + 1]) for i in range(len(words))]


def find(name: str) -> ModuleSpec | None:
    """Where a module would be loaded from; unlike importlib's, this loads no parent package."""
    places = None
    spec = None
    for prefix in _prefixes(name):
        try:
            found = (finder.find_spec(prefix, places) for finder in sys.meta_path)
            spec = next((spec for spec in found if spec is not None), None)
        except (AttributeError, ImportError, ValueError):  # not even looked for, or not well
            return None
        if spec is None:
            return None
        places = spec.submodule_search_locations
        if places is None and prefix != name:
            return None
    return spec


def source(spec: ModuleSpec) -> CodeType | bytes:
    """The code of a module that is not loaded; of one that is not written in Python, its file."""
    loader, path = spec.loader, Path(spec.origin or "")
    data = path.read_bytes() if path.is_file() else b""
    try:
        if isinstance(loader, SourceFileLoader):  # its `get_code` would write a file
            return loader.source_to_code(data, str(path))
        get_code = getattr(loader, "get_code", None)
        return (get_code and get_code(spec.name)) or data
    except (ImportError, SyntaxError, ValueError):
        return data
