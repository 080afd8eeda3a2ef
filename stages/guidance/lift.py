"""What guidance is worth: success with and without it, over the same queries."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from trajmill.schemas.episode import Episode


class Lift(NamedTuple):
    """Success over the queries that were tried both ways, each query counting once."""

    queries: int
    without: float
    """Mean success rate without guidance, 0 to 1."""
    guided: float
    """Mean success rate with guidance, 0 to 1."""
    low: float
    """Lower end of the 95 % interval of the paired difference."""
    high: float
    """Upper end of it."""


def guidance_lift(episodes: Iterable[Episode]) -> Lift:
    """Paired success with and without guidance; queries that were not tried both ways are left out.

    Queries get guidance *because* they failed, so attempts from before that show less success than there is. Hand in
    attempts of the same round, made by the same policy, for a fair comparison. Episodes without a reward are left out.
    """
    rewards: dict[str, tuple[list[float], list[float]]] = {}
    for episode in episodes:
        trajectory = episode.trajectory
        if trajectory.reward is not None:
            pair = rewards.setdefault(trajectory.query_id, ([], []))
            pair[trajectory.guidance_id is not None].append(trajectory.reward)
    means = [(_mean(without), _mean(guided)) for without, guided in rewards.values() if without and guided]
    if not means:
        return Lift(0, 0.0, 0.0, 0.0, 0.0)
    gains = [guided - without for without, guided in means]
    gain, half = _mean(gains), _half_width(gains)
    without, guided = _mean([pair[0] for pair in means]), _mean([pair[1] for pair in means])
    return Lift(len(means), without, guided, gain - half, gain + half)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _half_width(values: list[float]) -> float:
    """Half of the 95 % interval of the mean, by the normal approximation; infinite for a single value."""
    if len(values) < 2:
        return math.inf
    middle = _mean(values)
    variance = sum((value - middle) ** 2 for value in values) / (len(values) - 1)
    return 1.959964 * math.sqrt(variance / len(values))
