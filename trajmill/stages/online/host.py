"""Runs the episodes of trainers, many at the same time, each in its own environment from a pool."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.names import instead_of
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.base import AgentCall, AgentStopped, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import NO_ACTION, chat_messages, read_reply, step_prompt
from trajmill.stages.environments.openenv.wire import MOST_REPLY_CHARACTERS, WireAction
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.models.base import ChatMessage, ChatRequest, Completion, ReplyTokens
from trajmill.stages.parts import first_mistake
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, JudgeAttempt, Limits, Recorder, episode_seed
from trajmill.stages.rollout.worker import try_once

AGENT = "online"
"""Name of the agent on trajectories whose steps a trainer decided."""


class EpisodeOrder(BaseModel):
    """What a trainer asks for with a reset; further arguments are ignored."""

    model_config = ConfigDict(strict=True)

    query_id: str | None = None
    """The query; None chooses one by the seed."""
    seed: int | None = Field(None, ge=0, lt=2**62)
    """The seed; None takes the next one."""
    policy: str = Field(AGENT, min_length=1, max_length=200, pattern=r"^[^\x00]*$")
    """The version of the trainer's policy for the rows."""
    record: bool = True
    """Whether the server stores the episode; a client that stores it itself says no."""


class ShownStep(NamedTuple):
    observation: Observation
    steps: int
    messages: tuple[ChatMessage, ...]
    error: str
    """Why the last reply was no action; empty if it was one."""


class EndedEpisode(NamedTuple):
    attempt: FinishedAttempt
    reward: float | None
    """None if the episode is void, or there is neither a check nor a judgement."""

    @property
    def failure(self) -> str:
        return self.attempt.failure.message if self.attempt.failure else ""

    @property
    def last(self) -> Observation | None:
        steps, seen = self.attempt.episode.steps, self.attempt.screens
        return seen[steps[-1].screen_after] if steps else next(iter(seen.values()), None)


class ServedQueries:
    """The queries of some splits, in order of id; no others are served."""

    def __init__(self, queries: Iterable[Query], splits: Collection[Split]) -> None:
        """Choose from all queries of a run. Raises BadInputError if these splits have no queries."""
        self._all = {query.query_id: query for query in sorted(queries, key=lambda query: query.query_id)}
        self.by_split: dict[Split, Sequence[Query]] = {
            split: [query for query in self._all.values() if query.split is split] for split in splits
        }
        self._served = [query for of_split in self.by_split.values() for query in of_split]
        if not self._served:
            known = sorted({query.split.value for query in self._all.values()})
            raise BadInputError(f"no query is of split {', '.join(splits)}; {instead_of('', known)}")

    def find(self, query_id: str) -> Query:
        """The query with an id. Raises BadInputError if there is none, or its split is not served."""
        query = self._all.get(query_id)
        if query is None:
            raise BadInputError(f"no query has the id {query_id!r:.60}; the task list names those that are served")
        if query.split not in self.by_split:
            raise BadInputError(
                f"query {query_id} is of split {query.split}, which is not served; serve it with --split"
            )
        return query

    def at(self, number: int) -> Query:
        """A pseudo-random query; equal numbers give equal queries."""
        return self._served[int(content_id("online query", number), 16) % len(self._served)]


_LARGEST_NUMBER = 100_000
_COORDINATES = (("x", "width"), ("y", "height"), ("x2", "width"), ("y2", "height"))


def _typed(asked: WireAction, screen: Size) -> tuple[Decision, str]:
    text = json.dumps(asked.action)
    mistake = _mistake(asked.action or {}, screen)
    if not mistake:
        try:
            action = action_from_json(text)
            return Decision("", action, f"{action.kind}.", raw_response=text), ""
        except ValidationError as error:
            mistake = first_mistake(error, "the whole")
    return Decision("", None, NO_ACTION, raw_response=text[:MOST_REPLY_CHARACTERS]), f"no typed action: {mistake}"


def _mistake(action: dict[str, object], screen: Size) -> str:
    for name, side in _COORDINATES:
        place = action.get(name)
        if isinstance(place, int | float) and not 0 <= place < getattr(screen, side):
            return f"{name}: {place:g} is not on a screen of {screen.width} x {screen.height} pixels"
    for name, value in action.items():
        if isinstance(value, int | float) and not abs(value) <= _LARGEST_NUMBER:
            return f"{name}: at most {_LARGEST_NUMBER:,}"
        if isinstance(value, str) and len(value) > MOST_REPLY_CHARACTERS:
            return f"{name}: at most {MOST_REPLY_CHARACTERS:,} characters"
    return ""


