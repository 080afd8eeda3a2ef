"""Runs one episode: the only place where an agent acts in an environment.

Every end has a stop reason, and each step has both screens. A failure of the environment or the model makes the episode
void: it has no reward, and is stored as a failed trajectory.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from time import perf_counter
from typing import TypeVar

from trajmill.schemas.actions import (
    Action,
    Answer,
    OpenApp,
    PressKeys,
    Terminate,
    TypeText,
    action_to_json,
    ends_episode,
    pressed_point,
)
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.step import Step, TargetElement
from trajmill.schemas.tables.trajectory import StopReason, Trajectory
from trajmill.schemas.text import storable
from trajmill.stages.agents.base import Agent, AgentStopped, Decision, EpisodeView
from trajmill.stages.environments.base import Environment
from trajmill.stages.environments.screen_goal import CheckedEnvironment, with_checks
from trajmill.stages.models.wrapped import model_call_row
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.slots import RolloutSlot, SlotState


def storable_decision(decision: Decision) -> Decision:
    """The decision with storable texts; the environment and the agent's history get only these.

    Its model calls are not changed, because their texts are repaired when their rows are made.
    """
    return replace(
        decision,
        thought=storable(decision.thought),
        action=None if decision.action is None else _storable_action(decision.action),
        conclusion=storable(decision.conclusion),
        raw_response=storable(decision.raw_response),
        prompt=storable(decision.prompt),
        role_outputs={storable(role): storable(text) for role, text in decision.role_outputs.items()},
    )


def _storable_action(action: Action) -> Action:
    match action:
        case TypeText(text=text) | Answer(text=text):
            return action.model_copy(update={"text": storable(text)})
        case OpenApp(app=app):
            return action.model_copy(update={"app": storable(app)})
        case PressKeys(keys=keys):
            return action.model_copy(update={"keys": tuple(map(storable, keys))})
        case _:
            return action


T = TypeVar("T")


@dataclass(slots=True)
class _Transcript:
    slot: RolloutSlot = field(default_factory=RolloutSlot)
    """Shows what the episode waits for."""
    decisions: list[Decision] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    environment_seconds: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0

    async def timed(self, work: Awaitable[T]) -> T:
        """Await the environment and add the time to its seconds."""
        start = perf_counter()
        try:
            with self.slot.waiting(SlotState.ENVIRONMENT):
                return await work
        finally:
            self.environment_seconds += perf_counter() - start


async def run_episode(
    attempt: Attempt,
    agent: Agent,
    environment: Environment,
    limits: Limits,
    origin: Origin,
    slot: RolloutSlot | None = None,
) -> FinishedAttempt:
    """Run one attempt; `slot` shows what it waits for.

    A `StageError` of the environment or the model, or the time limit, is not raised: it ends the episode, the
    trajectory gets its class, and a void episode also has a `Failure`.
    """
    transcript = _Transcript(slot or RolloutSlot())
    start = perf_counter()
    failure: StageError | None = None
    reward: float | None = None
    try:
        async with asyncio.timeout(limits.seconds):
            environment = with_checks(environment, attempt.query)
            stop = await _act_until_done(attempt, agent, environment, limits, transcript)
            reward = await transcript.timed(environment.score())
    except TimeoutError:
        stop = StopReason.TIME_LIMIT
    except StageError as error:
        stop, failure = StopReason.FAILED, error
    seconds = perf_counter() - start
    return _finished_attempt(attempt, agent, environment, origin, transcript, stop, reward, failure, seconds)


async def _act_until_done(
    attempt: Attempt, agent: Agent, environment: Environment, limits: Limits, transcript: _Transcript
) -> StopReason:
    guidance = attempt.guidance.text if attempt.guidance else None
    observation = await transcript.timed(environment.reset(attempt.query, attempt.seed))
    transcript.observations.append(observation)
    while len(transcript.decisions) < attempt.query.max_steps:
        view = EpisodeView(
            attempt.query.instruction,
            guidance,
            observation,
            tuple(transcript.decisions),
            attempt.seed,
            tuple(transcript.observations[:-1]),
        )
        try:
            with transcript.slot.waiting(SlotState.MODEL):
                decision = storable_decision(await agent.act(view))
        except AgentStopped:
            return StopReason.STEP_LIMIT
        completions = [call.completion for call in decision.calls if call.completion is not None]
        transcript.tokens_in += sum(completion.input_tokens for completion in completions)
        transcript.tokens_out += sum(completion.output_tokens for completion in completions)
        if decision.action is not None:
            observation = await transcript.timed(environment.step(decision.action))
        transcript.decisions.append(decision)
        transcript.slot.step = len(transcript.decisions)
        transcript.observations.append(observation)
        if decision.action is not None and ends_episode(decision.action):
            return StopReason.AGENT_DONE
        if transcript.tokens_in + transcript.tokens_out > limits.tokens:
            return StopReason.TOKEN_LIMIT
    return StopReason.STEP_LIMIT


def _finished_attempt(
    attempt: Attempt,
    agent: Agent,
    environment: Environment | None,
    origin: Origin,
    transcript: _Transcript,
    stop: StopReason,
    reward: float | None,
    failure: StageError | None,
    seconds: float,
) -> FinishedAttempt:
    trajectory_id = attempt.trajectory_id(agent)
    common = origin.common(made_by=agent.model_version)
    version, guided = agent.model_version, attempt.guidance is not None
    steps = tuple(
        step_row(trajectory_id, index, decision, screens, guided, version, common)
        for index, (decision, screens) in enumerate(
            zip(transcript.decisions, pairwise(transcript.observations), strict=False)
        )
    )
    rewarded = None if failure else _final_reward(reward, stop, transcript.decisions)
    limits = (StopReason.STEP_LIMIT, StopReason.TIME_LIMIT, StopReason.TOKEN_LIMIT)
    failure_class = failure.failure_class if failure else FailureClass.LIMIT if stop in limits else None
    message = storable(str(failure)) if failure else None
    seen = environment.checkpoints_seen if isinstance(environment, CheckedEnvironment) else None
    trajectory = Trajectory(
        trajectory_id=trajectory_id,
        query_id=attempt.query.query_id,
        agent=agent.name,
        model_version=agent.model_version,
        environment=environment.name if environment else "none",
        seed=attempt.seed,
        attempt=attempt.attempt,
        purpose=attempt.purpose,
        guidance_id=attempt.guidance.guidance_id if attempt.guidance else None,
        status="finished" if failure is None else "failed",
        stop_reason=stop,
        failure_class=failure_class,
        failure_message=message,
        answer=answer_of(transcript.decisions[-1].action if transcript.decisions else None),
        reward=rewarded,
        steps=len(steps),
        input_tokens=transcript.tokens_in,
        output_tokens=transcript.tokens_out,
        wall_ms=seconds * 1000,
        environment_ms=transcript.environment_seconds * 1000,
        # Of a causal pathway: the tasks whose answers were seen, and the last one if it was done.
        atomic_done=None if seen is None or rewarded is None else seen + int(rewarded == 1.0),
        **common,
    )
    calls = tuple(
        model_call_row(
            content_id("call", trajectory_id, index, position),
            replace(call.request, trajectory_id=trajectory_id, step_index=index),
            call.completion,
            call.latency_ms,
            call.error,
            call.model_version or agent.model_version,
            origin,
            call.malformed,
        )
        for index, decision in enumerate(transcript.decisions)
        for position, call in enumerate(decision.calls)
    )
    seen_screens = {each.screen.screen_id: each for each in transcript.observations}
    episode = Episode(query=attempt.query, trajectory=trajectory, steps=steps, calls=calls)
    row = {"stage": "rollout", "input_id": trajectory_id, "failure_class": failure_class, "message": message}
    failed = Failure.model_validate(row | {"attempts": 1} | common) if failure else None
    return FinishedAttempt(episode, seen_screens, failed)


def void_attempt(attempt: Attempt, agent: Agent, origin: Origin, failure: StageError) -> FinishedAttempt:
    """The finished attempt if no environment could be started."""
    return _finished_attempt(attempt, agent, None, origin, _Transcript(), StopReason.FAILED, None, failure, 0.0)


def step_row(
    trajectory_id: str,
    index: int,
    decision: Decision,
    screens: tuple[Observation, Observation],
    guided: bool,
    policy_version: str | None,
    common: dict[str, object],
) -> Step:
    """Make the row of a decision between two screens."""
    before, after = screens
    return Step.model_validate(
        {
            "trajectory_id": trajectory_id,
            "index": index,
            "screen_before": before.screen.screen_id,
            "screen_after": after.screen.screen_id,
            "app_before": before.app,
            "app_after": after.app,
            "thought": decision.thought,
            "action": action_to_json(decision.action) if decision.action is not None else None,
            "action_kind": decision.action.kind if decision.action is not None else "unparsed",
            "conclusion": decision.conclusion,
            "raw_response": decision.raw_response,
            "target": target_element(decision.action, before),
            "role_outputs": json.dumps(decision.role_outputs, sort_keys=True),
            "prompt": decision.prompt,
            "guided": guided,
            "reply_token_ids": decision.reply_tokens.ids if decision.reply_tokens else None,
            "reply_logprobs": decision.reply_tokens.logprobs if decision.reply_tokens else None,
            "policy_version": policy_version,
        }
        | common
    )


def target_element(action: Action | None, observation: Observation) -> TargetElement | None:
    """The smallest accessibility element at the position that an action touches; None if there is none."""
    point = pressed_point(action) if action is not None else None
    if point is None or observation.elements is None:
        return None
    under = [element for element in observation.elements if element.bounds.contains(*point)]
    if not under:
        return None
    hit = min(under, key=lambda element: element.bounds.area)
    return TargetElement(role=storable(hit.role), text=storable(hit.text), bounds=hit.bounds)


def answer_of(last: Action | None) -> str | None:
    """Return the answer in the last action of an episode, or how it ended."""
    match last:
        case Answer(text=text):
            return text
        case Terminate(status=status):
            return status
        case _:
            return None


def _final_reward(reward: float | None, stop: StopReason, decisions: list[Decision]) -> float | None:
    """The reward of the episode; a task counts as done only if the agent says so, too."""
    if reward is None:
        return None
    if stop is not StopReason.AGENT_DONE:
        return 0.0
    last = decisions[-1].action
    return 0.0 if isinstance(last, Terminate) and last.status == "failure" else reward
