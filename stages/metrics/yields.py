"""What a round's effort bought: time and money per accepted trajectory, and where the time went."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from schemas.round_summary import StageCount


class Effort(NamedTuple):
    """What a round took."""

    seconds: float
    cost: float
    """In the currency of the configuration."""


class Yield(NamedTuple):
    """What it took per accepted trajectory; None where none was accepted."""

    accepted: float | None
    """Share of the attempts that were accepted; None where none was made."""
    seconds: float | None
    cost: float | None


class TimeShare(NamedTuple):
    """The part of a round's time that one stage took."""

    stage: str
    share: float


def effort(stages: Iterable[StageCount]) -> Effort:
    """Seconds and cost of all stages together."""
    seconds = cost = 0.0
    for stage in stages:
        seconds += stage.seconds
        cost += stage.cost
    return Effort(seconds, cost)


def yield_of(spent: Effort, attempts: int, accepted: int) -> Yield:
    """Acceptance, and effort per accepted trajectory."""
    share = accepted / attempts if attempts else None
    if not accepted:
        return Yield(share, None, None)
    return Yield(share, spent.seconds / accepted, spent.cost / accepted)


def time_shares(stages: Sequence[StageCount]) -> tuple[TimeShare, ...]:
    """Each stage's share of the time, in the order of the stages; all 0 where no time was measured."""
    total = effort(stages).seconds
    return tuple(TimeShare(stage.stage, stage.seconds / total if total else 0.0) for stage in stages)
