from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.flows.small_run import small_config
from trajmill.flows.configuration.config import Config
from trajmill.warehouse.layout import Warehouse


@pytest.fixture
def copied(small_run: Warehouse, tmp_path: Path) -> Config:
    """The configuration of a small run whose warehouse may be written to."""
    shutil.copytree(small_run.root, tmp_path / "root")
    return small_config(tmp_path / "root")
