"""What the commands print, in all formats."""

import csv
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_kit import Home

from whence.replay import Check, Replayed

pytestmark = [
    pytest.mark.spark,
    # The scratch folder of an answer goes when the answer does.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def records(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def asked(home: Home, *arguments: str) -> str:
    result = home.run(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def test_runs(home: Home) -> None:
    assert "4 runs in" in asked(home, "runs")
    found = json.loads(asked(home, "runs", "--format", "json"))["runs"]
    assert [run["name"] for run in found] == ["odd", "above", "late-auto", "late"]
    assert [run["mode"] for run in records(asked(home, "runs", "--format", "csv"))] == [
        "eager",
        "eager",
        "auto",
        "eager",
    ]


def test_show_is_a_tree_with_rows_and_bytes(home: Home) -> None:
    text = asked(home, "show", "late")
    assert "mode      eager" in text
    assert "replays   guaranteed" in text
    tree = [line.split() for line in text.splitlines() if "source-" in line]
    assert [words[0] for words in tree] == ["3", "5"]
    assert all(words[1] != "-" for words in tree)


def test_show_counts_what_is_stored(home: Home) -> None:
    found = json.loads(asked(home, "show", "late", "-f", "json"))
    output = next(d for d in found["datasets"] if d["kind"] == "output")
    assert output["rows"] == 2
    assert output["locators"] == 6  # 3 late items, each with its order
    assert 0 < output["witness_bytes"] < output["bytes"]
    assert found["versions"].keys() >= {"whence", "spark", "python"}
    operators = {o["kind"]: o for o in found["operators"]}
    assert operators["sort"]["rows"] == 2
    assert operators["join"]["rows"] is None
    shown = records(asked(home, "show", "late", "-f", "csv"))
    assert [o["operator"] for o in shown] == [o["id"] for o in found["operators"]]


def test_a_run_of_several_steps(home: Home) -> None:
    found = json.loads(asked(home, "show", "above", "-f", "json"))
    assert {o["step"] for o in found["operators"]} == {0, 1}
    assert [d["kind"] for d in found["datasets"]].count("output") == 2
    assert found["replays_single_rows"] in ("guaranteed", "not guaranteed")
    text = asked(home, "show", "above")
    assert "\nstep  rows " in text
    traced = json.loads(asked(home, "trace", "above", "--where", "price = 9.99", "-f", "json"))
    assert traced["sources"]["items"]["count"] == 5
    assert "price" in asked(home, "trace", "above")


def test_trace_for_people(home: Home) -> None:
    text = asked(home, "trace", "late", "--where", "o_key = 1", "--how")
    assert "late: 1 chosen row\n" in text
    assert f"items: 2 rows of {home.source('items')}" in text
    assert "row  role          i_order  price  days\n  0  contributing        1   5.00" in text
    assert "orders[0]·(items[" in text
    assert text.endswith("grade    exact\nreplays  guaranteed\n")


def test_run_is_the_latest_unless_named(home: Home) -> None:
    where = ("--where", "o_key = 1")
    assert asked(home, "trace", *where) == asked(home, "trace", "late", *where)
    id = json.loads(asked(home, "runs", "-f", "json"))["runs"][-1]["id"]
    assert asked(home, "trace", id[:8], *where) == asked(home, "trace", "late", *where)


def test_trace_as_json(home: Home) -> None:
    found = json.loads(asked(home, "trace", "late", "--where", "o_key = 2", "-f", "json", "--how"))
    assert found["output"] == [{"o_key": 2, "c_name": "Bob", "late": 1, "value": "3.25"}]
    assert found["sources"]["items"]["rows"] == [
        {
            "file": str(home.source("items")),
            "row": 3,
            "role": "contributing",
            "values": {"i_order": 2, "price": "3.25", "days": 4},
        }
    ]
    assert found["how"] == ["orders[1]·items[3]"]
    assert (found["grade"], found["replays"], found["reasons"]) == ("exact", "guaranteed", [])
    assert {o["operator"]: o["rows"] for o in found["operators"]}["join-4"] == 1


def test_trace_as_csv(home: Home) -> None:
    found = records(asked(home, "trace", "late", "--where", "o_key = 1", "-f", "csv"))
    assert [(r["source"], r["row"]) for r in found] == [
        ("orders", "0"),
        ("items", "0"),
        ("items", "1"),
    ]
    assert json.loads(found[1]["values"])["price"] == "5.00"
    one = records(asked(home, "trace", "late", "--source", "items", "-f", "csv", "--limit", "2"))
    assert [(r["_row"], r["price"]) for r in one] == [("0", "5.00"), ("1", "7.50")]


def test_limit_says_what_is_left_out(home: Home) -> None:
    text = asked(home, "trace", "late", "--limit", "1")
    assert text.count("… 1 more row\n") == 2  # output, orders
    assert "… 2 more rows\n" in text  # items


def test_no_rows_chosen(home: Home) -> None:
    text = asked(home, "trace", "late", "--where", "o_key = 99", "--how")
    assert "late: 0 chosen rows" in text
    found = json.loads(asked(home, "trace", "late", "--where", "o_key = 99", "-f", "json"))
    assert all(s["count"] == 0 for s in found["sources"].values())


def test_values_of_every_kind(home: Home) -> None:
    found = json.loads(asked(home, "trace", "odd", "--where", "`a.b` = 1", "-f", "json"))
    (row,) = found["output"]
    assert row == {
        "a": 1,
        "day": "2024-02-29",
        "raw": "00ff",
        "ratio": "NaN",
        "list": [1, None],
        "text": "a,b",
        "a_2": 1,
        "a.b": 1,
    }
    (name,) = found["sources"]
    listed = records(asked(home, "trace", "odd", "--source", name, "-f", "csv"))
    assert {r["text"]: r["list"] for r in listed} == {
        "a,b": "[1, null]",
        'two\nlines "quoted"': "",
    }
    assert 'two\\nlines "quoted"' in asked(home, "trace", "odd")


def test_impact(home: Home) -> None:
    text = asked(home, "impact", "late", "items", "--where", "i_order = 1")
    assert text.startswith("3 rows of items took part in 1 row of late\n")
    assert asked(home, "impact", "items", "--where", "i_order = 1") == text
    found = json.loads(asked(home, "impact", "late", "orders", "-f", "json"))
    assert (found["source_rows"], found["count"]) == (3, 2)
    listed = records(asked(home, "impact", "late", "orders", "-f", "csv"))
    assert sorted(r["c_name"] for r in listed) == ["Ann", "Bob"]
    assert "took part in 0 rows" in asked(home, "impact", "late", "orders", "--where", "o_key = 3")


def test_groups_that_were_not_stored_are_found_in_the_active_session(home: Home) -> None:
    text = asked(home, "trace", "late-auto", "--where", "o_key = 1", "-f", "csv")
    assert text == asked(home, "trace", "late", "--where", "o_key = 1", "-f", "csv")


def test_check_replays(home: Home) -> None:
    found = json.loads(asked(home, "check", "late", "--sample", "2", "-f", "json"))
    assert (found["ok"], found["guaranteed"]) == (True, True)
    assert sorted(r["row"]["o_key"] for r in found["rows"]) == [1, 2]


def test_check_that_fails_exits_with_1(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Check((Replayed({"k": 1}, True), Replayed({"k": 2}, False, "gone")), False, ("a-1",))
    monkeypatch.setattr("whence.api.Run.check", lambda *_, **__: failed)
    result = home.run("check", "late")
    assert result.exit_code == 1
    assert "late: 1 of 2 sampled rows came out again" in result.stdout
    assert "DIFFERENT  2  gone" in result.stdout
    assert "replays  not guaranteed\n         a-1\n" in result.stdout
    assert home.run("check", "late", "-f", "csv").stdout == "ok,why,k\ntrue,,1\nfalse,gone,2\n"


def test_gc(broken: Home) -> None:
    left_over = broken.archive / "datasets" / ("ab" * 10)
    left_over.mkdir()
    (left_over / "part.parquet").write_bytes(b"x" * 2000)
    assert "removed 0 datasets" in asked(broken, "gc")
    assert "would remove 1 dataset, 2.0 KiB" in asked(broken, "gc", "--grace", "0", "--dry-run")
    found = json.loads(asked(broken, "gc", "--grace", "0", "-f", "json"))
    assert (found["datasets"], found["bytes"]) == (["ab" * 10], 2000)
    assert not left_over.exists()
    assert "odd" in asked(broken, "runs")


def test_a_terminal_gets_tables_that_fit(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    from whence.cli.app import trace

    screen: Any = Terminal()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stdout", screen)
    trace(run="odd", archive=str(home.archive))
    text = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    assert "more columns; --format json has all" in text
    tables = [line for line in text.splitlines() if line.startswith(("  0  ", "row  "))]
    assert len(tables) >= 2
    assert all(len(line.rstrip()) <= 40 for line in tables)


def test_paths_below_the_current_folder_are_short(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home.folder)
    name = Path("orders") / home.source("orders").name
    assert f"orders: 1 row of {name}\n" in asked(home, "trace", "late", "--where", "o_key = 2")
