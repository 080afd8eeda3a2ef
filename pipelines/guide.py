"""Writes guidance from committed trajectories."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.episodes import read_episodes
from pipelines.fan_out import ShardOutput
from schemas.failure import Failure
from schemas.guidance import Guidance
from schemas.record import Origin
from schemas.tables import rows_to_arrow
from stages.guidance.base import OWN_SUCCESS, REFERENCE_PATH
from stages.guidance.write import write_guidance
from warehouse.layout import StageRun, Warehouse
from warehouse.screens import WarehouseScreens
from warehouse.shards import write_shard


@dataclass(frozen=True)
class WriteGuidance:
    """The work of one shard: ids of the trajectories to write from."""

    warehouse: Warehouse
    at: StageRun
    origin: Origin
    references: frozenset[str]
    """Those of the trajectories that walk the annotated path; the others are successes of the policy."""

    def __call__(self, shard: int, trajectory_ids: Sequence[str]) -> ShardOutput:
        """Write guidance, and a failure for each trajectory that gives none."""
        written = asyncio.run(self._write(trajectory_ids))
        rows: dict[str, list[Guidance] | list[Failure]] = {
            "guidance": [row for row in written if isinstance(row, Guidance)],
            "failures": [row for row in written if isinstance(row, Failure)],
        }
        return ShardOutput(
            {
                table: write_shard(self.warehouse, table, self.at, shard, rows_to_arrow(table, records))
                for table, records in rows.items()
            }
        )

    async def _write(self, trajectory_ids: Sequence[str]) -> list[Guidance | Failure]:
        screens = WarehouseScreens(self.warehouse)
        episodes = read_episodes(self.warehouse, self.at.run_id, trajectory_ids, with_verdicts=True)
        return [
            await write_guidance(
                episode,
                screens,
                self.origin,
                REFERENCE_PATH if episode.trajectory.trajectory_id in self.references else OWN_SUCCESS,
            )
            for episode in episodes
        ]
