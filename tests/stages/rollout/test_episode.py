import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stages.models.scripted import ScriptedModel
from tests.stages.models.toy import element, observe
from tests.stages.rollout.toy import ORIGIN, ToyAgent, ToyEnvironment, press_and_finish, toy_query
from trajmill.schemas.actions import Action, Click, Drag, Terminate, Wait
from trajmill.schemas.errors import FailureClass, ModelFailure
from trajmill.schemas.observation import SLIDER_MARK
from trajmill.schemas.tables.registry import rows_from_arrow, rows_to_arrow
from trajmill.schemas.tables.trajectory import Purpose, Step, StopReason
from trajmill.stages.agents.base import Agent, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.models.base import ChatRequest, Completion, ReplyTokens
from trajmill.stages.rollout import base
from trajmill.stages.rollout.base import (
    DEVICE_PROFILES,
    TRAINING_PROFILES,
    Attempt,
    FinishedAttempt,
    Limits,
    Outcomes,
    SlotBoard,
    SlotState,
    SlotView,
    episode_seed,
    plan_mixed,
    plan_rollouts,
)
from trajmill.stages.rollout.episode import run_episode, target_element


def roll(agent: Agent, environment: ToyEnvironment, limits: Limits | None = None) -> FinishedAttempt:
    attempt = Attempt(toy_query(), Purpose.TRAIN, 0, 1)
    return asyncio.run(run_episode(attempt, agent, environment, limits or Limits(), ORIGIN))


def test_a_solved_episode_has_its_reward_its_steps_and_both_screens() -> None:
    rollout = roll(ToyAgent(press_and_finish), ToyEnvironment())
    trajectory = rollout.episode.trajectory
    assert (trajectory.reward, trajectory.stop_reason, trajectory.answer) == (1.0, StopReason.AGENT_DONE, "success")
    screens = [(step.screen_before, step.screen_after) for step in rollout.episode.steps]
    assert screens == [("before", "after"), ("after", "after")]
    target = rollout.episode.steps[0].target
    assert target is not None and target.text == "Go"
    assert set(rollout.screens) == {"before", "after"}


def with_tokens_if_asked(request: ChatRequest) -> Completion:
    tokens = ReplyTokens((5, 7), (-0.5, -0.25)) if request.with_tokens else None
    return Completion("no call", 1, 2, "stop", tokens=tokens)


def test_the_steps_of_a_served_policy_have_its_tokens() -> None:
    for with_tokens, tokens in ((True, ((5, 7), (-0.5, -0.25))), (False, (None, None))):
        model = ScriptedModel(with_tokens_if_asked, "owl-1")
        agent = EndToEndAgent(model, toy_query().platform, with_tokens=with_tokens)
        steps = roll(agent, ToyEnvironment()).episode.steps
        assert len(steps) == 4
        assert {(step.reply_token_ids, step.reply_logprobs) for step in steps} == {tokens}
        assert {step.policy_version for step in steps} == {"owl-1"}
        assert rows_from_arrow(Step, rows_to_arrow("steps", steps)) == list(steps)


SUCCESS, FAILURE, PRESS = Terminate(status="success"), Terminate(status="failure"), Click(x=1, y=1)


@pytest.mark.parametrize(
    ("actions", "reward", "false"),
    [([PRESS, SUCCESS], 1.0, False), ([PRESS, FAILURE], 0.0, False), ([SUCCESS], 0.0, True), ([FAILURE], 0.0, False)],
)
def test_a_task_counts_when_the_agent_says_success_which_the_check_may_refute(
    actions: list[Action], reward: float, false: bool
) -> None:
    made = roll(ToyAgent(lambda step: actions[step]), ToyEnvironment()).episode.trajectory
    assert (made.reward, made.false_complete, made.side_effects) == (reward, false, None)


def test_the_limits_on_steps_and_time_end_an_episode() -> None:
    trajectory = roll(ToyAgent(lambda step: Click(x=1, y=1)), ToyEnvironment()).episode.trajectory
    assert (trajectory.stop_reason, trajectory.failure_class) == (StopReason.STEP_LIMIT, FailureClass.LIMIT)
    assert (trajectory.reward, trajectory.status, trajectory.steps) == (0.0, "finished", 4)
    trajectory = roll(ToyAgent(press_and_finish), ToyEnvironment("step"), Limits(seconds=0.05)).episode.trajectory
    assert trajectory.stop_reason is StopReason.TIME_LIMIT

    class Late(ToyEnvironment):
        async def _meet(self, call: str) -> None:
            await asyncio.sleep(0.6 if call == "reset" else 0.0)

    trajectory = roll(ToyAgent(press_and_finish), Late(), Limits(seconds=0.5)).episode.trajectory
    assert trajectory.stop_reason is StopReason.AGENT_DONE, "waiting for the first screen is no time of the agent's"


