from __future__ import annotations

import json

import pytest

from tests.stages.agents.errand import READ_MAIL, REDEEM, obedient, rendered, reward, run, shown, user_text
from tests.stages.models.scripted import ScriptedModel
from trajmill.schemas.dialects.user_text import read
from trajmill.stages.agents.ces.agent import CesSpec
from trajmill.stages.agents.replies import read_sections
from trajmill.stages.models.base import ChatModel, ChatRequest

SUBGOALS = (*READ_MAIL, *REDEEM, "Report")


def executor() -> ScriptedModel:
    """Does what its instruction says, and nothing else: it is told neither the task nor the past."""

    def answer(request: ChatRequest) -> str:
        (screen,) = shown(request)
        said = read(user_text(request))
        assert said.conclusions == ()
        instruction, _, code = said.instruction.partition(": ")
        return rendered(obedient(instruction, screen, code), screen)

    return ScriptedModel(answer, "executor-1")


def coordinator() -> ScriptedModel:
    """Gives the instruction after the one that the state names as the last, with the code if the state has it."""

    def answer(request: ChatRequest) -> str:
        state = read_sections(user_text(request))["current state"]
        done, _, code = state.partition(" steps done; the code is ")
        subgoal = SUBGOALS[int(done) if done.isdecimal() else 0]
        told = f"{subgoal}: {code}" if subgoal == "Type the noted code" else subgoal
        return f"<think>The state says {state}.</think><answer>{told}</answer>"

    return ScriptedModel(answer, "coordinator-1")


def state_tracker() -> ScriptedModel:
    """Counts the steps; it sees no screen, so the code comes from what the Executor says."""

    def answer(request: ChatRequest) -> str:
        assert shown(request) == []
        sections = read_sections(user_text(request))
        done, _, _ = sections["previous task state"].partition(" steps")
        assert "Did:" in sections["latest output of executor agent"]
        return f"<answer>{int(done) + 1 if done.isdecimal() else 1} steps done; the code is DELTA33</answer>"

    return ScriptedModel(answer, "state-tracker-1")


def models() -> dict[str, ChatModel]:
    return {"worker": executor(), "coordinator": coordinator(), "state_tracker": state_tracker()}


NAMED = CesSpec(coordinator="c", state_tracker="s")


@pytest.mark.slow
def test_the_state_tells_the_coordinator_how_to_go_on() -> None:
    finished = run(NAMED, models())
    assert reward(finished) == 1.0
    outputs = [json.loads(step.role_outputs) for step in finished.episode.steps]
    assert [each["instruction"].partition(":")[0] for each in outputs] == list(SUBGOALS)
    assert "state" not in outputs[0] and outputs[3]["state"] == "3 steps done; the code is DELTA33"
    asked = [(call.role, call.made_by) for call in finished.episode.calls if call.step_index == 1]
    assert asked == [
        ("state_tracker", "state-tracker-1"),
        ("coordinator", "coordinator-1"),
        ("executor", "executor-1"),
    ]


@pytest.mark.parametrize("role", ["state_tracker", "coordinator"])
def test_without_one_of_them_the_task_fails(role: str) -> None:
    assert reward(run(NAMED.model_copy(update={role: "off"}), models())) == 0.0


def test_the_embedded_roles_hand_the_task_on_and_keep_what_was_done() -> None:
    finished = run(CesSpec(), {"worker": executor()})
    (step,) = finished.episode.steps
    assert json.loads(step.role_outputs) == {"instruction": finished.episode.query.instruction}


@pytest.mark.slow
def test_the_policy_can_be_the_coordinator_of_a_frozen_executor() -> None:
    spec = CesSpec(executor="e", coordinator="policy", state_tracker="s")
    finished = run(spec, {"worker": coordinator(), "executor": executor(), "state_tracker": state_tracker()})
    assert reward(finished) == 1.0
    assert finished.episode.trajectory.model_version == "coordinator-1"
