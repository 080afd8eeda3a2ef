"""Figures of a run, read from the warehouse's DuckDB views alone: for the report, the viewer and `trajmill status`.

A row has the columns of its query as attributes.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import duckdb

from trajmill.flows.new_run import stored_identity
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.sql import check_files
from trajmill.warehouse.store.connection import unreadable
from trajmill.warehouse.views import connect, fresh_views

SPLIT_NAMES = {
    "train": "training queries",
    "heldout_slots": "new slot combinations",
    "heldout_phrasings": "new phrasings",
    "heldout_apps": "apps never seen",
    "validation": "validation",
}
"""Names of the splits on the page, in order."""
_NAMED_STAGES = 9
_MOST_ROUNDS = 8

Rows = list[SimpleNamespace]
Pivot = dict[str, tuple[SimpleNamespace | None, ...]]
"""By name, a row for each round; None for a round that has none."""


def money(price: float) -> str:
    """Cents, or as many digits as a smaller price needs."""
    return f"{price:,.2f}" if price >= 1 or not price else f"{price:.2g}"


class RunViews(NamedTuple):
    """The views of a warehouse, and the run whose id is the parameter of all queries."""

    warehouse: Warehouse
    connection: duckdb.DuckDBPyConnection
    run_id: str

    def rows(self, query: str, *parameters: object) -> Rows:
        check_files(self.warehouse, query)
        found = self.connection.execute(query, [self.run_id, *parameters])
        names = [column[0] for column in found.description]
        return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in found.fetchall()]


@contextmanager
def run_views(warehouse: Warehouse, run_id: str = "") -> Iterator[RunViews]:
    """Open up-to-date views. Raises BadInputError if a committed file is missing or damaged."""
    with fresh_views(warehouse) as shown, connect(shown) as connection:
        try:
            yield RunViews(warehouse, connection, run_id)
        except (duckdb.InvalidInputException, duckdb.IOException) as error:
            raise unreadable(warehouse.address, error) from error


class Series(NamedTuple):
    name: str
    points: Sequence[Any]
    """With `round`, `share` and its interval from `low` to `high`, all in [0, 1]; in the order of the rounds."""


class Bar(NamedTuple):
    label: str
    segments: Mapping[str, float]
    note: str


class Figures(NamedTuple):
    """Everything that the report shows, except the trajectories and the nights."""

    run_id: str
    tables: Mapping[str, Rows]
    """By the names of `TABLES`."""
    success: tuple[Series, ...] = ()
    attempts: tuple[Series, ...] = ()
    """Success of unguided and of guided attempts while collecting."""
    rounds: tuple[int, ...] = ()
    funnel: Pivot = {}
    judge: Pivot = {}
    measured_rounds: tuple[int, ...] = ()
    """The last rounds with measured success, those of `apps` and `tasks`."""
    apps: Pivot = {}
    tasks: Pivot = {}
    """Those that do worst in the last round come first."""
    seconds: tuple[Bar, ...] = ()
    configuration: tuple[tuple[str, str], ...] = ()
    """What decides the run's rows, by key; empty for a run of an earlier trajmill."""


