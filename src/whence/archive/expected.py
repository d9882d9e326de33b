"""What an archive should hold, by its chain of seals.

Each seal adds the files and catalog entries that it covers, a `forget` takes some out and covers
some anew. Nothing else may change what an earlier seal said: a later seal over other bytes would
make tampering good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whence.archive import seal as seals
from whence.archive.ledger import SealRow
from whence.archive.seal import Seal

Problem = Callable[[str, str], None]
"""Takes where something is wrong, and what."""


@dataclass(slots=True)
class Expected:
    """What the archive should hold."""

    runs: dict[str, Seal] = field(default_factory=dict)
    datasets: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, Any] = field(default_factory=dict)
    ranges: dict[int, Any] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    signers: dict[str, None] = field(default_factory=dict)
    """In the order of the chain."""
    next_id: int = 0
    """No node id from here on had been given out."""

    def add(self, seal: Seal, problem: Problem) -> None:
        """What one more seal says."""
        sections = seal.sections
        if sections["seal"]["signer"] is not None:
            self.signers[sections["seal"]["signer"]] = None
        self.labels.update(sections["ledger"]["labels"])
        self.ranges.update({entry[0]: entry for entry in sections["ledger"]["ranges"]})
        self.next_id = max(self.next_id, int(sections["ledger"]["next"]))
        if seal.kind == "forget":
            self._forget(sections["forgotten"])
            for source, description in sections.get("descriptions", {}).items():
                if source in self.sources:
                    about = {**self.sources[source], "description": description}
                    self.sources[source] = about
        else:
            self.runs[str(seal.run)] = seal
            self._cover("source", self.sources, sections["sources"], seal, problem)
        self._cover("dataset", self.datasets, sections["datasets"], seal, problem)

    def _cover(
        self,
        what: str,
        known: dict[str, Any],
        entries: Mapping[str, Any],
        seal: Seal,
        tell: Problem,
    ) -> None:
        forgets = seal.kind == "forget"
        for key in changed(known, entries, forgets=forgets):
            name = entries[key].get("name", key)
            told = f"{what} {name!r} is not what an earlier seal covers: it had changed"
            tell(f"seal {seal.number}", told)
        known.update({k: v for k, v in entries.items() if forgets or k not in known})
        for key, entry in entries.items():
            if "description" in entry:  # each run that reads a source describes it anew
                known[key] = {**known[key], "description": entry["description"]}

    def _forget(self, forgotten: Mapping[str, Any]) -> None:
        for run in forgotten["runs"]:
            self.runs.pop(run, None)
            self.forgotten.add(run)
        for dataset in forgotten["datasets"]:
            self.datasets.pop(dataset, None)
        for source in forgotten["sources"]:
            self.sources.pop(source, None)
        for start in forgotten["ranges"]:
            self.ranges.pop(start, None)


def changed(
    known: Mapping[str, Any], entries: Mapping[str, Any], *, forgets: bool = False
) -> list[str]:
    """The entries that differ from what is known; a `forget` may give a dataset to another run."""
    fields = ("files",) if forgets else ("files", "catalog")
    return [
        key
        for key, entry in entries.items()
        if key in known and any(known[key][name] != entry[name] for name in fields)
    ]


def expected_of(chain: Sequence[SealRow]) -> Expected:
    """What the archive should hold; what is wrong with the chain is for `verify` to tell."""
    expected = Expected()
    for row in chain:
        expected.add(seals.from_row(row), lambda *_: None)
    return expected
