"""The lines of `trajmill status`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta

from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import choices
from trajmill.flows.round import first_unfinished
from trajmill.flows.stage import StageReport
from trajmill.flows.status.flow_runs import FlowRuns, flow_runs
from trajmill.flows.status.now import RolloutAhead, WorkingStage, rollout_ahead, working_stage
from trajmill.flows.status.results import KAPPA, DiskUse, MalformedReplies, RunResults, Trend, disk_use, run_results
from trajmill.flows.tasks.train import TRAIN
from trajmill.pipelines.online import trouble_file
from trajmill.warehouse.layout import Warehouse

_ENDED_WELL = frozenset({"Collected", "Trained", "NotEnough", "NotTrained", "Skipped", "Maintained", "Completed"})
_AT_WORK = frozenset({"Running", "Pending", "Late", "Scheduled"})
_LITTLE_DISK = 0.05
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that would act on the terminal; messages come from outside."""


def status_lines(config: Config, warehouse: Warehouse) -> list[str]:
    """What a run does, has done and needs, as lines for a terminal."""
    context = RoundContext(config, warehouse, 1)
    runs, now, ahead = flow_runs(warehouse.root), working_stage(context), rollout_ahead(context)
    results, disk = run_results(warehouse, context.run_id), disk_use(warehouse.root)
    needs = [*_uncommitted(context), *_needs(runs, now, disk)] or ["nothing"]
    lines = [
        _row("run", f"{context.run_id} in {warehouse.address}"),
        _row("now", now_line(now)),
        *([_row("ahead", ahead_line(ahead))] if ahead else []),
        *_rows("last", [f"{run.deployment} {run.state} at {run.time}: {run.line}" for run in runs.last]),
        *_rows("next", [f"{run.deployment} at {run.time}" for run in runs.next]),
        *([_row("server", runs.problem)] if runs.problem else []),
        *_rows("rounds", _round_lines(results, choices(first_unfinished(context)))),
        *_rows("success", [_trend_line(trend) for trend in results.success]),
        *_rows("judge", [_trend_line(trend) for trend in results.judge]),
        _row("failures", ", ".join(f"{count} {name}" for name, count in results.failures) or "none"),
        *_rows("malformed", [_malformed_line(role) for role in results.malformed]),
        _row("money", _money_line(results)),
        _row("disk", f"{disk.used / 1e9:,.2f} GB {_used(warehouse)}, {disk.free / 1e9:,.1f} GB free"),
        *_rows("to do", needs),
    ]
    return [_CONTROL.sub(" ", line) for line in lines]


def _row(name: str, text: str) -> str:
    return f"{name:<9} {text}".rstrip()


def _rows(name: str, texts: Sequence[str]) -> list[str]:
    return [_row(name if place == 0 else "", text) for place, text in enumerate(texts)]


def _round_lines(results: RunResults, chosen: Sequence[StageReport]) -> list[str]:
    """The policy in force and why: a choice by a command or the configuration counts more than the last round."""
    finished = f"{results.rounds} finished"
    if chosen:
        version = chosen[-1].result["policy_row"]["model_version"]
        return [f"{finished}, policy {version}, chosen since then; `trajmill policy list` says why"]
    named = f"{finished}, policy {results.policy}" if results.policy else finished
    return [named, results.reason] if results.reason else [named]


def _used(warehouse: Warehouse) -> str:
    return "used" if warehouse.store.is_local else "of copies on this machine"


def now_line(now: WorkingStage) -> str:
    """What works now, how far it is, and how long it needs."""
    where = f"round {now.round}, {now.stage}"
    if now.process is None and now.is_further:
        return "nobody is at work; all configured rounds are done; with a larger run.rounds `trajmill evolve` does more"
    if now.process is None:
        return f"nobody is at work; {where} is next"
    of = "" if now.total is None else f" of {now.total:,}"
    count = f", {now.done:,}{of}" if now.done or of else ""
    rate = f", {now.done / now.seconds:,.1f} a second" if now.done and now.seconds else ""
    left = f", {_duration(now.seconds_left)} left" if now.seconds_left is not None else ""
    return f"{where} since {_duration(now.seconds)}{count}{rate}{left} (process {now.process})"


def ahead_line(ahead: RolloutAhead) -> str:
    """How far the rollout of the next round is, and which version acts in it."""
    of = "" if ahead.total is None else f" of {ahead.total:,}"
    count = "finished" if ahead.is_finished else f"{ahead.done:,}{of} attempts"
    return f"round {ahead.round}, rollout: {count}, by {ahead.policy} while round {ahead.round - 1} learns"


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _trend_line(trend: Trend) -> str:
    if trend.now is None:
        return f"{trend.name} not measured"
    if trend.name == KAPPA:
        return f"{trend.name} {trend.now:.2f}" + ("" if trend.before is None else f" ({trend.now - trend.before:+.2f})")
    change = "" if trend.before is None else f" ({100 * (trend.now - trend.before):+.0f} points)"
    return f"{trend.name} {100 * trend.now:.0f} %{change}"


def _malformed_line(role: MalformedReplies) -> str:
    return f"{role.malformed:,} of {role.replies:,} replies of the {role.role} in the newest round"


def _money_line(results: RunResults) -> str:
    return f"{results.cost:,.2f} in all, {results.last_cost:,.2f} in the last round"


def _uncommitted(context: RoundContext) -> Iterator[str]:
    """Why the environment server of the run cannot commit its episodes."""
    warehouse = context.warehouse
    trouble = warehouse.store.get(warehouse.name(trouble_file(warehouse, context.run_id)))
    if trouble is not None:
        yield f"`trajmill env serve` cannot commit its episodes, and tries again: {trouble.decode()}"


def _needs(runs: FlowRuns, now: WorkingStage, disk: DiskUse) -> Iterator[str]:
    """What waits for a person."""
    for run in runs.last:
        if run.state not in _ENDED_WELL | _AT_WORK:
            yield f"{run.deployment} ended as {run.state}: {run.line}"
    if now.stage == TRAIN and now.process is None:
        yield f"round {now.round} waits at its training; `trajmill train` says for what"
    if disk.free < _LITTLE_DISK * disk.total:
        yield "the disk is nearly full: `trajmill vacuum`, `trajmill compact`, [retention]"
