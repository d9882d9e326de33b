import pytest

from whence.plan import Field, Item, Key, Move, Path, Value

USER = Path(3, "user", (), 0)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (USER, "user"),
        (USER.then(Field("id_str")), "user.id_str"),
        (USER.then(Field("a.b"), Item()), "user.`a.b`[]"),
        (USER.then(Item(2), Key()), "user[2]{key}"),
        (USER.then(Value("k"), Value()), "user{'k'}{}"),
        (Path(1, "odd`name"), "`odd``name`"),
    ],
)
def test_text(path: Path, text: str) -> None:
    assert str(path) == text


@pytest.mark.parametrize(
    ("whole", "part", "covers"),
    [
        (USER, USER.then(Field("x")), True),
        (USER.then(Field("x")), USER, False),
        (USER.then(Item()), USER.then(Item(2), Field("x")), True),
        (USER.then(Item(1)), USER.then(Item(2)), False),
        (USER.then(Value()), USER.then(Value("k")), True),
        (USER.then(Item()), USER.then(Value()), False),
        (USER, Path(3, "user", (), 1), False),
        (USER, Path(4, "user", (), 0), False),
    ],
)
def test_covers(whole: Path, part: Path, covers: bool) -> None:
    assert whole.covers(part) is covers


def test_undefined_and_nothing_are_different() -> None:
    out = Path(9, "out")
    assert str(Move(out, (), "computed")) == "out <- f(∅)"
    assert str(Move(out, (USER,), "undefined")) == "out <- ⊥(user)"
    assert str(Move(out, (USER,), "copied", (USER,), "any")) == "out <- user by user [any]"
