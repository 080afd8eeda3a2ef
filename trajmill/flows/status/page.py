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
from trajmill.flows.new_run import run_resource
from trajmill.flows.nights.log import last_ends, served, trouble
from trajmill.flows.policies.policy import choices
from trajmill.flows.round import first_unfinished
from trajmill.flows.stage import RoundContext
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
"""States of a flow run at the server that may have no entry in the warehouse."""
_LITTLE_DISK = 0.05
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that would act on the terminal; messages come from outside."""


class FlowRunLine(NamedTuple):
    flow: str
    state: str
    """Name of its state, e.g. `Collected`; `Scheduled` for one that has not begun."""
    time: str
    """UTC time at which it began, or is to begin."""
    line: str


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
    """Return the runs of a run's deployments at a server; `problem` is the reason if there are none.

    Prefect's client takes seconds to import, so its API is read over HTTP.
    """
    if not address:
        return FlowRuns(problem="no Prefect server is known; `trajmill serve` starts one, PREFECT_API_URL names one")
    ours = {"deployments": {"tags": {"all_": [resource]}}}
    scheduled = ours | {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}
    last: dict[str, FlowRunLine] = {}
    following: dict[str, FlowRunLine] = {}
    try:
        flows = {row["id"]: row["entrypoint"].rpartition(".")[2] for row in _post(address, "deployments", ours)}

        def add(runs: dict[str, FlowRunLine], row: dict[str, Any], time: str) -> None:
            state, flow = row["state"] or {}, flows[row["deployment_id"]]
            when, message = time[:19].replace("T", " "), str(state.get("message") or "")
            runs.setdefault(flow, FlowRunLine(flow, str(state.get("name")), when, message))

        for row in _post(address, "flow_runs", ours | {"sort": "START_TIME_DESC", "limit": _MOST}):
            if row["start_time"]:
                add(last, row, row["start_time"])
        for row in _post(address, "flow_runs", scheduled | {"sort": "NEXT_SCHEDULED_START_TIME_ASC"}):
            add(following, row, row["expected_start_time"] or "")
    except (OSError, ValueError, LookupError, TypeError, HTTPException) as error:
        secrets = Secrets.of(os.environ, urls=[address])
        problem = secrets.scrub(f"the Prefect server {address} does not answer ({error})")
        return FlowRuns(address=secrets.scrub(address), problem=problem)
    return FlowRuns(tuple(last.values()), tuple(following.values()), address)


def _post(address: str, what: str, body: dict[str, Any]) -> list[dict[str, Any]]:
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
    name: str
    now: float | None
    before: float | None

    def __str__(self) -> str:
        if self.now is None:
            return f"{self.name} not measured"
        if self.name == KAPPA:
            change = "" if self.before is None else f" ({self.now - self.before:+.2f})"
            return f"{self.name} {self.now:.2f}{change}"
        change = "" if self.before is None else f" ({100 * (self.now - self.before):+.0f} points)"
        return f"{self.name} {100 * self.now:.0f} %{change}"


class RunResults(NamedTuple):
    """What a run has reached."""

    rounds: int
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
    malformed: tuple[tuple[str, int, int], ...]
    """Of the newest round: role, malformed replies, replies. Roles without malformed replies are left out."""


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


def run_results(warehouse: Warehouse, run_id: str) -> RunResults:
    with fresh_views(warehouse) as shown, connect(shown) as views:

        def rows(query: str) -> list[tuple[Any, ...]]:
            return views.execute(query, [run_id]).fetchall()

        def trends(query: str) -> tuple[Trend, ...]:
            found: dict[str, list[float | None]] = {}
            for name, _, share in rows(query):
                found.setdefault(name, []).append(share)
            return tuple(Trend(name, shares[0], shares[1] if shares[1:] else None) for name, shares in found.items())

        last = rows("SELECT round, policy_after, reason FROM rounds WHERE run_id = $1 ORDER BY round DESC")
        costs = rows("SELECT round, sum(cost) FROM cost_by_stage WHERE run_id = $1 GROUP BY 1 ORDER BY 1 DESC")
        return RunResults(
            rounds=len(last),
            policy=str(last[0][1]) if last else "",
            reason=str(last[0][2] or "") if last else "",
            success=trends(_SUCCESS),
            judge=trends(_JUDGE),
            cost=float(sum(cost or 0.0 for _, cost in costs)),
            last_cost=float(costs[0][1] or 0.0) if costs else 0.0,
            failures=tuple((name, count) for name, count in rows(_FAILURES)),
            malformed=tuple((role, malformed, replies) for role, malformed, replies in rows(_MALFORMED)),
        )


class DiskUse(NamedTuple):
    """Bytes of a warehouse, and the free and all bytes of its disk."""

    used: int
    free: int
    total: int


def disk_use(root: Path) -> DiskUse:
    """Measure how much of its disk a warehouse uses."""
    disk, used = shutil.disk_usage(root), 0
    for path in root.rglob("*"):
        try:
            found = path.lstat()
        except FileNotFoundError:
            # Another process has just removed it.
            continue
        used += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return DiskUse(used, disk.free, disk.total)


def status_lines(config: Config, warehouse: Warehouse, run_id: str = "") -> list[str]:
    """Describe what a run does, has done and needs, as lines for a terminal."""
    context = RoundContext(config, warehouse, 1, run_id)
    runs, now, ahead = flow_runs(warehouse, context.run_id), working_stage(context), rollout_ahead(context)
    results, disk = run_results(warehouse, context.run_id), disk_use(warehouse.root)
    finished = f"{results.rounds} finished"
    rounds = [f"{finished}, policy {results.policy}" if results.policy else finished, results.reason]
    # A choice by a command or the configuration counts more than the last round.
    if chosen := choices(first_unfinished(context)):
        version = chosen[-1].policy_row.model_version
        rounds = [f"{finished}, policy {version}, chosen since then; `trajmill policy list` says why"]
    used = "used" if warehouse.store.is_local else "of copies on this machine"
    sections: list[tuple[str, Sequence[str]]] = [
        ("run", [f"{context.run_id} in {warehouse.address}"]),
        ("now", [now_line(now)]),
        ("ahead", [ahead_line(ahead)] if ahead else []),
        ("last", [f"{run.flow} {run.state} at {run.time}: {run.line}" for run in runs.last]),
        ("next", [f"{run.flow} at {run.time}" for run in runs.next]),
        ("server", [runs.problem] if runs.problem else []),
        ("rounds", [line for line in rounds if line]),
        ("success", list(map(str, results.success))),
        ("judge", list(map(str, results.judge))),
        ("failures", [", ".join(f"{count} {name}" for name, count in results.failures) or "none"]),
        (
            "malformed",
            [
                f"{malformed:,} of {replies:,} replies of the {role} in the newest round"
                for role, malformed, replies in results.malformed
            ],
        ),
        ("money", [f"{_money(results.cost)} in all, {_money(results.last_cost)} in the last round"]),
        ("disk", [f"{disk.used / 1e9:,.2f} GB {used}, {disk.free / 1e9:,.1f} GB free"]),
        ("to do", [f"needs a person: {line}" for line in _needs(context, runs, now, disk)] or ["nothing"]),
    ]
    return [
        _CONTROL.sub(" ", f"{name if place == 0 else '':<9} {text}".rstrip())
        for name, texts in sections
        for place, text in enumerate(texts)
    ]


def _money(price: float) -> str:
    """Cents, or as many digits as a smaller price needs."""
    return f"{price:,.2f}" if price >= 1 or not price else f"{price:.2g}"


def _needs(context: RoundContext, runs: FlowRuns, now: WorkingStage, disk: DiskUse) -> Iterator[str]:
    """Yield a line for each thing that waits for a person."""
    warehouse = context.warehouse
    uncommitted = warehouse.store.get(warehouse.name(trouble_file(warehouse, context.run_id)))
    if uncommitted is not None:
        yield f"`trajmill env serve` cannot commit its episodes, and tries again: {uncommitted.decode()}"
    stored = list(trouble(warehouse, context.run_id, context.config.serve, datetime.now(UTC)))
    yield from stored
    for run in runs.last:
        how = f"{run.flow} ended as {run.state}"
        if run.state in _LOST and not any(each.startswith(how) for each in stored):
            yield f"{how}: {run.line}"
    if runs.problem and runs.address:
        yield f"{runs.problem}; start `trajmill serve` again, or correct PREFECT_API_URL"
    if now.stage == TRAIN and now.process is None:
        yield f"round {now.round} waits at its training; `trajmill train` says for what"
    if disk.free < _LITTLE_DISK * disk.total:
        yield "the disk is nearly full: `trajmill vacuum`, `trajmill compact`, [retention]"
