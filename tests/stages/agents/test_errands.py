import json
from collections.abc import Callable, Mapping

import pytest

from tests.stages.agents.errand import (
    READ_MAIL,
    REDEEM,
    LostTap,
    manager_with,
    obedient,
    obedient_worker,
    rendered,
    reward,
    run,
    shown,
    user_text,
)
from tests.stages.models.scripted import ScriptedModel
from trajmill.schemas.dialects.user_text import read
from trajmill.schemas.tables.trajectory import StopReason
from trajmill.stages.agents.ces.agent import CesSpec
from trajmill.stages.agents.coda.agent import CodaSpec
from trajmill.stages.agents.mobile_agent_v3.agent import MobileAgentV3Spec
from trajmill.stages.agents.replies import read_items, read_sections
from trajmill.stages.models.base import ChatModel, ChatRequest
from trajmill.stages.rollout.base import FinishedAttempt

PLAN = (*READ_MAIL, *REDEEM)
SUBGOALS = (*PLAN, "Report")
MOBILE = MobileAgentV3Spec(manager="m", reflector="r", notetaker="n")
CES = CesSpec(coordinator="c", state_tracker="s")


def outputs(finished: FinishedAttempt) -> list[dict[str, str]]:
    return [json.loads(step.role_outputs) for step in finished.episode.steps]


def asked_at(finished: FinishedAttempt, step: int) -> list[tuple[str, str]]:
    return [(call.role, call.made_by) for call in finished.episode.calls if call.step_index == step]


def scripted(**answers: Callable[[ChatRequest], str]) -> dict[str, ChatModel]:
    return {name: ScriptedModel(answer, f"{name}-1") for name, answer in answers.items()}


def ces_executor(request: ChatRequest) -> str:
    """Does what its instruction says, and nothing else: it is told neither the task nor the past."""
    (screen,) = shown(request)
    said = read(user_text(request))
    assert said.conclusions == ()
    instruction, _, code = said.instruction.partition(": ")
    return rendered(obedient(instruction, screen, code), screen)


def coordinator(request: ChatRequest) -> str:
    """Gives the instruction after the one that the state names as the last, with the code if the state has it."""
    state = read_sections(user_text(request))["current state"]
    done, _, code = state.partition(" steps done; the code is ")
    subgoal = SUBGOALS[int(done) if done.isdecimal() else 0]
    told = f"{subgoal}: {code}" if subgoal == "Type the noted code" else subgoal
    return f"<think>The state says {state}.</think><answer>{told}</answer>"


def state_tracker(request: ChatRequest) -> str:
    """Counts the steps; it sees no screen, so the code comes from what the Executor says."""
    assert shown(request) == []
    sections = read_sections(user_text(request))
    done, _, _ = sections["previous task state"].partition(" steps")
    assert "Did:" in sections["latest output of executor agent"]
    return f"<answer>{int(done) + 1 if done.isdecimal() else 1} steps done; the code is DELTA33</answer>"


def ces_models() -> dict[str, ChatModel]:
    roles = scripted(coordinator=coordinator, state_tracker=state_tracker)
    return {"worker": ScriptedModel(ces_executor, "executor-1"), **roles}


@pytest.mark.slow
def test_the_state_tells_the_coordinator_of_ces_how_to_go_on_and_it_can_be_the_policy() -> None:
    finished = run(CES, ces_models())
    assert reward(finished) == 1.0
    made = outputs(finished)
    assert [each["instruction"].partition(":")[0] for each in made] == list(SUBGOALS)
    assert "state" not in made[0] and made[3]["state"] == "3 steps done; the code is DELTA33"
    assert asked_at(finished, 1) == [(name, f"{name}-1") for name in ("state_tracker", "coordinator", "executor")]
    models = ces_models()
    executor, policy = models["worker"], models.pop("coordinator")
    spec = CesSpec(executor="e", coordinator="policy", state_tracker="s")
    finished = run(spec, {**models, "worker": policy, "executor": executor})
    assert reward(finished) == 1.0
    assert finished.episode.trajectory.model_version == "coordinator-1"


def coda_executor(request: ChatRequest) -> str:
    """Does what the Planner's thought says; it is given the Planner's screens and its earlier thoughts, too."""
    *before, screen = shown(request)
    earlier = read_items(read_sections(user_text(request)).get("thoughts so far", ""))
    assert len(before) == min(len(earlier), 1), "as many as the Planner was shown"
    thought = read_sections(user_text(request)).get("thought of the planner", "").splitlines()
    return rendered(obedient(thought[0] if thought else "", screen, "DELTA33"), screen)


def planner(request: ChatRequest) -> str:
    """Repeats its plan if the screen before and the present one are the same, else goes on."""
    screens = [screen.screen.screen_id for screen in shown(request)]
    plans = [item.partition(" Action: ")[0] for item in read_items(read_sections(user_text(request))["steps so far"])]
    if not plans:
        assert len(screens) == 1
        return SUBGOALS[0]
    last = plans[-1].removeprefix("Plan: ")
    return last if screens[0] == screens[1] else SUBGOALS[SUBGOALS.index(last) + 1]


def coda_models() -> dict[str, ChatModel]:
    return {"worker": ScriptedModel(coda_executor, "executor-1"), **scripted(planner=planner)}


