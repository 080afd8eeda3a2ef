"""Runs attempts in shards: a finished attempt is written to a journal, and the rows at the end of the shard."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from trajmill.pipelines.drawing import ScreenWriter, screen_writer, screens_in_background
from trajmill.pipelines.fan_out import MOST_IN_SHARD, BeamSettings, StageWork, WrittenFiles, divide, fan_out
from trajmill.pipelines.journaled import Journaled, JournaledAttempt, journaled_ids, journaled_records, read_attempts
from trajmill.pipelines.judge import judging
from trajmill.pipelines.models import ActingAgent
from trajmill.pipelines.reading.slots import shown_slots
from trajmill.schemas.spec import identity_of
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.stages.agents.base import AgentMaker
from trajmill.stages.critics.spec import CriticModels, JudgeSpec
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.rollout.base import Attempt, AttemptSource, FinishedAttempt, Limits, SlotBoard
from trajmill.stages.rollout.worker import run_attempts
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.staged_screens import NewScreens, journal_path
from trajmill.warehouse.staging import Journal, RecordCounter
from trajmill.warehouse.store.parts import USUAL, Durability, JournalParts, stored_in_time, stored_journals

_JOURNALS = "episodes-*.jsonl"
_RANGES_PER_WORKER = 8
"""Least ranges per worker: all workers end at nearly the same time."""

PlatformAttempts = tuple[Platform, Sequence[Attempt] | AttemptSource]
"""Attempts at queries of one platform."""
AttemptKey = tuple[str, Purpose, int, int, str | None]


def attempt_key(attempt: Attempt) -> AttemptKey:
    """Identifies an attempt among those of a stage."""
    guidance_id = attempt.guidance.guidance_id if attempt.guidance else None
    return attempt.query.query_id, attempt.purpose, attempt.attempt, attempt.seed, guidance_id


@dataclass(frozen=True)
class AttemptJudge:
    """The judge of single attempts, for workers."""

    spec: JudgeSpec
    critics: CriticModels


@dataclass(frozen=True)
class RunAttempts(StageWork):
    """The work of one shard: runs attempts and writes their rows."""

    environment: EnvironmentSpec
    agent: ActingAgent
    limits: Limits
    concurrency: int
    durability: Durability = USUAL

    def identity(self, attempts: Sequence[Attempt]) -> object:
        """The attempts, the environment and the agent."""
        keys = [attempt_key(attempt) for attempt in attempts]
        return [keys, identity_of(self.environment), self.agent.identity()]

    def __call__(self, shard: str, attempts: Sequence[Attempt]) -> WrittenFiles:
        """Run the attempts that are in no journal of the stage, then write the rows of all attempts of the shard."""
        journaled = self.finish(shard, attempts)
        void = [one.trajectory.failure_class for one in journaled.finished if one.trajectory.status == "failed"]
        lost = [failure.failure_class for failure in journaled.unreadable]
        dropped = Counter(cause.value for cause in (*void, *lost) if cause)
        return self.written(shard, journaled.rows(), dropped)

    def finish(self, shard: str, attempts: Sequence[Attempt], judge: AttemptJudge | None = None) -> Journaled:
        """Run the attempts that are in no journal of the stage; returns all attempts of the shard, in order of id.

        `judge` judges each attempt as soon as it is finished.
        """
        by_id: dict[str, Attempt] = {}

        def remaining(make_agent: AgentMaker) -> list[PlatformAttempts]:
            by_id.update({attempt.trajectory_id(make_agent(attempt.query)): attempt for attempt in attempts})
            finished = journaled_ids(self._journals(), by_id)
            return list(_by_platform([attempt for name, attempt in by_id.items() if name not in finished]).items())

        self.roll(shard, remaining, judge)
        found = read_attempts(self.warehouse, self.at, self.origin, journaled_records(self._journals(), by_id))
        finished = {one.trajectory_id: one for one in found.finished}
        lost = {one.input_id: one for one in found.unreadable if one.input_id not in finished}
        return Journaled([finished[name] for name in sorted(finished)], [lost[name] for name in sorted(lost)])

    def roll(
        self,
        shard: str,
        plan: Callable[[AgentMaker], Sequence[PlatformAttempts]],
        judge: AttemptJudge | None = None,
    ) -> None:
        """Run the attempts of a plan, which is made once the agents can be made, into the journals of a shard."""
        journal = Journal(self.at.staging(self.warehouse) / _JOURNALS.replace("*", shard))
        parts = JournalParts(self.warehouse, self.at, [journal_path(self.warehouse, self.at, shard), journal.path])
        with screen_writer(self.warehouse, self.at, shard, self.environment.draws_screens) as screens:
            try:
                asyncio.run(self._run(plan, journal, screens, parts, judge))
            finally:
                journal.close()
        # The process that commits the stage writes the screens, from the journals of all shards.
        parts.publish(parts.sizes())

    async def _run(
        self,
        plan: Callable[[AgentMaker], Sequence[PlatformAttempts]],
        journal: Journal,
        screens: ScreenWriter,
        parts: JournalParts,
        judge: AttemptJudge | None,
    ) -> None:
        board, opened = SlotBoard(), AsyncExitStack()
        storing = stored_in_time(parts, self.durability)
        async with opened, self.agent.open() as make_agent, shown_slots(board, journal.path), storing as one_more:
            judges = judge and judging(judge.spec, judge.critics, self.origin)
            decide = await opened.enter_async_context(judges) if judges else None

            async def record(rollout: FinishedAttempt) -> None:
                judged = await decide(rollout) if decide else None
                await screens.write(rollout.screens.values())
                journal.append(JournaledAttempt.of(rollout, judged).model_dump_json().encode())
                await one_more()

            for platform, of_platform in plan(make_agent):
                factory = self.environment.factory(platform)
                await run_attempts(
                    of_platform, make_agent, factory, self.limits, self.origin, record, self.concurrency, board
                )

    def finished(self) -> dict[AttemptKey, str]:
        """The trajectory ids of the attempts in the stage's journals; records that cannot be read are left out."""
        found: dict[AttemptKey, str] = {}
        for record in (record for path in self._journals() for record in Journal(path).read()):
            try:
                made = _WithTrajectory.model_validate_json(record).trajectory
            except ValidationError:
                continue
            found[made.query_id, made.purpose, made.attempt, made.seed, made.guidance_id] = made.trajectory_id
        return found

    def _journals(self) -> list[Path]:
        """All journals of the stage, because an earlier try may have divided the attempts into other shards."""
        return stored_journals(self.warehouse, self.at, _JOURNALS)


