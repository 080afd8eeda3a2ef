"""Another package adds critics: a spec and an entry point for each, and no change here."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.stages.critics.little_app import ORIGIN, Trees, right_walk
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.critics.judge import judge_episode
from trajmill.stages.critics.spec import CriticModels, JudgeSpec, step_critic_spec, trajectory_critic_spec

STRICT = """
from typing import Literal

from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.critics.voting import StepResult, vote_of
from trajmill.stages.critics.spec import StepCriticSpec, TrajectoryCriticSpec


class Strict:
    channel, resolution, version = Channel.TEXT, "full", "strict-1"

    def __init__(self, merciful):
        self.merciful = merciful

    async def judge(self, episode, screens, steps, draw=0):
        return vote_of(self, self.merciful, "nothing is ever good enough")


class StrictSpec(TrajectoryCriticSpec):
    kind: Literal["strict"] = "strict"
    merciful: bool = False

    def open(self, graphs):
        return Strict(self.merciful)


class StrictSteps:
    version = "strict-steps-1"

    async def judge(self, episode, screens):
        return [StepResult(step.index, "never good enough", "", StepLabel.HARMFUL) for step in episode.steps]


class StrictStepsSpec(StepCriticSpec):
    kind: Literal["strict_steps"] = "strict_steps"

    def open(self, graphs):
        return StrictSteps()
"""


@pytest.fixture
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with two critics, and something else in the same group."""
    (tmp_path / "strict_critics.py").write_text(STRICT)
    metadata = tmp_path / "strict_critics-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: strict-critics\nVersion: 1.0\n")
    points = (
        "strict = strict_critics:StrictSpec",
        "strict_steps = strict_critics:StrictStepsSpec",
        "wrong = trajmill.stages.environments.kinds:SimulatedSpec",
    )
    (metadata / "entry_points.txt").write_text("\n".join(("[trajmill.critics]", *points)))
    monkeypatch.syspath_prepend(tmp_path)


async def judged(spec: JudgeSpec) -> tuple[bool, set[StepLabel]]:
    """The decision on a right walk, and the labels of its steps."""
    trees = Trees()
    async with spec.open(CriticModels(), ORIGIN, lambda call: None) as judge:
        found = await judge_episode(right_walk(trees).end(), judge, trees, ORIGIN)
    assert found.judgement is not None
    return found.judgement.correct, {verdict.label for verdict in found.step_verdicts}


@pytest.mark.usefixtures("other_package")
async def test_critics_of_another_package_judge_with_settings_of_their_own() -> None:
    assert await judged(JudgeSpec()) == (True, {StepLabel.GOOD})
    assert not (await judged(JudgeSpec(text_critic="strict")))[0]
    assert (await judged(JudgeSpec(step_critic="strict_steps")))[1] == {StepLabel.HARMFUL}
    assert (await judged(JudgeSpec(text_critic="strict", critics={"strict": {"merciful": True}})))[0]
    with pytest.raises(ValidationError, match="strict: mercy: "):
        JudgeSpec(critics={"strict": {"mercy": 1}})


@pytest.mark.usefixtures("other_package")
def test_a_value_that_is_no_critic_gives_one_error_line_and_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(BadInputError, match=r"^trajmill\.critics: wrong is no .*TrajectoryCriticSpec$"):
        trajectory_critic_spec("wrong")
    with pytest.raises(BadInputError, match=r"^trajmill\.critics: strict is no .*StepCriticSpec$"):
        step_critic_spec("strict")
    with pytest.raises(ValidationError, match="annotated_tree"):
        JudgeSpec(multimodal_critic="annotated_trees")
