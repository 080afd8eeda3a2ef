from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.built_once import built_once
from tests.flows.small_run import small_config
from trajmill.flows.configuration.config import Config
from trajmill.flows.deriving import derive_kind
from trajmill.flows.tasks.release import release_again
from trajmill.warehouse.layout import Warehouse


@pytest.fixture
def copied(small_run: Warehouse, tmp_path: Path) -> Config:
    """The configuration of a small run whose warehouse may be written to."""
    shutil.copytree(small_run.root, tmp_path / "root")
    return small_config(tmp_path / "root")


@pytest.fixture(scope="session")
def derived_run(small_run: Warehouse, tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A run whose newest round was released again with two derived kinds; not to be written to."""

    def build(folder: Path) -> None:
        shutil.copytree(small_run.root, folder / "root")
        config = small_config(folder / "root")
        for kind in ("step", "grounding", "planning"):
            derive_kind(config, kind)
        release_again(config)

    return small_config(built_once(tmp_path_factory, "derived-run", build) / "root")
