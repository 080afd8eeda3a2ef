"""Judges committed trajectories, shard by shard."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.episodes import read_episodes
from pipelines.fan_out import ShardOutput
from schemas.record import Origin, Row
from schemas.tables import rows_to_arrow
from schemas.verdict import Channel
from stages.critics.base import TrajectoryCritic
from stages.critics.consensus import Judge
from stages.critics.judge import judge_episodes, state_judge
from stages.critics.noisy import NoisyChannel
from stages.critics.programmatic_channel import ProgrammaticChannel
from warehouse.layout import StageRun, Warehouse
from warehouse.screens import WarehouseScreens
from warehouse.shards import write_shard


@dataclass(frozen=True)
class JudgeSpec:
    """Which judge to build."""

    channels: tuple[Channel, ...]
    false_positive: float = 0.0
    """Noise per channel, for calibration studies."""
    false_negative: float = 0.0
    seed: int = 0

    def judge(self) -> Judge:
        """The judge: the embedded step critic and the channels asked for, in order."""
        embedded = state_judge()
        by_channel: dict[Channel, TrajectoryCritic] = {critic.channel: critic for critic in embedded.channels}
        by_channel[Channel.PROGRAMMATIC] = ProgrammaticChannel()
        return Judge(embedded.step_critic, tuple(self._disturbed(by_channel[channel]) for channel in self.channels))

    def _disturbed(self, critic: TrajectoryCritic) -> TrajectoryCritic:
        if self.false_positive == 0.0 and self.false_negative == 0.0:
            return critic
        return NoisyChannel(critic, self.false_positive, self.false_negative, self.seed)


@dataclass(frozen=True)
class JudgeTrajectories:
    """The work of one shard: ids of trajectories of one round."""

    warehouse: Warehouse
    at: StageRun
    origin: Origin
    judge: JudgeSpec

    def __call__(self, shard: int, trajectory_ids: Sequence[str]) -> ShardOutput:
        """Judge the trajectories and write their verdicts, judgements and failures."""
        episodes = read_episodes(self.warehouse, self.at.run_id, trajectory_ids, rounds=[self.at.round])
        screens = WarehouseScreens(self.warehouse)
        judged = asyncio.run(judge_episodes(episodes, self.judge.judge(), screens, self.origin))
        rows: dict[str, Sequence[Row]] = {
            "step_verdicts": [verdict for episode in judged.episodes for verdict in episode.step_verdicts],
            "trajectory_verdicts": [verdict for episode in judged.episodes for verdict in episode.trajectory_verdicts],
            "judgements": [episode.judgement for episode in judged.episodes if episode.judgement],
            "failures": judged.failures,
        }
        return ShardOutput(
            {
                table: write_shard(self.warehouse, table, self.at, shard, rows_to_arrow(table, records))
                for table, records in rows.items()
            }
        )
