"""Runs the episodes of trainers, many at the same time, each in its own environment from a pool."""

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
from trajmill.stages.online.base import EndedEpisode, EpisodeOrder, RecordAttempt, ServedQueries, ShownStep
from trajmill.stages.online.stepped_agent import SteppedAgent
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, JudgeAttempt, Limits, episode_seed
from trajmill.stages.rollout.worker import try_once

Draw = Callable[[Observation], Awaitable[bytes]]
"""Gives the image of a screen."""


async def draw_in_thread(observation: Observation) -> bytes:
    return await asyncio.to_thread(observation.screen.encode)


@dataclass(frozen=True)
class HostSettings:
    origin: Origin
    run_seed: int = 0
    family: Family = ANY
    slots: int = 8
    limits: Limits = field(default_factory=lambda: Limits(seconds=24 * 3600.0))
    """Limits of an episode; its tokens are not limited, and its time is limited by `idle_seconds` a step."""
    idle_seconds: float = 900.0
    """Longest time that a trainer may take for a step."""


class SteppedEpisode:
    """One running or finished episode."""

    def __init__(self, attempt: Attempt, agent: SteppedAgent, draw: Draw) -> None:
        self.attempt = attempt
        self._agent = agent
        self._draw = draw
        self._pictures: dict[str, bytes] = {}
        self.work: asyncio.Task[EndedEpisode] | None = None

    @property
    def over(self) -> bool:
        return self.work is None or self.work.done()

    async def next(self) -> ShownStep | EndedEpisode:
        """What the trainer is shown before the next step, or the result of the episode."""
        assert self.work is not None
        shown = asyncio.create_task(self._agent.shown())
        try:
            await asyncio.wait({shown, self.work}, return_when=asyncio.FIRST_COMPLETED)
            return shown.result() if shown.done() else self.work.result()
        finally:
            shown.cancel()

    async def step(self, asked: WireAction) -> ShownStep | EndedEpisode:
        self._agent.step(asked)
        return await self.next()

    def leave(self, reason: str) -> None:
        """End a running episode as void."""
        if not self.over:
            self._agent.leave(reason)

    async def picture(self, observation: Observation) -> bytes:
        """The screenshot of an observation of the episode; it is drawn once."""
        screen_id = observation.screen.screen_id
        if screen_id not in self._pictures:
            self._pictures[screen_id] = await self._draw(observation)
        return self._pictures[screen_id]

    async def drawn(self, made: FinishedAttempt) -> FinishedAttempt:
        """The attempt with drawn images in place of functions that draw them."""
        screens = {}
        for screen_id, seen in made.screens.items():
            drawn = partial(bytes, await self.picture(seen))
            screens[screen_id] = replace(seen, screen=replace(seen.screen, encode=drawn))
        return replace(made, screens=screens)


class EpisodeHost:
    """Starts episodes, judges and stores finished ones, and then gives their environments back."""

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
        """Host episodes of one environment.

        Args:
            environment: the environment of the episodes.
            queries: the queries that trainers may request.
            settings: settings of the host.
            record: stores a finished attempt.
            judge: rewards an episode; None takes the environment's own check.
            draw: gives the image of a screen.
            numbers: by query, policy and seed, the number of attempts that earlier hosts have stored.
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
        """Start an episode and wait for its first screen; if an environment fails, a fresh one is tried.

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
        """End all episodes as void, store them and close their environments."""
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
    """Whether an attempt is stored; not if another try follows, or the trainer left before its first step."""
    if made.failure is None or made.episode.steps:
        return True
    return made.failure.failure_class is not FailureClass.MODEL and bool(made.screens or last)
