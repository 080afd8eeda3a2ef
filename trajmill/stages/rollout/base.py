"""Attempts, how a round plans them, the limits of an episode, and finished attempts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from time import perf_counter
from typing import NamedTuple

from trajmill.schemas.actions import Action
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.stages.agents.base import Agent
from trajmill.stages.environments.pool.pool import EnvironmentLimits
from trajmill.stages.rollout.branch import BranchPoint, PlannedBranch


@dataclass(frozen=True, slots=True)
class Attempt:
    """A query that an agent is to attempt once, with its seed and what guides it."""

    query: Query
    purpose: Purpose
    attempt: int
    """0 for the first attempt of its round, purpose and query."""
    seed: int
    """Decides variations of the start state, faults and sampling; equal seeds give equal episodes."""
    guidance: Guidance | None = None
    branch: BranchPoint | None = None
    """Where it goes on from another attempt; None if it starts anew."""

    def trajectory_id(self, agent: Agent) -> str:
        guidance_id = self.guidance.guidance_id if self.guidance else None
        return Trajectory.make_id(
            self.query.query_id, agent.name, agent.model_version, self.purpose, guidance_id, self.seed, self.attempt
        )


Prober = Callable[[Query, Sequence[Observation]], Action | None]
"""Looks into the end state of an attempt: gives, for the last screen and its own so far, the next action, which changes
nothing, or None at the end. Raises StageError if it cannot look."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one episode; the bound on steps is a field of the query."""

    seconds: float = 600.0
    tokens: int = 1_000_000
    environment_tries: int = 3
    """Most tries before an environment failure is final; each further try has a fresh instance."""
    environment: EnvironmentLimits = field(default_factory=EnvironmentLimits)
    """Bounds of single calls of the environment."""
    prober: Prober | None = None
    """It has as many seconds as the episode; its failures are none of the attempt."""


@dataclass(frozen=True, slots=True)
class FinishedAttempt:
    episode: Episode
    screens: dict[str, Observation] = field(default_factory=dict)
    failure: Failure | None = None
    """The failure of a void attempt, with the number of tries; else None."""
    earlier_failure: Failure | None = None
    """The failure of the tries before the last one, with their number; None if there was one try."""


TakeAttempt = Callable[[], Awaitable[Attempt | None]]
"""Gives attempts one by one, to whichever slot is free; None if there is none left."""

JudgeAttempt = Callable[[FinishedAttempt], Awaitable[FinishedAttempt]]
"""Adds verdicts, model calls and failures of the judge to an attempt's episode."""
Recorder = Callable[[FinishedAttempt], Awaitable[None]]
"""Stores a finished attempt; it is awaited before the next attempt starts in its place."""


DEVICE_PROFILES = 8
"""Number of variants of a device; environments choose one by `seed % DEVICE_PROFILES`."""
TRAINING_PROFILES = 6
"""Number of device profiles for training; the others are only for evaluation."""


def episode_seed(run_seed: int, round_number: int, query_id: str, purpose: Purpose, attempt: int) -> int:
    """The seed of an attempt; evaluation uses other device profiles than training.

    Evaluation seeds do not depend on the round or the policy, so that policies are compared on equal episodes.
    """
    evaluating = purpose in (Purpose.EVALUATE, Purpose.COMPARE)
    purpose = Purpose.EVALUATE if evaluating else purpose
    digest = int(content_id("seed", run_seed, 0 if evaluating else round_number, query_id, purpose, attempt)[:12], 16)
    held_out = DEVICE_PROFILES - TRAINING_PROFILES
    profile = TRAINING_PROFILES + digest % held_out if evaluating else digest % TRAINING_PROFILES
    return (digest >> 18) * DEVICE_PROFILES + profile


def plan_rollouts(
    queries: Sequence[Query], tries: Mapping[str, int], run_seed: int, round_number: int, made: Mapping[str, int] = {}
) -> list[Attempt]:
    """Plan unguided attempts at queries; `tries` has their number by query id, and missing queries get none.

    `made` has the attempts of the round so far, by query id; the numbers of the new ones follow theirs.
    """
    firsts = {query.query_id: made.get(query.query_id, 0) for query in queries}
    return [
        _attempt(query, Purpose.TRAIN, firsts[query.query_id] + number, run_seed, round_number)
        for query in queries
        for number in range(tries.get(query.query_id, 0))
    ]


class Outcomes(NamedTuple):
    """The judged attempts at one query in a round."""

    tried: int
    correct: int

    @property
    def are_mixed(self) -> bool:
        return 0 < self.correct < self.tried


def plan_mixed(outcomes: Mapping[str, Outcomes], total: int, largest: int, seed: int) -> dict[str, int]:
    """Share up to `total` attempts among queries with mixed outcomes, evenly, until each has `largest`.

    Groups that succeed or fail whole have no advantage (dynamic sampling, DAPO, section 3.2). Which queries get one
    more than others is drawn.
    """
    order = sorted(query_id for query_id, seen in outcomes.items() if seen.are_mixed and seen.tried < largest)
    random.Random(seed).shuffle(order)
    counts = Counter[str]()
    while order and counts.total() < total:
        turn = order[: total - counts.total()]
        counts.update(turn)
        order = [each for each in turn if outcomes[each].tried + counts[each] < largest]
    return dict(counts)


