from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.built_once import built_once
from tests.flows.served_judge import tiny_config
from tests.flows.small_run import up_to
from trajmill.flows.policies.policy import PROMOTE
from trajmill.flows.stage import RoundContext


@pytest.fixture(scope="session")
def first_round(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def build(root: Path) -> None:
        up_to(PROMOTE, RoundContext.of(tiny_config(root)))

    return built_once(tmp_path_factory, "first-round", build)


@pytest.fixture
def root(first_round: Path, tmp_path: Path) -> Path:
    """A warehouse after its first round, to go on with."""
    return Path(shutil.copytree(first_round, tmp_path / "warehouse"))
