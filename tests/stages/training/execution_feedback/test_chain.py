"""What a reply earns once the frozen roles of the paper's agent have acted on it."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("datasets", reason="the extra `train` is not installed")

from tests.stages.models.scripted import ScriptedModel
from trajmill.schemas.actions import Click
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.tables.query import Platform
from trajmill.stages.metrics.action_match import RightAction
from trajmill.stages.training.execution_feedback.chain import FeedbackTask, executed_action, reward_of, score_of
from trajmill.stages.training.execution_feedback.spec import (
    CesStage1Spec,
    CesStage2Spec,
    CodaSpecialistSpec,
    FeedbackRecipe,
)

STAGE_1 = CesStage1Spec(executor="executor")
SPECIALIST = CodaSpecialistSpec(executor="executor")
SCREEN = Size(1000, 2000)
TAP = RightAction(Click(x=200, y=150), Box(100, 100, 300, 200), SCREEN)
GOOD = "<think>The wallet is shown.</think><answer>Tap it.</answer>"


@pytest.mark.parametrize(
    ("recipe", "good"),
    [
        (STAGE_1, GOOD),
        (CesStage2Spec(executor="executor", coordinator="coordinator"), "<answer>The wallet is shown.</answer>"),
        (SPECIALIST, "Tap the wallet."),
    ],
    ids=["coordinator", "state_tracker", "planner"],
)
def test_silence_earns_nothing_whatever_the_frozen_roles_do(recipe: FeedbackRecipe, good: str) -> None:
    """Even if the Executor would act rightly without a word of the role."""
    frame = ANY.frame(SCREEN)
    taps = ScriptedModel(lambda _: ANY.mobile.render(Reply("", TAP.action, ""), frame))
    wrong = ScriptedModel(lambda _: ANY.mobile.render(Reply("", Click(x=900, y=1900), ""), frame))
    instructs = ScriptedModel(lambda _: GOOD)
    screens = tuple(ScreenHandle(name, SCREEN, lambda: b"") for name in ("before", "now"))
    task = FeedbackTask("t", (), "Open the wallet.", Platform.PHONE, screens, (), TAP)

    def earned(reply: str, executor: ScriptedModel) -> float:
        models = {"executor": executor, "coordinator": instructs}
        action = asyncio.run(executed_action(recipe, models, ANY, task, reply))
        return reward_of(recipe, score_of(recipe.role, reply, action, TAP))

    silence = ["", " \n", "<think>Hm.</think>", "<think>Hm.</think><answer></answer>", "<think>Tap the wal"]
    assert {earned(reply, taps) for reply in silence} == {0.0}
    assert earned(good, taps) == pytest.approx(2 if recipe is SPECIALIST else 1)
    if recipe is not SPECIALIST:
        # Format 0.1, and 0.9 * 0.2 for an action of the right type (equations 21 and 23).
        assert earned(good, wrong) == pytest.approx(0.1 + 0.9 * 0.2)
        assert earned(good, ScriptedModel(lambda _: "no action")) == pytest.approx(0.1)


def test_the_executor_never_sees_the_task_in_place_of_an_instruction() -> None:
    executor = ScriptedModel(lambda _: "")
    task = FeedbackTask("t", (), "Open the wallet.", Platform.PHONE, (ScreenHandle("s", SCREEN, lambda: b""),), (), TAP)
    for reply in ("", "<think>Hm.</think><answer> </answer>", "{}"):
        assert asyncio.run(executed_action(STAGE_1, {"executor": executor}, ANY, task, reply)) is None
    assert executor.asked == []