def plan_guided(
    guided: Sequence[tuple[Query, Guidance]], episodes: int, run_seed: int, round_number: int, per_query: int
) -> list[Attempt]:
    """Plan `per_query` guided attempts for each query, in order, and at most `episodes` in total."""
    numbered = [(query, number, hint) for query, hint in guided for number in range(per_query)][:episodes]
    return [_attempt(query, Purpose.GUIDED, number, run_seed, round_number, hint) for query, number, hint in numbered]


def plan_demonstrations(queries: Sequence[Query], episodes: int, run_seed: int, round_number: int) -> list[Attempt]:
    """So many attempts without hints that stand in for guided ones; the queries take turns."""
    turns = [divmod(number, len(queries)) for number in range(episodes if queries else 0)]
    return [_attempt(queries[which], Purpose.GUIDED, turn, run_seed, round_number) for turn, which in turns]


def plan_branches(
    planned: Sequence[PlannedBranch], episodes: int, run_seed: int, round_number: int, per_point: int
) -> list[Attempt]:
    """Plan `per_point` attempts from each branch point, in order, and at most `episodes` in total."""
    attempts = []
    for query, point in planned:
        place = f"{point.parent_id}@{len(point.steps)}"
        for number in range(per_point):
            seed = episode_seed(run_seed, round_number, place, Purpose.BRANCH, number)
            attempts.append(Attempt(query, Purpose.BRANCH, number, seed, branch=point))
    return attempts[:episodes]


def plan_once(queries: Sequence[Query], purpose: Purpose, run_seed: int, round_number: int) -> list[Attempt]:
    """Plan one attempt at every query, for a measurement or for walks of the reference paths."""
    return [_attempt(query, purpose, 0, run_seed, round_number) for query in queries]


def plan_trials(guided: Sequence[tuple[Query, Guidance]], run_seed: int, round_number: int) -> list[Attempt]:
    """Plan two attempts at each query with the same seed, one without its guidance and one with it.

    A query that comes twice, with two texts, has one attempt without them.
    """
    # Number 0 is the trial of a proposed task.
    number = 1
    queries = {query.query_id: query for query, _ in guided}.values()
    alone = [_attempt(query, Purpose.TRIAL, number, run_seed, round_number) for query in queries]
    return alone + [_attempt(query, Purpose.TRIAL, number, run_seed, round_number, hint) for query, hint in guided]


def _attempt(
    query: Query, purpose: Purpose, number: int, run_seed: int, round_number: int, guidance: Guidance | None = None
) -> Attempt:
    seed = episode_seed(run_seed, round_number, query.query_id, purpose, number)
    return Attempt(query, purpose, number, seed, guidance)


class SlotState(StrEnum):
    INSTANCE = "instance"
    """An environment of the pool, which may have to be started."""
    ENVIRONMENT = "environment"
    """A reset, a step or a check of its environment."""
    MODEL = "model"
    """The agent's decision."""
    STORING = "storing"
    """Its finished attempt to be on the disk."""
    IDLE = "idle"
    """There is no attempt left for it."""


class SlotView(NamedTuple):
    state: SlotState
    step: int
    seconds: float
    """Since it began to wait for this."""
    instruction: str = ""
    """What its agent was asked last; empty before the first attempt."""
    did: str = ""
    """What the agent says of its last step."""
    screen_id: str = ""
    """The last screen of the attempt."""


@dataclass(slots=True)
class RolloutSlot:
    state: SlotState = SlotState.IDLE
    step: int = 0
    instruction: str = ""
    did: str = ""
    screen: ScreenHandle | None = None
    since: float = field(default_factory=perf_counter)
    """When it began to wait for this, in seconds of `time.perf_counter`."""
    spent: dict[SlotState, float] = field(default_factory=lambda: dict.fromkeys(SlotState, 0.0))
    """Seconds in each state, before the present one."""

    @contextmanager
    def waiting(self, state: SlotState) -> Iterator[None]:
        """Be in a state within the block, then in the one before it."""
        before = self._enter(state)
        try:
            yield
        finally:
            self._enter(before)

    def view(self, now: float) -> SlotView:
        screen_id = self.screen.screen_id if self.screen else ""
        return SlotView(self.state, self.step, now - self.since, self.instruction, self.did, screen_id)

    def _enter(self, state: SlotState) -> SlotState:
        now, before = perf_counter(), self.state
        self.spent[before] += now - self.since
        self.state, self.since = state, now
        return before


class SlotBoard:
    def __init__(self) -> None:
        self._slots: list[RolloutSlot] = []

    def add(self) -> RolloutSlot:
        self._slots.append(RolloutSlot())
        return self._slots[-1]

    def views(self) -> list[SlotView]:
        now = perf_counter()
        return [slot.view(now) for slot in self._slots]

    def screens(self) -> dict[str, ScreenHandle]:
        return {slot.screen.screen_id: slot.screen for slot in self._slots if slot.screen}

    def spent(self) -> dict[SlotState, float]:
        now = perf_counter()
        total = dict.fromkeys(SlotState, 0.0)
        for slot in self._slots:
            for state, seconds in slot.spent.items():
                total[state] += seconds + (now - slot.since if state is slot.state else 0.0)
        return total
