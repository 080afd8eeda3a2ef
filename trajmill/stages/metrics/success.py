"""Success of a policy per split, false completes, and side effects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from trajmill.schemas.tables.policy_version import SplitSuccess
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.trajectory import Trajectory


class MeasuredEpisode(NamedTuple):
    """One episode with a reward."""

    split: Split
    success: bool


def success_by_split(episodes: Iterable[MeasuredEpisode]) -> tuple[SplitSuccess, ...]:
    """Count successes per split, in the order of the splits' names; splits without episodes are left out."""
    counts: dict[Split, list[bool]] = {}
    for episode in episodes:
        counts.setdefault(episode.split, []).append(episode.success)
    return tuple(
        SplitSuccess(split=split, queries=len(counts[split]), successes=sum(counts[split])) for split in sorted(counts)
    )


def false_complete_rate(attempts: Iterable[Trajectory]) -> float | None:
    """Return the share of checked attempts with a wrong report of success; None without a checked attempt."""
    reports = [each.false_complete for each in attempts if each.false_complete is not None]
    return sum(reports) / len(reports) if reports else None


def side_effect_rate(attempts: Iterable[Trajectory]) -> float | None:
    """Return the share of attempts that changed state beyond the goal; None where no environment compared states."""
    compared = [bool(each.side_effects) for each in attempts if each.side_effects is not None]
    return sum(compared) / len(compared) if compared else None
