"""The runs of a warehouse and the figures of their rounds."""

from __future__ import annotations

from datetime import datetime

from trajmill.flows.report.figures import SPLIT_NAMES
from trajmill.flows.viewer.catalogue import Catalogue
from trajmill.schemas.record import Record
from trajmill.schemas.tables.policy_version import SplitSuccess
from trajmill.schemas.tables.registry import arrow_schema, rows_from_arrow
from trajmill.schemas.tables.round_summary import JudgeQuality, RoundSummary, StageCount
from trajmill.stages.critics.calibration.agreement import agreement
from trajmill.stages.metrics.intervals import wilson
from trajmill.warehouse.columns import WRITTEN_AT
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table


class SplitShare(Record):
    """Success on one split, with its 95 % interval (Wilson)."""

    split: str
    name: str
    share: float
    low: float
    high: float
    queries: int


class JudgeShare(Record):
    """Agreement of the judge or one of its parts with the environment's own check."""

    level: str
    precision: float | None
    recall: float | None
    kappa: float | None
    n: int


class RoundCard(Record):
    """One round that has ended."""

    round: int
    written_at: datetime | None
    policy_before: str
    policy_after: str
    trained: bool
    reason: str | None
    release: str
    before: list[SplitShare]
    success: list[SplitShare]
    judge: list[JudgeShare]
    stages: list[StageCount]


class AttemptCount(Record):
    """Attempts of one round by purpose; those that were judged correct, and those that could not be counted."""

    round: int
    purpose: str
    attempts: int
    passed: int
    accepted: int
    void: int


class RunCard(Record):
    """One run."""

    run_id: str
    attempts: int
    steps: int
    first: datetime | None
    last: datetime | None
    counts: list[AttemptCount]
    rounds: list[RoundCard]
    """In order; a round that has not ended yet is only in `counts`."""


def run_cards(warehouse: Warehouse, catalogue: Catalogue) -> list[RunCard]:
    """All runs, the one whose attempts landed last first."""
    rounds = _rounds(warehouse)
    counts = catalogue.ask(_COUNTS, [])
    return [
        RunCard(
            **run,
            counts=[
                AttemptCount.model_validate({key: row[key] for key in AttemptCount.model_fields})
                for row in counts
                if row["run_id"] == run["run_id"]
            ],
            rounds=rounds.get(run["run_id"], []),
        )
        for run in catalogue.ask(_RUNS, [])
    ]


_RUNS = """
SELECT run_id, count(*) AS attempts, sum(steps)::BIGINT AS steps, min(written_at) AS first, max(written_at) AS last
FROM attempts GROUP BY run_id ORDER BY max(place) DESC
"""
_COUNTS = """
SELECT run_id, round, purpose, count(*) AS attempts, count(*) FILTER (outcome = 'passed') AS passed,
    count(*) FILTER (judged = 'correct') AS accepted, count(*) FILTER (outcome = 'void') AS void
FROM attempts GROUP BY ALL ORDER BY run_id, round, purpose
"""


def _rounds(warehouse: Warehouse) -> dict[str, list[RoundCard]]:
    rows = read_table(warehouse, "rounds", [*arrow_schema("rounds").names, WRITTEN_AT.name])
    summaries = [row for row in rows_from_arrow("rounds", rows) if isinstance(row, RoundSummary)]
    found: dict[str, list[RoundCard]] = {}
    for summary, written_at in zip(summaries, rows[WRITTEN_AT.name].to_pylist(), strict=True):
        found.setdefault(summary.run_id, []).append(_card(summary, written_at))
    return {run: sorted(cards, key=lambda card: card.round) for run, cards in found.items()}


def _card(summary: RoundSummary, written_at: datetime | None) -> RoundCard:
    return RoundCard(
        round=summary.round,
        written_at=written_at,
        policy_before=summary.policy_before,
        policy_after=summary.policy_after,
        trained=summary.trained,
        reason=summary.reason,
        release=summary.release,
        before=_shares(summary.success_before),
        success=_shares(summary.success_after),
        judge=[_judge(quality) for quality in summary.judge],
        stages=list(summary.stages),
    )


def _shares(measured: tuple[SplitSuccess, ...]) -> list[SplitShare]:
    by_split = {entry.split: entry for entry in measured if entry.queries}
    shares = []
    for split, name in SPLIT_NAMES.items():
        if split in by_split:
            n, wins = by_split[split].queries, by_split[split].successes
            low, high = wilson(wins, n)
            shares.append(SplitShare(split=split, name=name, share=wins / n, low=low, high=high, queries=n))
    return shares


def _judge(quality: JudgeQuality) -> JudgeShare:
    found = agreement(quality)
    n = quality.true_positive + quality.false_positive + quality.true_negative + quality.false_negative
    return JudgeShare(
        level=quality.level, precision=found.precision.value, recall=found.recall.value, kappa=found.kappa, n=n
    )
