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
    """The parts of one trajectory's reward; they are stored beside their sum."""

    accuracy: float
    """1 if the trajectory was judged correct, else 0."""
    format: float
    """-0.5 times the share of replies that could not be parsed."""

    @property
    def total(self) -> float:
        """Accuracy plus format."""
        return self.accuracy + self.format


def reward_of(correct: bool, malformed: int, steps: int) -> TrajectoryReward:
    """The reward of a trajectory.

    Args:
        correct: what it was judged.
        malformed: how many of its replies could not be parsed.
        steps: how many it has; at least one, if any is malformed.
    """
    return TrajectoryReward(float(correct), MALFORMED_PENALTY * malformed / steps if malformed else 0.0)


class RewardMoments(NamedTuple):
    """Mean and mean square of some rewards."""

    mean: float
    mean_square: float

    @property
    def deviation(self) -> float:
        """The population standard deviation of the rewards."""
        return math.sqrt(max(0.0, self.mean_square - self.mean**2))

    @property
    def have_spread(self) -> bool:
        """Whether any two of the rewards differ."""
        return self.deviation >= _EPSILON

    def advantage(self, reward: float) -> float:
        """(R - mean) / (deviation + epsilon) of paper 3.1.2; 0 where no two rewards differ."""
        if not self.have_spread:
            return 0.0
        return (reward - self.mean) / (self.deviation + _EPSILON)


def moments(rewards: Sequence[float]) -> RewardMoments:
    """The moments of at least one reward."""
    return RewardMoments(math.fsum(rewards) / len(rewards), math.fsum(r * r for r in rewards) / len(rewards))


def running_moments(batches: Iterable[RewardMoments]) -> RewardMoments | None:
    """The running moments after the moments of batches of trajectory rewards, oldest first; None without any.

    Each batch weighs half as much as the batch after it. This is a pure function of stored rewards, so a restarted run
    gets the same moments.
    """
    running: RewardMoments | None = None
    for batch in batches:
        if running is None:
            running = batch
        else:
            running = RewardMoments(
                _DECAY * running.mean + (1 - _DECAY) * batch.mean,
                _DECAY * running.mean_square + (1 - _DECAY) * batch.mean_square,
            )
    return running
