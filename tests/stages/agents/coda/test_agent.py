from __future__ import annotations

import json

from tests.stages.agents.errand import (
    READ_MAIL,
    REDEEM,
    LostTap,
    obedient,
    phone,
    rendered,
    reward,
    run,
    shown,
    user_text,
)
from tests.stages.models.scripted import ScriptedModel
from trajmill.stages.agents.coda.agent import CodaSpec
from trajmill.stages.agents.replies import read_items, read_sections
from trajmill.stages.models.base import ChatModel, ChatRequest

SUBGOALS = (*READ_MAIL, *REDEEM, "Report")


def executor() -> ScriptedModel:
    """Does what the Planner's thought ends with."""

    def answer(request: ChatRequest) -> str:
        (screen,) = shown(request)
        thought = read_sections(user_text(request)).get("thought of the planner", "").splitlines()
        return rendered(obedient(thought[0] if thought else "", screen, "DELTA33"), screen)

    return ScriptedModel(answer, "executor-1")


def planner() -> ScriptedModel:
    """Repeats its plan if the screen before and the present one are the same, else goes on."""

    def answer(request: ChatRequest) -> str:
        screens = [screen.screen.screen_id for screen in shown(request)]
        plans = [
            item.partition(" Action: ")[0] for item in read_items(read_sections(user_text(request))["steps so far"])
        ]
        if not plans:
            assert len(screens) == 1
            return SUBGOALS[0]
        last = plans[-1].removeprefix("Plan: ")
        return last if screens[0] == screens[1] else SUBGOALS[SUBGOALS.index(last) + 1]

    return ScriptedModel(answer, "planner-1")


def models() -> dict[str, ChatModel]:
    return {"worker": executor(), "planner": planner()}


def test_the_planner_sees_that_a_tap_was_lost() -> None:
    finished = run(CodaSpec(planner="p"), models(), LostTap(phone(), 5))
    assert reward(finished) == 1.0
    plans = [json.loads(step.role_outputs)["plan"] for step in finished.episode.steps]
    assert plans == [*SUBGOALS[:5], *SUBGOALS[4:]]
    assert [call.role for call in finished.episode.calls][:2] == ["planner", "executor"]


def test_without_the_planner_the_executor_does_not_know_what_to_do() -> None:
    assert reward(run(CodaSpec(planner="off"), models())) == 0.0


def test_the_embedded_planner_names_the_page_and_the_task() -> None:
    step, *_ = run(CodaSpec(), {"worker": executor()}).episode.steps
    (plan,) = json.loads(step.role_outputs).values()
    assert plan.startswith('The screen shows "Home screen". The next step serves the task: Read the mail')
