from build import filtered, joined, source

from whence.plan import render

PLAN = filtered(
    1, joined(3, "inner", source(4, "t", "a"), source(5, "u", "b")), source(2, "s", "c")
)


def test_tree() -> None:
    assert render(PLAN) == (
        "filter-1  a > 1\n"
        "├─ subquery source-2  s (parquet)\n"
        "└─ join-3  inner\n"
        "   ├─ source-4  t (parquet)\n"
        "   └─ source-5  u (parquet)\n"
    )


def test_annotate_adds_to_lines() -> None:
    text = render(PLAN, lambda operator: "3 rows" if operator.id == "join-3" else "")
    assert "join-3  inner  3 rows\n" in text
    assert text.count("rows") == 1
