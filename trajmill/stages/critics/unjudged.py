"""Decides which trajectories are judged again after no critic could judge them.

A critic fails when its server is down or its answers are not valid. Such a trajectory has failures and no judgement. It
is judged again in later rounds, but not for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

TRIED_AT_MOST = 3
"""Tries after which a trajectory is given up."""


class Unjudged(NamedTuple):
    """A trajectory of an earlier round that is to be judged again."""

    round: int
    """The round of its attempt."""
    trajectory_id: str
    tried: int
    """Number of tries that failed."""


def still_to_judge(
    trajectory_ids: Iterable[str], failed_tries: Mapping[str, int], judged: Collection[str]
) -> dict[str, int]:
    """The trajectories that have no judgement and are not given up, in their order, with the number of failed tries."""
    return {
        trajectory_id: failed_tries.get(trajectory_id, 0)
        for trajectory_id in trajectory_ids
        if trajectory_id not in judged and failed_tries.get(trajectory_id, 0) < TRIED_AT_MOST
    }


def to_judge_again(
    rounds: Mapping[str, int], failed_tries: Mapping[str, int], judged: Collection[str]
) -> list[Unjudged]:
    """The trajectories that failed to be judged and are to be judged again, sorted by round and id.

    Args:
        rounds: by trajectory id, the round of the attempt.
        failed_tries: by trajectory id, how often judging failed.
        judged: ids of the trajectories that have a judgement.
    """
    failed = [trajectory_id for trajectory_id in rounds if failed_tries.get(trajectory_id, 0)]
    return sorted(
        Unjudged(rounds[trajectory_id], trajectory_id, tries)
        for trajectory_id, tries in still_to_judge(failed, failed_tries, judged).items()
    )
