"""The report's figures, read from the warehouse's DuckDB views alone.

A row has the columns of its query as attributes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import duckdb

from trajmill.flows.new_run import IDENTITY_FILE, flat_keys
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
_ATTEMPT_NAMES = {"train": "without guidance", "guided": "with guidance"}
ERROR_NAMES = {
    "planning": "planning",
    "structural_compliance": "malformed replies",
    "operational": "lost or misplaced actions",
    "knowledge_deficit": "ran out of ideas",
    "perceptual": "misread values",
}
_NAMED_STAGES = 9
_MOST_ROUNDS = 8
_MOST_TASKS = 12

Rows = list[SimpleNamespace]
Pivot = dict[str, tuple[SimpleNamespace | None, ...]]
"""By name, a row for each round; None for a round that has none."""


@dataclass(frozen=True)
class ShareTable:
    """Measured success over the last rounds, by app or task."""

    rounds: tuple[int, ...]
    rows: dict[str, tuple[float | None, ...]]


@dataclass(frozen=True)
class Figures:
    """Everything that the report shows, except the trajectories and the nights."""

    run_id: str
    rounds: tuple[int, ...]
    success: tuple[Series, ...]
    attempts: tuple[Series, ...]
    """Success of unguided and of guided attempts while collecting."""
    funnel: Pivot
    """By stage: `rows_in`, `rows_out`."""
    judge: Pivot
    """By level: `precision`, `recall`, `kappa`, `n`."""
    seconds: tuple[Bar, ...]
    apps: ShareTable
    tasks: ShareTable
    """The tasks that do worst in the last round."""
    splits: Rows
    """The papers' metrics of the policy that was measured last."""
    configuration: tuple[tuple[str, str], ...]
    """What decides the run's rows, by key; empty for a run of an earlier trajmill."""
    tables: Mapping[str, Rows]
    """The other tables, by the names of `_TABLES`."""


def read_figures(warehouse: Warehouse, run_id: str) -> Figures:
    """Read the figures of one run. A run without rounds has empty ones.

    Raises:
        BadInputError: a committed file is missing or damaged.
    """
    try:
        with connect(warehouse) as views:
            tables = {name: select(views, query, run_id) for name, query in _TABLES.items()}
            rounds = tuple(row.round for row in tables["rounds"])
            tasks = _shares(select(views, _measured("q.task"), run_id))
            by_split = {row.split: row for row in select(views, _METRICS, run_id)}
            return Figures(
                run_id=run_id,
                rounds=rounds,
                success=_series(select(views, _SUCCESS, run_id), SPLIT_NAMES),
                attempts=_series(select(views, _ATTEMPTS, run_id), _ATTEMPT_NAMES),
                funnel=_pivot(select(views, _FUNNEL, run_id), rounds),
                judge=_pivot(select(views, _JUDGE, run_id), rounds),
                seconds=_seconds(select(views, _SECONDS, run_id)),
                apps=_shares(select(views, _measured("unnest(q.apps)"), run_id)),
                tasks=ShareTable(tasks.rounds, dict(sorted(tasks.rows.items(), key=_worst_first)[:_MOST_TASKS])),
                splits=[by_split[split] for split in SPLIT_NAMES if split in by_split],
                configuration=_configuration(warehouse, run_id),
                tables=tables,
            )
    except (duckdb.InvalidInputException, duckdb.IOException) as error:
        raise unreadable(warehouse.address, error) from error


def read_pathways(warehouse: Warehouse, run_id: str) -> Rows:
    with connect(warehouse) as views:
        return select(views, _TABLES["pathways"], run_id)


def select(views: duckdb.DuckDBPyConnection, query: str, run_id: str) -> Rows:
    """Run a query with the run's id as its parameter."""
    found = views.execute(query, [run_id])
    names = [column[0] for column in found.description]
    return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in found.fetchall()]