def test_the_planner_of_coda_sees_that_a_tap_was_lost() -> None:
    finished = run(CodaSpec(planner="p"), coda_models(), LostTap(5))
    assert reward(finished) == 1.0
    assert [each["plan"] for each in outputs(finished)] == [*SUBGOALS[:5], *SUBGOALS[4:]]
    assert asked_at(finished, 0) == [("planner", "planner-1"), ("executor", "executor-1")]


def reflector(request: ChatRequest) -> str:
    """Compares the two screens, and expects the page that bears the name of what was tapped."""
    before, after = shown(request)
    if before.screen.screen_id == after.screen.screen_id:
        return "### Outcome ###\nFAILURE\n### Feedback ###\nNothing changed."
    wrong = 'Tap "Messages"' in user_text(request)
    return f"### Outcome ###\n{'FAILURE' if wrong else 'SUCCESS'}\n### Feedback ###\nMail was wanted."


def notetaker(request: ChatRequest) -> str:
    (screen,) = shown(request)
    values = [e.text for e in screen.elements or () if e.role == "value"]
    return "### Important Notes ###\n" + ("\n".join(f"- the code: {value}" for value in values) or "none")


def models(*plan: str, repairs: Mapping[str, tuple[str, ...]] | None = None) -> dict[str, ChatModel]:
    roles = scripted(reflector=reflector, notetaker=notetaker)
    return {"worker": obedient_worker(), "manager": manager_with(plan or PLAN, repairs or {}), **roles}


def test_a_note_is_carried_from_one_app_to_another_and_all_calls_are_recorded() -> None:
    finished = run(MOBILE, models())
    episode = finished.episode
    assert reward(finished) == 1.0 and episode.trajectory.stop_reason is StopReason.AGENT_DONE
    assert len(episode.steps) == len(PLAN) + 1
    made = outputs(finished)[5]
    assert "the code: DELTA33" in made["notes"]
    assert made["plan"].splitlines() == list(REDEEM[1:])
    assert made["completed"].splitlines() == [*READ_MAIL, REDEEM[0]]
    later = ["reflector", "notetaker", "manager"]
    assert asked_at(finished, 0) == [("manager", "manager-1"), ("worker", "worker-1")]
    assert asked_at(finished, 1) == [(role, f"{role}-1") for role in (*later, "worker")]
    # The plan is empty in the end, so the Worker is not asked.
    assert [role for role, _ in asked_at(finished, len(episode.steps) - 1)] == later
    reflected = next(call for call in episode.calls if call.role == "reflector")
    screens = [episode.steps[0].screen_before, episode.steps[0].screen_after]
    assert [part["screen"] for part in json.loads(reflected.messages)[1]["content"][1:]] == screens
    assert episode.trajectory.input_tokens == 7 * len(episode.calls)


@pytest.mark.parametrize("lost", [2, 8])
def test_a_lost_tap_is_noticed_and_repeated_and_gives_no_note(lost: int) -> None:
    asked = models()
    finished = run(MOBILE, asked, LostTap(lost))
    assert reward(finished) == 1.0
    after = outputs(finished)[lost]
    assert (after["outcome"], after["feedback"]) == ("FAILURE", "Nothing changed.")
    assert isinstance(asked["notetaker"], ScriptedModel) and len(asked["notetaker"].asked) == len(PLAN)


@pytest.mark.parametrize(
    ("spec", "made", "role", "lost"),
    [
        (CES, ces_models, "state_tracker", 0),
        (CES, ces_models, "coordinator", 0),
        (CodaSpec(planner="p"), coda_models, "planner", 0),
        (MOBILE, models, "manager", 0),
        (MOBILE, models, "notetaker", 0),
        (MOBILE, models, "reflector", 5),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_without_a_role_the_task_fails(
    spec: CesSpec | CodaSpec | MobileAgentV3Spec, made: Callable[[], dict[str, ChatModel]], role: str, lost: int
) -> None:
    assert reward(run(spec.model_copy(update={role: "off"}), made(), LostTap(lost))) == 0.0


def test_a_plan_is_revised_after_a_failure_or_repeats_the_mistake() -> None:
    wrong = ('Tap "Messages"', *PLAN[1:])
    finished = run(MOBILE, models(*wrong, repairs={wrong[0]: ("Go home", 'Tap "Mail"')}))
    assert reward(finished) == 1.0
    assert outputs(finished)[1]["plan"].splitlines() == ["Go home", 'Tap "Mail"', *wrong[1:]]
    repeated = run(MOBILE, models(*wrong))
    assert (reward(repeated), repeated.episode.trajectory.stop_reason) == (0.0, StopReason.STEP_LIMIT)


@pytest.mark.parametrize(
    ("more", "ended"),
    [
        (("Report",), (1.0, "success")),
        (("Report", "Something else"), (0.0, "failure")),
        (('Tap "Nowhere"',), (0.0, "failure")),
    ],
    ids=["confirmed", "refused", "a stalemate"],
)
def test_the_manager_confirms_or_refuses_that_all_is_done(more: tuple[str, ...], ended: tuple[float, str]) -> None:
    finished = run(MOBILE, models(*PLAN, *more))
    assert (reward(finished), finished.episode.trajectory.answer) == ended
    if ended[0] == 1.0:
        assert [call.role for call in finished.episode.calls][-2:] == ["worker", "manager"]
