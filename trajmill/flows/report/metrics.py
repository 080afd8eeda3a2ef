"""Tables of a run: the figures of each round in the terminal, and the metrics of the papers on the page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple

from rich import box
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trajmill.flows.report.figures import SPLIT_NAMES
from trajmill.schemas.tables.policy_version import SplitSuccess
from trajmill.schemas.tables.round_summary import RoundSummary
from trajmill.stages.critics.calibration.agreement import Rate, agreement
from trajmill.stages.metrics.intervals import wilson
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


class Block(NamedTuple):
    """A small table: headings and rows of text."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def round_table(summary: RoundSummary) -> RenderableType:
    """The round's success, judge and stages, side by side where the terminal is wide enough."""
    # One line, however long: it can be searched for in a log, and paths in it can be copied.
    headline = Text(f"Round {summary.round}: {_headline(summary)}", style="bold", no_wrap=True, overflow="ignore")
    return Group(Text(), headline, Columns([_rich(block) for block in _blocks(summary)], padding=(0, 2)))


def round_markdown(summary: RoundSummary) -> str:
    """The same figures as Markdown."""
    parts = [
        f"# Round {summary.round}",
        html.escape(_headline(summary), quote=False),
        *(_markdown(block) for block in _blocks(summary)),
    ]
    return "\n\n".join(parts) + "\n"


def _headline(summary: RoundSummary) -> str:
    if not summary.trained:
        return f"not trained, the policy stays: {summary.reason}"
    if summary.policy_after == summary.policy_before:
        return f"trained, not promoted: {summary.reason}"
    return f"promoted {summary.policy_after}"


def _blocks(summary: RoundSummary) -> tuple[Block, ...]:
    return _success(summary), _judge(summary), _funnel(summary)


def _success(summary: RoundSummary) -> Block:
    before = {entry.split: entry for entry in summary.success_before}
    after = {entry.split: entry for entry in summary.success_after}
    rows = [
        (name, _percent(before.get(split)), _percent(after.get(split)), _interval(after.get(split)))
        for split, name in SPLIT_NAMES.items()
        if split in before or split in after
    ]
    return Block(("success", "before", "after", "95 %"), tuple(rows))


def _judge(summary: RoundSummary) -> Block:
    rows = []
    for quality in summary.judge:
        found = agreement(quality)
        kappa = "-" if found.kappa is None else f"{found.kappa:.2f}"
        rows.append((quality.level, _rate(found.precision), _rate(found.recall), kappa))
    return Block(("judge", "precision", "recall", "kappa"), tuple(rows))


def _funnel(summary: RoundSummary) -> Block:
    rows = [
        (count.stage, f"{count.rows_in:,}", f"{count.rows_out:,}", f"{count.seconds:.1f}") for count in summary.stages
    ]
    total = sum(count.seconds for count in summary.stages)
    return Block(("stage", "in", "out", "seconds"), (*rows, ("all", "", "", f"{total:.1f}")))


def _percent(entry: SplitSuccess | None) -> str:
    return "-" if entry is None or entry.queries == 0 else f"{entry.successes / entry.queries:.0%}"


def _interval(entry: SplitSuccess | None) -> str:
    if entry is None or entry.queries == 0:
        return "-"
    low, high = wilson(entry.successes, entry.queries)
    return f"{low:.0%}-{high:.0%}"


def _rate(rate: Rate) -> str:
    return "-" if rate.value is None else f"{rate.value:.3f}"


def _rich(block: Block) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for place, heading in enumerate(block.headings):
        table.add_column(heading, justify="left" if place == 0 else "right", no_wrap=True)
    for row in block.rows:
        table.add_row(*row)
    return table


def _markdown(block: Block) -> str:
    rules: Sequence[str] = ["---", *("--:" for _ in block.headings[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (block.headings, rules, *block.rows))