_TABLES = {
    "rounds": """
SELECT r.round, r.written_at AS ended, r.trained, c.accepted, coalesce(c.seconds, 0) AS seconds,
    coalesce(c.cost, 0) AS cost, c.cost_per_accepted, r.reason AS decision
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
    # `compared`: guided queries that were attempted without guidance, too, in the same round.
    "lift": """
SELECT round, queries, compared, success_without, success_with, reference_paths_used
FROM guidance_lift JOIN rounds USING (run_id, round) WHERE run_id = $1 ORDER BY round
""",
    # Agents that made guided attempts in place of the policy.
    "demonstrators": """
SELECT DISTINCT agent FROM trajectories WHERE run_id = $1 AND purpose = 'guided' AND guidance_id IS NULL ORDER BY 1
""",
    "models": """
SELECT round, model_version, parent, promoted, reason, updates, release,
    train, heldout_slots, heldout_phrasings, heldout_apps
FROM model_versions WHERE run_id = $1 ORDER BY round, model_version
""",
    "failures": """
SELECT stage, failure_class, sum(failures)::BIGINT AS failures, min(example) AS example
FROM failures_by_class WHERE run_id = $1 GROUP BY ALL ORDER BY 3 DESC, 1, 2
""",
    "pathways": """
SELECT program, pathways, dialogs, tabs, need_selection, seconds, pathways_per_second AS per_second
FROM pathways_by_program WHERE run_id = $1 ORDER BY program
""",
    "disagreements": """
SELECT round, trajectory_id, instruction, judged_correct, reasons, count(*) OVER () AS in_all
FROM disagreements WHERE run_id = $1 ORDER BY round DESC, trajectory_id LIMIT 10
""",
    # Failing trajectories of the last round that got furthest; steps are counted from 1.
    "failing": """
SELECT t.trajectory_id, t.purpose, coalesce(q.instruction, '') AS instruction, t.steps, t.stop_reason,
    j.first_error_step + 1 AS first_error_step, count(*) OVER () AS in_all
FROM trajectories AS t LEFT JOIN queries AS q USING (run_id, query_id)
LEFT JOIN latest_judgements AS j USING (run_id, trajectory_id)
WHERE t.run_id = $1 AND t.purpose IN ('train', 'guided', 'evaluate') AND t.status = 'finished' AND t.reward < 1
    AND t.round = (SELECT max(round) FROM trajectories WHERE run_id = $1)
ORDER BY j.first_error_step DESC NULLS LAST, t.trajectory_id LIMIT 10
""",
    # Attempts that were made to collect training data; `judge_yield` is the share that the judge accepted.
    "collected": """
SELECT round, purpose, attempts, success_rate AS success, pass_at_4, yield AS judge_yield, steps_per_success,
    tokens_per_success
FROM metrics_by_round WHERE run_id = $1 AND purpose IN ('train', 'guided') ORDER BY round, purpose DESC
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
_JUDGE = "SELECT level AS name, round, precision, recall, kappa, n FROM judge_by_round WHERE run_id = $1"
_FUNNEL = "SELECT stage AS name, round, rows_in, rows_out FROM funnel WHERE run_id = $1"
_SECONDS = "SELECT round, stage, seconds FROM cost_by_stage WHERE run_id = $1"
_SUCCESS = """
WITH measured AS (
    SELECT round, unnest(success_after, recursive := true) FROM rounds WHERE run_id = $1
    UNION ALL
    SELECT round - 1, unnest(success_before, recursive := true) FROM rounds
    WHERE run_id = $1 AND round = (SELECT min(round) FROM rounds WHERE run_id = $1)
)
SELECT split AS name, round, successes, queries AS n FROM measured WHERE queries > 0 ORDER BY round
"""
_ATTEMPTS = """
SELECT purpose AS name, round, count(*) FILTER (reward >= 1) AS successes, count(*) AS n FROM trajectories
WHERE run_id = $1 AND status = 'finished' AND reward IS NOT NULL AND purpose IN ('train', 'guided')
GROUP BY ALL ORDER BY round
"""
_METRICS = """
SELECT split, queries, success_rate AS success, wpsr, matcr, p_atsr, type, gr, sr, steps_per_success, tokens_per_success
FROM metrics_by_round AS m
LEFT JOIN action_match USING (run_id, round, policy_version, split)
WHERE run_id = $1 AND purpose = 'evaluate'
QUALIFY round = max(round) OVER () AND policy_version = last_value(policy_version) OVER (ORDER BY round, policy_version
    ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
"""


def _measured(name: str) -> str:
    return f"""
SELECT name, round, avg(passed) AS share
FROM (
    SELECT {name} AS name, t.round, (t.reward >= 1)::INTEGER AS passed
    FROM trajectories AS t JOIN queries AS q USING (run_id, query_id)
    WHERE t.run_id = $1 AND t.purpose = 'evaluate' AND t.status = 'finished' AND t.reward IS NOT NULL
)
GROUP BY ALL ORDER BY name, round
"""


def _series(counts: Rows, names: Mapping[str, str]) -> tuple[Series, ...]:
    lines = []
    for key, name in names.items():
        found = [row for row in counts if row.name == key]
        points = tuple(Share(row.round, row.successes / row.n, *wilson(row.successes, row.n)) for row in found)
        lines += [Series(name, points)] if points else []
    return tuple(lines)


def _pivot(rows: Rows, rounds: tuple[int, ...]) -> Pivot:
    cells: dict[str, dict[int, SimpleNamespace]] = {}
    for row in rows:
        cells.setdefault(row.name, {})[row.round] = row
    return {name: tuple(found.get(number) for number in rounds) for name, found in cells.items()}


def _shares(rows: Rows) -> ShareTable:
    rounds = tuple(sorted({row.round for row in rows})[-_MOST_ROUNDS:])
    shares: dict[str, dict[int, float]] = {}
    for row in rows:
        shares.setdefault(row.name, {})[row.round] = row.share
    return ShareTable(rounds, {name: tuple(map(found.get, rounds)) for name, found in shares.items()})


def _worst_first(row: tuple[str, tuple[float | None, ...]]) -> tuple[bool, float]:
    last = row[1][-1]
    return last is None, last or 0.0


def _seconds(rows: Rows) -> tuple[Bar, ...]:
    """Draw a bar for each round; the stages that took least time are one segment."""
    totals: Counter[str] = Counter()
    for row in rows:
        totals[row.stage] += row.seconds
    named = {stage for stage, _ in totals.most_common(_NAMED_STAGES)}
    bars = []
    for number in dict.fromkeys(row.round for row in rows):
        of_round = [row for row in rows if row.round == number]
        parts = [Segment(row.stage, row.seconds) for row in of_round if row.stage in named]
        rest = Segment("the rest", sum(row.seconds for row in of_round if row.stage not in named))
        bars.append(Bar(f"round {number}", (*parts, rest), f"{sum(row.seconds for row in of_round):.1f} s"))
    return tuple(bars)


def _configuration(warehouse: Warehouse, run_id: str) -> tuple[tuple[str, str], ...]:
    try:
        stored = warehouse.store.get(warehouse.name(warehouse.run(run_id) / IDENTITY_FILE))
        identity: Mapping[str, Any] = json.loads(stored or b"")
    except ValueError:
        return ()
    return tuple((key, value if isinstance(value, str) else json.dumps(value)) for key, value in flat_keys(identity))
