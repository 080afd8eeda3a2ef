"""Derives the examples of a round, and the rows of further kinds, from judged trajectories, shard by shard."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trajmill.pipelines.fan_out import WrittenFiles
from trajmill.pipelines.models import Endpoint, OpenEndpoints
from trajmill.pipelines.reading.episodes import queries_of, read_episodes
from trajmill.schemas.episode import Episode
from trajmill.schemas.record import Origin, Row
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.concurrency import side_by_side
from trajmill.stages.curate.episodes import curated_episode
from trajmill.stages.curate.leaks import NearLeaks
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.derive.base import DerivedRows, Deriver, as_trusted
from trajmill.stages.derive.collected import Maker
from trajmill.stages.derive.end_to_end import end_to_end_examples
from trajmill.stages.derive.kind_spec import GuidanceLift, KindSpec, TaskSources, Tools
from trajmill.stages.models.prompts import Prompt
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.staged_screens import ScreenJournal, stored_screen_journal
from trajmill.warehouse.staging import ShardProgress


class DerivedFrom(NamedTuple):
    """A trajectory that rows are derived from."""

    trajectory_id: str
    steps: tuple[int, ...] | None = None
    """The steps whose screens are used; None for all."""
    others: tuple[str, ...] = ()
    """Further successes of its task, for a kind that derives from tasks."""
    lift: GuidanceLift | None = None
    """How guidance did at its task, for such a kind; None where that was not measured."""


@dataclass(frozen=True)
class DeriveKind:
    """The work of one shard: derives the rows of one kind from trajectories."""

    warehouse: Warehouse
    at: StageRun
    maker: Maker
    spec: KindSpec
    rounds: tuple[int, ...]
    """The rounds of the trajectories."""
    prompts: Mapping[str, Prompt]
    writer: Endpoint | None = None
    describer: Endpoint | None = None
    curate: CurateSpec = field(default_factory=CurateSpec)
    """How near a text may come to a held-out instruction, for a kind that derives from tasks."""
    concurrency: int = 1
    """Trajectories that are worked on at the same time."""

    def identity(self, sources: Sequence[DerivedFrom]) -> object:
        """The trajectories with their steps, and what makes their rows."""
        return [self.maker.made_by, [list(source) for source in sources]]

    def __call__(self, shard: str, sources: Sequence[DerivedFrom]) -> WrittenFiles:
        """Write the examples of the trajectories, and what was refused or failed."""
        calls: list[ModelCall] = []
        with stored_screen_journal(self.warehouse, self.at, shard) as journal:
            progress = ShardProgress(self.at.staging(self.warehouse), shard)
            made = asyncio.run(self._derive(sources, calls.append, journal, progress))
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
        self,
        sources: Sequence[DerivedFrom],
        sink: Callable[[ModelCall], None],
        journal: ScreenJournal,
        progress: ShardProgress,
    ) -> list[DerivedRows]:
        wanted = {source.trajectory_id: source.steps for source in sources}
        read = read_episodes(
            self.warehouse,
            self.at.run_id,
            {*wanted, *(other for source in sources for other in source.others)},
            rounds=self.rounds,
            with_verdicts=True,
            with_guidance=True,
            with_calls=self.spec.with_calls,
        )
        episodes = [episode for episode in read if episode.trajectory.trajectory_id in wanted]
        of_tasks = self._of_tasks(sources, read) if self.spec.once_per_task else None
        free = asyncio.Semaphore(self.concurrency)
        async with OpenEndpoints(self.maker.origin, sink) as endpoints:
            deriver = self._opened(endpoints, journal, of_tasks)

            async def derived(position: int) -> DerivedRows:
                steps = wanted[episodes[position].trajectory.trajectory_id]
                async with free:
                    rows = await deriver.derive(episodes[position], None if steps is None else frozenset(steps))
                progress.add()
                return rows

            return await side_by_side(derived(position) for position in range(len(episodes)))

    def _opened(self, endpoints: OpenEndpoints, journal: ScreenJournal, of_tasks: TaskSources | None) -> Deriver:
        writer = None if self.writer is None else endpoints.model(self.writer)
        describer = None if self.describer is None else endpoints.model(self.describer)
        screens = WarehouseScreens(self.warehouse)
        return self.spec.open(Tools(self.maker, screens, journal.append, self.prompts, writer, describer, of_tasks))

    def _of_tasks(self, sources: Sequence[DerivedFrom], read: Sequence[Episode]) -> TaskSources:
        episodes = {episode.trajectory.trajectory_id: episode for episode in read}
        return TaskSources(
            {source.trajectory_id: tuple(episodes[other] for other in source.others) for source in sources},
            {source.trajectory_id: source.lift for source in sources if source.lift is not None},
            NearLeaks(list(queries_of(self.warehouse, self.at.run_id).values()), self.curate),
        )


@dataclass(frozen=True)
class DeriveExamples:
    """The work of one shard: derives supervised examples from judged trajectories, given by id."""

    warehouse: Warehouse
    at: StageRun
    origin: Origin
    rounds: tuple[int, ...]
    """The rounds of the trajectories."""
    trust_judge: bool
    """False uses every finished trajectory, whatever its judgement (an ablation)."""
    trust_step_critic: bool
    """False keeps the steps that the step critic found useless (an ablation)."""
    curate: CurateSpec
    """What is not learned from, though the judge accepted it."""

    def identity(self, trajectory_ids: Sequence[str]) -> object:
        """The trajectories, whether the judge and the step critic are trusted, and what is curated."""
        return [list(trajectory_ids), self.trust_judge, self.trust_step_critic, self.curate.identity()]

    def __call__(self, shard: str, trajectory_ids: Sequence[str]) -> WrittenFiles:
        """Write the examples of the trajectories."""
        episodes = read_episodes(
            self.warehouse,
            self.at.run_id,
            trajectory_ids,
            rounds=self.rounds,
            with_verdicts=True,
            with_guidance=True,
        )
        screens = WarehouseScreens(self.warehouse)
        rows: list[Example] = []
        dropped: Counter[str] = Counter()
        for episode in ShardProgress(self.at.staging(self.warehouse), shard).counted(episodes):
            trusted = as_trusted(episode, self.trust_judge, self.trust_step_critic)
            curated = curated_episode(trusted, self.curate, screens)
            dropped.update(one.reason for one in curated.dropped)
            if curated.episode is not None:
                made = end_to_end_examples(curated.episode, screens.size, self.origin)
                rows.extend(made.examples)
                dropped.update(one.reason for one in made.dropped)
        return WrittenFiles(write_tables(self.warehouse, self.at, {"examples": rows}, shard), dropped)