TABLES = {
    "rounds": """
SELECT r.*, r.written_at AS ended, c.accepted, coalesce(c.seconds, 0) AS seconds, coalesce(c.cost, 0) AS cost,
    c.cost_per_accepted
FROM rounds AS r LEFT JOIN cost_per_accepted AS c USING (run_id, round) WHERE r.run_id = $1 ORDER BY r.round
""",
    # Rounds whose attempts were made by another version than the one that was then trained on them.
    "earlier_versions": """
SELECT DISTINCT r.round, t.model_version AS acted, r.policy_before AS trained
FROM rounds AS r JOIN trajectories AS t USING (run_id, round)
WHERE r.run_id = $1 AND t.purpose = 'train' AND t.model_version <> r.policy_before ORDER BY ALL
""",
    "totals": """
SELECT (SELECT count(*) FROM trajectories WHERE run_id = $1) AS trajectories,
    (SELECT count(*) FROM steps WHERE run_id = $1) AS steps,
    (SELECT count(*) FROM screens WHERE run_id = $1) AS screens,
    (SELECT count(*) FROM examples WHERE run_id = $1) AS examples,
    (SELECT coalesce(sum(seconds), 0) FROM cost_by_stage WHERE run_id = $1) AS seconds
""",
    # Trajectories that each critic voted on, by channel and by how their queries were made.
    "critics": """
SELECT v.made_by AS critic, v.channel, q.source, count(DISTINCT v.trajectory_id)::BIGINT AS judged,
    count(DISTINCT v.trajectory_id) FILTER (WHERE v.correct)::BIGINT AS correct
FROM trajectory_verdicts AS v
JOIN trajectories AS t USING (run_id, trajectory_id) JOIN queries AS q USING (run_id, query_id)
WHERE v.run_id = $1 GROUP BY ALL ORDER BY 2, 1, 3
""",
    "lift": "FROM guidance_lift JOIN rounds USING (run_id, round) WHERE run_id = $1 ORDER BY round",
    # Agents that made guided attempts in place of the policy.
    "demonstrators": """
SELECT DISTINCT agent FROM trajectories WHERE run_id = $1 AND purpose = 'guided' AND guidance_id IS NULL ORDER BY 1
""",
    "models": "FROM model_versions WHERE run_id = $1 ORDER BY round, model_version",
    "failures": """
SELECT stage, failure_class, sum(failures)::BIGINT AS failures, min(example) AS example
FROM failures_by_class WHERE run_id = $1 GROUP BY ALL ORDER BY 3 DESC, 1, 2
""",
    "pathways": "FROM pathways_by_program WHERE run_id = $1 ORDER BY program",
    "disagreements": """
SELECT *, count(*) OVER () AS in_all FROM disagreements WHERE run_id = $1 ORDER BY round DESC, trajectory_id LIMIT 10
""",
    # Why attempts of the last round failed, those that measure the policy first.
    "clusters": """
SELECT *, sum(attempts) OVER (PARTITION BY purpose)::BIGINT AS failed, count(*) OVER (PARTITION BY purpose) AS in_all
FROM failure_clusters WHERE run_id = $1 AND round = (SELECT max(round) FROM rounds WHERE run_id = $1)
QUALIFY row_number() OVER (PARTITION BY purpose ORDER BY attempts DESC, is_new DESC, task, app, screen) <= 10
ORDER BY list_position(['evaluate', 'train', 'guided'], purpose), attempts DESC, is_new DESC, task, app, screen
""",
    "unrewarded": """
SELECT if(stop_reason = 'time_limit', 'time limit', failure_class) AS reason, count(*) AS attempts FROM trajectories
WHERE run_id = $1 AND (status = 'failed' OR stop_reason = 'time_limit') GROUP BY ALL ORDER BY 2 DESC, 1
""",
    # Attempts that were made to collect training data.
    "collected": """
FROM metrics_by_round WHERE run_id = $1 AND purpose IN ('train', 'guided') ORDER BY round, purpose DESC
""",
    # The papers' metrics of the policy that was measured last.
    "splits": f"""
FROM metrics_by_round LEFT JOIN action_match USING (run_id, round, policy_version, split)
WHERE run_id = $1 AND purpose = 'evaluate' AND split IN {tuple(SPLIT_NAMES)}
QUALIFY round = max(round) OVER () AND policy_version = last_value(policy_version) OVER (ORDER BY round, policy_version
    ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) ORDER BY list_position({list(SPLIT_NAMES)}, split)
""",
    # Failed attempts of the last measured round, by class.
    "errors": """
SELECT error, sum(attempts)::BIGINT AS attempts FROM error_attribution
WHERE run_id = $1 AND purpose = 'evaluate' AND round = (SELECT max(round) FROM error_attribution WHERE run_id = $1)
GROUP BY ALL ORDER BY 2 DESC, 1
""",
    "malformed": """
SELECT agent, role, count(*)::BIGINT AS replies, count(malformed)::BIGINT AS malformed, mode(malformed) AS reason
FROM role_calls WHERE run_id = $1 GROUP BY ALL HAVING count(malformed) > 0 ORDER BY 4 DESC, 1, 2
""",
}
_SHARES = "successes / n AS share, wilson_low(successes, n) AS low, wilson_high(successes, n) AS high"
SUCCESS = f"""
WITH measured AS (
    SELECT run_id, round, unnest(success_after, recursive := true) FROM rounds
    UNION ALL
    SELECT run_id, round - 1, unnest(success_before, recursive := true) FROM rounds
    QUALIFY round = min(round) OVER (PARTITION BY run_id)
)
SELECT run_id, split AS name, round, successes, queries AS n, {_SHARES} FROM measured
WHERE queries > 0 AND $1 IN ('', run_id) ORDER BY round
"""
"""Success on each split after each round, and before the first one; of all runs without the id of one."""
JUDGE = "SELECT *, level AS name FROM judge_by_round WHERE $1 IN ('', run_id) ORDER BY round"
_FUNNEL = "SELECT *, stage AS name FROM funnel WHERE run_id = $1"
_SECONDS = "SELECT round, stage, seconds FROM cost_by_stage WHERE run_id = $1"
_ATTEMPTS = f"""
SELECT purpose AS name, round, count(*) FILTER (reward >= 1) AS successes, count(*) AS n, {_SHARES} FROM trajectories
WHERE run_id = $1 AND status = 'finished' AND reward IS NOT NULL AND purpose IN ('train', 'guided')
GROUP BY ALL ORDER BY round
"""
_MEASURED = f"""
SELECT name, round, count(*) FILTER (passed) AS successes, count(*) AS n, {_SHARES} FROM (
    SELECT {{}} AS name, t.round, t.reward >= 1 AS passed
    FROM trajectories AS t JOIN queries AS q USING (run_id, query_id)
    WHERE t.run_id = $1 AND t.purpose = 'evaluate' AND t.status = 'finished' AND t.reward IS NOT NULL
) GROUP BY ALL ORDER BY name, round
"""


