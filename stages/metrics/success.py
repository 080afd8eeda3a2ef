"""Success of a policy per split, with the interval that says how much of it could be chance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from schemas.policy_version import SplitSuccess
from schemas.query import Split
from stages.metrics.intervals import Interval, wilson


class Outcome(NamedTuple):
    """One measured episode; a void one (no reward) is no outcome."""

    split: Split
    success: bool


class SuccessRate(NamedTuple):
    """The share of measured episodes that succeeded."""

    value: float | None
    """None where nothing was measured."""
    interval: Interval
    """95 %."""
    n: int


def success_by_split(outcomes: Iterable[Outcome]) -> tuple[SplitSuccess, ...]:
    """Count successes per split, in the order in which `Split` names them; splits without outcomes are left out."""
    counts: dict[Split, list[bool]] = {}
    for outcome in outcomes:
        counts.setdefault(outcome.split, []).append(outcome.success)
    return tuple(
        SplitSuccess(split=split, queries=len(counts[split]), successes=sum(counts[split]))
        for split in Split
        if split in counts
    )


def success_rate(entry: SplitSuccess) -> SuccessRate:
    """The rate that the counts of one split stand for, with its Wilson interval."""
    value = entry.successes / entry.queries if entry.queries else None
    return SuccessRate(value, wilson(entry.successes, entry.queries), entry.queries)


def pooled(entries: Iterable[SplitSuccess], splits: Iterable[Split]) -> SuccessRate:
    """The rate over several splits together; each episode counts once."""
    wanted = set(splits)
    chosen = [entry for entry in entries if entry.split in wanted]
    total = SplitSuccess(
        split="+".join(sorted(wanted)),
        queries=sum(entry.queries for entry in chosen),
        successes=sum(entry.successes for entry in chosen),
    )
    return success_rate(total)
