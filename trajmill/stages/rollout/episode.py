"""Runs one episode: the only place where an agent acts in an environment.

Every end has a stop reason, and each step has both screens. A failure of the environment or the model makes the episode
void: it has no reward, and is stored as a failed trajectory.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from time import perf_counter
from typing import Any, TypeVar

from trajmill.schemas import actions
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.observation import SLIDER_MARK, Observation
from trajmill.schemas.record import Origin, Row, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.trajectory import Step, StopReason, TargetElement, Trajectory
from trajmill.schemas.text import storable
from trajmill.stages.agents.base import Agent, AgentStopped, Decision, EpisodeView
from trajmill.stages.environments.base import ComparesState, Environment
from trajmill.stages.environments.screen_goal import CheckedEnvironment, with_checks
from trajmill.stages.models.wrapped import model_call_row
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits, Prober, RolloutSlot, SlotState
from trajmill.stages.rollout.branch import BranchPoints


def storable_decision(decision: Decision) -> Decision:
    """The decision with storable texts; the environment and the agent's history get only these.

    Its model calls are not changed, because their texts are repaired when their rows are made.
    """
    action = decision.action
    match action:
        case actions.TypeText(text=text) | actions.Answer(text=text):
            action = action.model_copy(update={"text": storable(text)})
        case actions.OpenApp(app=app):
            action = action.model_copy(update={"app": storable(app)})
        case actions.PressKeys(keys=keys):
            action = action.model_copy(update={"keys": tuple(map(storable, keys))})
    return replace(
        decision,
        thought=storable(decision.thought),
        action=action,
        conclusion=storable(decision.conclusion),
        raw_response=storable(decision.raw_response),
        prompt=storable(decision.prompt),
        role_outputs={storable(role): storable(text) for role, text in decision.role_outputs.items()},
    )


T = TypeVar("T")
_MOST_PATHS, _LONGEST_PATH = 100, 200
_LIMITS = (StopReason.STEP_LIMIT, StopReason.TIME_LIMIT, StopReason.TOKEN_LIMIT)


@dataclass(slots=True)
class _Transcript:
    attempt: Attempt
    agent: Agent
    origin: Origin
    slot: RolloutSlot = field(default_factory=RolloutSlot)
    """Shows what the episode waits for."""
    decisions: list[Decision] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    environment_seconds: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    side_effects: tuple[str, ...] | None = None
    probed: tuple[Observation, ...] | None = None

    async def timed(self, work: Awaitable[T]) -> T:
        """Await the environment and add the time to its seconds."""
        start = perf_counter()
        try:
            with self.slot.waiting(SlotState.ENVIRONMENT):
                return await work
        finally:
            self.environment_seconds += perf_counter() - start

    async def look(self, environment: Environment, prober: Prober, seconds: float) -> None:
        """Let a probe look into the end state; one that fails has seen nothing."""
        seen = [self.observations[-1]]
        with suppress(TimeoutError, StageError), self.slot.waiting(SlotState.ENVIRONMENT):
            async with asyncio.timeout(seconds):
                while (action := prober(self.attempt.query, seen)) is not None:
                    seen.append(await environment.step(action))
            self.probed = tuple(seen[1:])

    async def begin(self, environment: Environment, branches: BranchPoints) -> None:
        """Reset the environment, or bring it to the point from which the attempt branches."""
        attempt = self.attempt
        if attempt.branch is None:
            self.observations.append(await self.timed(environment.reset(attempt.query, attempt.seed)))
        else:
            self.observations += await self.timed(branches.reach(environment, attempt.query, attempt.branch))
            self.decisions += attempt.branch.decisions()

    def view(self) -> EpisodeView:
        """What the agent is shown."""
        *earlier, observation = self.observations
        self.slot.screen = observation.screen
        guidance = self.attempt.guidance
        return EpisodeView(
            self.attempt.query.instruction,
            guidance.text if guidance else None,
            observation,
            tuple(self.decisions),
            self.attempt.seed,
            tuple(earlier),
        )

    def count(self, decision: Decision) -> None:
        completions = [call.completion for call in decision.calls if call.completion is not None]
        self.tokens_in += sum(completion.input_tokens for completion in completions)
        self.tokens_out += sum(completion.output_tokens for completion in completions)

    def add(self, decision: Decision, seen: Observation) -> None:
        """Add a decision with the screen after it."""
        self.decisions.append(decision)
        self.slot.step, self.slot.did = len(self.decisions), decision.conclusion
        self.observations.append(seen)

    def finished(
        self,
        environment: Environment | None,
        stop: StopReason,
        reward: float | None,
        failure: StageError | None,
        seconds: float,
    ) -> FinishedAttempt:
        """The episode with its rows; `environment` is None if none could be started."""
        attempt, version = self.attempt, self.agent.model_version
        trajectory_id, common = attempt.trajectory_id(self.agent), self.origin.common(made_by=version)
        screens = pairwise(self.observations)
        steps = tuple(
            step_row(trajectory_id, index, decision, seen, attempt.guidance is not None, version, common)
            for index, (decision, seen) in enumerate(zip(self.decisions, screens, strict=False))
        )
        last = self.decisions[-1].action if self.decisions else None
        failure_class = failure.failure_class if failure else FailureClass.LIMIT if stop in _LIMITS else None
        message = storable(str(failure)) if failure else None
        trajectory = Trajectory(
            trajectory_id=trajectory_id,
            query_id=attempt.query.query_id,
            agent=self.agent.name,
            model_version=version,
            environment=environment.name if environment else "none",
            seed=attempt.seed,
            attempt=attempt.attempt,
            purpose=attempt.purpose,
            guidance_id=attempt.guidance.guidance_id if attempt.guidance else None,
            status="finished" if failure is None else "failed",
            stop_reason=stop,
            failure_class=failure_class,
            failure_message=message,
            answer=answer_of(last),
            steps=len(steps),
            input_tokens=self.tokens_in,
            output_tokens=self.tokens_out,
            wall_ms=seconds * 1000,
            environment_ms=self.environment_seconds * 1000,
            parent_id=attempt.branch.parent_id if attempt.branch else None,
            branched_at=len(attempt.branch.steps) if attempt.branch else None,
            **self._outcome(environment, stop, last, reward if failure is None else None),
            **common,
        )
        episode = Episode(
            query=attempt.query, trajectory=trajectory, steps=steps, calls=tuple(self._calls(trajectory_id))
        )
        row = {"stage": "rollout", "input_id": trajectory_id, "failure_class": failure_class, "message": message}
        failed = Failure.model_validate(row | common) if failure else None
        shown = (*self.observations, *(self.probed or ()))
        return FinishedAttempt(episode, {seen.screen.screen_id: seen for seen in shown}, failed)

    def _outcome(
        self, environment: Environment | None, stop: StopReason, last: actions.Action | None, reward: float | None
    ) -> dict[str, Any]:
        """The fields of the trajectory that say what came of it."""
        gives_up = isinstance(last, actions.Terminate) and last.status == "failure"
        says_done = stop is StopReason.AGENT_DONE and not gives_up
        checked = environment if isinstance(environment, CheckedEnvironment) else None
        if reward is not None and not says_done and not (checked and checked.infeasible):
            # A task counts as done only if the agent says so, too.
            reward = 0.0
        seen = checked.checkpoints_seen if checked else None
        effects = None if self.side_effects is None else self.side_effects[:_MOST_PATHS]
        return {
            "reward": reward,
            # Of a causal pathway: the tasks whose answers were seen, and the last one if it was done.
            "atomic_done": None if reward is None or seen is None else seen + int(reward == 1.0),
            "side_effects": None if effects is None else tuple(storable(each)[:_LONGEST_PATH] for each in effects),
            "false_complete": None if reward is None else says_done and reward < 1.0,
            "probe_screens": None if self.probed is None else tuple(each.screen.screen_id for each in self.probed),
        }

    def _calls(self, trajectory_id: str) -> Iterator[ModelCall]:
        for index, decision in enumerate(self.decisions):
            for position, call in enumerate(decision.calls):
                yield model_call_row(
                    content_id("call", trajectory_id, index, position),
                    replace(call.request, trajectory_id=trajectory_id, step_index=index),
                    call.completion,
                    call.latency_ms,
                    call.error,
                    call.model_version or self.agent.model_version,
                    self.origin,
                    call.malformed,
                )


async def run_episode(
    attempt: Attempt,
    agent: Agent,
    environment: Environment,
    limits: Limits,
    origin: Origin,
    slot: RolloutSlot | None = None,
    branches: BranchPoints | None = None,
) -> FinishedAttempt:
    """Run one attempt; `slot` shows what it waits for, `branches` holds snapshots of branch points.

    A `StageError` of the environment or the model, or the time limit, is not raised: it ends the episode, the
    trajectory gets its class, and a void episode also has a `Failure`.
    """
    done, leased = _Transcript(attempt, agent, origin, slot or RolloutSlot()), environment
    start, stop = perf_counter(), StopReason.STEP_LIMIT
    failure: StageError | None = None
    reward: float | None = None
    try:
        environment = with_checks(environment, attempt.query)
        await done.begin(environment, branches or BranchPoints())
        async with asyncio.timeout(limits.seconds):
            while len(done.decisions) < attempt.query.max_steps:
                try:
                    with done.slot.waiting(SlotState.MODEL):
                        decision = storable_decision(await agent.act(done.view()))
                except AgentStopped:
                    break
                done.count(decision)
                action, seen = decision.action, done.observations[-1]
                if action is not None:
                    seen = await done.timed(environment.step(action))
                done.add(decision, seen)
                if action is not None and actions.ends_episode(action):
                    stop = StopReason.AGENT_DONE
                    break
                if done.tokens_in + done.tokens_out > limits.tokens:
                    stop = StopReason.TOKEN_LIMIT
                    break
        reward = await done.timed(environment.score())
        if isinstance(environment, ComparesState):
            done.side_effects = await done.timed(environment.side_effects())
    except TimeoutError:
        stop = StopReason.TIME_LIMIT
    except StageError as error:
        stop, failure = StopReason.FAILED, error
    seconds = perf_counter() - start
    if limits.prober is not None and stop is StopReason.AGENT_DONE:
        await done.look(leased, limits.prober, limits.seconds)
    return done.finished(environment, stop, reward, failure, seconds)


def void_attempt(attempt: Attempt, agent: Agent, origin: Origin, failure: StageError) -> FinishedAttempt:
    return _Transcript(attempt, agent, origin).finished(None, StopReason.FAILED, None, failure, 0.0)


def recorded_rows(
    trajectory_id: str, decisions: Sequence[Decision], seen: Sequence[Observation], fields: Mapping[str, object]
) -> tuple[Trajectory, tuple[Step, ...]]:
    """Make the rows of an attempt that was recorded elsewhere, from its decisions and the screens around them.

    `fields` are the further ones of the trajectory; a recording knows neither tokens nor times.
    """
    common = {name: fields[name] for name in Row.model_fields if name in fields}
    steps = tuple(
        step_row(trajectory_id, index, decision, screens, False, None, common)
        for index, (decision, screens) in enumerate(zip(decisions, pairwise(seen), strict=True))
    )
    ends = decisions[-1].action is not None and actions.ends_episode(decisions[-1].action)
    unknown = dict.fromkeys(("guidance_id", "failure_class", "failure_message", "answer", "reward"))
    zero = dict.fromkeys(("seed", "attempt", "input_tokens", "output_tokens", "wall_ms", "environment_ms"), 0)
    stop = StopReason.AGENT_DONE if ends else StopReason.STEP_LIMIT
    known = {"trajectory_id": trajectory_id, "status": "finished", "steps": len(steps), "stop_reason": stop}
    return Trajectory.model_validate({**unknown, **zero, **known, **fields}), steps


def step_row(
    trajectory_id: str,
    index: int,
    decision: Decision,
    screens: tuple[Observation, Observation],
    guided: bool,
    policy_version: str | None,
    common: dict[str, object],
) -> Step:
    before, after = screens
    action, tokens = decision.action, decision.reply_tokens
    texts = {name: getattr(decision, name) for name in ("thought", "conclusion", "raw_response", "prompt")}
    return Step.model_validate(
        {
            "trajectory_id": trajectory_id,
            "index": index,
            "screen_before": before.screen.screen_id,
            "screen_after": after.screen.screen_id,
            "app_before": before.app,
            "app_after": after.app,
            "action": actions.action_to_json(action) if action is not None else None,
            "action_kind": action.kind if action is not None else "unparsed",
            "target": target_element(action, before),
            "role_outputs": json.dumps(decision.role_outputs, sort_keys=True),
            "guided": guided,
            "reply_token_ids": tokens.ids if tokens else None,
            "reply_logprobs": tokens.logprobs if tokens else None,
            "policy_version": policy_version,
        }
        | texts
        | common
    )


def target_element(action: actions.Action | None, observation: Observation) -> TargetElement | None:
    """The smallest element where an action touches the screen; for a knob of a slider, with its new value as text."""
    point = actions.pressed_point(action) if action is not None else None
    if point is None or observation.elements is None:
        return None
    under = [element for element in observation.elements if element.bounds.contains(*point)]
    if not under:
        return None
    hit = min(under, key=lambda element: element.bounds.area)
    text = hit.text
    if hit.role == SLIDER_MARK and isinstance(action, actions.Swipe | actions.Drag):
        marks = [each for each in observation.elements if each.role == SLIDER_MARK]
        text = next((each.text for each in marks if each.bounds.contains(action.x2, action.y2)), text)
    return TargetElement(role=storable(hit.role), text=storable(text), bounds=hit.bounds)


def answer_of(last: actions.Action | None) -> str | None:
    """Return the answer in the last action of an episode, or how it ended."""
    match last:
        case actions.Answer(text=text):
            return text
        case actions.Terminate(status=status):
            return status
        case _:
            return None
