"""The report's details: dates and cost of rounds, success by app and task, disagreements, failures, configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import duckdb

from trajmill.flows.new_run import IDENTITY_FILE, flat_keys
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.views import connect

_MOST_ROUNDS = 8
_MOST_TASKS = 12
_MOST_ROWS = 10


class RoundRow(NamedTuple):
    """One round: when it ended, and what it took."""

    round: int
    ended: datetime | None
    """UTC; None for a round of an earlier trajmill."""
    trained: bool
    accepted: int | None
    seconds: float
    cost: float
    cost_per_accepted: float | None
    decision: str | None


class EarlierVersion(NamedTuple):
    """A round whose attempts were made by another version than the one that was then trained on them."""

    round: int
    acted: str
    """The version that made them."""
    trained: str
    """The version that was trained on them."""


class ShareRow(NamedTuple):
    """Success on the queries of one app or task."""

    name: str
    shares: tuple[float | None, ...]
    """One for each round that is shown."""


class ShareTable(NamedTuple):
    """Measured success over the rounds."""

    rounds: tuple[int, ...]
    """The last ones."""
    rows: tuple[ShareRow, ...]


class DisagreementRow(NamedTuple):
    """A trajectory on which the judge and the environment's own check differ."""

    round: int
    trajectory_id: str
    instruction: str
    judged_correct: bool
    reasons: str | None


class FailingRow(NamedTuple):
    """A failing trajectory of the last round."""

    trajectory_id: str
    purpose: str
    instruction: str
    steps: int
    stop_reason: str
    first_error_step: int | None
    """Counted from 1; None if the judge names none."""


class ReportDetails(NamedTuple):
    """What the report says beside its figures."""

    rounds: tuple[RoundRow, ...]
    earlier_versions: tuple[EarlierVersion, ...]
    apps: ShareTable
    tasks: ShareTable
    """The tasks that do worst."""
    disagreements: tuple[DisagreementRow, ...]
    disagreements_in_all: int
    failing: tuple[FailingRow, ...]
    """Those that got furthest."""
    failing_in_all: int
    configuration: tuple[tuple[str, str], ...]
    """What decides the run's rows, by key; empty for a run of an earlier trajmill."""


def read_details(warehouse: Warehouse, run_id: str) -> ReportDetails:
    """The details of one run. A run without rounds has empty ones."""
    with connect(warehouse) as views:
        apps, tasks = (_shares(views, query, run_id) for query in (_APPS, _TASKS))
        worst = sorted(tasks.rows, key=lambda row: (row.shares[-1] is None, row.shares[-1] or 0.0))[:_MOST_TASKS]
        [disagreements] = views.execute(_DISAGREEMENT_COUNT, [run_id]).fetchone() or (0,)
        [failing] = views.execute(_FAILING_COUNT, [run_id]).fetchone() or (0,)
        return ReportDetails(
            rounds=tuple(RoundRow(*row) for row in views.execute(_ROUNDS, [run_id]).fetchall()),
            earlier_versions=tuple(
                EarlierVersion(*row) for row in views.execute(_EARLIER_VERSIONS, [run_id]).fetchall()
            ),
            apps=apps,
            tasks=tasks._replace(rows=tuple(worst)),
            disagreements=tuple(
                DisagreementRow(*row) for row in views.execute(_DISAGREEMENTS, [run_id, _MOST_ROWS]).fetchall()
            ),
            disagreements_in_all=disagreements,
            failing=tuple(FailingRow(*row) for row in views.execute(_FAILING, [run_id, _MOST_ROWS]).fetchall()),
            failing_in_all=failing,
            configuration=_configuration(warehouse, run_id),
        )


_ROUNDS = """
SELECT r.round, r.written_at, r.trained, c.accepted, coalesce(c.seconds, 0), coalesce(c.cost, 0), c.cost_per_accepted,
    r.reason
FROM rounds AS r LEFT JOIN cost_per_accepted AS c USING (run_id, round) WHERE r.run_id = $1 ORDER BY r.round
"""
_EARLIER_VERSIONS = """
SELECT DISTINCT r.round, t.model_version, r.policy_before FROM rounds AS r JOIN trajectories AS t USING (run_id, round)
WHERE r.run_id = $1 AND t.purpose = 'train' AND t.model_version <> r.policy_before ORDER BY ALL
"""
_MEASURED = """
SELECT name, round, avg(passed) AS share
FROM (
    SELECT {name} AS name, t.round, (t.reward >= 1)::INTEGER AS passed
    FROM trajectories AS t JOIN queries AS q USING (run_id, query_id)
    WHERE t.run_id = $1 AND t.purpose = 'evaluate' AND t.status = 'finished' AND t.reward IS NOT NULL
)
GROUP BY ALL ORDER BY name, round
"""
_APPS = _MEASURED.format(name="unnest(q.apps)")
_TASKS = _MEASURED.format(name="q.task")
_DISAGREEMENTS = """
SELECT round, trajectory_id, instruction, judged_correct, reasons FROM disagreements WHERE run_id = $1
ORDER BY round DESC, trajectory_id LIMIT $2
"""
_DISAGREEMENT_COUNT = "SELECT count(*) FROM disagreements WHERE run_id = $1"
_FAILED = """
FROM trajectories AS t LEFT JOIN queries AS q USING (run_id, query_id)
LEFT JOIN latest_judgements AS j USING (run_id, trajectory_id)
WHERE t.run_id = $1 AND t.purpose IN ('train', 'guided', 'evaluate') AND t.status = 'finished' AND t.reward < 1
    AND t.round = (SELECT max(round) FROM trajectories WHERE run_id = $1)
"""
_FAILING = f"""
SELECT t.trajectory_id, t.purpose, coalesce(q.instruction, ''), t.steps, t.stop_reason, j.first_error_step + 1 {_FAILED}
ORDER BY j.first_error_step DESC NULLS LAST, t.trajectory_id LIMIT $2
"""
_FAILING_COUNT = f"SELECT count(*) {_FAILED}"


def _shares(views: duckdb.DuckDBPyConnection, query: str, run_id: str) -> ShareTable:
    cells: dict[str, dict[int, float]] = {}
    for name, number, share in views.execute(query, [run_id]).fetchall():
        cells.setdefault(name, {})[number] = share
    rounds = tuple(sorted({number for found in cells.values() for number in found})[-_MOST_ROUNDS:])
    rows = (ShareRow(name, tuple(found.get(number) for number in rounds)) for name, found in cells.items())
    return ShareTable(rounds, tuple(rows))


def _configuration(warehouse: Warehouse, run_id: str) -> tuple[tuple[str, str], ...]:
    try:
        stored = warehouse.store.get(warehouse.name(warehouse.run(run_id) / IDENTITY_FILE))
        identity: Mapping[str, Any] = json.loads(stored or b"")
    except ValueError:
        return ()
    return tuple((key, value if isinstance(value, str) else json.dumps(value)) for key, value in flat_keys(identity))
