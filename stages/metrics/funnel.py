"""How many rows went into each stage of a round, how many came out, and what became of the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from schemas.round_summary import StageCount


class FunnelRow(NamedTuple):
    """One stage of the funnel."""

    stage: str
    rows_in: int
    rows_out: int
    dropped: int
    """0 for a stage that makes more rows than it gets."""
    kept: float | None
    """Share of the rows that stayed; None where none came in or rows were made."""


class ReasonCount(NamedTuple):
    """How many rows one reason left out."""

    reason: str
    rows: int


def funnel(stages: Iterable[StageCount]) -> tuple[FunnelRow, ...]:
    """The stages of a round in their order."""
    return tuple(_row(stage) for stage in stages)


def reason_counts(reasons: Iterable[str]) -> tuple[ReasonCount, ...]:
    """Reasons with their counts, the most frequent first, equal ones by name."""
    counted = Counter(reasons)
    return tuple(ReasonCount(reason, counted[reason]) for reason in sorted(counted, key=lambda r: (-counted[r], r)))


def _row(stage: StageCount) -> FunnelRow:
    filters = stage.rows_in > 0 and stage.rows_out <= stage.rows_in
    dropped = max(0, stage.rows_in - stage.rows_out)
    return FunnelRow(
        stage.stage, stage.rows_in, stage.rows_out, dropped, stage.rows_out / stage.rows_in if filters else None
    )