class _WithTrajectory(BaseModel):
    trajectory: Trajectory


class AttemptQueue(NamedTuple):
    """Attempts at queries of one platform, of which workers take ranges until none is left."""

    warehouse: Warehouse
    platform: Platform
    folder: str
    """Its name in the store, which no other queue has; gets a claim for each range that a worker took."""
    attempts: Sequence[Attempt]
    in_range: int


class QueuedAttempts:
    """A worker's end of a queue: takes the next free range when its slots have no attempts left."""

    def __init__(self, queue: AttemptQueue) -> None:
        self._queue = queue
        self._starts = iter(range(0, len(queue.attempts), queue.in_range))
        self._taken: deque[Attempt] = deque()
        self._empty = False
        self._busy = asyncio.Lock()

    async def take(self) -> Attempt | None:
        """The next attempt that no other worker has taken; None if there is none left."""
        # A slot that finds an attempt does not wait for the lock: of many free slots, each would get it one turn of
        # the event loop after the other.
        while not self._taken and not self._empty:
            async with self._busy:
                if not self._taken and not self._empty:
                    # A thread gets its turns from a busy event loop so late that a millisecond's work takes it 100.
                    is_local = self._queue.warehouse.store.is_local
                    self._taken.extend(self._range() if is_local else await asyncio.to_thread(self._range))
                    self._empty = not self._taken
        return self._taken.popleft() if self._taken else None

    def _range(self) -> Sequence[Attempt]:
        for start in self._starts:
            if self._queue.warehouse.store.claim(f"{self._queue.folder}/taken-{start:06d}"):
                return self._queue.attempts[start : start + self._queue.in_range]
        return ()


class _Lane(NamedTuple):
    """One of the workers that take attempts from queues until none is left."""

    number: int
    queues: tuple[AttemptQueue, ...]


@dataclass(frozen=True)
class _RollLane:
    """Runs what a lane takes into journals; its slots never idle while attempts are queued."""

    work: RunAttempts

    def identity(self, lane: _Lane) -> object:
        """The number of the lane and its queues, which are those of one call."""
        return [lane.number, [queue.folder for queue in lane.queues]]

    def __call__(self, shard: str, lane: _Lane) -> WrittenFiles:
        """Run attempts; their rows are written later, from the journals of all lanes."""
        self.work.roll(shard, lambda _: [(queue.platform, QueuedAttempts(queue)) for queue in lane.queues])
        return WrittenFiles({})


def run_in_shards(work: RunAttempts, attempts: Sequence[Attempt], workers: int, beam: BeamSettings) -> WrittenFiles:
    """Run attempts with some workers and return the files; a screen of several attempts is written once.

    With several workers or shards, the workers first take attempts from a common queue. A shard then finds its
    attempts finished, except those of a worker that died, and writes their rows.
    """
    screens = NewScreens(work.warehouse, work.at, work.origin, made_by=work.environment.kind)
    with screens_in_background(screens) as write_screens:
        if workers > 1 or len(attempts) > MOST_IN_SHARD:
            finished = work.finished()
            left = [attempt for attempt in attempts if attempt_key(attempt) not in finished]
            folder = work.warehouse.name(work.at.staging(work.warehouse) / f"queue-{uuid4().hex[:12]}")
            queues = tuple(
                AttemptQueue(
                    work.warehouse,
                    platform,
                    f"{folder}-{platform}",
                    of_platform,
                    in_range=max(1, min(work.concurrency // 2, len(of_platform) // (workers * _RANGES_PER_WORKER))),
                )
                for platform, of_platform in _by_platform(left).items()
            )
            lanes = [_Lane(number, queues) for number in range(min(workers, len(left)))]
            fan_out(work.warehouse, work.at, lanes, _RollLane(work), beam, workers)
            write_screens()
            # Sorted by trajectory id, the files have disjoint bounds: readers of some trajectories open few of them.
            ids = work.finished()
            attempts = sorted(attempts, key=lambda attempt: ids.get(attempt_key(attempt), ""))
        made = fan_out(work.warehouse, work.at, divide(attempts, workers), work, beam, workers)
    return WrittenFiles({**made.files, "screens": screens.write()}, made.dropped)


def attempt_counter(warehouse: Warehouse, at: StageRun) -> RecordCounter:
    """A counter of the finished attempts of a stage."""
    return RecordCounter(at.staging(warehouse), _JOURNALS)


def _by_platform(attempts: Sequence[Attempt]) -> dict[Platform, list[Attempt]]:
    found: dict[Platform, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        found[attempt.query.platform].append(attempt)
    return dict(found)
