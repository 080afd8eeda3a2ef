"""The reward of a trajectory, and its normalisation within a group or over all trajectories so far (paper 3.1.2)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MALFORMED_PENALTY = -0.5
"""Format reward of a trajectory without any well-formed action (paper 3.1.2)."""
_DECAY = 0.5
"""Weight of the earlier batches in the running moments when a new batch arrives; the policy changes between rounds."""
_EPSILON = 1e-6


class TrajectoryReward(NamedTuple):
    accuracy: float
    """1 if the trajectory was judged correct, else 0."""
    format: float
    """-0.5 times the share of replies that could not be parsed."""

    @property
    def total(self) -> float:
        return self.accuracy + self.format


def reward_of(correct: bool, malformed: int, steps: int) -> TrajectoryReward:
    return TrajectoryReward(float(correct), MALFORMED_PENALTY * malformed / steps if malformed else 0.0)


class RewardMoments(NamedTuple):
    mean: float
    mean_square: float

    @property
    def deviation(self) -> float:
        return math.sqrt(max(0.0, self.mean_square - self.mean**2))

    @property
    def have_spread(self) -> bool:
        return self.deviation >= _EPSILON

    def advantage(self, reward: float) -> float:
        """Return (R - mean) / (deviation + epsilon) of paper 3.1.2; 0 where no two rewards differ."""
        return (reward - self.mean) / (self.deviation + _EPSILON) if self.have_spread else 0.0


def moments(rewards: Sequence[float]) -> RewardMoments:
    return RewardMoments(math.fsum(rewards) / len(rewards), math.fsum(r * r for r in rewards) / len(rewards))


def running_moments(batches: Iterable[RewardMoments]) -> RewardMoments | None:
    """Return the running moments of batches, oldest first; each batch weighs half as much as the one after it."""
    running: RewardMoments | None = None
    for batch in batches:
        pairs = zip(running or batch, batch, strict=True)
        mixed = RewardMoments(*(_DECAY * old + (1 - _DECAY) * new for old, new in pairs))
        running = batch if running is None else mixed
    return running
