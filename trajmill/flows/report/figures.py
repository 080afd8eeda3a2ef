"""The report's figures, read from the warehouse's DuckDB views alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import duckdb

from trajmill.flows.report.charts import Bar, Segment, Series, Share
from trajmill.stages.metrics.intervals import wilson
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.store.connection import unreadable
from trajmill.warehouse.views import connect

SPLIT_NAMES = {
    "train": "training queries",
    "heldout_slots": "new slot values",
    "heldout_phrasings": "new phrasings",
    "heldout_apps": "new apps",
    "validation": "validation",
}
"""Names of the splits on the page, in order."""

_NAMED_STAGES = 9
"""Number of stages that have their own colour."""


class Tile(NamedTuple):
    """Success on one split at the run's start and now."""

    name: str
    before: Share
    after: Share


class FunnelRow(NamedTuple):
    """One stage in all rounds."""

    stage: str
    cells: tuple[FunnelCell | None, ...]
    """One for each round, None where the stage did not run."""


class FunnelCell(NamedTuple):
    """Rows into and out of a stage in one round."""

    rows_in: int
    rows_out: int


class JudgeCell(NamedTuple):
    """Agreement of a judge with the programmatic check in one round."""

    precision: float | None
    recall: float | None
    kappa: float | None
    n: int


class JudgeColumn(NamedTuple):
    """One level of judging in all rounds."""

    level: str
    cells: tuple[JudgeCell | None, ...]
    """One for each round, None where the level was not measured."""


class LiftRow(NamedTuple):
    """Guided queries of one round."""

    round: int
    queries: int
    compared: int
    """Those that were attempted without guidance, too, in the same round."""
    success_without: float | None
    success_with: float | None
    reference_paths_used: int


class ModelRow(NamedTuple):
    """One policy version."""

    round: int
    model_version: str
    parent: str | None
    promoted: bool
    reason: str
    updates: int
    release: str | None
    train: float | None
    heldout_slots: float | None
    heldout_phrasings: float | None
    heldout_apps: float | None


class FailureRow(NamedTuple):
    """Failures of one class in one stage."""

    stage: str
    failure_class: str
    failures: int
    example: str


class CriticRow(NamedTuple):
    """What one critic judged."""

    critic: str
    channel: str
    source: str
    """How the queries were made."""
    judged: int
    """Trajectories that it voted on."""
    correct: int


class PathwayRow(NamedTuple):
    """What was found in one program."""

    program: str
    pathways: int
    dialogs: int
    tabs: int
    need_selection: int
    seconds: float
    """Time until the last pathway was found."""
    per_second: float | None


class Totals(NamedTuple):
    """What the run has made."""

    trajectories: int
    steps: int
    screens: int
    examples: int
    seconds: float


@dataclass(frozen=True)
class Figures:
    """Everything that the report shows, except the trajectories."""

    run_id: str
    rounds: tuple[int, ...]
    totals: Totals
    tiles: tuple[Tile, ...]
    success: tuple[Series, ...]
    funnel: tuple[FunnelRow, ...]
    judge: tuple[JudgeColumn, ...]
    critics: tuple[CriticRow, ...]
    untrained_rounds: tuple[int, ...]
    """Rounds that did not train."""
    attempts: tuple[Series, ...]
    """Success of unguided and of guided attempts while collecting."""
    lift: tuple[LiftRow, ...]
    demonstrators: tuple[str, ...]
    """Agents that made guided attempts in place of the policy."""
    models: tuple[ModelRow, ...]
    seconds: tuple[Bar, ...]
    failures: tuple[FailureRow, ...]
    pathways: tuple[PathwayRow, ...]


def read_figures(warehouse: Warehouse, run_id: str) -> Figures:
    """The figures of one run. A run without rounds has empty ones.

    Raises:
        BadInputError: a committed file is missing or damaged.
    """
    try:
        with connect(warehouse) as views:
            return _figures(views, run_id)
    except (duckdb.InvalidInputException, duckdb.IOException) as error:
        raise unreadable(warehouse.address, error) from error