Draw = Callable[[Observation], Awaitable[bytes]]


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
    """One running or finished episode, and its agent: it does the steps of a trainer.

    A model's reply is parsed and never executed. After `settings.idle_seconds` without a step the episode is void.
    """

    name = AGENT

    def __init__(self, attempt: Attempt, policy: str, settings: HostSettings, draw: Draw) -> None:
        self.attempt = attempt
        self.model_version = policy
        self.work: asyncio.Task[EndedEpisode] | None = None
        self._settings = settings
        self._draw = draw
        self._pictures: dict[str, bytes] = {}
        self._shown: asyncio.Queue[ShownStep] = asyncio.Queue()
        self._asked: asyncio.Queue[WireAction] = asyncio.Queue()
        self._left = ""
        self._error = ""

    @property
    def over(self) -> bool:
        return self.work is None or self.work.done()

    async def next(self) -> ShownStep | EndedEpisode:
        """What the trainer is shown before the next step, or the result of the episode."""
        assert self.work is not None
        shown = asyncio.create_task(self._shown.get())
        try:
            await asyncio.wait({shown, self.work}, return_when=asyncio.FIRST_COMPLETED)
            return shown.result() if shown.done() else self.work.result()
        finally:
            shown.cancel()

    async def step(self, asked: WireAction) -> ShownStep | EndedEpisode:
        self._asked.put_nowait(asked)
        return await self.next()

    def leave(self, reason: str) -> None:
        """End a running episode as void, because the trainer has left it."""
        if not self.over:
            self._left = reason
            self._asked.put_nowait(WireAction())

    async def act(self, episode: EpisodeView) -> Decision:
        """The trainer's decision.

        Raises ModelFailure if the trainer has left, or was silent for too long, and AgentStopped if it has reached its
        own limit.
        """
        family, platform, idle = self._settings.family, self.attempt.query.platform, self._settings.idle_seconds
        frame = family.frame(episode.observation.screen.size)
        prompt = step_prompt(family, platform, frame, episode)
        messages = chat_messages(prompt)
        self._shown.put_nowait(ShownStep(episode.observation, len(episode.history), messages, self._error))
        start = perf_counter()
        try:
            asked = await asyncio.wait_for(self._asked.get(), idle)
        except TimeoutError as error:
            raise ModelFailure(f"the trainer was silent for {idle:g} s") from error
        if self._left:
            raise ModelFailure(self._left)
        if asked.stop:
            raise AgentStopped
        if asked.reply is None:
            decision, self._error = _typed(asked, episode.observation.screen.size)
            return decision
        tokens, ids, logprobs = None, asked.token_ids, asked.logprobs
        if ids is not None and logprobs is not None:
            tokens = ReplyTokens(tuple(ids), tuple(logprobs))
        text = asked.reply[:MOST_REPLY_CHARACTERS]
        completion = Completion(text, asked.input_tokens, asked.output_tokens, "stop", tokens=tokens)
        call = AgentCall(ChatRequest("policy", messages), completion, (perf_counter() - start) * 1000)
        decision = read_reply(completion, family.dialect(platform), frame, prompt.task, call)
        self._error = "" if decision.action else f"no action: {decision.calls[0].malformed}"
        return decision

    async def picture(self, observation: Observation) -> bytes:
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


@dataclass
class EpisodeHost:
    """Starts episodes of one environment, judges and stores finished ones, and then gives their environments back."""

    environment: EnvironmentSpec
    queries: ServedQueries
    settings: HostSettings
    record: Recorder
    judge: JudgeAttempt | None = None
    """Rewards an episode; without it, the environment's own check does."""
    draw: Draw = draw_in_thread
    numbers: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """By query, policy and seed, the number of attempts that are stored."""
    _begun: int = field(default=0, init=False)
    _pools: dict[Platform, EnvironmentPool] = field(default_factory=dict, init=False)
    _running: set[SteppedEpisode] = field(default_factory=set, init=False)

    async def begin(self, order: EpisodeOrder) -> tuple[SteppedEpisode, ShownStep]:
        """Start an episode and wait for its first screen; if an environment fails, a fresh one is tried.

        Raises BadInputError if no such query is served, and EnvironmentFailure if no environment reached the start
        state.
        """
        attempt, tries = self._attempt(order), self.settings.limits.environment_tries
        for tried in range(1, tries + 1):
            episode = SteppedEpisode(attempt, order.policy, self.settings, self.draw)
            episode.work = asyncio.create_task(self._run(episode, order, tried, tried == tries))
            self._running.add(episode)
            episode.work.add_done_callback(partial(lambda ended, _: self._running.discard(ended), episode))
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
        number = self.numbers[key]
        self.numbers[key] += order.record
        return Attempt(query, Purpose.ONLINE, number, seed)

    async def _run(self, episode: SteppedEpisode, order: EpisodeOrder, tried: int, last: bool) -> EndedEpisode:
        pool = self._pool(episode.attempt.query.platform)
        made = await try_once(episode.attempt, episode, pool, self.settings.limits, self.settings.origin)
        if (failure := made.failure) is not None:
            made = replace(made, failure=failure.model_copy(update={"attempts": tried}))
            left = failure.failure_class is FailureClass.MODEL
            # Not stored: another try follows, or the trainer left before its first step.
            if not made.episode.steps and (left or not (made.screens or last)):
                return EndedEpisode(made, None)
        made = await episode.drawn(made)
        reward = made.episode.trajectory.reward
        if self.judge and made.failure is None:
            made = await self.judge(made)
            reward = made.episode.judged_reward
        if order.record:
            await self.record(made)
        return EndedEpisode(made, reward)

    def _pool(self, platform: Platform) -> EnvironmentPool:
        if platform not in self._pools:
            factory = self.environment.factory(platform)
            self._pools[platform] = EnvironmentPool(factory, self.settings.slots, self.settings.limits.environment)
        return self._pools[platform]
