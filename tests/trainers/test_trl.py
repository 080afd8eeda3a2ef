"""TRL reads what we export for it; its own trainer learns online at an environment server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.stages.online.toy_server import toy_server
from tests.trainers.conftest import Load, TrainerProcess
from tests.trainers.rows import assert_conversations, assert_prompts
from trajmill.schemas.tables.trajectory import StopReason

pytestmark = pytest.mark.trainers


def test_sft_learns_replies_and_grpo_rewards_them(load: Load) -> None:
    for loaded in load("trl", "trl", "grpo"):
        if loaded.exported.job.format == "trl":
            assert_conversations(loaded.exported, loaded.rows)
            continue
        assert_prompts(loaded.exported, loaded.rows)
        assert loaded.told["rewards"] == pytest.approx([1.0] * len(loaded.rows))


@pytest.mark.slow
def test_grpo_learns_from_episodes_that_are_recorded_here(
    trainer_process: Callable[[str], TrainerProcess], tmp_path: Path
) -> None:
    model = build_tiny_vlm(tmp_path / "tiny")
    with toy_server() as server:
        trainer_process("trl").run("train_trl_online", tmp_path, server.url, model, tmp_path)
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
