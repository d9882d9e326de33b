"""Merkle trees, tokens and proofs' ways, against plain restatements of their rules."""

import doctest
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.algebra import canonical
from whence.archive import digests, merkle, tokens
from whence.plan import labels

HASHES = st.lists(st.binary(min_size=32, max_size=32), max_size=40)


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def tree(leaves: list[bytes]) -> bytes:
    """The rule, recursively: the left half is the largest power of two below the number."""
    if len(leaves) <= 1:
        return leaves[0] if leaves else b""
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    return sha(b"\x01", tree(leaves[:half]), tree(leaves[half:]))


@given(HASHES)
def test_root(leaves: list[bytes]) -> None:
    assert merkle.root(leaves) == sha(b"\x02", len(leaves).to_bytes(8, "big"), tree(leaves))


@given(HASHES.filter(bool), st.data())
def test_a_way_leads_up_only_from_its_own_leaf_place_and_number(
    leaves: list[bytes], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    way = merkle.path(leaves, index)
    assert merkle.climb(leaves[index], index, len(leaves), way) == merkle.root(leaves)
    other = data.draw(st.integers(0, len(leaves) + 3))
    count = data.draw(st.integers(1, len(leaves) + 3))
    try:
        found = merkle.climb(leaves[index], other, count, way)
    except ValueError:
        return
    if len(set(leaves)) == len(leaves):
        assert (found == merkle.root(leaves)) == ((other, count) == (index, len(leaves)))


@pytest.mark.parametrize("neighbours", [[], [b"0" * 32] * 9])
def test_too_few_or_too_many_neighbours(neighbours: list[bytes]) -> None:
    with pytest.raises(ValueError, match="neighbour"):
        merkle.climb(b"1" * 32, 1, 4, neighbours)


LABEL = sha(b"label").hex()
INPUTS = st.builds(tokens.Input, st.binary(min_size=4, max_size=4), st.booleans())


@given(st.lists(st.tuples(INPUTS, st.booleans(), st.integers(1, 9)), max_size=20), st.randoms())
def test_a_bag_has_no_order_but_roles_and_numbers(
    members: list[tuple[tokens.Input, bool, int]], random: object
) -> None:
    shuffled = list(members)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert tokens.bag(LABEL, members) == tokens.bag(LABEL, shuffled)
    more = [(token, role, times + 1) for token, role, times in members]
    flipped = [(token, not role, times) for token, role, times in members]
    others = [(tokens.Input(t, not source), role, times) for (t, source), role, times in members]
    several = (members, more, flipped, others, members[1:])
    assert len({tokens.bag(LABEL, m) for m in several}) == len({tuple(sorted(m)) for m in several})


def test_a_bag_as_the_docs_write_it() -> None:
    """Members that are the only ones to begin with their byte as they are, others as a hash."""
    alone, one, two = b"\x01" * 4, b"\x07" * 4, b"\x07\x08\x00\x00"
    members = [
        (tokens.Input(two, True), True, 1),
        (tokens.Input(alone, False), False, 300),
        (tokens.Input(one, False), True, 1),
    ]
    once = bytes(7) + b"\x01"
    several = sha(b"b" + one + b"\x01" + once + two + b"\x03" + once)
    single = alone + b"\x00" + bytes(6) + b"\x01\x2c"
    written = b"\x01\x01" + single + b"\x07\x02" + several
    assert tokens.bag(LABEL, members) == sha(b"B" + bytes.fromhex(LABEL) + written)


def test_forms_are_told_apart() -> None:
    token = tokens.Input(b"t" * 32, False)
    found = {
        tokens.joint(LABEL, [tokens.Input(token.token, True)]),
        tokens.one(LABEL, 0, tokens.Input(token.token, True)),
        tokens.bag(LABEL, [(tokens.Input(token.token, True), True, 1)]),
        tokens.joint(LABEL, [token]),
        tokens.joint(LABEL, [token, None]),
        tokens.joint(LABEL, [None, token]),
        tokens.one(LABEL, None, token),
        tokens.one(LABEL, 0, token),
        tokens.bag(LABEL, [(token, True, 1)]),
        tokens.bag(LABEL, []),
        tokens.joint(sha(b"other").hex(), [token]),
    }
    assert len(found) == 11


@pytest.mark.parametrize("module", [canonical, digests, merkle, labels])
def test_what_the_docstrings_show(module: object) -> None:
    failed, tried = doctest.testmod(module)  # type: ignore[arg-type]
    assert failed == 0
    assert tried > 0
