"""Reads how the rewards of each earlier round were spread, from committed judgements and steps or from what is kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from pydantic import ValidationError

from trajmill.pipelines.reading.history import read_judged
from trajmill.pipelines.reading.kept_files import KeptFiles
from trajmill.pipelines.reading.kept_history import CoveredFiles
from trajmill.pipelines.reading.rewards import count_replies
from trajmill.schemas.record import Record
from trajmill.stages.derive.rewards import RewardMoments, moments, reward_of
from trajmill.warehouse.layout import Warehouse

_TABLES: Final = ("judgements", "trajectories", "steps")
_NAME: Final = "rewards"


class Excluded(NamedTuple):
    """Trajectories whose rewards do not count."""

    trajectory_ids: frozenset[str]
    since: int
    """The first of their rounds."""


class _KeptMoments(Record):
    files: tuple[str, ...]
    moments: dict[int, tuple[float, float]]
    """By round, the fields of `RewardMoments`."""


class _Known(NamedTuple):
    before: int
    moments: Mapping[int, RewardMoments]


class _Rewards(NamedTuple):
    by_round: Mapping[int, list[float]]
    of_other_rounds: bool
    """As in `JudgedRounds`."""


def reward_moments(warehouse: Warehouse, run_id: str, before: int, without: Excluded) -> list[RewardMoments]:
    """Read the moments of the rewards of all judged unguided attempts, by round, oldest first.

    Only rounds that nothing kept covers are read, and those that trajectories are excluded from.

    Args:
        warehouse: where to read.
        run_id: the run.
        before: the rounds before this one count.
        without: trajectories that do not count.
    """
    covered = CoveredFiles(warehouse, run_id, _TABLES)
    since = min(without.since, before)
    known = _kept(warehouse, run_id, since, covered)
    read = _rewards(warehouse, run_id, range(known.before, before), without.trajectory_ids)
    if read.of_other_rounds:
        known = _Known(0, {})
        read = _rewards(warehouse, run_id, range(before), without.trajectory_ids)
    new = {number: moments(rewards) for number, rewards in read.by_round.items()}
    found = {**known.moments, **new}
    # A judgement of a later round belongs to what is kept of that round alone.
    if known.before < since and (since == before or not read.of_other_rounds):
        whole = {number: (one.mean, one.mean_square) for number, one in found.items() if number < since}
        kept = _KeptMoments(files=covered.names(since), moments=whole)
        KeptFiles(warehouse, run_id, _NAME).keep(since, kept.model_dump_json().encode())
    return [found[number] for number in sorted(found)]


def _kept(warehouse: Warehouse, run_id: str, before: int, covered: CoveredFiles) -> _Known:
    for file in KeptFiles(warehouse, run_id, _NAME).newest_first(before):
        try:
            kept = _KeptMoments.model_validate_json(file.contents)
        except ValidationError:
            continue
        if kept.files == covered.names(file.before):
            return _Known(file.before, {number: RewardMoments(*one) for number, one in kept.moments.items()})
    return _Known(0, {})


def _rewards(warehouse: Warehouse, run_id: str, rounds: range, without: Collection[str]) -> _Rewards:
    if not rounds:
        return _Rewards({}, False)
    malformed = count_replies(warehouse, run_id, rounds).malformed
    judged = read_judged(warehouse, run_id, rounds)
    rewards: dict[int, list[float]] = {}
    for attempt in judged.attempts:
        if attempt.steps and not attempt.guided and attempt.trajectory_id not in without:
            reward = reward_of(attempt.correct, malformed[attempt.trajectory_id], attempt.steps)
            rewards.setdefault(attempt.round, []).append(reward.total)
    return _Rewards(rewards, judged.of_other_rounds)
