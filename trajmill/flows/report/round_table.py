"""The figures of a round, for the terminal and as Markdown."""

from __future__ import annotations

import html
from collections.abc import Sequence

from rich import box
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trajmill.flows.report.figures import SPLIT_NAMES
from trajmill.schemas.tables.policy_version import RoundSummary, SplitSuccess
from trajmill.stages.critics.calibration.agreement import agreement
from trajmill.stages.metrics.intervals import wilson

_Block = tuple[tuple[str, ...], Sequence[tuple[str, ...]]]
"""Headings and rows."""


def round_table(summary: RoundSummary) -> RenderableType:
    """Lay out the round's success, judge and stages, side by side where the terminal is wide enough."""
    tables = []
    for headings, rows in _blocks(summary):
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        for place, heading in enumerate(headings):
            table.add_column(heading, justify="right" if place else "left", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        tables.append(table)
    # One line, however long: it can be searched for in a log, and paths in it can be copied.
    headline = Text(f"Round {summary.round}: {_headline(summary)}", style="bold", no_wrap=True, overflow="ignore")
    return Group(Text(), headline, Columns(tables, padding=(0, 2)))


def round_markdown(summary: RoundSummary) -> str:
    parts = [f"# Round {summary.round}", html.escape(_headline(summary), quote=False)]
    for headings, rows in _blocks(summary):
        rules = ("---", *("--:" for _ in headings[1:]))
        parts.append("\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rules, *rows)))
    return "\n\n".join(parts) + "\n"


def _headline(summary: RoundSummary) -> str:
    if not summary.trained:
        return f"not trained, the policy stays: {summary.reason}"
    if summary.policy_after == summary.policy_before:
        return f"trained, not promoted: {summary.reason}"
    return f"promoted {summary.policy_after}"


def _blocks(summary: RoundSummary) -> tuple[_Block, ...]:
    before, after = ({each.split: each for each in of} for of in (summary.success_before, summary.success_after))
    success = [
        (name, *_share(before.get(split))[:1], *_share(after.get(split)))
        for split, name in SPLIT_NAMES.items()
        if split in before or split in after
    ]
    judge = []
    for quality in summary.judge:
        found = agreement(quality)
        rates = ("-" if rate.value is None else f"{rate.value:.3f}" for rate in (found.precision, found.recall))
        judge.append((quality.level, *rates, "-" if found.kappa is None else f"{found.kappa:.2f}"))
    stages = [(each.stage, f"{each.rows_in:,}", f"{each.rows_out:,}", f"{each.seconds:.1f}") for each in summary.stages]
    total = sum(each.seconds for each in summary.stages)
    return (
        (("success", "before", "after", "95 %"), success),
        (("judge", "precision", "recall", "kappa"), judge),
        (("stage", "in", "out", "seconds"), [*stages, ("all", "", "", f"{total:.1f}")]),
    )


def _share(entry: SplitSuccess | None) -> tuple[str, str]:
    if entry is None or entry.queries == 0:
        return "-", "-"
    low, high = wilson(entry.successes, entry.queries)
    return f"{entry.successes / entry.queries:.0%}", f"{low:.0%}-{high:.0%}"
