"""Stores the episodes of trainers: each is on disk before its trainer gets the reward; rows are committed in batches.

A batch is one attempt at the stage. Episodes that a killed server has not committed are committed by the next one.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from trajmill.pipelines.rollout import JournaledAttempt, judged_attempt_rows
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.online.base import AttemptVerdicts
from trajmill.stages.rollout.base import FinishedAttempt
from trajmill.warehouse.commit import commit_stage, last_attempt
from trajmill.warehouse.layout import ONLY_SHARD, StageRun, Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.staged.new_screens import write_screens
from trajmill.warehouse.staged.screen_journal import ScreenJournal, journal_path
from trajmill.warehouse.staging import Journal, mark_done, sweep
from trajmill.warehouse.store.parts import JournalParts

ONLINE = "online"
"""The stage of the rows."""
_EPISODES = "episodes.jsonl"
_BATCH = 64
"""Episodes of one commit, and so of one file of each table."""


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
            self._screens.append(*(seen for id_, seen in made.screens.items() if id_ not in self._committed))
            self._episodes.append(JournaledAttempt.of(made, judged).model_dump_json().encode())
            # Where there is only a bucket, a killed server has lost what is not put.
            await asyncio.to_thread(self._parts.publish, self._parts.sizes())
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
        episodes = self._at.staging(self._warehouse) / _EPISODES
        screens = journal_path(self._warehouse, self._at, ONLY_SHARD)
        self._parts = JournalParts(self._warehouse, self._at, [screens, episodes])
        self._episodes, self._screens = Journal(episodes), ScreenJournal(screens)
        self._committed.refresh()
        self._waiting = 0

    def _commit(self) -> None:
        lines = [JournaledAttempt.model_validate_json(line) for line in self._episodes.read()]
        self._episodes.close()
        self._screens.close()
        if not lines:
            return
        rows = judged_attempt_rows(lines)
        files = write_tables(self._warehouse, self._at, rows)
        screens = write_screens(self._warehouse, self._at, self._origin, made_by=self._environment)
        commit_stage(self._warehouse, self._at, {**files, "screens": [screens]})
        folder = self._at.staging(self._warehouse)
        mark_done(self._warehouse, folder, self._at.name, {"episodes": len(lines)})
        sweep(self._warehouse, folder)
        self._begin(self._at.attempt + 1)