def _figures(views: duckdb.DuckDBPyConnection, run_id: str) -> Figures:
    rounds = tuple(row[0] for row in _rows(views, "SELECT round FROM rounds WHERE run_id = $1 ORDER BY 1", run_id))
    success = _success(views, run_id)
    return Figures(
        run_id=run_id,
        rounds=rounds,
        totals=_totals(views, run_id),
        tiles=tuple(Tile(line.name, line.points[0], line.points[-1]) for line in success),
        success=success,
        funnel=_funnel(views, run_id, rounds),
        judge=_judge(views, run_id, rounds),
        critics=tuple(CriticRow(*row) for row in _rows(views, _CRITICS, run_id)),
        untrained_rounds=tuple(row[0] for row in _rows(views, _UNTRAINED, run_id)),
        attempts=_attempts(views, run_id),
        lift=tuple(LiftRow(*row) for row in _rows(views, _LIFT, run_id)),
        demonstrators=tuple(agent for (agent,) in _rows(views, _DEMONSTRATORS, run_id)),
        models=tuple(ModelRow(*row) for row in _rows(views, _MODELS, run_id)),
        seconds=_seconds(views, run_id),
        failures=tuple(FailureRow(*row) for row in _rows(views, _FAILURES, run_id)),
        pathways=_pathways(views, run_id),
    )


def read_pathways(warehouse: Warehouse, run_id: str) -> tuple[PathwayRow, ...]:
    """What a run has found in each program."""
    with connect(warehouse) as views:
        return _pathways(views, run_id)


_JUDGE = "SELECT round, level, precision, recall, kappa, n FROM judge_by_round WHERE run_id = $1"
_CRITICS = """
SELECT v.made_by, v.channel, q.source, count(DISTINCT v.trajectory_id)::BIGINT,
    count(DISTINCT v.trajectory_id) FILTER (WHERE v.correct)::BIGINT
FROM trajectory_verdicts AS v
JOIN trajectories AS t USING (run_id, trajectory_id) JOIN queries AS q USING (run_id, query_id)
WHERE v.run_id = $1 GROUP BY ALL ORDER BY 2, 1, 3
"""
_UNTRAINED = "SELECT round FROM rounds WHERE run_id = $1 AND NOT trained ORDER BY round"
_LIFT = """
SELECT round, queries, compared, success_without, success_with, reference_paths_used
FROM guidance_lift JOIN rounds USING (run_id, round) WHERE run_id = $1 ORDER BY round
"""
_DEMONSTRATORS = """
SELECT DISTINCT agent FROM trajectories WHERE run_id = $1 AND purpose = 'guided' AND guidance_id IS NULL ORDER BY 1
"""
_MODELS = """
SELECT round, model_version, parent, promoted, reason, updates, release,
    train, heldout_slots, heldout_phrasings, heldout_apps
FROM model_versions WHERE run_id = $1 ORDER BY round, model_version
"""
_FAILURES = """
SELECT stage, failure_class, sum(failures)::BIGINT, min(example)
FROM failures_by_class WHERE run_id = $1 GROUP BY ALL ORDER BY 3 DESC, 1, 2
"""
_PATHWAYS = """
SELECT program, pathways, dialogs, tabs, need_selection, seconds, pathways_per_second
FROM pathways_by_program WHERE run_id = $1 ORDER BY program
"""
_SUCCESS = """
WITH measured AS (
    SELECT round, unnest(success_after, recursive := true) FROM rounds WHERE run_id = $1
    UNION ALL
    SELECT round - 1, unnest(success_before, recursive := true) FROM rounds
    WHERE run_id = $1 AND round = (SELECT min(round) FROM rounds WHERE run_id = $1)
)
SELECT split, round, successes, queries FROM measured WHERE queries > 0 ORDER BY round
"""
_ATTEMPTS = """
SELECT purpose, round, count(*) FILTER (reward >= 1), count(*) FROM trajectories
WHERE run_id = $1 AND status = 'finished' AND reward IS NOT NULL AND purpose IN ('train', 'guided')
GROUP BY ALL ORDER BY round
"""
_TOTALS = """
SELECT (SELECT count(*) FROM trajectories WHERE run_id = $1), (SELECT count(*) FROM steps WHERE run_id = $1),
    (SELECT count(*) FROM screens WHERE run_id = $1), (SELECT count(*) FROM examples WHERE run_id = $1),
    (SELECT coalesce(sum(seconds), 0) FROM cost_by_stage WHERE run_id = $1)
"""
_FUNNEL = "SELECT stage, round, rows_in, rows_out FROM funnel WHERE run_id = $1"
_SECONDS = "SELECT round, stage, seconds FROM cost_by_stage WHERE run_id = $1"


