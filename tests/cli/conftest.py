"""One archive for all tests of the command line, made once."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_kit import Home, make_home


@pytest.fixture(scope="session")
def home(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Home:
    return make_home(spark, tmp_path_factory.mktemp("home"))


@pytest.fixture
def broken(home: Home, tmp_path: Path) -> Home:
    """A copy of the archive that a test may damage; its sources are those of `home`."""
    shutil.copytree(home.archive, tmp_path / "provenance")
    return Home(tmp_path)
