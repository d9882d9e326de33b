"""What the system tests share."""

from pathlib import Path

import pytest
from tpch_kit import make_tables


@pytest.fixture(scope="session")
def tpch_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TPC-H at scale 0.01, made once."""
    return make_tables(tmp_path_factory.mktemp("tpch-tables"))
