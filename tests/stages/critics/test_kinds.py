"""Another package adds a critic: one spec and one entry point, and no change here."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.stages.critics.little_app import ORIGIN, Trees, right_walk
from trajmill.schemas.errors import BadInputError
from trajmill.stages.critics.judge import judge_episode
from trajmill.stages.critics.kinds import critic_spec
from trajmill.stages.critics.spec import CriticModels, JudgeSpec

STRICT = """
from typing import Literal

from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import vote_of
from trajmill.stages.critics.kinds import CriticSpec


class Strict:
    channel, resolution, version = Channel.TEXT, "full", "strict-1"

    async def judge(self, episode, screens, steps, draw=0):
        return vote_of(self, False, "nothing is ever good enough")


class StrictSpec(CriticSpec):
    kind: Literal["strict"] = "strict"

    def open(self):
        return Strict()
"""


@pytest.fixture
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with a critic and something else under the same group."""
    (tmp_path / "strict_critics.py").write_text(STRICT)
    metadata = tmp_path / "strict_critics-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: strict-critics\nVersion: 1.0\n")
    points = "strict = strict_critics:StrictSpec\nwrong = trajmill.stages.environments.simulated.spec:SimulatedSpec\n"
    (metadata / "entry_points.txt").write_text(f"[trajmill.critics]\n{points}")
    monkeypatch.syspath_prepend(tmp_path)


async def judged(spec: JudgeSpec) -> bool:
    trees = Trees()
    episode = right_walk(trees).end()
    async with spec.open(CriticModels(), ORIGIN, lambda call: None) as judge:
        decided = await judge_episode(episode, judge, trees, ORIGIN)
    assert decided.judgement is not None
    return decided.judgement.correct


@pytest.mark.usefixtures("other_package")
def test_a_critic_of_another_package_votes_in_its_channel() -> None:
    assert asyncio.run(judged(JudgeSpec()))
    assert not asyncio.run(judged(JudgeSpec(text_critic="strict")))


@pytest.mark.usefixtures("other_package")
def test_what_is_no_critic_is_one_line() -> None:
    with pytest.raises(BadInputError, match=r"^trajmill\.critics: wrong is no .*CriticSpec$"):
        critic_spec("wrong")


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(ValidationError, match="annotated_tree"):
        JudgeSpec(multimodal_critic="annotated_trees")
