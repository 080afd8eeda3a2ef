"""ms-swift's own scheduler for OpenEnv, as we extend it, steps episodes at an environment server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.stages.online.toy_server import DONE, PRESS, toy_server
from tests.trainers.conftest import REPOSITORY, python_of
from trajmill.schemas.tables.trajectory import StopReason

pytestmark = [pytest.mark.trainers, pytest.mark.slow, pytest.mark.timeout(600)]


def test_each_turn_has_its_screen_and_the_last_one_the_reward(tmp_path: Path) -> None:
    jobs, answers = tmp_path / "jobs.json", tmp_path / "answers.json"
    with toy_server() as server:
        jobs.write_text(json.dumps({"url": server.url, "press": PRESS, "done": DONE}))
        done = subprocess.run(
            [python_of("swift"), "-m", "tests.trainers.run_swift_scheduler", jobs, answers],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-5000:]
    solved, limited = json.loads(answers.read_text())
    assert [message["role"] for message in solved["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert "Press Go" in solved["messages"][1]["content"]
    assert [message["content"].count("<image>") for message in solved["messages"]] == [0, 1, 0, 1, 0]
    assert (solved["done"], solved["images"], solved["rollout_infos"]["total_reward"]) == (True, 2, 1.0)
    assert limited["messages"][3]["content"].startswith("no action: ")
    assert (limited["done"], limited["images"], limited["rollout_infos"]["total_reward"]) == (True, 3, 0.0)
    stops = [made.episode.trajectory.stop_reason for made, _ in server.recorded]
    assert stops == [StopReason.AGENT_DONE, StopReason.STEP_LIMIT]
