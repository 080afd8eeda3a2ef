"""verl's own base class runs our agent loop at an environment server; there is no GPU here for more."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.stages.online.toy_server import DONE, PRESS, toy_server
from tests.trainers.conftest import REPOSITORY, python_of

pytestmark = [pytest.mark.trainers, pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_turn_is_a_row_and_the_last_one_has_the_reward(tmp_path: Path) -> None:
    model = build_tiny_vlm(tmp_path / "tiny")
    jobs, answers = tmp_path / "jobs.json", tmp_path / "answers.json"
    with toy_server() as server:
        jobs.write_text(json.dumps({"servers": [server.url], "folder": str(model), "replies": [PRESS, DONE]}))
        done = subprocess.run(
            [python_of("verl"), "-m", "tests.trainers.run_verl_loop", jobs, answers],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-5000:]
    told = json.loads(answers.read_text())
    assert (told["rewards"], told["info"]) == ([None, 1.0], {"steps": 2})
    assert told["texts"] == [PRESS, DONE]
    assert told["masks"] == [True, True]
    assert {"prompts", "responses", "rollout_log_probs"} <= set(told["rows"][0])
    assert "rm_scores" in told["rows"][1]
    assert told["images"] == [[[20, 20]]] * 2
    assert all("Press Go" in prompt and "<|image_pad|>" in prompt for prompt in told["prompts"])
    assert told["unknown"] == []
    trajectory = server.recorded[0][0].episode.trajectory
    assert (trajectory.reward, trajectory.seed, trajectory.model_version) == (1.0, 3, "tiny")
    assert trajectory.output_tokens > 0
    assert server.recorded[0][0].episode.steps[0].reply_logprobs
