"""verl reads what we export for it; its own base class runs our agent loop at an environment server (without a GPU)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.stages.online.toy_server import DONE, PRESS, toy_server
from tests.trainers.conftest import Load, TrainerProcess
from tests.trainers.rows import assert_conversations, assert_prompts

pytestmark = pytest.mark.trainers


def test_sft_learns_replies_and_rl_rewards_them(load: Load) -> None:
    for loaded in load("verl", "verl-sft", "verl"):
        if loaded.exported.job.format == "verl-sft":
            assert_conversations(loaded.exported, loaded.rows)
            continue
        assert_prompts(loaded.exported, loaded.rows)
        assert loaded.told["rewards"] == pytest.approx([1.0] * len(loaded.rows))
        assert loaded.told["indices"] == list(range(len(loaded.rows)))


@pytest.mark.slow
def test_a_turn_is_a_row_and_the_last_one_has_the_reward(
    trainer_process: Callable[[str], TrainerProcess], tmp_path: Path
) -> None:
    model = build_tiny_vlm(tmp_path / "tiny")
    jobs, answers = tmp_path / "jobs.json", tmp_path / "answers.json"
    with toy_server() as server:
        jobs.write_text(json.dumps({"servers": [server.url], "folder": str(model), "replies": [PRESS, DONE]}))
        trainer_process("verl").run("run_verl_loop", tmp_path, jobs, answers)
    told = json.loads(answers.read_text())
    assert (told["rewards"], told["info"]) == ([None, 1.0], {"steps": 2})
    assert told["texts"] == [PRESS, DONE]
    assert told["masks"] == [True, True]
    assert {"prompts", "responses", "rollout_log_probs"} <= set(told["rows"][0])
    assert "rm_scores" in told["rows"][1]
    assert told["images"] == [[[20, 20]]] * 2
    assert all("Press Go" in prompt and "<|image_pad|>" in prompt for prompt in told["prompts"])
    assert told["unknown"] == []
    trajectory = server.recorded[0].episode.trajectory
    assert (trajectory.reward, trajectory.seed, trajectory.model_version) == (1.0, 3, "tiny")
    assert trajectory.output_tokens > 0
    assert server.recorded[0].episode.steps[0].reply_logprobs
