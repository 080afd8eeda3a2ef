"""What the examples of an export are made from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from trajmill.pipelines.reading.episodes import read_episodes_of_rounds, rounds_of
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.episode import Episode
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.releases import Release
from trajmill.warehouse.screens import WarehouseScreens

TRAJECTORIES_AT_ONCE: Final = 250
"""Memory holds the texts of so many trajectories."""


class Exporting(NamedTuple):
    """A release that is exported."""

    warehouse: Warehouse
    release: Release
    family: Family
    """With the pixel budget that its model is trained with."""
    screens: WarehouseScreens
    folder: Path
    """Temporary files may lie here."""

    def rounds_of(self, trajectory_ids: Collection[str]) -> Mapping[str, int]:
        """The rounds of those trajectories that are stored, by id."""
        return rounds_of(self.warehouse, self.release.run_id, trajectory_ids, range(self.release.round + 1))

    def episodes(self, trajectory_ids: Collection[str], stored: Mapping[str, int]) -> Mapping[str, Episode]:
        """The episodes of some trajectories by id, with their verdicts and guidance.

        Args:
            trajectory_ids: those that were stored side by side are read together; others are looked up one by one.
            stored: the rounds of trajectories; one that is missing here has no episode.
        """
        chosen = {name: stored[name] for name in trajectory_ids if name in stored}
        read = read_episodes_of_rounds(
            self.warehouse,
            self.release.run_id,
            chosen,
            with_verdicts=True,
            with_guidance=True,
            judged_until=self.release.round,
        )
        return {episode.trajectory.trajectory_id: episode for episode in read}
