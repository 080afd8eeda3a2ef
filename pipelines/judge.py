"""Judges committed trajectories, shard by shard."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.critics import JudgeSpec
from pipelines.episodes import read_episodes
from pipelines.fan_out import ShardOutput
from schemas.model_call import ModelCall
from schemas.record import Origin, Row
from schemas.tables import rows_to_arrow
from stages.critics.judge import Judged, judge_episodes
from warehouse.layout import StageRun, Warehouse
from warehouse.screens import WarehouseScreens
from warehouse.shards import write_shard


@dataclass(frozen=True)
class JudgeTrajectories:
    """The work of one shard: ids of trajectories of a run."""

    warehouse: Warehouse
    at: StageRun
    origin: Origin
    judge: JudgeSpec
    rounds: tuple[int, ...]
    """The rounds that the trajectories are of."""
    concurrency: int
    """Trajectories under judgement at once."""

    def __call__(self, shard: int, trajectory_ids: Sequence[str]) -> ShardOutput:
        """Judge the trajectories and write their verdicts, judgements, model calls and failures."""
        calls: list[ModelCall] = []
        judged = asyncio.run(self._judge(trajectory_ids, calls))
        rows: dict[str, Sequence[Row]] = {
            "model_calls": calls,
            "step_verdicts": [verdict for episode in judged.episodes for verdict in episode.step_verdicts],
            "trajectory_verdicts": [verdict for episode in judged.episodes for verdict in episode.trajectory_verdicts],
            "judgements": [episode.judgement for episode in judged.episodes if episode.judgement],
            "failures": judged.failures,
        }
        return ShardOutput(
            {
                table: write_shard(self.warehouse, table, self.at, shard, rows_to_arrow(table, records))
                for table, records in rows.items()
                if records
            }
        )

    async def _judge(self, trajectory_ids: Sequence[str], calls: list[ModelCall]) -> Judged:
        episodes = read_episodes(self.warehouse, self.at.run_id, trajectory_ids, rounds=self.rounds)
        screens = WarehouseScreens(self.warehouse)
        async with self.judge.open(self.origin, calls.append) as judge:
            return await judge_episodes(episodes, judge, screens, self.origin, self.concurrency)
