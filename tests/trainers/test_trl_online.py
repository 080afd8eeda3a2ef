"""TRL's own trainer learns online at an environment server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.stages.online.toy_server import toy_server
from tests.trainers.conftest import REPOSITORY, python_of
from trajmill.schemas.tables.trajectory import StopReason

pytestmark = [pytest.mark.trainers, pytest.mark.slow, pytest.mark.timeout(600)]


def test_grpo_learns_from_episodes_that_are_recorded_here(tmp_path: Path) -> None:
    model = build_tiny_vlm(tmp_path / "tiny")
    with toy_server() as server:
        done = subprocess.run(
            [python_of("trl"), "-m", "tests.trainers.train_trl_online", server.url, model, tmp_path],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-5000:]
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["steps"] == 2
    assert told["moved"] > 0
    assert [entry["rewards/TrlPhone/mean"] for entry in told["log"] if "reward" in entry] == [0.5, 0.5]
    trajectories = [made.episode.trajectory for made, _ in server.recorded]
    assert (
        sorted(each.stop_reason for each in trajectories) == [StopReason.AGENT_DONE] * 2 + [StopReason.STEP_LIMIT] * 2
    )
    assert {each.model_version for each in trajectories} == {"tiny"}
    assert sorted(each.reward or 0.0 for each in trajectories) == [0.0, 0.0, 1.0, 1.0]
