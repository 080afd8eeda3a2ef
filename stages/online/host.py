"""Runs the episodes that trainers step, many at once, each in an environment of its own from a pool."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial

from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.environments.openenv.wire import WireAction
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.online.base import EndedEpisode, EpisodeOrder, JudgeAttempt, RecordAttempt, ShownStep
from trajmill.stages.online.served_queries import ServedQueries
from trajmill.stages.online.stepped_agent import SteppedAgent
from trajmill.stages.rollout.attempts import episode_seed
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.worker import try_once

Draw = Callable[[Observation], Awaitable[bytes]]
"""Gives the picture of what is on the screen."""


async def draw_in_thread(observation: Observation) -> bytes:
    """The picture, made in a thread."""
    return await asyncio.to_thread(observation.screen.encode)


@dataclass(frozen=True)
class HostSettings:
    """How a host runs its episodes."""

    origin: Origin
    run_seed: int = 0
    family: Family = ANY
    """Of the trainers' models."""
    slots: int = 8
    """Environments of a platform at once."""
    limits: Limits = field(default_factory=lambda: Limits(seconds=24 * 3600.0))
    """The tokens of an episode are the trainer's business, its time is bounded by `idle_seconds` a step."""
    idle_seconds: float = 900.0
    """How long a trainer may take for a step."""


class SteppedEpisode:
    """One episode under way, or over."""

    def __init__(self, attempt: Attempt, agent: SteppedAgent, draw: Draw) -> None:
        self.attempt = attempt
        self._agent = agent
        self._draw = draw
        self._pictures: dict[str, bytes] = {}
        self.work: asyncio.Task[EndedEpisode] | None = None

    @property
    def over(self) -> bool:
        """Whether nothing more can be done in it."""
        return self.work is None or self.work.done()

    async def next(self) -> ShownStep | EndedEpisode:
        """What the next step is to be decided on, or what came of the episode."""
        assert self.work is not None
        shown = asyncio.create_task(self._agent.shown())
        try:
            await asyncio.wait({shown, self.work}, return_when=asyncio.FIRST_COMPLETED)
            return shown.result() if shown.done() else self.work.result()
        finally:
            shown.cancel()

    async def step(self, asked: WireAction) -> ShownStep | EndedEpisode:
        """Do what a trainer says, and wait for what comes of it."""
        self._agent.step(asked)
        return await self.next()

    def leave(self, reason: str) -> None:
        """End it as void if it is not over."""
        if not self.over:
            self._agent.leave(reason)

    async def picture(self, observation: Observation) -> bytes:
        """The screenshot of something that was seen in it; drawn once."""
        screen_id = observation.screen.screen_id
        if screen_id not in self._pictures:
            self._pictures[screen_id] = await self._draw(observation)
        return self._pictures[screen_id]

    async def drawn(self, made: FinishedAttempt) -> FinishedAttempt:
        """The attempt with pictures in the place of functions that draw them."""
        screens = {}
        for screen_id, seen in made.screens.items():
            drawn = partial(bytes, await self.picture(seen))
            screens[screen_id] = replace(seen, screen=replace(seen.screen, encode=drawn))
        return replace(made, screens=screens)


class EpisodeHost:
    """Starts episodes, judges and records them when they are over, and then gives their environments back."""

    def __init__(
        self,
        environment: EnvironmentSpec,
        queries: ServedQueries,
        settings: HostSettings,
        record: RecordAttempt,
        judge: JudgeAttempt | None = None,
        draw: Draw = draw_in_thread,
        numbers: Counter[tuple[str, str, int]] | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            environment: where episodes happen.
            queries: that may be asked for.
            settings: see there.
            record: puts a finished attempt on disk.
            judge: says what an episode is worth; the environment's own check if None.
            draw: gives the picture of a screen.
            numbers: the recorded attempts of earlier hosts, by query, policy and seed.
        """
        self.queries = queries
        self.settings = settings
        self._environment = environment
        self._record = record
        self._judge = judge
        self._draw = draw
        self._numbers = Counter(numbers)
        self._begun = 0
        self._pools: dict[Platform, EnvironmentPool] = {}
        self._running: set[SteppedEpisode] = set()

    async def begin(self, order: EpisodeOrder) -> tuple[SteppedEpisode, ShownStep]:
        """Start an episode, on a fresh environment where one fails, and wait for its first screen.

        Raises:
            BadInputError: no such query is served.
            EnvironmentFailure: no environment reached the start state.
        """
        attempt, tries = self._attempt(order), self.settings.limits.environment_tries
        for tried in range(1, tries + 1):
            episode = self._start(attempt, order, tried, tried == tries)
            first = await episode.next()
            if isinstance(first, ShownStep):
                return episode, first
            failure = first.failure
        raise EnvironmentFailure(failure, FailureClass.SETUP)

    async def close(self) -> None:
        """End all episodes as void, record them and close their environments."""
        for episode in list(self._running):
            episode.leave("the server was stopped")
        await asyncio.gather(*(episode.work for episode in list(self._running) if episode.work), return_exceptions=True)
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))

    def _attempt(self, order: EpisodeOrder) -> Attempt:
        self._begun += 1
        if order.query_id is not None:
            query = self.queries.find(order.query_id)
        else:
            query = self.queries.at(self._begun if order.seed is None else order.seed)
        seed = order.seed
        if seed is None:
            seed = episode_seed(self.settings.run_seed, 0, query.query_id, Purpose.ONLINE, self._begun)
        key = (query.query_id, order.policy, seed)
        number = self._numbers[key]
        self._numbers[key] += order.record
        return Attempt(query, Purpose.ONLINE, number, seed)

    def _start(self, attempt: Attempt, order: EpisodeOrder, tried: int, last: bool) -> SteppedEpisode:
        platform = attempt.query.platform
        agent = SteppedAgent(order.policy, self.settings.family, platform, self.settings.idle_seconds)
        episode = SteppedEpisode(attempt, agent, self._draw)
        episode.work = asyncio.create_task(self._run(episode, agent, order, tried, last))
        self._running.add(episode)
        episode.work.add_done_callback(lambda _: self._running.discard(episode))
        return episode

    async def _run(
        self, episode: SteppedEpisode, agent: SteppedAgent, order: EpisodeOrder, tried: int, last: bool
    ) -> EndedEpisode:
        pool = self._pool(episode.attempt.query.platform)
        made = await try_once(episode.attempt, agent, pool, self.settings.limits, self.settings.origin)
        if made.failure is not None:
            made = replace(made, failure=made.failure.model_copy(update={"attempts": tried}))
        if not _counts(made, last):
            return EndedEpisode(made, None)
        made = await episode.drawn(made)
        judged = await self._judge(made) if self._judge and made.failure is None else None
        if order.record:
            await self._record(made, judged)
        return EndedEpisode(made, judged.reward if judged else made.episode.trajectory.reward)

    def _pool(self, platform: Platform) -> EnvironmentPool:
        if platform not in self._pools:
            factory = self._environment.factory(platform)
            self._pools[platform] = EnvironmentPool(factory, self.settings.slots, self.settings.limits.environment)
        return self._pools[platform]


def _counts(made: FinishedAttempt, last: bool) -> bool:
    """Whether an attempt is recorded: not if another try follows, or if the trainer left before its first step."""
    if made.failure is None or made.episode.steps:
        return True
    return made.failure.failure_class is not FailureClass.MODEL and bool(made.screens or last)
