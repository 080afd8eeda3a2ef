"""Derives the rows of one kind from committed trajectories, shard by shard."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from trajmill.pipelines.fan_out import WrittenFiles
from trajmill.pipelines.models import Endpoint, OpenEndpoints
from trajmill.pipelines.reading.episodes import read_episodes
from trajmill.schemas.record import Row
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.concurrency import side_by_side
from trajmill.stages.derive.base import DerivedRows, Deriver
from trajmill.stages.derive.collected import Maker
from trajmill.stages.derive.kind_spec import KindSpec, Tools
from trajmill.stages.derive.prompt_files import DerivePrompts
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.screen_journal import ScreenJournal, journal_path
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.store.parts import JournalParts


class DerivedFrom(NamedTuple):
    """A trajectory that rows are derived from."""

    trajectory_id: str
    steps: tuple[int, ...] | None = None
    """The steps whose screens are used; None for all."""


@dataclass(frozen=True)
class DeriveKind:
    """The work of one shard: derives the rows of one kind from trajectories."""

    warehouse: Warehouse
    at: StageRun
    maker: Maker
    spec: KindSpec
    rounds: tuple[int, ...]
    """The rounds of the trajectories."""
    prompts: DerivePrompts
    writer: Endpoint | None = None
    describer: Endpoint | None = None
    concurrency: int = 1
    """Trajectories that are worked on at the same time."""

    def identity(self, sources: Sequence[DerivedFrom]) -> object:
        """The trajectories with their steps, and what makes their rows."""
        return [self.maker.made_by, [list(source) for source in sources]]

    def __call__(self, shard: str, sources: Sequence[DerivedFrom]) -> WrittenFiles:
        """Write the examples of the trajectories, and what was refused or failed."""
        calls: list[ModelCall] = []
        path = journal_path(self.warehouse, self.at, shard)
        parts = JournalParts(self.warehouse, self.at, [path])
        with closing(ScreenJournal(path)) as journal:
            made = asyncio.run(self._derive(sources, calls.append, journal))
        parts.publish(parts.sizes())
        rows: dict[str, Sequence[Row]] = {
            "model_calls": calls,
            "examples": [row for one in made for row in one.examples],
            "refusals": [row for one in made for row in one.refusals],
            "failures": [row for one in made for row in one.failures],
        }
        dropped: Counter[str] = Counter()
        for refusal in (row for one in made for row in one.refusals):
            dropped[refusal.reason] += refusal.count
        return WrittenFiles(write_tables(self.warehouse, self.at, rows, shard), dropped)

    async def _derive(
        self, sources: Sequence[DerivedFrom], sink: Callable[[ModelCall], None], journal: ScreenJournal
    ) -> list[DerivedRows]:
        wanted = {source.trajectory_id: source.steps for source in sources}
        episodes = read_episodes(
            self.warehouse,
            self.at.run_id,
            wanted,
            rounds=self.rounds,
            with_verdicts=True,
            with_guidance=True,
            with_calls=self.spec.with_calls,
        )
        free = asyncio.Semaphore(self.concurrency)
        async with OpenEndpoints(self.maker.origin, sink) as endpoints:
            deriver = self._opened(endpoints, journal)

            async def derived(position: int) -> DerivedRows:
                steps = wanted[episodes[position].trajectory.trajectory_id]
                async with free:
                    return await deriver.derive(episodes[position], None if steps is None else frozenset(steps))

            return await side_by_side(derived(position) for position in range(len(episodes)))

    def _opened(self, endpoints: OpenEndpoints, journal: ScreenJournal) -> Deriver:
        writer = None if self.writer is None else endpoints.model(self.writer)
        describer = None if self.describer is None else endpoints.model(self.describer)
        return self.spec.open(
            Tools(self.maker, WarehouseScreens(self.warehouse), journal.append, self.prompts, writer, describer)
        )