def read_figures(views: RunViews) -> Figures:
    tables = {name: views.rows(query) for name, query in TABLES.items()}
    rounds = tuple(row.round for row in tables["rounds"])
    by_task, by_app = (views.rows(_MEASURED.format(name)) for name in ("q.task", "unnest(q.apps)"))
    measured = tuple(sorted({row.round for row in by_task})[-_MOST_ROUNDS:])
    tasks = _pivot(by_task, measured)
    return Figures(
        run_id=views.run_id,
        rounds=rounds,
        success=_series(views.rows(SUCCESS), SPLIT_NAMES),
        attempts=_series(views.rows(_ATTEMPTS), {"train": "without guidance", "guided": "with guidance"}),
        funnel=_pivot(views.rows(_FUNNEL), rounds),
        judge=_pivot(views.rows(JUDGE), rounds),
        seconds=_seconds(views.rows(_SECONDS)),
        measured_rounds=measured,
        apps=_pivot(by_app, measured),
        # Those that were not measured in the last round come last.
        tasks=dict(sorted(tasks.items(), key=lambda task: getattr(task[1][-1], "share", 2.0))),
        configuration=tuple(
            (key, value if isinstance(value, str) else json.dumps(value))
            for key, value in stored_identity(views.warehouse, views.run_id).items()
        ),
        tables=tables,
    )


def _series(rows: Rows, names: Mapping[str, str]) -> tuple[Series, ...]:
    lines = (Series(name, [row for row in rows if row.name == key]) for key, name in names.items())
    return tuple(line for line in lines if line.points)


def _pivot(rows: Rows, rounds: tuple[int, ...]) -> Pivot:
    cells: dict[str, dict[int, SimpleNamespace]] = defaultdict(dict)
    for row in rows:
        cells[row.name][row.round] = row
    return {name: tuple(map(found.get, rounds)) for name, found in cells.items()}


def _seconds(rows: Rows) -> tuple[Bar, ...]:
    bars: dict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        bars[row.round][row.stage] += row.seconds
    named = dict(sum(bars.values(), Counter[str]()).most_common(_NAMED_STAGES))
    made = []
    for number, spent in bars.items():
        shown = {stage: seconds for stage, seconds in spent.items() if stage in named}
        rest = sum(seconds for stage, seconds in spent.items() if stage not in named)
        made.append(Bar(f"round {number}", shown | {"the rest": rest}, f"{spent.total():.1f} s"))
    return tuple(made)
