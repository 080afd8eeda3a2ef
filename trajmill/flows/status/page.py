"""The lines of `trajmill status`: what a run does, what it has reached, and what needs a person."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import urllib.request
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from trajmill.flows.configuration.config import Config
from trajmill.flows.new_run import run_resource
from trajmill.flows.nights.log import last_ends, served, trouble
from trajmill.flows.policies.policy import choices
from trajmill.flows.report.figures import JUDGE, SUCCESS, TABLES, run_views
from trajmill.flows.round import first_unfinished
from trajmill.flows.stage import RoundContext
from trajmill.flows.status.live import WorkingStage, ahead_line, now_line, working_stage
from trajmill.flows.tasks.train import TRAIN
from trajmill.pipelines.online import trouble_file
from trajmill.schemas.secrets import Secrets
from trajmill.warehouse.layout import Warehouse

_SECONDS = 5.0
_MOST = 200
_NO_RUN = "none"
"""A tag that no deployment has."""
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
    found = runs_at(address, run_resource(warehouse, run_id) if deployed else _NO_RUN)
    if not found.problem:
        return found
    ends = (ended for ended, *_ in last_ends(warehouse, run_id).values())
    return found._replace(
        last=tuple(FlowRunLine(each.flow, each.state, f"{each.began:%Y-%m-%d %H:%M:%S}", each.line) for each in ends)
    )


def runs_at(address: str, resource: str = _NO_RUN) -> FlowRuns:
    """Return the runs of a run's deployments at a server; `problem` is the reason if there are none.

    Prefect's client takes seconds to import, so its API is read over HTTP.
    """
    if not address:
        return FlowRuns(problem="no Prefect server is known; `trajmill serve` starts one, PREFECT_API_URL names one")
    headers, base = {"Content-Type": "application/json"}, address.rstrip("/")
    if key := os.environ.get("PREFECT_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    elif pair := os.environ.get("PREFECT_API_AUTH_STRING"):
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"

    def rows(what: str, **criteria: Any) -> list[dict[str, Any]]:
        body = json.dumps({"deployments": {"tags": {"all_": [resource]}}, **criteria}).encode()
        request = urllib.request.Request(f"{base}/{what}/filter", data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            found: list[dict[str, Any]] = json.load(answer)
            return found

    def first_of_each(runs: Sequence[dict[str, Any]], time: str) -> tuple[FlowRunLine, ...]:
        found: dict[str, FlowRunLine] = {}
        for row in runs:
            state, flow, when = row["state"] or {}, flows[row["deployment_id"]], (row[time] or "")[:19]
            message = str(state.get("message") or "")
            found.setdefault(flow, FlowRunLine(flow, str(state.get("name")), when.replace("T", " "), message))
        return tuple(found.values())

    try:
        flows = {row["id"]: row["entrypoint"].rpartition(".")[2] for row in rows("deployments")}
        begun = [row for row in rows("flow_runs", sort="START_TIME_DESC", limit=_MOST) if row["start_time"]]
        scheduled = {"state": {"type": {"any_": ["SCHEDULED"]}}}
        due = rows("flow_runs", flow_runs=scheduled, sort="NEXT_SCHEDULED_START_TIME_ASC")
        return FlowRuns(first_of_each(begun, "start_time"), first_of_each(due, "expected_start_time"), address)
    except (OSError, ValueError, LookupError, TypeError, HTTPException) as error:
        secrets = Secrets.of(os.environ, urls=[address])
        problem = secrets.scrub(f"the Prefect server {address} does not answer ({error})")
        return FlowRuns(address=secrets.scrub(address), problem=problem)


_FAILURES = """
SELECT failure_class, count(*)::BIGINT AS failures FROM failures
WHERE run_id = $1 AND round = (SELECT max(round) FROM failures WHERE run_id = $1) GROUP BY 1 ORDER BY 2 DESC
"""
_MALFORMED = """
SELECT role, count(malformed)::BIGINT AS malformed, count(*)::BIGINT AS replies FROM role_calls
WHERE run_id = $1 AND round = (SELECT max(round) FROM trajectories WHERE run_id = $1)
GROUP BY 1 HAVING count(malformed) > 0 ORDER BY 2 DESC, 1
"""


def result_lines(warehouse: Warehouse, run_id: str) -> dict[str, list[str]]:
    """Describe what a run has reached, by section: rounds, success, judge, failures, malformed replies, money."""
    with run_views(warehouse, run_id) as views:
        rounds, failures, malformed = views.rows(TABLES["rounds"]), views.rows(_FAILURES), views.rows(_MALFORMED)
        first, last = (rounds[0].round, rounds[-1].round) if rounds else (0, 0)
        success = defaultdict[str, list[float]](list)
        for row in views.rows(SUCCESS):
            if row.round >= max(first, last - 1):
                success[row.name].append(row.share)
        judge = [row for row in views.rows(JUDGE) if row.level == "trajectory" and row.round >= last - 1]
    reached = [f"{len(rounds)} finished" + (f", policy {rounds[-1].policy_after}" if rounds else "")]
    money, recent = _money(sum(row.cost for row in rounds)), _money(rounds[-1].cost if rounds else 0.0)
    return {
        "rounds": reached + [row.reason for row in rounds[-1:] if row.reason],
        "success": [_trend(name, shares) for name, shares in sorted(success.items())],
        "judge": [_trend(name, [getattr(row, name) for row in judge]) for name in ("precision", "kappa") if judge],
        "failures": [", ".join(f"{row.failures} {row.failure_class}" for row in failures) or "none"],
        "malformed": [
            f"{row.malformed:,} of {row.replies:,} replies of the {row.role} in the newest round" for row in malformed
        ],
        "money": [f"{money} in all, {recent} in the last round"],
    }


def _trend(name: str, shares: Sequence[float | None]) -> str:
    """Describe the last share, and how it differs from the one before."""
    now, before = shares[-1], shares[-2] if shares[1:] else None
    if now is None:
        return f"{name} not measured"
    if name == "kappa":
        return f"{name} {now:.2f}" + ("" if before is None else f" ({now - before:+.2f})")
    return f"{name} {100 * now:.0f} %" + ("" if before is None else f" ({100 * (now - before):+.0f} points)")


def _money(price: float) -> str:
    """Cents, or as many digits as a smaller price needs."""
    return f"{price:,.2f}" if price >= 1 or not price else f"{price:.2g}"


class DiskUse(NamedTuple):
    """Bytes of a warehouse, and the free and all bytes of its disk."""

    used: int
    free: int
    total: int


def disk_use(root: Path) -> DiskUse:
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
    runs, now, ahead = flow_runs(warehouse, context.run_id), working_stage(context), ahead_line(context)
    results, disk = result_lines(warehouse, context.run_id), disk_use(warehouse.root)
    # A choice by a command or the configuration counts more than the last round.
    if chosen := choices(first_unfinished(context)):
        finished, version = results["rounds"][0].partition(",")[0], chosen[-1].policy_row.model_version
        results["rounds"] = [f"{finished}, policy {version}, chosen since then; `trajmill policy list` says why"]
    used = "used" if warehouse.store.is_local else "of copies on this machine"
    sections: Mapping[str, Sequence[str]] = {
        "run": [f"{context.run_id} in {warehouse.address}"],
        "now": [now_line(now)],
        "ahead": [ahead] if ahead else [],
        "last": [f"{run.flow} {run.state} at {run.time}: {run.line}" for run in runs.last],
        "next": [f"{run.flow} at {run.time}" for run in runs.next],
        "server": [runs.problem] if runs.problem else [],
        **results,
        "disk": [f"{disk.used / 1e9:,.2f} GB {used}, {disk.free / 1e9:,.1f} GB free"],
        "to do": [f"needs a person: {line}" for line in _needs(context, runs, now, disk)] or ["nothing"],
    }
    return [
        _CONTROL.sub(" ", f"{'' if place else name:<9} {text}".rstrip())
        for name, texts in sections.items()
        for place, text in enumerate(texts)
    ]


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
