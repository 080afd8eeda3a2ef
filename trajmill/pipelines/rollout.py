"""Runs attempts in shards: a finished attempt is written to a journal, and the rows at the end of the shard."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from trajmill.pipelines.agents import ActingAgent
from trajmill.pipelines.attempt_queue import AttemptKey, AttemptQueue, QueuedAttempts, attempt_key, queue_attempts
from trajmill.pipelines.drawing import ScreenWriter, screen_writer, screens_in_background
from trajmill.pipelines.executors.beam import BeamSettings
from trajmill.pipelines.fan_out import MOST_IN_SHARD, WrittenFiles, divide, fan_out
from trajmill.pipelines.journaled import (
    Journaled,
    JournaledAttempt,
    journaled_ids,
    journaled_records,
    read_attempts,
)
from trajmill.pipelines.judge import judging
from trajmill.pipelines.reading.slots import shown_slots
from trajmill.schemas.record import Origin
from trajmill.schemas.spec import identity_of
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.stages.agents.base import AgentMaker
from trajmill.stages.critics.spec import CriticModels, JudgeSpec
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.rollout.base import Attempt, AttemptSource, FinishedAttempt, Limits
from trajmill.stages.rollout.slots import SlotBoard
from trajmill.stages.rollout.worker import run_attempts
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.staged_screens import NewScreens, journal_path
from trajmill.warehouse.staging import Journal, RecordCounter
from trajmill.warehouse.store.parts import USUAL, Durability, JournalParts, stored_in_time, stored_journals

_JOURNALS = "episodes-*.jsonl"

PlatformAttempts = tuple[Platform, Sequence[Attempt] | AttemptSource]
"""Attempts at queries of one platform."""


@dataclass(frozen=True)
class AttemptJudge:
    """The judge of single attempts, for workers."""

    spec: JudgeSpec
    critics: CriticModels


@dataclass(frozen=True)
class RunAttempts:
    """The work of one shard: runs attempts and writes their rows."""

    warehouse: Warehouse
    at: StageRun
    origin: Origin
    environment: EnvironmentSpec
    agent: ActingAgent
    limits: Limits
    concurrency: int
    durability: Durability = USUAL

    def identity(self, attempts: Sequence[Attempt]) -> object:
        """The attempts, the environment and the agent."""
        return [
            [attempt_key(attempt) for attempt in attempts],
            identity_of(self.environment),
            self.agent.identity(),
        ]

    def __call__(self, shard: str, attempts: Sequence[Attempt]) -> WrittenFiles:
        """Run the attempts that are in no journal of the stage, then write the rows of all attempts of the shard."""
        return self._write(shard, self.finish(shard, attempts))

    def finish(self, shard: str, attempts: Sequence[Attempt], judge: AttemptJudge | None = None) -> Journaled:
        """Run the attempts that are in no journal of the stage; returns all attempts of the shard, in order of id.

        Args:
            shard: name of the shard.
            attempts: its attempts.
            judge: judges each attempt as soon as it is finished; None judges nothing.
        """
        by_id: dict[str, Attempt] = {}

        def remaining(make_agent: AgentMaker) -> list[PlatformAttempts]:
            by_id.update({attempt.trajectory_id(make_agent(attempt.query)): attempt for attempt in attempts})
            finished = journaled_ids(self._journals(), by_id)
            left = [attempt for trajectory_id, attempt in by_id.items() if trajectory_id not in finished]
            return list(_by_platform(left).items())

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
        """Run attempts into the journals of a shard.

        Args:
            shard: name of the shard.
            plan: gives the attempts, once the agents can be made.
            judge: judges each attempt as soon as it is finished; None judges nothing.
        """
        journal = Journal(self.at.staging(self.warehouse) / _JOURNALS.replace("*", shard))
        parts = JournalParts(self.warehouse, self.at, [journal_path(self.warehouse, self.at, shard), journal.path])
        writing = screen_writer(self.warehouse, self.at, shard, self.environment.draws_screens)
        with writing as screens:
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
        board = SlotBoard()
        storing = stored_in_time(parts, self.durability)
        opened = AsyncExitStack()
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
        """The trajectory ids of the attempts in the stage's journals."""
        made = (_trajectory_of(record) for path in self._journals() for record in Journal(path).read())
        return {_key_of(one): one.trajectory_id for one in made if one is not None}

    def _journals(self) -> list[Path]:
        """All journals of the stage, because an earlier try may have divided the attempts into other shards."""
        return stored_journals(self.warehouse, self.at, _JOURNALS)

    def _write(self, shard: str, journaled: Journaled) -> WrittenFiles:
        files = write_tables(self.warehouse, self.at, journaled.rows(), shard)
        void = [one.trajectory.failure_class for one in journaled.finished if one.trajectory.status == "failed"]
        lost = [failure.failure_class for failure in journaled.unreadable]
        return WrittenFiles(files, Counter(cause.value for cause in (*void, *lost) if cause))


class Lane(NamedTuple):
    """One of the workers that take attempts from queues until none is left."""

    number: int
    queues: tuple[AttemptQueue, ...]


@dataclass(frozen=True)
class RollLane:
    """Runs what a lane takes into journals; its slots never idle while attempts are queued."""

    work: RunAttempts

    def identity(self, lane: Lane) -> object:
        """The number of the lane and its queues, which are those of one call."""
        return [lane.number, [queue.folder for queue in lane.queues]]

    def __call__(self, shard: str, lane: Lane) -> WrittenFiles:
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
            _roll_in_lanes(work, attempts, workers, beam)
            write_screens()
            # Sorted by trajectory id, the files have disjoint bounds: readers of some trajectories open few of them.
            ids = work.finished()
            attempts = sorted(attempts, key=lambda attempt: ids.get(attempt_key(attempt), ""))
        made = fan_out(work.warehouse, work.at, divide(attempts, workers), work, beam, workers)
    return WrittenFiles({**made.files, "screens": screens.write()}, made.dropped)


def _roll_in_lanes(work: RunAttempts, attempts: Sequence[Attempt], workers: int, beam: BeamSettings) -> None:
    finished = work.finished()
    left = [attempt for attempt in attempts if attempt_key(attempt) not in finished]
    folder = work.warehouse.name(work.at.staging(work.warehouse) / f"queue-{uuid4().hex[:12]}")
    queues = tuple(
        queue_attempts(
            work.warehouse,
            f"{folder}-{platform}",
            platform,
            of_platform,
            workers=workers,
            concurrency=work.concurrency,
        )
        for platform, of_platform in _by_platform(left).items()
    )
    if queues:
        lanes = [Lane(number, queues) for number in range(min(workers, len(left)))]
        fan_out(work.warehouse, work.at, lanes, RollLane(work), beam, workers)


class _WithTrajectory(BaseModel):
    trajectory: Trajectory


def _trajectory_of(record: bytes) -> Trajectory | None:
    """The trajectory of a record of a journal; None if it cannot be read."""
    try:
        return _WithTrajectory.model_validate_json(record).trajectory
    except ValidationError:
        return None


def _key_of(made: Trajectory) -> AttemptKey:
    return made.query_id, made.purpose, made.attempt, made.seed, made.guidance_id


def attempt_counter(warehouse: Warehouse, at: StageRun) -> RecordCounter:
    """A counter of the finished attempts of a stage."""
    return RecordCounter(at.staging(warehouse), _JOURNALS)


def _by_platform(attempts: Sequence[Attempt]) -> dict[Platform, list[Attempt]]:
    found: dict[Platform, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        found[attempt.query.platform].append(attempt)
    return dict(found)
