"""The lines of `trajmill status`: what a run does, what it has reached, and what needs a person."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.new_run import run_resource
from trajmill.flows.nights.log import last_ends, served, trouble
from trajmill.flows.policies.policy import PolicyInForce, choices
from trajmill.flows.round import first_unfinished
from trajmill.flows.status.live import WorkingStage, ahead_line, now_line, rollout_ahead, working_stage
from trajmill.flows.tasks.train import TRAIN
from trajmill.pipelines.online import trouble_file
from trajmill.schemas.secrets import Secrets
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.views import connect, fresh_views

_SECONDS = 5.0
_MOST = 200
_NO_RUN = "none"
"""A tag that no deployment has."""
KAPPA = "kappa"
"""Name of the judge's agreement beyond chance, which is no percentage."""
_LOST = frozenset({"Crashed", "Failed", "TimedOut"})
"""States of a flow run at the server that the warehouse may have no entry of."""
_LITTLE_DISK = 0.05
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that would act on the terminal; messages come from outside."""


class FlowRunLine(NamedTuple):
    """One run of a deployment."""

    flow: str
    state: str
    """Name of its state, e.g. `Collected`; `Scheduled` for one that has not begun."""
    time: str
    """UTC time at which it began, or is to begin."""
    line: str
    """The message of its state."""


class FlowRuns(NamedTuple):
    """The last run of each deployment that has ended or runs, and the next one."""

    last: tuple[FlowRunLine, ...] = ()
    next: tuple[FlowRunLine, ...] = ()
    address: str = ""
    """The API of the Prefect server; empty if none is known."""
    problem: str = ""
    """Why the server could not be read; the last runs are then those that the warehouse has stored."""


def flow_runs(warehouse: Warehouse, run_id: str) -> FlowRuns:
    """Return the runs at the server that PREFECT_API_URL names, else at the one that served the run last."""
    deployed = served(warehouse, run_id)
    address = os.environ.get("PREFECT_API_URL") or (deployed.address if deployed else "")
    stored = tuple(
        FlowRunLine(flow, ends[0].state, f"{ends[0].began:%Y-%m-%d %H:%M:%S}", ends[0].line)
        for flow, ends in last_ends(warehouse, run_id).items()
    )
    found = runs_at(address, run_resource(warehouse, run_id) if deployed else _NO_RUN)
    return found._replace(last=stored) if found.problem else found


def runs_at(address: str, resource: str = _NO_RUN) -> FlowRuns:
    """Return the runs of a run's deployments at a server; `problem` says why there are none."""
    if not address:
        return FlowRuns(problem="no Prefect server is known; `trajmill serve` starts one, PREFECT_API_URL names one")
    try:
        return _read(address, resource)
    except (OSError, ValueError, LookupError, TypeError, HTTPException) as error:
        secrets = Secrets.of(os.environ, urls=[address])
        problem = secrets.scrub(f"the Prefect server {address} does not answer ({error})")
        return FlowRuns(address=secrets.scrub(address), problem=problem)


def _read(address: str, resource: str) -> FlowRuns:
    ours = {"deployments": {"tags": {"all_": [resource]}}}
    flows = {row["id"]: row["entrypoint"].rpartition(".")[2] for row in _read_rows(address, "deployments", ours)}
    ended = _read_rows(address, "flow_runs", ours | {"sort": "START_TIME_DESC", "limit": _MOST})
    scheduled = ours | {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}
    planned = _read_rows(address, "flow_runs", scheduled | {"sort": "NEXT_SCHEDULED_START_TIME_ASC"})
    last: dict[str, FlowRunLine] = {}
    following: dict[str, FlowRunLine] = {}
    for row in ended:
        if row["start_time"]:
            last.setdefault(flows[row["deployment_id"]], _line(flows, row, row["start_time"]))
    for row in planned:
        following.setdefault(flows[row["deployment_id"]], _line(flows, row, row["expected_start_time"] or ""))
    return FlowRuns(tuple(last.values()), tuple(following.values()), address)


