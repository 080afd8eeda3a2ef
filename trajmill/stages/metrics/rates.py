"""Rates of success per split."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from trajmill.schemas.tables.policy_version import SplitSuccess
from trajmill.schemas.tables.query import Split


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
