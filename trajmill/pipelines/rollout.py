"""Runs attempts in shards: a finished attempt is written to a journal, and the rows at the end of the shard."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from trajmill.pipelines.agents import ActingAgent
from trajmill.pipelines.drawing import ScreenWriter, screen_writer
from trajmill.pipelines.engine.settings import BeamSettings
from trajmill.pipelines.fan_out import WrittenFiles, fan_out
from trajmill.pipelines.judge import judging
from trajmill.pipelines.reading.slots import shown_slots
from trajmill.pipelines.work.attempts import (
    AttemptQueue,
    QueuedAttempts,
    attempt_from_text,
    attempt_key,
    attempt_to_text,
    queue_attempts,
)
from trajmill.pipelines.work.journals import journaled_id, journaled_ids, journaled_records
from trajmill.pipelines.work.lists import MOST_IN_RANGE, fan_out_listed
from trajmill.pipelines.work.screens_beside import written_beside
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.record import Origin, Record, Row, content_id
from trajmill.schemas.spec import identity_of
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepVerdict, TrajectoryVerdict
from trajmill.stages.agents.base import AgentMaker
from trajmill.stages.critics.spec import CriticModels, JudgeSpec
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.environments.tasks import first_mistake
from trajmill.stages.rollout.base import Attempt, AttemptSource, AttemptVerdicts, FinishedAttempt, Limits
from trajmill.stages.rollout.slots import SlotBoard
from trajmill.stages.rollout.worker import run_attempts
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.staged.new_screens import NewScreens
from trajmill.warehouse.staged.screen_journal import journal_path
from trajmill.warehouse.staging import Journal, RecordCounter
from trajmill.warehouse.store.parts import USUAL, Durability, JournalParts, stored_in_time, stored_journals

_JOURNALS = "episodes-*.jsonl"

PlatformAttempts = tuple[Platform, Sequence[Attempt] | AttemptSource]
"""Attempts at queries of one platform."""


class JournaledAttempt(Record):
    """A finished attempt in a journal, with its verdicts if it was judged at once."""

    trajectory: Trajectory
    steps: tuple[Step, ...]
    calls: tuple[ModelCall, ...]
    failure: Failure | None
    earlier_failure: Failure | None = None
    step_verdicts: tuple[StepVerdict, ...] = ()
    trajectory_verdicts: tuple[TrajectoryVerdict, ...] = ()
    judgement: Judgement | None = None
    judge_calls: tuple[ModelCall, ...] = ()
    judge_failures: tuple[Failure, ...] = ()

    @property
    def trajectory_id(self) -> str:
        """The id of its trajectory."""
        return self.trajectory.trajectory_id

    @classmethod
    def of(cls, rollout: FinishedAttempt, judged: AttemptVerdicts | None = None) -> Self:
        """What the journal keeps of a finished attempt; its screens have a journal of their own."""
        episode = rollout.episode if judged is None else judged.episode
        return cls(
            trajectory=rollout.episode.trajectory,
            steps=rollout.episode.steps,
            calls=rollout.episode.calls,
            failure=rollout.failure,
            earlier_failure=rollout.earlier_failure,
            step_verdicts=episode.step_verdicts,
            trajectory_verdicts=episode.trajectory_verdicts,
            judgement=episode.judgement,
            judge_calls=judged.calls if judged else (),
            judge_failures=judged.failures if judged else (),
        )


class Journaled(NamedTuple):
    """What journals hold."""

    finished: Sequence[JournaledAttempt]
    unreadable: Sequence[Failure]
    """A row for each record that cannot be read; it says where the record is."""


def read_attempts(warehouse: Warehouse, at: StageRun, origin: Origin, records: Iterable[bytes]) -> Journaled:
    """Parse the records of a stage's journals; one that cannot be read is moved to the folder of the run."""
    finished, unreadable = [], []
    for record in records:
        try:
            finished.append(JournaledAttempt.model_validate_json(record))
        except ValidationError as error:
            mistake = first_mistake(error, "the record")[:200]
            place = warehouse.run(at.run_id) / "unreadable" / f"{at.stage}-{content_id(record.hex())}.json"
            warehouse.store.put(warehouse.name(place), record + b"\n")
            failure = Failure(
                stage=at.stage,
                input_id=journaled_id(record),
                failure_class=FailureClass.RECORD,
                message=f"an episode's record cannot be read: {mistake}; it is {place}",
                attempts=1,
                **origin.common(made_by=at.stage),
            )
            unreadable.append(failure)
    return Journaled(finished, unreadable)


def attempt_rows(journaled: Journaled) -> dict[str, list[Row]]:
    """The rows of finished attempts, by table."""
    finished = journaled.finished
    failures = [failure for one in finished for failure in (one.earlier_failure, one.failure) if failure]
    return {
        "trajectories": [one.trajectory for one in finished],
        "steps": [step for one in finished for step in one.steps],
        "model_calls": [call for one in finished for call in one.calls],
        "failures": [*failures, *journaled.unreadable],
    }


