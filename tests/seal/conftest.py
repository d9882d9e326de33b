"""A sealed archive that the tests of a session share; whoever changes it works on a copy."""

from typing import Any

import pytest
from seal_kit import SHAPES, Vault, use_sources, write_sources

import whence

MODES = {"join": "lazy", "window": "auto", "semi": "auto", "group": "lazy", "scalar": "eager"}


@pytest.fixture(scope="session")
def vault(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Vault:
    """Runs of every shape, captured in different modes, all sealed."""
    found = Vault(tmp_path_factory.mktemp("vault"))
    write_sources(spark, found.folder)
    for name, sql in SHAPES.items():
        mode: Any = MODES.get(name, "eager")
        whence.capture(
            spark.sql(sql), name=name, archive=found.location, mode=mode, list_below=0, seal=True
        )
    return found


@pytest.fixture
def sources(spark: Any, vault: Vault) -> Vault:
    """The vault, its sources as temporary views."""
    use_sources(spark, vault.folder)
    return vault
