from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from tests.stages.agents.errand import (
    READ_MAIL,
    REDEEM,
    LostTap,
    manager_with,
    obedient_worker,
    phone,
    reward,
    run,
    shown,
    user_text,
)
from tests.stages.models.scripted import ScriptedModel
from trajmill.schemas.tables.trajectory import StopReason
from trajmill.stages.agents.mobile_agent_v3.agent import MobileAgentV3Spec
from trajmill.stages.models.base import ChatModel, ChatRequest

NAMED = MobileAgentV3Spec(manager="m", reflector="r", notetaker="n")


def reflector() -> ScriptedModel:
    """Compares the two screens, and expects the page that bears the name of what was tapped."""

    def answer(request: ChatRequest) -> str:
        before, after = shown(request)
        if before.screen.screen_id == after.screen.screen_id:
            return "### Outcome ###\nFAILURE\n### Feedback ###\nNothing changed."
        wrong = 'Tap "Messages"' in user_text(request)
        return f"### Outcome ###\n{'FAILURE' if wrong else 'SUCCESS'}\n### Feedback ###\nMail was wanted."

    return ScriptedModel(answer, "reflector-1")


def notetaker() -> ScriptedModel:
    """Notes what the screen marks as data."""

    def answer(request: ChatRequest) -> str:
        (screen,) = shown(request)
        values = [e.text for e in screen.elements or () if e.role == "value"]
        return "### Important Notes ###\n" + ("\n".join(f"- the code: {value}" for value in values) or "none")

    return ScriptedModel(answer, "notetaker-1")


def models(*plan: str, repairs: Mapping[str, tuple[str, ...]] | None = None) -> dict[str, ChatModel]:
    return {
        "worker": obedient_worker(),
        "manager": manager_with(plan or (*READ_MAIL, *REDEEM), repairs or {}),
        "reflector": reflector(),
        "notetaker": notetaker(),
    }


def test_a_note_is_carried_from_one_app_to_another() -> None:
    finished = run(NAMED, models())
    assert reward(finished) == 1.0
    assert finished.episode.trajectory.stop_reason is StopReason.AGENT_DONE
    assert len(finished.episode.steps) == len(READ_MAIL) + len(REDEEM) + 1
    outputs = json.loads(finished.episode.steps[5].role_outputs)
    assert "the code: DELTA33" in outputs["notes"]
    assert outputs["plan"].splitlines() == list(REDEEM[1:])
    assert outputs["completed"].splitlines() == [*READ_MAIL, REDEEM[0]]


@pytest.mark.parametrize("lost", [1, 8])
def test_a_lost_tap_is_noticed_and_repeated(lost: int) -> None:
    finished = run(NAMED, models(), LostTap(phone(), lost))
    assert reward(finished) == 1.0
    after = json.loads(finished.episode.steps[lost].role_outputs)
    assert (after["outcome"], after["feedback"]) == ("FAILURE", "Nothing changed.")


@pytest.mark.parametrize("role", ["manager", "notetaker", "reflector"])
def test_without_a_role_the_task_fails(role: str) -> None:
    environment = LostTap(phone(), 5) if role == "reflector" else phone()
    assert reward(run(NAMED.model_copy(update={role: "off"}), models(), environment)) == 0.0


WRONG_APP = ('Tap "Messages"', *READ_MAIL[1:], *REDEEM)
REPAIR = {'Tap "Messages"': ("Go home", 'Tap "Mail"')}


def test_a_plan_is_revised_after_a_failure_or_repeats_the_mistake() -> None:
    finished = run(NAMED, models(*WRONG_APP, repairs=REPAIR))
    assert reward(finished) == 1.0
    revised = json.loads(finished.episode.steps[1].role_outputs)["plan"].splitlines()
    assert revised == ["Go home", 'Tap "Mail"', *WRONG_APP[1:]]
    repeated = run(NAMED, models(*WRONG_APP))
    assert (reward(repeated), repeated.episode.trajectory.stop_reason) == (0.0, StopReason.STEP_LIMIT)


def test_a_worker_that_can_do_no_subgoal_ends_as_a_stalemate() -> None:
    finished = run(NAMED, models(*READ_MAIL, *REDEEM, 'Tap "Nowhere"'))
    assert (reward(finished), finished.episode.trajectory.answer) == (0.0, "failure")


def test_the_manager_confirms_or_refuses_that_the_worker_is_done() -> None:
    confirmed = run(NAMED, models(*READ_MAIL, *REDEEM, "Report"))
    assert (reward(confirmed), confirmed.episode.trajectory.answer) == (1.0, "success")
    assert [call.role for call in confirmed.episode.calls][-2:] == ["worker", "manager"]
    refused = run(NAMED, models(*READ_MAIL, *REDEEM, "Report", "Something else"))
    assert (reward(refused), refused.episode.trajectory.answer) == (0.0, "failure")


def test_notes_are_taken_only_after_a_success() -> None:
    asked = models()
    run(NAMED, asked, LostTap(phone(), 2))
    taken = asked["notetaker"]
    assert isinstance(taken, ScriptedModel)
    steps = [call for call in taken.asked if call.role == "notetaker"]
    assert len(steps) == len(READ_MAIL) + len(REDEEM)  # the lost tap gave none


def test_the_calls_of_all_roles_are_recorded_with_their_models() -> None:
    episode = run(NAMED, models()).episode
    first = [(call.role, call.made_by) for call in episode.calls if call.step_index == 0]
    later = [(call.role, call.made_by) for call in episode.calls if call.step_index == 1]
    last = [call.role for call in episode.calls if call.step_index == len(episode.steps) - 1]
    assert first == [("manager", "manager-1"), ("worker", "worker-1")]
    assert later == [
        ("reflector", "reflector-1"),
        ("notetaker", "notetaker-1"),
        ("manager", "manager-1"),
        ("worker", "worker-1"),
    ]
    assert last == ["reflector", "notetaker", "manager"]  # the plan is empty, so the Worker is not asked
    reflected = next(call for call in episode.calls if call.role == "reflector")
    assert [part["screen"] for part in json.loads(reflected.messages)[1]["content"][1:]] == [
        episode.steps[0].screen_before,
        episode.steps[0].screen_after,
    ]
    assert episode.trajectory.input_tokens == 7 * len(episode.calls)
