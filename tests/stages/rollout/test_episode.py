import asyncio

import pytest

from tests.stages.models.scripted import ScriptedModel
from tests.stages.rollout.toy import ORIGIN, ToyAgent, ToyEnvironment, press_and_finish, toy_query
from trajmill.schemas.actions import Action, Click, Terminate, Wait
from trajmill.schemas.errors import FailureClass, ModelFailure
from trajmill.schemas.tables.registry import rows_from_arrow, rows_to_arrow
from trajmill.schemas.tables.trajectory import Purpose, Step, StopReason
from trajmill.stages.agents.base import Agent, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.models.base import ChatRequest, Completion, ReplyTokens
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.episode import run_episode


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
        steps = roll(
            EndToEndAgent(model, toy_query().platform, with_tokens=with_tokens), ToyEnvironment()
        ).episode.steps
        assert len(steps) == 4
        assert {(step.reply_token_ids, step.reply_logprobs) for step in steps} == {tokens}
        assert {step.policy_version for step in steps} == {"owl-1"}
        assert rows_from_arrow(Step, rows_to_arrow("steps", steps)) == list(steps)


@pytest.mark.parametrize("status", ["success", "failure"])
def test_a_task_counts_only_when_the_agent_says_success(status: str) -> None:
    def script(step: int) -> Action:
        return Click(x=1, y=1) if step == 0 else Terminate.model_validate({"status": status})

    reward = roll(ToyAgent(script), ToyEnvironment()).episode.trajectory.reward
    assert reward == (1.0 if status == "success" else 0.0)


@pytest.mark.parametrize(("status", "false"), [("success", True), ("failure", False), (None, False)])
def test_a_report_of_success_that_the_check_refutes_is_a_false_complete(status: str | None, false: bool) -> None:
    def script(step: int) -> Action:
        return Terminate.model_validate({"status": status}) if status else Wait()

    made = roll(ToyAgent(script), ToyEnvironment()).episode.trajectory
    assert (made.false_complete, made.side_effects) == (false, None)


def test_the_limits_on_steps_and_time_end_an_episode() -> None:
    trajectory = roll(ToyAgent(lambda step: Click(x=1, y=1)), ToyEnvironment()).episode.trajectory
    assert (trajectory.stop_reason, trajectory.failure_class) == (StopReason.STEP_LIMIT, FailureClass.LIMIT)
    assert (trajectory.reward, trajectory.status, trajectory.steps) == (0.0, "finished", 4)
    trajectory = roll(ToyAgent(press_and_finish), ToyEnvironment("step"), Limits(seconds=0.05)).episode.trajectory
    assert trajectory.stop_reason is StopReason.TIME_LIMIT


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