def _rows(views: duckdb.DuckDBPyConnection, query: str, run_id: str) -> list[tuple[Any, ...]]:
    return views.execute(query, [run_id]).fetchall()


def _totals(views: duckdb.DuckDBPyConnection, run_id: str) -> Totals:
    return Totals(*_rows(views, _TOTALS, run_id)[0])


def _pathways(views: duckdb.DuckDBPyConnection, run_id: str) -> tuple[PathwayRow, ...]:
    return tuple(PathwayRow(*row) for row in _rows(views, _PATHWAYS, run_id))


def _success(views: duckdb.DuckDBPyConnection, run_id: str) -> tuple[Series, ...]:
    return _series(_rows(views, _SUCCESS, run_id), SPLIT_NAMES)


def _attempts(views: duckdb.DuckDBPyConnection, run_id: str) -> tuple[Series, ...]:
    return _series(_rows(views, _ATTEMPTS, run_id), {"train": "without guidance", "guided": "with guidance"})


def _series(counts: list[tuple[Any, ...]], names: dict[str, str]) -> tuple[Series, ...]:
    lines = []
    for key, name in names.items():
        found = [row[1:] for row in counts if row[0] == key]
        if found:
            points = tuple(Share(number, wins / n, *wilson(wins, n)) for number, wins, n in found)
            lines.append(Series(name, points))
    return tuple(lines)


def _funnel(views: duckdb.DuckDBPyConnection, run_id: str, rounds: tuple[int, ...]) -> tuple[FunnelRow, ...]:
    cells: dict[str, dict[int, FunnelCell]] = {}
    for stage, number, rows_in, rows_out in _rows(views, _FUNNEL, run_id):
        cells.setdefault(stage, {})[number] = FunnelCell(rows_in, rows_out)
    return tuple(FunnelRow(stage, tuple(found.get(number) for number in rounds)) for stage, found in cells.items())


def _judge(views: duckdb.DuckDBPyConnection, run_id: str, rounds: tuple[int, ...]) -> tuple[JudgeColumn, ...]:
    cells: dict[str, dict[int, JudgeCell]] = {}
    for number, level, *figures in _rows(views, _JUDGE, run_id):
        cells.setdefault(level, {})[number] = JudgeCell(*figures)
    return tuple(JudgeColumn(level, tuple(found.get(number) for number in rounds)) for level, found in cells.items())


def _seconds(views: duckdb.DuckDBPyConnection, run_id: str) -> tuple[Bar, ...]:
    """A bar for each round; the stages that took least time are one segment together."""
    rows = _rows(views, _SECONDS, run_id)
    totals: Counter[str] = Counter()
    for _, stage, seconds in rows:
        totals[stage] += seconds
    named = {stage for stage, _ in totals.most_common(_NAMED_STAGES)}
    segments: dict[int, list[Segment]] = {}
    rest: dict[int, float] = defaultdict(float)
    for number, stage, seconds in rows:
        segments.setdefault(number, []).extend([Segment(stage, seconds)] if stage in named else [])
        rest[number] += seconds if stage not in named else 0.0
    return tuple(
        Bar(
            f"round {number}",
            (*parts, Segment("the rest", rest[number])),
            f"{sum(part.amount for part in parts) + rest[number]:.1f} s",
        )
        for number, parts in segments.items()
    )
