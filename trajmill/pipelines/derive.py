"""Derives supervised examples from judged trajectories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trajmill.pipelines.fan_out import WrittenFiles
from trajmill.pipelines.reading.episodes import read_episodes
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.example import Example
from trajmill.stages.curate.episodes import curated_episode
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.derive.base import as_trusted
from trajmill.stages.derive.end_to_end import end_to_end_examples
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.staging import ShardProgress


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
