"""ms-swift reads what we export for it; its own scheduler for OpenEnv, as we extend it, steps episodes at a server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stages.online.toy_server import DONE, PRESS, toy_server
from tests.trainers.conftest import Load, TrainerProcess
from tests.trainers.rows import assert_conversations
from trajmill.schemas.tables.trajectory import StopReason

pytestmark = pytest.mark.trainers


def test_sft_learns_replies_with_their_weights(load: Load) -> None:
    for loaded in load("swift", "swift"):
        assert_conversations(loaded.exported, loaded.rows)
        weights = [example.loss_weight for example in loaded.exported.examples]
        assert loaded.told["scales"] == [[weight] for weight in weights]
        assert {0.25, 1.0, 2.0} == set(weights)


@pytest.mark.slow
def test_each_turn_has_its_screen_and_the_last_one_the_reward(
    trainer_process: Callable[[str], TrainerProcess], tmp_path: Path
) -> None:
    jobs, answers = tmp_path / "jobs.json", tmp_path / "answers.json"
    with toy_server() as server:
        jobs.write_text(json.dumps({"url": server.url, "press": PRESS, "done": DONE}))
        trainer_process("swift").run("run_swift_scheduler", tmp_path, jobs, answers)
    solved, limited = json.loads(answers.read_text())
    assert [message["role"] for message in solved["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert "Press Go" in solved["messages"][1]["content"]
    assert [message["content"].count("<image>") for message in solved["messages"]] == [0, 1, 0, 1, 0]
    assert (solved["done"], solved["images"], solved["rollout_infos"]["total_reward"]) == (True, 2, 1.0)
    assert limited["messages"][3]["content"].startswith("no action: ")
    assert (limited["done"], limited["images"], limited["rollout_infos"]["total_reward"]) == (True, 3, 0.0)
    stops = [made.episode.trajectory.stop_reason for made in server.recorded]
    assert stops == [StopReason.AGENT_DONE, StopReason.STEP_LIMIT]
