"""Hashes of groups from entries in any order, against the formula in Python."""

from collections import Counter
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from whence.archive import tokens
from whence.trace.seal import sorted as hashing
from whence.trace.seal.sorted import add, begun

LABEL = "ab" * 32
FEW = st.sampled_from([b"\x00" * 9, b"\x00" * 8 + b"\x01", b"\xff" * 9, b"\x00\xff" * 4 + b"\x07"])
ENTRY = st.tuples(st.integers(0, 3), FEW | st.binary(min_size=9, max_size=9), st.booleans())


def written(entries: list[tuple[int, bytes, bool, bool, int]], token: int) -> pa.Table:
    groups, tokens_, contribute, sources, times = map(list, zip(*entries, strict=True))
    return pa.table(
        {
            "g": pa.array(groups, pa.int64()),
            "b": pa.array([t[:1] for t in tokens_], pa.binary()),
            "token": pa.array([t[:token] for t in tokens_], pa.binary()),
            "contributes": contribute,
            "source": sources,
            "times": pa.array(times, pa.int64()),
        }
    )


@given(
    st.lists(ENTRY, min_size=1, max_size=60),
    st.integers(0, 2**63 - 1),
    st.sampled_from([1, 4, 9]),
    st.booleans(),
)
def test_entries_in_any_order(
    found: list[tuple[int, bytes, bool]], far: int, width: int, large: bool
) -> None:
    """Also where the first bytes are the same, tokens are short, and one has two roles."""
    counted = Counter((group, token[:width], role) for group, token, role in found)
    entries = [
        (group, token, role, bool(token[-1] & 1), times + far % 3)
        for (group, token, role), times in counted.items()
    ]
    hashes = begun(LABEL, 4)
    low = [entry for entry in entries if entry[1][0] < 128]
    for part in (low, [entry for entry in entries if entry not in low]):
        with patch.object(hashing, "_LARGE", 0 if large else 4096):
            if part:
                add(hashes, written(part, width))
    for group, hashed in enumerate(hashes):
        members = [
            (tokens.Input(token, source), role, times)
            for number, token, role, source, times in entries
            if number == group
        ]
        assert hashed.digest() == tokens.bag(LABEL, members)