def test_a_model_failure_is_not_an_environment_failure() -> None:
    class Broken(ToyAgent):
        async def act(self, episode: EpisodeView) -> Decision:
            raise ModelFailure("no answer")

    trajectory = roll(Broken(press_and_finish), ToyEnvironment()).episode.trajectory
    assert (trajectory.failure_class, trajectory.reward) == (FailureClass.MODEL, None)


def test_a_reply_that_is_no_action_is_a_step_without_effect() -> None:
    def script(step: int) -> Action | None:
        return (None, Wait(), Terminate(status="success"))[step]

    first, waited, _ = roll(ToyAgent(script), ToyEnvironment()).episode.steps
    assert (first.action, first.action_kind) == (None, "unparsed")
    assert first.screen_before == first.screen_after and waited.target is None


def test_a_board_says_what_each_slot_waits_for_and_where_the_time_went(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(base, "perf_counter", lambda: now)
    board = SlotBoard()
    first, second = board.add(), board.add()
    for slot in (first, second):
        slot.since = now
    with first.waiting(SlotState.INSTANCE):
        now = 1.0
        with first.waiting(SlotState.ENVIRONMENT):
            now = 4.0
        with first.waiting(SlotState.MODEL):
            first.step = 7
            now = 6.0
            assert board.views() == [SlotView(SlotState.MODEL, 7, 2.0), SlotView(SlotState.IDLE, 0, 6.0)]
            spent = board.spent()
    assert sum(spent.values()) == 12.0, "two slots, six seconds"
    assert [spent[each] for each in (SlotState.INSTANCE, SlotState.ENVIRONMENT, SlotState.MODEL)] == [1.0, 3.0, 2.0]
    with pytest.raises(ValueError, match="lost"), first.waiting(SlotState.MODEL):
        raise ValueError("lost")
    assert first.state is SlotState.IDLE


QUERIES = [toy_query(f"q{number}") for number in range(10)]


def test_attempts_have_seeds_of_their_own_by_which_evaluation_meets_other_devices() -> None:
    attempts = plan_rollouts(QUERIES, {"q0": 3, "q1": 1}, 0, 1)
    assert Counter(attempt.query.query_id for attempt in attempts) == {"q0": 3, "q1": 1}
    assert len({attempt.seed for attempt in attempts}) == 4
    assert plan_rollouts(QUERIES, {"q0": 3, "q1": 1}, 0, 1) == attempts
    assert plan_rollouts(QUERIES, {"q0": 1}, 0, 1, {"q0": 2}) == attempts[2:3], "numbers follow those of before"
    training = {episode_seed(0, r, f"q{q}", Purpose.TRAIN, 0) % DEVICE_PROFILES for r in range(9) for q in range(40)}
    measured = {episode_seed(0, r, f"q{q}", Purpose.EVALUATE, 0) % DEVICE_PROFILES for r in range(9) for q in range(40)}
    assert training == set(range(TRAINING_PROFILES))
    assert measured == set(range(TRAINING_PROFILES, DEVICE_PROFILES))
    assert episode_seed(0, 1, "q", Purpose.EVALUATE, 0) == episode_seed(0, 5, "q", Purpose.EVALUATE, 0)
    assert episode_seed(0, 1, "q", Purpose.TRAIN, 0) != episode_seed(0, 5, "q", Purpose.TRAIN, 0)


outcomes = st.dictionaries(
    st.text("abc", min_size=1, max_size=3), st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12
)


@given(outcomes, st.integers(0, 40), st.integers(3, 8), st.integers(0, 5))
def test_attempts_go_to_mixed_outcomes(given_: dict[str, tuple[int, int]], total: int, largest: int, seed: int) -> None:
    seen = {query_id: Outcomes(right + wrong, right) for query_id, (right, wrong) in given_.items()}
    more = plan_mixed(seen, total, largest, seed)
    assert all(given_[query_id][0] and given_[query_id][1] for query_id in more), "others are not mixed"
    room = {query_id: max(0, largest - each.tried) for query_id, each in seen.items() if each.are_mixed}
    assert sum(more.values()) == min(total, sum(room.values()))
    assert all(0 < attempts <= room[query_id] for query_id, attempts in more.items())
    unfilled = [more.get(query_id, 0) for query_id, left in room.items() if more.get(query_id, 0) < left]
    assert not unfilled or max(more.values(), default=0) - min(unfilled) <= 1
    assert plan_mixed(dict(reversed(seen.items())), total, largest, seed) == plan_mixed(seen, total, largest, seed)


def test_the_target_of_a_drag_is_the_knob_with_the_value_that_it_is_dragged_to() -> None:
    shown = observe(*(element(SLIDER_MARK, text, value="Volume") for text in "123"))
    knob = (shown.elements or ())[0].bounds
    for end, value in ((240, "2"), (340, "3"), (600, "1")):
        target = target_element(Drag(x=50, y=140, x2=50, y2=end), shown)
        assert target is not None and (target.text, target.bounds) == (value, knob)
