"""Runs attempts in shards: a finished attempt is written to a journal, and the rows at the end of the shard."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from trajmill.pipelines.drawing import ScreenWriter, screens_in_background
from trajmill.pipelines.fan_out import MOST_IN_SHARD, BeamSettings, P, StageWork, WrittenFiles, divide, fan_out
from trajmill.pipelines.models import ActingAgent
from trajmill.pipelines.reading.slots import shown_slots
from trajmill.schemas.episode import AttemptRows, verdict_rows
from trajmill.schemas.errors import FailureClass, TrajmillError
from trajmill.schemas.record import Origin, Row, content_id
from trajmill.schemas.spec import identity_of
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.parts import first_mistake
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, JudgeAttempt, Limits, SlotBoard, TakeAttempt
from trajmill.stages.rollout.worker import run_attempts
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.screens import NewScreens, ScreenJournal, WarehouseScreens, journal_path
from trajmill.warehouse.staging import (
    Durability,
    Journal,
    JournalParts,
    ShardProgress,
    forget_counts,
    plan_items,
    stored_in_time,
    stored_journals,
)

JOURNALS = "episodes-*.jsonl"
_RANGES_PER_WORKER = 8
"""Least ranges per worker: all workers end at nearly the same time."""

AttemptKey = tuple[str, Purpose, int, int, str | None]


def attempt_key(attempt: Attempt) -> AttemptKey:
    guidance_id = attempt.guidance.guidance_id if attempt.guidance else None
    return attempt.query.query_id, attempt.purpose, attempt.attempt, attempt.seed, guidance_id


@dataclass
class AttemptQueue:
    """Attempts of one platform, of which workers take ranges until none is left; each worker has a copy."""

    warehouse: Warehouse
    folder: str
    """Its name in the store, which no other queue has; gets a claim for each range that a worker took."""
    attempts: Sequence[Attempt]
    in_range: int
    _next: int = 0
    _taken: deque[Attempt] = field(default_factory=deque)
    _busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def take(self) -> Attempt | None:
        """Return the next attempt that no other worker has taken; None if there is none left."""
        # A slot that finds an attempt does not wait for the lock: of many free slots, each would get it one turn of
        # the event loop after the other.
        while not self._taken and self._next < len(self.attempts):
            async with self._busy:
                if not self._taken:
                    # A thread gets its turns from a busy event loop so late that a millisecond's work takes it 100.
                    is_local = self.warehouse.store.is_local
                    self._taken.extend(self._range() if is_local else await asyncio.to_thread(self._range))
        return self._taken.popleft() if self._taken else None

    def is_empty(self) -> bool:
        return len(self.warehouse.store.files(self.folder)) * self.in_range >= len(self.attempts)

    def close(self) -> None:
        """Take all that is left, as far as the store allows, so that no worker begins anything more."""
        with suppress(TrajmillError):
            while self._range():
                pass

    def _range(self) -> Sequence[Attempt]:
        while (start := self._next) < len(self.attempts):
            self._next += self.in_range
            if self.warehouse.store.claim(f"{self.folder}/taken-{start:06d}"):
                return self.attempts[start : start + self.in_range]
        return ()


Queues = Mapping[Platform, AttemptQueue]
Judging = AbstractAsyncContextManager[JudgeAttempt]


@dataclass(frozen=True)
class AttemptRunner(StageWork[P]):
    environment: EnvironmentSpec
    agent: ActingAgent
    limits: Limits
    concurrency: int
    durability: Durability = field(default_factory=Durability)

    def run(self, shard: str, work: Sequence[Attempt] | Queues, judging: Judging | None = None) -> Journaled:
        """Run the attempts that are in no journal of the stage into that of the shard.

        Returns the given ones, in order of id; those of queues are left in the journals. What `judging` opens judges
        each attempt as soon as it is finished.
        """
        journal = Journal(self.at.staging(self.warehouse) / JOURNALS.replace("*", shard))
        screen_journal = journal_path(self.warehouse, self.at, shard)
        parts = JournalParts(self.warehouse, self.at, [screen_journal, journal.path])
        by_id: dict[str, Attempt] = {}
        journals = {journal.path}
        progress, board, draws = self.progress(shard), SlotBoard(), self.environment.draws_screens

        async def roll(screens: ScreenWriter) -> None:
            slots, storing = shown_slots(board, journal.path, not draws), stored_in_time(parts, self.durability)
            async with AsyncExitStack() as opened, self.agent.open() as make_agent, slots, storing as one_more:
                judged = await opened.enter_async_context(judging) if judging else None

                async def record(made: FinishedAttempt) -> None:
                    made = await judged(made) if judged else made
                    await screens.write(made.screens.values())
                    journal.append(attempt_record(made))
                    progress.add()
                    await one_more()

                queued: Mapping[Platform, Sequence[Attempt] | TakeAttempt]
                if isinstance(work, Mapping):
                    queued = {platform: queue.take for platform, queue in work.items()}
                else:
                    by_id.update((attempt.trajectory_id(make_agent(attempt.query)), attempt) for attempt in work)
                    journals.update(self.journals())
                    known = {name for path in journals if path.exists() for name in _spans(path, path.stat().st_size)}
                    progress.fill(len(known & by_id.keys()))
                    queued = _by_platform([attempt for name, attempt in by_id.items() if name not in known])
                for platform, attempts in queued.items():
                    factory = self.environment.factory(platform)
                    await run_attempts(
                        attempts, make_agent, factory, self.limits, self.origin, record, self.concurrency, board
                    )

        with closing(journal), closing(ScreenJournal(screen_journal)) as drawn:
            # A task without a result, for the reason that `run_coroutine` gives.
            asyncio.run(roll(ScreenWriter(drawn, WarehouseScreens(self.warehouse), draws)))
        # The process that commits the stage writes the screens, from the journals of all shards.
        parts.publish()
        records = _records(sorted(filter(Path.exists, journals)), by_id) if by_id else ()
        found = read_attempts(self.warehouse, self.at, self.origin, records)
        finished = {one.trajectory.trajectory_id: one for one in found.finished}
        lost = {one.input_id: one for one in found.unreadable if one.input_id not in finished}
        return Journaled([finished[name] for name in sorted(finished)], [lost[name] for name in sorted(lost)])

    def journals(self) -> list[Path]:
        return stored_journals(self.warehouse, self.at, JOURNALS)


@dataclass(frozen=True)
class RunAttempts(AttemptRunner[Sequence[Attempt]]):
    def identity(self, attempts: Sequence[Attempt]) -> object:
        keys = [attempt_key(attempt) for attempt in attempts]
        return [keys, identity_of(self.environment), self.agent.identity()]

    def __call__(self, shard: str, attempts: Sequence[Attempt]) -> WrittenFiles:
        journaled = self.run(shard, attempts)
        void = [one.trajectory.failure_class for one in journaled.finished if one.trajectory.status == "failed"]
        lost = [failure.failure_class for failure in journaled.unreadable]
        dropped = Counter(cause.value for cause in (*void, *lost) if cause)
        return self.written(shard, journaled.rows(), dropped)

    def finished(self) -> dict[AttemptKey, str]:
        found: dict[AttemptKey, str] = {}
        for record in (record for path in self.journals() for record in Journal(path).read()):
            with suppress(ValidationError):
                made = _WithTrajectory.model_validate_json(record).trajectory
                found[made.query_id, made.purpose, made.attempt, made.seed, made.guidance_id] = made.trajectory_id
        return found


class _WithTrajectory(BaseModel):
    trajectory: Trajectory


@dataclass(frozen=True)
class _RollLane(AttemptRunner[tuple[int, Queues]]):
    """Runs what one of the workers takes into journals; its slots never idle while attempts are queued."""

    def identity(self, lane: tuple[int, Queues]) -> object:
        number, queues = lane
        return [number, [queue.folder for queue in queues.values()]]

    def items(self, lane: tuple[int, Queues]) -> int:
        return 0  # Attempts are counted as they end; nobody knows how many a worker will take.

    def __call__(self, shard: str, lane: tuple[int, Queues]) -> WrittenFiles:
        # A further lane, for a worker that joins a cluster late, mostly finds nothing left.
        if not all(queue.is_empty() for queue in lane[1].values()):
            try:
                self.run(shard, lane[1])
            except Exception:
                # The other workers end soon, and the error is told.
                for queue in lane[1].values():
                    queue.close()
                raise
        return WrittenFiles({})


def run_in_shards(work: RunAttempts, attempts: Sequence[Attempt], workers: int, beam: BeamSettings) -> WrittenFiles:
    """Run attempts with some workers and return the files; a screen of several attempts is written once.

    With several workers or shards, the workers first take attempts from a common queue. A shard then finds its
    attempts finished, except those of a worker that died, and writes their rows.
    """
    warehouse, at, staging = work.warehouse, work.at, work.at.staging(work.warehouse)
    forget_counts(staging)
    screens = NewScreens(warehouse, at, work.origin, made_by=work.environment.kind)
    with screens_in_background(screens) as write_screens:
        if workers > 1 or len(attempts) > MOST_IN_SHARD:
            finished = work.finished()
            plan_items(staging, len(attempts))
            ShardProgress(staging, "before").fill(len(finished))
            left = [attempt for attempt in attempts if attempt_key(attempt) not in finished]
            folder = warehouse.name(staging / f"queue-{uuid4().hex[:12]}")
            queues = {}
            for platform, queued in _by_platform(left).items():
                in_range = max(1, min(work.concurrency // 2, len(queued) // (workers * _RANGES_PER_WORKER)))
                queues[platform] = AttemptQueue(warehouse, f"{folder}-{platform}", queued, in_range)
            lanes = [(number, queues) for number in range(min(workers * (1 if beam.on_this_machine else 3), len(left)))]
            fan_out(_RollLane(**vars(work)), lanes, beam, workers)
            write_screens()
            # Sorted by trajectory id, the files have disjoint bounds: readers of some trajectories open few of them.
            ids = work.finished()
            attempts = sorted(attempts, key=lambda attempt: ids.get(attempt_key(attempt), ""))
        made = fan_out(work, divide(attempts, workers), beam, workers)
    return WrittenFiles({**made.files, "screens": screens.write()}, made.dropped)


def _by_platform(attempts: Sequence[Attempt]) -> dict[Platform, list[Attempt]]:
    found: dict[Platform, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        found[attempt.query.platform].append(attempt)
    return dict(found)


_ID = re.compile(rb'"trajectory_id":"([^"\\\x80-\xff]+)"')
"""The first match in a record is its trajectory: a quotation mark within a text has a backslash before it."""


def attempt_record(made: FinishedAttempt) -> bytes:
    failures = (*filter(None, (made.earlier_failure, made.failure)), *made.episode.failures)
    episode = made.episode.model_copy(update={"failures": failures})
    return episode.model_dump_json(exclude={"query", "guidance"}).encode()


class Journaled(NamedTuple):
    finished: Sequence[AttemptRows]
    unreadable: Sequence[Failure] = ()
    """A row for each record that cannot be read; it names the file of the record."""

    def rows(self) -> dict[str, list[Row]]:
        finished = self.finished
        return {
            "trajectories": [one.trajectory for one in finished],
            "steps": [step for one in finished for step in one.steps],
            "model_calls": [call for one in finished for call in one.calls],
            **verdict_rows(finished),
            "failures": [*(failure for one in finished for failure in one.failures), *self.unreadable],
        }


def read_attempts(warehouse: Warehouse, at: StageRun, origin: Origin, records: Iterable[bytes]) -> Journaled:
    """Parse the records of a stage's journals; one that cannot be read is moved to the folder of the run."""
    finished, unreadable = [], []
    for record in records:
        try:
            finished.append(AttemptRows.model_validate_json(record))
        except ValidationError as error:
            mistake = first_mistake(error, "the record")[:200]
            place = warehouse.run(at.run_id) / "unreadable" / f"{at.stage}-{content_id(record.hex())}.json"
            warehouse.store.put(warehouse.name(place), record + b"\n")
            failure = Failure(
                stage=at.stage,
                input_id=_id_in(record),
                failure_class=FailureClass.RECORD,
                message=f"an episode's record cannot be read: {mistake}; it is {place}",
                **origin.common(made_by=at.stage),
            )
            unreadable.append(failure)
    return Journaled(finished, unreadable)


def _records(journals: Sequence[Path], trajectory_ids: Collection[str]) -> Iterator[bytes]:
    for path in journals:
        spans = _spans(path, path.stat().st_size)
        wanted = sorted(spans[name] for name in spans.keys() & set(trajectory_ids))
        with path.open("rb") as file:
            for start, length in wanted:
                file.seek(start)
                yield file.read(length)


@lru_cache(maxsize=64)
def _spans(path: Path, size: int) -> Mapping[str, tuple[int, int]]:
    """Find start and length in bytes of a journal's records, by trajectory id; cached until the journal grows."""
    spans: dict[str, tuple[int, int]] = {}
    start = 0
    for line in Journal(path).read():
        if name := _id_in(line):
            spans[name] = start, len(line)
        start += len(line) + 1
    return spans


def _id_in(record: bytes) -> str:
    """Find the trajectory id of a record that is not parsed; empty if it has none."""
    found = _ID.search(record)
    return found[1].decode() if found else ""
