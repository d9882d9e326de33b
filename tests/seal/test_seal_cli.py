"""The commands of the sealed archive."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from seal_kit import Vault
from typer.testing import CliRunner, Result

import whence
from whence.cli import app

pytestmark = [
    pytest.mark.slow,
    pytest.mark.full,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def run(place: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--archive", str(place)])


def data(place: Path, *arguments: str) -> Any:
    result = run(place, *arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_seals_and_verify(vault: Vault) -> None:
    found = data(vault.location, "seals")["seals"]
    assert [seal["number"] for seal in found] == list(range(1, len(found) + 1))
    answer = data(vault.location, "verify", "--expect", found[3]["seal"][:12])
    assert answer["ok"]
    assert answer["last"] == found[-1]["seal"]
    assert "as it was sealed" in run(vault.location, "verify").stdout
    failed = run(vault.location, "verify", "--expect", "00ff00ff")
    assert failed.exit_code == 1
    assert "cut off or replaced" in failed.stdout.replace("\n", " ")


def test_prove_and_verify_proof(vault: Vault, tmp_path: Path) -> None:
    target = tmp_path / "proof.json"
    made = run(vault.location, "prove", "group", "--where", "area = 'n'", "-o", str(target))
    assert made.exit_code == 0, made.output
    checked = CliRunner().invoke(app, ["verify-proof", str(target)])
    assert checked.exit_code == 0
    assert "from 2 source rows" in checked.stdout
    target.write_text(target.read_text().replace("i7;", "i8;", 1))
    checked = CliRunner().invoke(app, ["verify-proof", str(target)])
    assert checked.exit_code == 1
    assert "does not hold" in checked.stderr
    missing = CliRunner().invoke(app, ["verify-proof", str(tmp_path / "none.json")])
    assert missing.exit_code == 2
    folder = run(vault.location, "prove", "group", "--where", "area = 'n'", "-o", str(tmp_path))
    assert folder.exit_code == 2
    assert "cannot be written" in " ".join(folder.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nodes", "group", "--label", "aggregate"), "without a RUN"),
        (("nodes", "group", "--forward"), "without a RUN"),
        (("nodes", "--where", "id = 1"), "name one"),
        (("nodes", "--token", "xyz"), "hexadecimal"),
        (("nodes", "--source", "nobody"), "nobody"),
    ],
)
def test_nodes_asked_in_two_ways(vault: Vault, arguments: tuple[str, ...], said: str) -> None:
    result = run(vault.location, *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_nodes_compare_uses_du(vault: Vault) -> None:
    place = vault.location
    assert [n["depth"] for n in data(place, "nodes", "join")["nodes"]] == [0, 1, 1]
    leaf = data(place, "nodes", "--source", "input", "--form", "source")["nodes"][0]
    assert leaf["text"].startswith("input[")
    reached = data(place, "nodes", "--token", leaf["token"], "--forward")["nodes"]
    assert len(reached) > 1
    assert run(place, "compare", "join", "join").exit_code == 0
    parted = run(place, "compare", "join", "left", "--format", "json")
    assert parted.exit_code == 1
    assert any(n["parts here"] for n in json.loads(parted.stdout)["nodes"])
    assert {u["name"] for u in data(place, "uses", "sales", "--where", "id = 3")["runs"]} == {
        "group",
        "groups",
        "items",
        "scalar",
        "window",
    }
    assert all(u["own"] > 0 for u in data(place, "du")["runs"])
    assert "shared nodes" in run(place, "du").stdout


def test_forget(vault: Vault, tmp_path: Path) -> None:
    place = vault.copy(tmp_path / "copy")
    assert data(place, "forget", "items")["runs"][0]["name"] == "items"
    assert run(place, "verify").exit_code == 0
    assert run(place, "forget", "items").exit_code == 2


def test_seal_says_what_it_did(vault: Vault, tmp_path: Path) -> None:
    place = vault.copy(tmp_path / "copy")
    assert data(place, "seal", "join")["seals"][0]["name"] == "join"
    assert run(place, "seal", "join", "--bits", "32").exit_code == 2
    key = CliRunner().invoke(app, ["key", str(tmp_path / "key.pem")])
    assert len(key.stdout.strip()) == 64
    assert (tmp_path / "key.pem").stat().st_mode & 0o077 == 0
    again = CliRunner().invoke(app, ["key", str(tmp_path / "key.pem")])
    assert again.exit_code == 3


def test_verifying_and_proving_start_no_jvm(vault: Vault) -> None:
    source = Path(whence.__file__).parents[1]
    code = (
        "import sys; from whence.cli import app\n"
        "for words in (['verify', '--tokens'], ['prove', 'join'], ['nodes', 'group'], ['du']):\n"
        f"    app([*words, '--archive', {str(vault.location)!r}], standalone_mode=False)\n"
        "assert 'pyspark' not in sys.modules\n"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        env={"PYTHONPATH": str(source), "PATH": "/usr/bin:/bin"},
    )
