"""How far views reach over the 136 functions, as the seed measured it (§6.3); the table in docs.

`python -m whence.arrays.coverage docs/arrays.md` writes the table between its two markers. A
function counts as covered by dimensional views if every signature tried has one after two calls; as
covered by generalised views if every way of calling it (shape and option) has one that is right for
sizes never seen. Every answer of a view is compared with a tracked call on the same values.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import whence.arrays.rules as rules
from whence.arrays.capture import TrackedFunction, provenance, track
from whence.arrays.catalogue import CATALOGUE, ELEMENTWISE, Entry
from whence.arrays.expand import expand
from whence.arrays.graph import Role
from whence.arrays.views import Views

ROLES: tuple[Role, Role] = ("contributing", "influencing")
BEGIN, END = "<!-- functions: begin -->", "<!-- functions: end -->"
REPLACED = {"msort": "sort(axis=0)", "round_": "round", "trapz": "trapezoid"}


@dataclass(frozen=True, slots=True)
class Coverage:
    """What views did for one function."""

    name: str
    group: str
    cases: int
    dimensional: int
    generalised: int
    wrong: int

    @property
    def covered(self) -> tuple[bool, bool]:
        """Whether dimensional and generalised views cover every case."""
        return self.dimensional == self.cases, self.generalised == self.cases


def measure(entry: Entry, seed: int = 0, rounds: int = 6) -> Coverage:
    """Call a function in every way with random sizes and values, and see which views it gets."""
    rng = np.random.default_rng(seed)
    views = Views(recheck=1 << 30)
    follow = ("whence.arrays.catalogue",)
    learning = track(_caller(entry), follow=follow, views=views)
    plain = track(_caller(entry), follow=follow)
    cases = entry.cases()
    dimensional, wrong = set(range(len(cases))), 0
    for _ in range(rounds):
        for number in rng.permutation(len(cases)).tolist():
            shape, options = cases[number]
            sizes = _sizes(rng)
            for _ in range(2):
                wrong += not _right(learning, plain, entry.arrays(shape, sizes, rng), options)
            last = entry.arrays(shape, sizes, rng)
            wrong += not _right(learning, plain, last, options)
            if _kind(learning) not in ("dimensional", "generalised"):
                dimensional.discard(number)
    generalised = set()
    for number, (shape, options) in enumerate(cases):
        if not any(c.isalpha() for c in shape):  # the sizes are fixed: nothing to generalise
            generalised.add(number)
            continue
        for _ in range(5):  # the first may be beyond the view's reach and is then tracked
            wrong += not _right(learning, plain, entry.arrays(shape, _unseen(rng), rng), options)
        if _kind(learning) == "generalised":
            generalised.add(number)
    return Coverage(entry.name, entry.group, len(cases), len(dimensional), len(generalised), wrong)


def _caller(entry: Entry) -> Any:
    """A function whose digest tells which entry it calls."""
    function, listed = entry.function, entry.listed

    def call(*arrays: Any, **options: Any) -> Any:
        return function(list(arrays), **options) if listed else function(*arrays, **options)

    return call


_ENTRIES = {entry.name: entry for entry in CATALOGUE}


def _sizes(rng: np.random.Generator) -> dict[str, int]:
    return {letter: int(rng.integers(3, top)) for letter, top in (("n", 10), ("m", 9), ("k", 6))}


def _unseen(rng: np.random.Generator) -> dict[str, int]:
    spans = {"n": (10, 16), "m": (9, 15), "k": (6, 9)}
    return {letter: int(rng.integers(*span)) for letter, span in spans.items()}


def _kind(function: TrackedFunction) -> str:
    last = function.last
    return str(last.view)


def _right(learning: TrackedFunction, plain: TrackedFunction, arrays: Any, options: Any) -> bool:
    """Whether the learning function's answer is that of a fully tracked call."""
    one, two = learning(*arrays, **options), plain(*arrays, **options)
    mine, theirs = provenance(one), provenance(two)
    for name in theirs.inputs:
        for role in ROLES:
            left = expand(mine.relation(name, role).form)
            right = expand(theirs.relation(name, role).form)
            if not (np.array_equal(left.out, right.out) and np.array_equal(left.inp, right.inp)):
                return False
    return True


def family(entry: Entry) -> str:
    """Which rules serve a function."""
    if entry.name in ELEMENTWISE and entry.name not in ("maximum", "minimum", "fmax", "fmin"):
        return "element-wise"
    if entry.name in ELEMENTWISE:
        return "choice"
    name = REPLACED.get(entry.name, entry.name).partition("(")[0]
    func = getattr(np, name, None) or getattr(np.linalg, name)
    default = "linear" if name in ("matmul",) else "movement"
    return rules.FAMILY.get(func, default)


def row(item: Coverage) -> str:
    """One function's line of the table."""
    name = f"`{item.name}`"
    if item.name in REPLACED:
        name += f" (now `{REPLACED[item.name]}`)"
    marks = [_share(n, item.cases) for n in (item.dimensional, item.generalised)]
    rules_used = family(_ENTRIES[item.name])
    return f"| {name} | {item.group} | {rules_used} | {item.cases} | {marks[0]} | {marks[1]} |"


def _share(count: int, cases: int) -> str:
    if count == cases:
        return "all"
    return f"{count} of {cases}" if count else "none"


def table(found: list[Coverage]) -> str:
    """The table for the docs, with totals."""
    head = "| function | group | rules | ways called | dimensional views | generalised views |"
    return "\n".join([*summary(found), "", head, "|---|---|---|---|---|---|", *map(row, found)])


def summary(found: list[Coverage]) -> list[str]:
    """Totals as the seed's table 6.2 has them, and without views that look at values again."""
    lines = ["| | functions | dimensional views | generalised views | wrong answers |"]
    lines.append("|---|---|---|---|---|")
    plain = [c for c in found if c.name in ELEMENTWISE]
    other = [c for c in found if c.name not in ELEMENTWISE]
    fixed = [c for c in found if family(_ENTRIES[c.name]) != "choice"]
    parts = {"element-wise": plain, "complex": other, "total": found, "total, no choices": fixed}
    for label, part in parts.items():
        counts = [sum(c.covered[i] for c in part) for i in (0, 1)]
        whole = len(found) if label.startswith("total") else len(part)
        shares = [f"{n} ({100 * n / whole:.2f} %)" for n in counts]
        wrong = sum(c.wrong for c in part)
        lines.append(f"| {label} | {len(part)} | {shares[0]} | {shares[1]} | {wrong} |")
    return lines


def write(path: Path, text: str) -> None:
    """Put the table between the markers of a document."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Measure all functions; write the table into a document, or print it."""
    found = [measure(entry) for entry in CATALOGUE]
    text = table(found)
    if arguments:
        write(Path(arguments[0]), text)
    else:
        print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
