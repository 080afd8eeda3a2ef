"""The report's table of metrics: what the policy in force is worth on each split, and why it fails."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.flows.report.figures import SPLIT_NAMES
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.views import connect

_ERROR_NAMES = {
    "planning": "planning",
    "structural_compliance": "malformed replies",
    "operational": "lost or misplaced actions",
    "knowledge_deficit": "ran out of ideas",
    "perceptual": "misread values",
}
_METRICS = """
SELECT split, queries, success_rate, wpsr, matcr, p_atsr, type, gr, sr, steps_per_success, tokens_per_success
FROM metrics_by_round AS m
LEFT JOIN action_match USING (run_id, round, policy_version, split)
WHERE run_id = $1 AND purpose = 'evaluate'
QUALIFY round = max(round) OVER () AND policy_version = last_value(policy_version) OVER (ORDER BY round, policy_version
    ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
"""
_COLLECTED = """
SELECT round, purpose, attempts, success_rate, pass_at_4, yield, steps_per_success, tokens_per_success
FROM metrics_by_round WHERE run_id = $1 AND purpose IN ('train', 'guided') ORDER BY round, purpose DESC
"""
_ERRORS = """
SELECT error, sum(attempts)::BIGINT FROM error_attribution
WHERE run_id = $1 AND purpose = 'evaluate' AND round = (SELECT max(round) FROM error_attribution WHERE run_id = $1)
GROUP BY ALL ORDER BY 2 DESC, 1
"""


_MALFORMED = """
SELECT agent, role, count(*)::BIGINT, count(malformed)::BIGINT, mode(malformed) FROM role_calls
WHERE run_id = $1 GROUP BY ALL HAVING count(malformed) > 0 ORDER BY 4 DESC, 1, 2
"""


class SplitMetrics(NamedTuple):
    """The last measured policy on one split."""

    split: str
    queries: int
    success: float
    wpsr: float
    matcr: float | None
    p_atsr: float | None
    type: float | None
    gr: float | None
    sr: float | None
    steps_per_success: float | None
    tokens_per_success: float | None


class CollectedMetrics(NamedTuple):
    """The attempts of one round that were made to collect training data."""

    round: int
    purpose: str
    attempts: int
    success: float
    pass_at_4: float | None
    judge_yield: float | None
    """Share that the judge accepted."""
    steps_per_success: float | None
    tokens_per_success: float | None


class ErrorShare(NamedTuple):
    """Failed attempts of one class."""

    name: str
    attempts: int


class MalformedRow(NamedTuple):
    """The malformed replies of one role in all rounds."""

    agent: str
    role: str
    replies: int
    malformed: int
    reason: str
    """The most frequent one."""


class ReportMetrics(NamedTuple):
    """What the section on metrics shows."""

    splits: tuple[SplitMetrics, ...]
    collected: tuple[CollectedMetrics, ...]
    errors: tuple[ErrorShare, ...]
    """Of the last measured round."""
    malformed: tuple[MalformedRow, ...]

    @property
    def has_atomic_tasks(self) -> bool:
        """Whether the policy was measured on tasks of several atomic tasks."""
        return any(split.matcr is not None for split in self.splits)


def read_metrics(warehouse: Warehouse, run_id: str) -> ReportMetrics:
    """The metrics of one run, from the ready-made views."""
    with connect(warehouse) as views:
        splits = {row[0]: SplitMetrics(*row) for row in views.execute(_METRICS, [run_id]).fetchall()}
        collected = [CollectedMetrics(*row) for row in views.execute(_COLLECTED, [run_id]).fetchall()]
        errors = [ErrorShare(_ERROR_NAMES[name], n) for name, n in views.execute(_ERRORS, [run_id]).fetchall()]
        malformed = [MalformedRow(*row) for row in views.execute(_MALFORMED, [run_id]).fetchall()]
    named = [splits[split]._replace(split=name) for split, name in SPLIT_NAMES.items() if split in splits]
    return ReportMetrics(tuple(named), tuple(collected), tuple(errors), tuple(malformed))
