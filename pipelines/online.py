"""Stores the episodes of trainers: each is on disk before its trainer gets the reward; rows are committed in batches.

A batch is one attempt at the stage. Episodes that a killed server has not committed are committed by the next one.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trajmill.pipelines.rollout import JournaledAttempt, attempt_rows
from trajmill.schemas.observation import ObservedScreens
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import Judgement, StepVerdict, TrajectoryVerdict
from trajmill.stages.critics.judge import judge_episodes
from trajmill.stages.critics.spec import CriticModels, JudgeSpec
from trajmill.stages.online.base import AttemptVerdicts, JudgeAttempt
from trajmill.stages.rollout.base import FinishedAttempt
from trajmill.warehouse.commit import commit_stage, last_attempt
from trajmill.warehouse.layout import ONLY_SHARD, StageRun, Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.screen_journal import ScreenJournal, journal_path
from trajmill.warehouse.screens import WarehouseScreens, write_screens
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.staging import Journal, mark_done, sweep

ONLINE = "online"
"""The stage of the rows."""
_EPISODES = "episodes.jsonl"
_BATCH = 64
"""Episodes of one commit, and so of one file of each table."""


class JournaledOnline(JournaledAttempt):
    """A finished attempt in the journal, with its verdicts."""

    step_verdicts: tuple[StepVerdict, ...] = ()
    trajectory_verdicts: tuple[TrajectoryVerdict, ...] = ()
    judgement: Judgement | None = None
    judge_calls: tuple[ModelCall, ...] = ()
    judge_failures: tuple[Failure, ...] = ()


class OnlineRecorder:
    """Writes the rows of one server; only one server at a time writes online rows of the run."""

    def __init__(self, warehouse: Warehouse, origin: Origin, environment: str) -> None:
        """Commit the episodes that an earlier server has not committed.

        Args:
            warehouse: where to write.
            origin: common columns of the rows.
            environment: kind of the environment, stored on screens.
        """
        self._warehouse = warehouse
        self._origin = origin
        self._environment = environment
        self._busy = asyncio.Lock()
        self._committed = WarehouseScreens(warehouse)
        last = last_attempt(warehouse, StageRun(origin.run_id, origin.round, ONLINE))
        # The newest batch may be in some tables only; committing it again completes the others.
        self._begin(max(last, 0))
        self._commit()
        if self._at.attempt == last:
            self._begin(last + 1)
            self._commit()

    async def record(self, made: FinishedAttempt, judged: AttemptVerdicts | None) -> None:
        """Store an attempt; a full batch is committed.

        Raises:
            TrajmillError: the disk is full.
        """
        async with self._busy:
            for seen in made.screens.values():
                if seen.screen.screen_id not in self._committed:
                    self._screens.append(seen)
            self._episodes.append(_journaled(made, judged).model_dump_json().encode())
            self._waiting += 1
            if self._waiting >= _BATCH:
                await asyncio.to_thread(self._commit)

    async def commit(self) -> None:
        """Commit the stored attempts."""
        async with self._busy:
            await asyncio.to_thread(self._commit)

    def numbers(self) -> Counter[tuple[str, str, int]]:
        """Number of committed attempts, by query, policy and seed."""
        columns = ["query_id", "model_version", "seed", "purpose"]
        rows = read_table(self._warehouse, "trajectories", columns, run_id=self._origin.run_id)
        found = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        return Counter((query, policy, seed) for query, policy, seed, purpose in found if purpose == Purpose.ONLINE)

    def _begin(self, attempt: int) -> None:
        self._at = StageRun(self._origin.run_id, self._origin.round, ONLINE, attempt)
        self._episodes = Journal(self._at.staging(self._warehouse) / _EPISODES)
        self._screens = ScreenJournal(journal_path(self._warehouse, self._at, ONLY_SHARD))
        self._committed.refresh()
        self._waiting = 0

    def _commit(self) -> None:
        lines = [JournaledOnline.model_validate_json(line) for line in self._episodes.read()]
        self._episodes.close()
        self._screens.close()
        if not lines:
            return
        rows = attempt_rows(lines) | {
            "step_verdicts": [verdict for one in lines for verdict in one.step_verdicts],
            "trajectory_verdicts": [verdict for one in lines for verdict in one.trajectory_verdicts],
            "judgements": [one.judgement for one in lines if one.judgement],
        }
        rows["model_calls"] = [*rows["model_calls"], *(call for one in lines for call in one.judge_calls)]
        rows["failures"] = [*rows["failures"], *(failure for one in lines for failure in one.judge_failures)]
        files = write_tables(self._warehouse, self._at, rows)
        screens = write_screens(self._warehouse, self._at, self._origin, made_by=self._environment)
        commit_stage(self._warehouse, self._at, {**files, "screens": [screens]})
        folder = self._at.staging(self._warehouse)
        mark_done(self._warehouse, folder, self._at.name, {"episodes": len(lines)})
        sweep(self._warehouse, folder)
        self._begin(self._at.attempt + 1)


@asynccontextmanager
async def judging(spec: JudgeSpec, critics: CriticModels, origin: Origin) -> AsyncIterator[JudgeAttempt]:
    """A judge of single attempts; its models are connected until the context ends.

    Raises:
        BadInputError: a model cannot be connected.
    """
    calls: dict[str | None, list[ModelCall]] = defaultdict(list)

    def keep(call: ModelCall) -> None:
        calls[call.trajectory_id].append(call)

    async with spec.open(critics, origin, keep) as judge:

        async def judge_attempt(made: FinishedAttempt) -> AttemptVerdicts:
            judged = await judge_episodes([made.episode], judge, ObservedScreens(made.screens), origin)
            asked = calls.pop(made.episode.trajectory.trajectory_id, [])
            return AttemptVerdicts(judged.episodes[0], tuple(asked), tuple(judged.failures))

        yield judge_attempt


def _journaled(made: FinishedAttempt, judged: AttemptVerdicts | None) -> JournaledOnline:
    line = JournaledOnline.of(made)
    if judged is None:
        return line
    return line.model_copy(
        update={
            "step_verdicts": judged.episode.step_verdicts,
            "trajectory_verdicts": judged.episode.trajectory_verdicts,
            "judgement": judged.episode.judgement,
            "judge_calls": judged.calls,
            "judge_failures": judged.failures,
        }
    )
