"""Stores the episodes of trainers: each is on disk before its trainer gets the reward; rows are committed in batches.

A batch is one attempt at the stage. Episodes that a killed server has not committed are committed by the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress

from trajmill.pipelines.rollout import attempt_record, read_attempts
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.rollout.base import FinishedAttempt
from trajmill.warehouse.commit import commit_stage, last_attempt
from trajmill.warehouse.layout import ONLY_SHARD, StageRun, Warehouse
from trajmill.warehouse.read import read_tuples
from trajmill.warehouse.screens import NewScreens, ScreenJournal, WarehouseScreens, journal_path
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.staging import Journal, JournalParts, mark_done, sweep

_LOG = logging.getLogger(__name__)

ONLINE = "online"
TROUBLE = "online-trouble.txt"
"""File in the folder of a run that says why episodes are not committed."""
_EPISODES_IN_COMMIT = 64
"""Also those of one file of each table."""


class _Batch:
    def __init__(self, warehouse: Warehouse, at: StageRun) -> None:
        self.at, self.waiting = at, 0
        self.episodes = Journal(at.staging(warehouse) / "episodes.jsonl")
        screens = journal_path(warehouse, at, ONLY_SHARD)
        self.parts = JournalParts(warehouse, at, [screens, self.episodes.path])
        self.screens = ScreenJournal(screens)


class OnlineRecorder:
    """Writes the rows of one server; only one server at a time writes online rows of the run."""

    def __init__(self, warehouse: Warehouse, origin: Origin, environment: str) -> None:
        """Commit the episodes that an earlier server has not committed; `environment` is stored on screens."""
        self._warehouse, self._origin, self._environment = warehouse, origin, environment
        self._busy = asyncio.Lock()
        self._committed = WarehouseScreens(warehouse)
        self._failing: _Batch | None = None
        """A batch that may be in some tables: it gets no further episodes, and is committed before the next one."""
        self.trouble = ""
        """Why the last commit failed; empty if it did not."""
        last = last_attempt(warehouse, StageRun(origin.run_id, origin.round, ONLINE))
        # The newest batch may be in only some of the tables; committing it again adds it to the others.
        self._batch = self._begin(max(last, 0))
        self._commit()
        if self._batch.at.attempt == last:
            self._batch = self._begin(last + 1)
            self._commit()
        self._set_trouble("")

    async def record(self, made: FinishedAttempt) -> None:
        async with self._busy:
            batch = self._batch
            batch.screens.append(*(seen for id_, seen in made.screens.items() if id_ not in self._committed))
            batch.episodes.append(attempt_record(made))
            # With a bucket, a killed server loses what it has not uploaded.
            await asyncio.to_thread(batch.parts.publish)
            batch.waiting += 1
            if batch.waiting % _EPISODES_IN_COMMIT == 0:
                await asyncio.to_thread(self._try_commit)

    async def commit_every(self, seconds: float) -> None:
        """Commit the stored attempts from time to time, until cancelled; `trouble` has the reason of a failure."""
        while True:
            await asyncio.sleep(seconds)
            async with self._busy:
                await asyncio.to_thread(self._try_commit)

    async def commit(self) -> None:
        """Commit the stored attempts. What a batch raises is raised; its episodes stay on disk for the next server."""
        async with self._busy:
            await asyncio.to_thread(self._commit)
            self._set_trouble("")

    def numbers(self) -> Counter[tuple[str, str, int]]:
        columns, where = ["query_id", "model_version", "seed"], {"purpose": [Purpose.ONLINE.value]}
        return Counter(read_tuples(self._warehouse, "trajectories", columns, run_id=self._origin.run_id, where=where))

    def _begin(self, attempt: int) -> _Batch:
        self._committed.refresh()
        return _Batch(self._warehouse, StageRun(self._origin.run_id, self._origin.round, ONLINE, attempt))

    def _try_commit(self) -> None:
        trouble = ""
        try:
            self._commit()
        except Exception as error:  # The cause may be the store, a table or a row; episodes go on.
            _LOG.exception("the episodes cannot be committed; they stay on disk, and it is tried again")
            trouble = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        self._set_trouble(trouble)

    def _set_trouble(self, trouble: str) -> None:
        """Store why commits fail, for `trajmill status`; a store that does not answer may be the reason itself."""
        if trouble == self.trouble and trouble:
            return
        self.trouble = trouble
        store, name = self._warehouse.store, self._warehouse.run_file(self._origin.run_id, TROUBLE)
        with suppress(OSError, TrajmillError):
            if trouble:
                store.put(name, trouble.encode())
            elif store.size(name) is not None:
                store.delete(name)

    def _commit(self) -> None:
        """Commit a batch that has failed before, then the newest one, and begin the next."""
        for _ in range(2 if self._failing else 1):
            if self._failing is None:
                batch = self._batch
                batch.episodes.close()
                batch.screens.close()
                if not any(batch.episodes.read()):
                    return
                self._failing, self._batch = batch, self._begin(batch.at.attempt + 1)
            batch, at, folder = self._failing, self._failing.at, self._failing.at.staging(self._warehouse)
            journaled = read_attempts(self._warehouse, at, self._origin, batch.episodes.read())
            files = write_tables(self._warehouse, at, journaled.rows())
            screens = NewScreens(self._warehouse, at, self._origin, self._environment).write()
            commit_stage(self._warehouse, at, {**files, "screens": screens})
            mark_done(self._warehouse, folder, at.name, {"episodes": len(journaled.finished)})
            sweep(self._warehouse, folder)
            self._failing = None
            self._committed.refresh()
