"""The runs of a warehouse and the figures of their rounds."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal

import pyarrow.dataset as ds

from trajmill.flows.report.figures import SPLIT_NAMES
from trajmill.flows.viewer.catalogue import Catalogue
from trajmill.flows.viewer.listing import AttemptFilter
from trajmill.schemas.record import Record
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.policy_version import SplitSuccess
from trajmill.schemas.tables.registry import arrow_schema, rows_from_arrow
from trajmill.schemas.tables.rl_step import RLStep
from trajmill.schemas.tables.round_summary import JudgeQuality, RoundSummary, StageCount
from trajmill.stages.critics.calibration.agreement import agreement
from trajmill.stages.export.selection import SELECTION_FILE
from trajmill.stages.export.sft import SFT_FILE
from trajmill.stages.metrics.intervals import wilson
from trajmill.warehouse.columns import WRITTEN_AT
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import Release, read_release, release_folder, release_names

Group = Literal["app", "task", "split"]
_NAMES: dict[Group, str] = {"app": "unnest(apps)", "task": "task", "split": "split"}


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


class SuccessCell(Record):
    """Success of some checked attempts of one round."""

    name: str
    """An app, a task or a split."""
    round: int
    passed: int
    attempts: int
    """Those that the environment itself has checked; void ones are left out."""


def success_over_rounds(catalogue: Catalogue, wanted: AttemptFilter, group: Group) -> list[SuccessCell]:
    """Success of the attempts that match, in order of names and rounds; an attempt counts for each of its apps."""
    condition = wanted.condition()
    rows = catalogue.ask(
        f"SELECT name, round, count(*) FILTER (outcome = 'passed') AS passed, count(*) AS attempts "
        f"FROM (SELECT {_NAMES[group]} AS name, round, outcome FROM attempts "
        f"WHERE {condition.sql} AND outcome IN ('passed', 'not passed')) "
        "WHERE name IS NOT NULL GROUP BY name, round ORDER BY name, round",
        condition.parameters,
    )
    return [SuccessCell.model_validate(row) for row in rows]


class TrainingRow(Record):
    """One training example."""

    example: Example
    releases: list[str]
    """Names of the releases that offer it."""


class TrainingRows(Record):
    """What is learned from one trajectory."""

    examples: list[TrainingRow]
    rl_steps: list[RLStep]
    """Rows for policy updates."""


def training_rows(warehouse: Warehouse, run_id: str, trajectory_id: str) -> TrainingRows:
    """Read the examples and the rows for policy updates of a trajectory.

    Raises:
        BadInputError: a committed file, or the manifest of a release, is missing or damaged.
    """
    where = {"trajectory_id": [trajectory_id]}
    data = read_table(warehouse, "examples", run_id=run_id, where=where)
    examples = [row for row in rows_from_arrow("examples", data) if isinstance(row, Example)]
    rl_steps = rows_from_arrow("rl_steps", read_table(warehouse, "rl_steps", run_id=run_id, where=where))
    ids = [example.example_id for example in examples]
    offered = {name: _offered(warehouse, name, run_id, ids) for name in (release_names(warehouse) if ids else ())}
    return TrainingRows(
        examples=[
            TrainingRow(
                example=example, releases=[name for name, found in offered.items() if example.example_id in found]
            )
            for example in sorted(examples, key=lambda row: (row.step_index, row.kind))
        ],
        rl_steps=sorted(
            (row for row in rl_steps if isinstance(row, RLStep)), key=lambda row: (row.round, row.step_index)
        ),
    )


def _offered(warehouse: Warehouse, name: str, run_id: str, ids: list[str]) -> set[str]:
    """Those of some examples that a release offers."""
    release = read_release(warehouse, name)
    if release.run_id != run_id:
        return set()
    dataset = ds.dataset([str(path) for path in _id_files(warehouse, release)], format="parquet")
    wanted = ds.field("example_id").isin(ids)
    return set(dataset.to_table(columns=["example_id"], filter=wanted)["example_id"].to_pylist())


def _id_files(warehouse: Warehouse, release: Release) -> list[Path]:
    """The file that names the examples of a release; one of an earlier trajmill names them beside their rows."""
    folder = release_folder(warehouse, release.name)
    places = [folder / SELECTION_FILE, folder / SFT_FILE]
    return [place for place in places if place.is_file()][:1]
