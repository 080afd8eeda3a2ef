"""Branches: attempts that go on from the last good screen of a failed attempt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation, ScreenReader, look_of
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.trajectory import Step
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.agents.base import Decision
from trajmill.stages.environments.base import Environment, Restorable
from trajmill.stages.models.base import ReplyTokens

_MOST_HELD: Final = 32
"""Branch points whose snapshots are in memory."""


@dataclass(frozen=True, slots=True)
class BranchPoint:
    parent_id: str
    seed: int
    """The parent's, which its environment is reset with."""
    steps: tuple[Step, ...]
    """The parent's steps before the branch."""
    look: str
    """Key of the screen that they lead to, see `look_of`."""

    def decisions(self) -> tuple[Decision, ...]:
        return tuple(map(_decision, self.steps))


def branch_point(episode: Episode, screens: ScreenReader) -> BranchPoint | None:
    """Return the last good screen of a failed attempt: before its first error, else after its last GOOD step.

    None if no step led to it: an attempt from there would be an ordinary one.
    """
    judgement = episode.judgement
    if judgement is None or judgement.correct:
        return None
    at = judgement.first_error_step
    if at is None:
        at = max((index + 1 for index, label in episode.labels.items() if label is StepLabel.GOOD), default=0)
    steps = tuple(step for step in episode.steps if step.index < at)
    if not steps or len(steps) >= episode.query.max_steps:
        return None
    last = steps[-1].screen_after
    look = look_of(last, screens.elements(last), screens.size(last), episode.query.platform is Platform.PHONE)
    return BranchPoint(episode.trajectory.trajectory_id, episode.trajectory.seed, steps, look)


class PlannedBranch(NamedTuple):
    query: Query
    point: BranchPoint


def choose_points(
    failed: Iterable[Episode], solved: Collection[str], screens: ScreenReader, most: int
) -> list[PlannedBranch]:
    """Choose the point of the attempt that came farthest, for each query without a success; farthest first."""
    found: dict[str, PlannedBranch] = {}
    for episode in failed:
        point = None if episode.query.query_id in solved else branch_point(episode, screens)
        known = found.get(episode.query.query_id)
        if point is not None and (known is None or _rank(point) < _rank(known.point)):
            found[episode.query.query_id] = PlannedBranch(episode.query, point)
    return sorted(found.values(), key=lambda each: _rank(each.point))[:most]


def _rank(point: BranchPoint) -> tuple[int, str]:
    return -len(point.steps), point.parent_id


@dataclass(slots=True)
class BranchPoints:
    """Brings environments to branch points; snapshots of the last ones are kept for their further attempts."""

    held: dict[tuple[str, int], tuple[tuple[Observation, ...], object]] = field(default_factory=dict)
    """By the point, what was seen up to it, and the snapshot."""
    copies: bool = True
    """Whether the environments have given snapshots so far."""
    busy: dict[tuple[str, int], asyncio.Lock] = field(default_factory=dict)

    async def reach(self, environment: Environment, query: Query, point: BranchPoint) -> tuple[Observation, ...]:
        """Return the observations up to the branch, restored or by doing the parent's steps again.

        Raises EnvironmentFailure (`setup`) if another screen is reached: the branch is void.
        """
        if not (self.copies and isinstance(environment, Restorable)):
            return await _walk(environment, query, point)
        key = point.parent_id, len(point.steps)
        # One attempt does the steps, the others from there wait for its snapshot.
        async with self.busy.setdefault(key, asyncio.Lock()):
            if key in self.held:
                before, snapshot = self.held[key]
                try:
                    restored = await environment.restore(snapshot)
                    if restored is None:
                        return await _walk(environment, query, point)
                    seen = (*before[:-1], restored)
                    _check(point, query, restored, "its snapshot")
                except EnvironmentFailure:
                    # The next try does the parent's steps again.
                    self.held.pop(key, None)
                    raise
                return seen
            reached, snapshot = await _walk(environment, query, point), await environment.snapshot()
            self.copies = snapshot is not None or bool(self.held)
            while len(self.held) >= _MOST_HELD:
                del self.held[next(iter(self.held))]
            if snapshot is not None:
                self.held[key] = reached, snapshot
            return reached


async def _walk(environment: Environment, query: Query, point: BranchPoint) -> tuple[Observation, ...]:
    reached = [await environment.reset(query, point.seed)]
    for step in point.steps:
        action = None if step.action is None else action_from_json(step.action)
        reached.append(reached[-1] if action is None else await environment.step(action))
    _check(point, query, reached[-1], "doing its steps again")
    return tuple(reached)


def _check(point: BranchPoint, query: Query, seen: Observation, how: str) -> None:
    screen = seen.screen
    if look_of(screen.screen_id, seen.elements, screen.size, query.platform is Platform.PHONE) != point.look:
        text = f"branch of {point.parent_id} at step {len(point.steps)}: {how} led to another screen"
        raise EnvironmentFailure(f"{text} ({screen.screen_id}); the branch is void", FailureClass.SETUP)


def _decision(step: Step) -> Decision:
    outputs: Mapping[str, str] = json.loads(step.role_outputs)
    tokens = None
    if step.reply_token_ids is not None and step.reply_logprobs is not None:
        tokens = ReplyTokens(step.reply_token_ids, step.reply_logprobs)
    action = None if step.action is None else action_from_json(step.action)
    return Decision(
        step.thought, action, step.conclusion, step.raw_response, step.prompt, dict(outputs), reply_tokens=tokens
    )
