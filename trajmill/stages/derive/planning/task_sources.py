"""What a manual is made from beside its own trajectory, and how guidance did at its task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.stages.curate.leaks import NearLeaks


class GuidanceLift(NamedTuple):
    """Success at the queries of one task that were attempted with and without guidance in one round."""

    without: float
    guided: float

    @property
    def tells_nothing(self) -> bool:
        """Whether all attempts succeeded without guidance, so that it could raise nothing."""
        return self.without >= 1.0


class TaskSources(NamedTuple):
    """What the derivers of a shard know about the tasks of their trajectories."""

    others: Mapping[str, tuple[Episode, ...]]
    """By trajectory, further successes of its task."""
    lifts: Mapping[str, GuidanceLift]
    """By trajectory, how guidance did at its task; absent where no query was attempted in both ways."""
    leaks: NearLeaks
    """The held-out instructions."""
