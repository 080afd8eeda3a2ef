"""The runs of a warehouse and the figures of their rounds."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow.dataset as ds

from trajmill.flows.report.figures import SPLIT_NAMES
from trajmill.flows.viewer.catalogue import Catalogue, Row
from trajmill.flows.viewer.listing import AttemptFilter
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.policy_version import SplitSuccess
from trajmill.schemas.tables.registry import arrow_schema, rows_from_arrow
from trajmill.schemas.tables.rl_step import RLStep
from trajmill.schemas.tables.round_summary import JudgeQuality, RoundSummary
from trajmill.stages.critics.calibration.agreement import agreement
from trajmill.stages.export.selection import SELECTION_FILE
from trajmill.stages.export.sft import SFT_FILE
from trajmill.stages.metrics.intervals import wilson
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import read_release, release_folder, release_names
from trajmill.warehouse.shards import WRITTEN_AT

Group = Literal["app", "task", "split"]
_NAMES: dict[Group, str] = {"app": "unnest(apps)", "task": "task", "split": "split"}
_RUNS = """
SELECT run_id, count(*) AS attempts, sum(steps)::BIGINT AS steps, min(written_at) AS first, max(written_at) AS last
FROM attempts GROUP BY run_id ORDER BY max(place) DESC
"""
_COUNTS = """
SELECT run_id, round, purpose, count(*) AS attempts, count(*) FILTER (outcome = 'passed') AS passed,
    count(*) FILTER (judged = 'correct') AS accepted, count(*) FILTER (outcome = 'void') AS void
FROM attempts GROUP BY ALL ORDER BY run_id, round, purpose
"""


def run_cards(warehouse: Warehouse, catalogue: Catalogue) -> list[Row]:
    """Return all runs with their attempts and rounds, the one whose attempts landed last first.

    A round that has not ended yet is only in `counts`.
    """
    stored = read_table(warehouse, "rounds", [*arrow_schema("rounds").names, WRITTEN_AT.name])
    rounds: dict[str, list[Row]] = {}
    for summary, written_at in zip(rows_from_arrow("rounds", stored), stored[WRITTEN_AT.name].to_pylist(), strict=True):
        assert isinstance(summary, RoundSummary)
        shown = {"round", "policy_before", "policy_after", "trained", "reason", "release", "stages"}
        card = summary.model_dump(include=shown) | {
            "written_at": written_at,
            "before": _shares(summary.success_before),
            "success": _shares(summary.success_after),
            "judge": [_judge(quality) for quality in summary.judge],
        }
        rounds.setdefault(summary.run_id, []).append(card)
    counts = catalogue.ask(_COUNTS, [])
    return [
        run
        | {
            "counts": [row for row in counts if row["run_id"] == run["run_id"]],
            "rounds": sorted(rounds.get(run["run_id"], []), key=lambda card: int(card["round"])),
        }
        for run in catalogue.ask(_RUNS, [])
    ]


def _shares(measured: tuple[SplitSuccess, ...]) -> list[Row]:
    """Return the success on each split, with its 95 % interval (Wilson)."""
    by_split = {entry.split: entry for entry in measured if entry.queries}
    shares = []
    for split, name in SPLIT_NAMES.items():
        if split in by_split:
            n, wins = by_split[split].queries, by_split[split].successes
            low, high = wilson(wins, n)
            shares.append({"split": split, "name": name, "share": wins / n, "low": low, "high": high, "queries": n})
    return shares


def _judge(quality: JudgeQuality) -> Row:
    found = agreement(quality)
    return {
        "level": quality.level,
        "precision": found.precision.value,
        "recall": found.recall.value,
        "kappa": found.kappa,
        "n": quality.true_positive + quality.false_positive + quality.true_negative + quality.false_negative,
    }


def success_over_rounds(catalogue: Catalogue, wanted: AttemptFilter, group: Group) -> list[Row]:
    """Count the matching attempts that the environment checked, by name and round; one counts for each of its apps."""
    condition = wanted.condition()
    return catalogue.ask(
        f"SELECT name, round, count(*) FILTER (outcome = 'passed') AS passed, count(*) AS attempts "
        f"FROM (SELECT {_NAMES[group]} AS name, round, outcome FROM attempts "
        f"WHERE {condition.sql} AND outcome IN ('passed', 'not passed')) "
        "WHERE name IS NOT NULL GROUP BY name, round ORDER BY name, round",
        condition.parameters,
    )


def training_rows(warehouse: Warehouse, run_id: str, trajectory_id: str) -> dict[str, Any]:
    """Return the examples of a trajectory, with the releases that offer them, and its rows for policy updates.

    Raises:
        BadInputError: a committed file, or the manifest of a release, is missing or damaged.
    """
    where = {"trajectory_id": [trajectory_id]}
    data = read_table(warehouse, "examples", run_id=run_id, where=where)
    examples = [row for row in rows_from_arrow("examples", data) if isinstance(row, Example)]
    rl_data = read_table(warehouse, "rl_steps", run_id=run_id, where=where)
    rl_steps = [row for row in rows_from_arrow("rl_steps", rl_data) if isinstance(row, RLStep)]
    ids = [example.example_id for example in examples]
    offered = {name: _offered(warehouse, name, run_id, ids) for name in (release_names(warehouse) if ids else ())}
    return {
        "examples": [
            {"example": example, "releases": [name for name, found in offered.items() if example.example_id in found]}
            for example in sorted(examples, key=lambda row: (row.step_index, row.kind))
        ],
        "rl_steps": sorted(rl_steps, key=lambda row: (row.round, row.step_index)),
    }


def _offered(warehouse: Warehouse, name: str, run_id: str, ids: list[str]) -> set[str]:
    """Return those of some examples that a release offers."""
    release = read_release(warehouse, name)
    if release.run_id != run_id:
        return set()
    folder = release_folder(warehouse, release.name)
    # A release of an earlier trajmill names its examples beside their rows.
    places = [folder / file for file in (SELECTION_FILE, SFT_FILE) if (folder / file).is_file()]
    dataset = ds.dataset([str(path) for path in places[:1]], format="parquet")
    wanted = ds.field("example_id").isin(ids)
    return set(dataset.to_table(columns=["example_id"], filter=wanted)["example_id"].to_pylist())