def _line(flows: dict[str, str], row: dict[str, Any], time: str) -> FlowRunLine:
    state = row["state"] or {}
    name = flows[row["deployment_id"]]
    return FlowRunLine(name, str(state.get("name")), time[:19].replace("T", " "), str(state.get("message") or ""))


def _read_rows(address: str, what: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("PREFECT_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    elif pair := os.environ.get("PREFECT_API_AUTH_STRING"):
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    url = f"{address.rstrip('/')}/{what}/filter"
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers)
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        rows: list[dict[str, Any]] = json.load(answer)
    return rows


class Trend(NamedTuple):
    """A share now, and one round before."""

    name: str
    now: float | None
    before: float | None


class DiskUse(NamedTuple):
    """Bytes of a warehouse, and what is free beside it."""

    used: int
    free: int
    total: int


class MalformedReplies(NamedTuple):
    """How many replies of a role are not what it was asked for."""

    role: str
    malformed: int
    replies: int


class RunResults(NamedTuple):
    """What a run has reached."""

    rounds: int
    """Finished rounds."""
    policy: str
    """The version in force; empty before the first round has ended."""
    reason: str
    """Why the last round has promoted its policy, or not."""
    success: tuple[Trend, ...]
    """By split."""
    judge: tuple[Trend, ...]
    """Precision and kappa."""
    cost: float
    """Price of all model calls."""
    last_cost: float
    """Of the last finished round."""
    failures: tuple[tuple[str, int], ...]
    """Of the newest round, by class."""
    malformed: tuple[MalformedReplies, ...]
    """Of the newest round, by role; roles without malformed replies are left out."""


def run_results(warehouse: Warehouse, run_id: str) -> RunResults:
    """Read the results of a run."""
    with fresh_views(warehouse) as shown, connect(shown) as views:

        def rows(query: str) -> list[tuple[Any, ...]]:
            return views.execute(query, [run_id]).fetchall()

        last = rows("SELECT round, policy_after, reason FROM rounds WHERE run_id = $1 ORDER BY round DESC LIMIT 1")
        costs = rows("SELECT round, sum(cost) FROM cost_by_stage WHERE run_id = $1 GROUP BY 1 ORDER BY 1 DESC")
        return RunResults(
            rounds=len(rows("SELECT round FROM rounds WHERE run_id = $1")),
            policy=str(last[0][1]) if last else "",
            reason=str(last[0][2] or "") if last else "",
            success=_trends(rows(_SUCCESS)),
            judge=_trends(rows(_JUDGE)),
            cost=float(sum(cost or 0.0 for _, cost in costs)),
            last_cost=float(costs[0][1] or 0.0) if costs else 0.0,
            failures=tuple((name, count) for name, count in rows(_FAILURES)),
            malformed=tuple(MalformedReplies(*row) for row in rows(_MALFORMED)),
        )


def disk_use(root: Path) -> DiskUse:
    """How much a warehouse takes of its disk."""
    disk = shutil.disk_usage(root)
    return DiskUse(sum(map(_size, root.rglob("*"))), disk.free, disk.total)


def _size(path: Path) -> int:
    """Bytes of a file; 0 for anything else, and for a file that another process has just removed."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


_SUCCESS = """
WITH kept AS (
    SELECT round, unnest(success_after, recursive := true) FROM rounds WHERE run_id = $1
    QUALIFY round > max(round) OVER () - 2
)
SELECT split, round, successes / queries FROM kept WHERE queries > 0 ORDER BY split, round DESC
"""
_JUDGE = """
WITH kept AS (
    SELECT round, precision, kappa FROM judge_by_round WHERE run_id = $1 AND level = 'trajectory'
    QUALIFY round > max(round) OVER () - 2
)
SELECT 'precision', round, precision FROM kept UNION ALL SELECT 'kappa', round, kappa FROM kept ORDER BY 1 DESC, 2 DESC
"""
_FAILURES = """
SELECT failure_class, count(*)::BIGINT FROM failures
WHERE run_id = $1 AND round = (SELECT max(round) FROM failures WHERE run_id = $1) GROUP BY 1 ORDER BY 2 DESC
"""
_MALFORMED = """
SELECT role, count(malformed)::BIGINT, count(*)::BIGINT FROM role_calls
WHERE run_id = $1 AND round = (SELECT max(round) FROM trajectories WHERE run_id = $1)
GROUP BY 1 HAVING count(malformed) > 0 ORDER BY 2 DESC, 1
"""


def _trends(rows: list[tuple[Any, ...]]) -> tuple[Trend, ...]:
    """Pairs of a figure in the newest round and in the one before."""
    found: dict[str, list[float | None]] = {}
    for name, _, share in rows:
        found.setdefault(name, []).append(share)
    return tuple(Trend(name, shares[0], shares[1] if len(shares) > 1 else None) for name, shares in found.items())


def status_lines(config: Config, warehouse: Warehouse, run_id: str = "") -> list[str]:
    """What a run does, has done and needs, as lines for a terminal."""
    context = RoundContext(config, warehouse, 1, run_id)
    runs, now, ahead = flow_runs(warehouse, context.run_id), working_stage(context), rollout_ahead(context)
    results, disk = run_results(warehouse, context.run_id), disk_use(warehouse.root)
    needs = [f"needs a person: {line}" for line in _needs(context, runs, now, disk)] or ["nothing"]
    lines = [
        _row("run", f"{context.run_id} in {warehouse.address}"),
        _row("now", now_line(now)),
        *([_row("ahead", ahead_line(ahead))] if ahead else []),
        *_rows("last", [f"{run.flow} {run.state} at {run.time}: {run.line}" for run in runs.last]),
        *_rows("next", [f"{run.flow} at {run.time}" for run in runs.next]),
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


def _round_lines(results: RunResults, chosen: Sequence[PolicyInForce]) -> list[str]:
    """The policy in force and why: a choice by a command or the configuration counts more than the last round."""
    finished = f"{results.rounds} finished"
    if chosen:
        version = chosen[-1].policy_row.model_version
        return [f"{finished}, policy {version}, chosen since then; `trajmill policy list` says why"]
    named = f"{finished}, policy {results.policy}" if results.policy else finished
    return [named, results.reason] if results.reason else [named]


def _used(warehouse: Warehouse) -> str:
    return "used" if warehouse.store.is_local else "of copies on this machine"


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
    return f"{_money(results.cost)} in all, {_money(results.last_cost)} in the last round"


def _money(price: float) -> str:
    """Cents, or as many digits as a smaller price needs."""
    return f"{price:,.2f}" if price >= 1 or not price else f"{price:.2g}"


def _uncommitted(context: RoundContext) -> Iterator[str]:
    """Why the environment server of the run cannot commit its episodes."""
    warehouse = context.warehouse
    trouble = warehouse.store.get(warehouse.name(trouble_file(warehouse, context.run_id)))
    if trouble is not None:
        yield f"`trajmill env serve` cannot commit its episodes, and tries again: {trouble.decode()}"


def _needs(context: RoundContext, runs: FlowRuns, now: WorkingStage, disk: DiskUse) -> Iterator[str]:
    """What waits for a person."""
    yield from _uncommitted(context)
    stored = list(trouble(context.warehouse, context.run_id, context.config.serve, datetime.now(UTC)))
    yield from stored
    for run in runs.last:
        line = f"{run.flow} ended as {run.state}: {run.line}"
        if run.state in _LOST and not any(each.startswith(f"{run.flow} ended as {run.state}") for each in stored):
            yield line
    if runs.problem and runs.address:
        yield f"{runs.problem}; start `trajmill serve` again, or correct PREFECT_API_URL"
    if now.stage == TRAIN and now.process is None:
        yield f"round {now.round} waits at its training; `trajmill train` says for what"
    if disk.free < _LITTLE_DISK * disk.total:
        yield "the disk is nearly full: `trajmill vacuum`, `trajmill compact`, [retention]"
