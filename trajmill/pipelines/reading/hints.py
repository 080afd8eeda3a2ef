"""Reads the hints that some trajectories were given."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from trajmill.pipelines.reading.newest_first import Wanted, values_by_id
from trajmill.schemas.record import Origin
from trajmill.warehouse.layout import Warehouse


def hints_of(
    warehouse: Warehouse, origin: Origin, trajectory_ids: Collection[str], rounds: Collection[int]
) -> Mapping[str, str]:
    """Read the hints by trajectory id; a trajectory without guidance has none.

    Args:
        warehouse: where to read.
        origin: the run, and the last round of the trajectories.
        trajectory_ids: the trajectories.
        rounds: where most of them are.
    """
    wanted = Wanted("trajectories", "trajectory_id", "guidance_id")
    guided = values_by_id(warehouse, origin, wanted, trajectory_ids, rounds)
    given = {trajectory_id: guidance_id for trajectory_id, guidance_id in guided.items() if guidance_id}
    latest = (origin.round, origin.round - 1)
    texts = values_by_id(warehouse, origin, Wanted("guidance", "guidance_id", "text"), set(given.values()), latest)
    return {trajectory_id: texts[guidance_id] or "" for trajectory_id, guidance_id in given.items()}