def judged_attempt_rows(journaled: Journaled) -> dict[str, list[Row]]:
    """The rows of attempts that were judged as soon as they were finished, by table."""
    rows, finished = attempt_rows(journaled), journaled.finished
    return rows | {
        "step_verdicts": [verdict for one in finished for verdict in one.step_verdicts],
        "trajectory_verdicts": [verdict for one in finished for verdict in one.trajectory_verdicts],
        "judgements": [one.judgement for one in finished if one.judgement],
        "model_calls": [*rows["model_calls"], *(call for one in finished for call in one.judge_calls)],
        "failures": [*rows["failures"], *(failure for one in finished for failure in one.judge_failures)],
    }


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

    def left(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """The attempts that are in no journal of the stage."""
        finished = self._ids()
        return [attempt for attempt in attempts if attempt_key(attempt) not in finished]

    def ordered(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """The attempts in the order of their trajectories' ids; those that are in no journal of the stage come first.

        Files of such neighbours have bounds that tell readers of some trajectories which of them to open.
        """
        ids = self._ids()
        return sorted(attempts, key=lambda attempt: ids.get(attempt_key(attempt), ""))

    def _ids(self) -> dict[tuple[str, Purpose, int, int, str | None], str]:
        """By the key of a finished attempt, the id of its trajectory."""
        made = (_trajectory_of(record) for path in self._journals() for record in Journal(path).read())
        return {_key_of(one): one.trajectory_id for one in made if one is not None}

    def _journals(self) -> list[Path]:
        """All journals of the stage, because an earlier try may have divided the attempts into other shards."""
        return stored_journals(self.warehouse, self.at, _JOURNALS)

    def _write(self, shard: str, journaled: Journaled) -> WrittenFiles:
        files = write_tables(self.warehouse, self.at, attempt_rows(journaled), shard)
        failures = [*(one.failure for one in journaled.finished if one.failure), *journaled.unreadable]
        return WrittenFiles(files, Counter(failure.failure_class.value for failure in failures))


class Lane(NamedTuple):
    """One of the workers that take attempts from queues until none is left."""

    number: int
    queues: tuple[AttemptQueue, ...]


@dataclass(frozen=True)
class RollLane:
    """Runs what a lane takes into journals; no slot of it waits for others to end as long as there are attempts."""

    work: RunAttempts

    def identity(self, lane: Lane) -> object:
        """The lane of this call: its queues have a name that no other call's have."""
        return list(lane)

    def __call__(self, shard: str, lane: Lane) -> WrittenFiles:
        """Run attempts; their rows are written later, from the journals of all lanes."""

        def taken(make_agent: AgentMaker) -> list[PlatformAttempts]:
            of = self.work
            return [(queue.platform, QueuedAttempts(of.warehouse, of.at, queue)) for queue in lane.queues]

        self.work.roll(shard, taken)
        return WrittenFiles({})


def run_in_shards(work: RunAttempts, attempts: Sequence[Attempt], workers: int, beam: BeamSettings) -> WrittenFiles:
    """Run attempts with some workers and return the files; a screen of several attempts is written once.

    Where there is more than one worker or range, the workers first take attempts from a common queue. A shard then
    finds its attempts finished, except those of a worker that died, and writes their rows.
    """
    screens = NewScreens(work.warehouse, work.at, work.origin, made_by=work.environment.kind)
    with written_beside(screens) as write_screens:
        if workers > 1 or len(attempts) > MOST_IN_RANGE:
            _roll_in_lanes(work, attempts, workers, beam)
            write_screens()
            attempts = work.ordered(attempts)
        made = fan_out_listed(
            work.warehouse,
            work.at,
            attempts,
            work,
            beam,
            workers=workers,
            encode=attempt_to_text,
            decode=attempt_from_text,
        )
    return WrittenFiles({**made.files, "screens": screens.write()}, made.dropped)


def _roll_in_lanes(work: RunAttempts, attempts: Sequence[Attempt], workers: int, beam: BeamSettings) -> None:
    left = work.left(attempts)
    claims = f"claims-{uuid4().hex[:12]}"
    queues = tuple(
        queue_attempts(
            work.warehouse, work.at, platform, of_platform, claims, workers=workers, concurrency=work.concurrency
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


def _key_of(made: Trajectory) -> tuple[str, Purpose, int, int, str | None]:
    return made.query_id, made.purpose, made.attempt, made.seed, made.guidance_id


def attempt_counter(warehouse: Warehouse, at: StageRun) -> RecordCounter:
    """A counter of the finished attempts of a stage."""
    return RecordCounter(at.staging(warehouse), _JOURNALS)


def _by_platform(attempts: Sequence[Attempt]) -> dict[Platform, list[Attempt]]:
    found: dict[Platform, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        found[attempt.query.platform].append(attempt)
    return dict(found)
