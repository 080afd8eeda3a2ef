"""The lines of `trajmill status`: what a run does, has reached and needs; and its slots as cells on the terminal."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import time
import urllib.request
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from trajmill.flows.importing.import_folder import working_import
from trajmill.flows.new_run import RESOURCE, run_resource
from trajmill.flows.nights.log import last_ends, served, trouble
from trajmill.flows.policies.policy import acting_round, choices, policy_before
from trajmill.flows.progress import StageCounter
from trajmill.flows.report.figures import SPLIT_NAMES, money, run_views
from trajmill.flows.round import first_unfinished, stages_of
from trajmill.flows.stage import RoundContext, has_begun, report_of
from trajmill.flows.tasks.rollout import ROLLOUT
from trajmill.flows.tasks.train import TRAIN
from trajmill.pipelines.executors.cluster import DASHBOARD
from trajmill.pipelines.online import TROUBLE
from trajmill.pipelines.reading.slots import read_slots
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.secrets import Secrets
from trajmill.stages.rollout.base import SlotState
from trajmill.warehouse.layout import Warehouse, worker_of
from trajmill.warehouse.staging import last_change

T = TypeVar("T")

_CLOCK = 1.0
"""Seconds by which the times of two files may differ that were written one after the other."""
LITTLE_DISK = 0.05
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that would act on the terminal; messages come from outside."""
_DISK_IS_FULL = "the disk is nearly full: `trajmill vacuum`, `trajmill compact`, [retention]"
_STYLES: Mapping[SlotState, tuple[str, str]] = {
    SlotState.INSTANCE: ("magenta", "start"),
    SlotState.ENVIRONMENT: ("cyan", "env"),
    SlotState.MODEL: ("yellow", "model"),
    SlotState.STORING: ("green", "store"),
    SlotState.IDLE: ("dim", "idle"),
}
"""Colour and short name of each state of a slot."""
_LATE = 30.0
"""Seconds from which a slot waits long."""


class WorkingStage(NamedTuple):
    """The first stage of a run that is not finished."""

    round: int
    stage: str
    process: str | None
    """The process that works on it, of another machine with its name; None if nobody does."""
    done: int
    """Finished attempts, judged trajectories, or what else it counts, of `total` if that is known."""
    total: int | None
    seconds: float
    """Since it began, or since the process continued it."""
    is_further: bool = False
    """Whether it is the first one of a round after the configured ones, which `evolve` does not begin."""


def ahead_line(context: RoundContext) -> str:
    """Describe the rollout of the round after the current one (`run.asynchronous`); empty if it has not begun.

    It names the version that acts: the one in force, not the one that is trained meanwhile.
    """
    current = first_unfinished(context.in_round(1))
    following = current.in_round(current.round + 1)
    if not has_begun(following, ROLLOUT):
        return ""
    done, total = StageCounter(following.warehouse, following.at(ROLLOUT)).progress()
    of = "" if total is None else f" of {total:,}"
    count = f"{done:,}{of} attempts" if report_of(following, ROLLOUT) is None else "finished"
    policy = policy_before(acting_round(following)).version
    return f"round {following.round}, rollout: {count}, by {policy} while round {current.round} learns"


def working_stage(context: RoundContext) -> WorkingStage:
    """Return the stage of a run that works now, or that would be next."""
    current, stages = first_unfinished(context.in_round(1)), stages_of(context.config)
    stage = next(each for each in stages if report_of(each.in_its_round(current), each.name) is None)
    name, within, began = stage.name, stage.in_its_round(current), _began(context)
    process = worker_of(context.warehouse, context.run_id)
    # An import of the process may be one into the next round, while this one trains.
    for landing in (current, current.in_round(current.round + 1)) if process else ():
        imported = working_import(landing)
        if imported is not None:
            staged = landing.at(imported).staging(context.warehouse)
            if last_change(context.warehouse, staged) >= began - _CLOCK:
                name, within = imported, landing
                break
    has_rows = any(has_begun(current, each.name) for each in stages if each.fixed_round is None)
    is_further = current.round > context.config.run.rounds and not has_rows
    counts = StageCounter(within.warehouse, within.at(name)).progress()
    return WorkingStage(current.round, name, process, *counts, max(time.time() - began, 0.0), is_further)


def _began(context: RoundContext) -> float:
    """When the run was locked, or its last stage ended, in seconds since the epoch; now for a new run."""
    folder = context.warehouse.name(context.warehouse.staging(context.run_id))
    changes = (
        file.modified
        for file in context.warehouse.store.files(folder)
        if re.match("lock|[^/]+/done.json$", file.name.removeprefix(f"{folder}/"))
    )
    return max(changes, default=time.time())


def now_line(now: WorkingStage) -> str:
    where, done = f"round {now.round}, {now.stage}", "all configured rounds are done"
    if now.process is None:
        idle = f"{done}; raise run.rounds for more" if now.is_further else f"{where} is next"
        return f"idle; {idle}"
    of = "" if now.total is None else f" of {now.total:,}"
    parts = [f"{where} since {timedelta(seconds=round(now.seconds))}"]
    parts += [f"{now.done:,}{of}"] if now.done or of else []
    parts += [f"{now.done / now.seconds:,.1f} a second"] if now.done and now.seconds else []
    if now.done and now.total is not None:
        parts.append(f"{timedelta(seconds=round(now.seconds / now.done * (now.total - now.done)))} left")
    return f"{', '.join(parts)} (process {now.process})"


def watch(context: RoundContext, console: Console) -> None:
    if not console.is_terminal:
        console.print(live_page(context))
        return
    with Live(live_page(context), console=console, auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(1.0)
            live.update(live_page(context), refresh=True)


def live_page(context: RoundContext) -> RenderableType:
    slots = read_slots(context.warehouse, context.run_id)
    working = working_stage(context)
    head = Text("\n".join([f"{context.run_id}: {now_line(working)}", *_cluster(context, working)]))
    if not slots.workers:
        return Group(head, Text("no rollout is running", style="dim"))
    count = Text(f"{len(slots.slots)} slots of {slots.workers} {'workers' if slots.workers > 1 else 'worker'}")
    total, shares = sum(slots.spent.values()) or 1.0, []
    for state, seconds in slots.spent.items():
        now = sum(slot.state is state for slot in slots.slots)
        bar = ("█" * round(40 * seconds / total), _STYLES[state][0])
        shares.append(Text.assemble(f"{state:<12}{100 * seconds / total:5.1f} % ", bar, f" {now} now"))
    cells = Columns(padding=(0, 1), equal=True)
    for slot in slots.slots:
        style, short = _STYLES[slot.state]
        late = "bold " if slot.seconds > _LATE and slot.state is not SlotState.IDLE else ""
        cells.add_renderable(Text(f"{slot.step:>3} {short:<5} {slot.seconds:4.0f}", style=late + style))
    return Group(head, count, *shares, Text(), Text("step, what it waits for, seconds"), cells)


def _cluster(context: RoundContext, now: WorkingStage) -> list[str]:
    """Return the link to a cluster's pages, with what the cluster lacks, while a process works."""
    link = context.warehouse.store.get(context.warehouse.run_file(context.run_id, DASHBOARD))
    return [link.decode()] if link and now.process else []


class FlowRunLine(NamedTuple):
    flow: str
    state: str
    """Name of its state, e.g. `Collected`; `Scheduled` for one that has not begun."""
    time: str
    line: str


class FlowRuns(NamedTuple):
    """The last run of each deployment that has ended or runs, and the next one."""

    last: tuple[FlowRunLine, ...] = ()
    next: tuple[FlowRunLine, ...] = ()
    address: str = ""
    """The API of the Prefect server; empty if none is known."""
    problem: str = ""
    """Why the server could not be read; the last runs are then those that the warehouse has stored."""
    about: str = ""
    """What its deployments say of the run and its warehouse."""


def flow_runs(warehouse: Warehouse | None, run_id: str) -> FlowRuns:
    """Return the runs at the server that PREFECT_API_URL names, else at the one that served the run last."""
    deployed = None if warehouse is None else served(warehouse, run_id)
    address = os.environ.get("PREFECT_API_URL") or (deployed.address if deployed else "")
    # No deployment has the tag `none`.
    resource = run_resource(warehouse, run_id) if warehouse and deployed else "none"
    found = runs_at(address, resource).get(resource, FlowRuns())
    if warehouse is None or not found.problem:
        return found
    ends = (ended for ended, *_ in last_ends(warehouse, run_id).values())
    return found._replace(
        last=tuple(FlowRunLine(e.flow, e.state, f"{e.began:%Y-%m-%d %H:%M:%S}", e.line) for e in ends)
    )


def runs_at(address: str, resource: str = "") -> dict[str, FlowRuns]:
    """Return the flow runs at a server of one run, or of all, by the tag that its deployments have.

    If the server cannot be read, `problem` of the given tag says why. Prefect's client takes seconds to import, so its
    API is read over HTTP.
    """
    if not address:
        problem = "no Prefect server is known; `trajmill serve` starts one, PREFECT_API_URL names one"
        return {resource: FlowRuns(problem=problem)}
    headers, tagged = {"Content-Type": "application/json"}, {"deployments": {"tags": {"all_": [resource]}}}
    if key := os.environ.get("PREFECT_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    elif pair := os.environ.get("PREFECT_API_AUTH_STRING"):
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"

    def rows(what: str, **criteria: Any) -> Any:
        data = json.dumps((tagged if resource else {}) | criteria).encode()
        request = urllib.request.Request(f"{address.rstrip('/')}/{what}/filter", data, headers)
        with urllib.request.urlopen(request, timeout=5.0) as answer:
            return json.load(answer)

    try:
        flows, about = dict[str, tuple[str, str]](), {}
        for row in rows("deployments"):
            for tag in row["tags"]:
                if tag.startswith(RESOURCE):
                    flows[row["id"]] = tag, row["entrypoint"].rpartition(".")[2]
                    about[tag] = str(row["description"] or tag)
        begun = rows("flow_runs", sort="START_TIME_DESC", limit=200)
        scheduled = {"state": {"type": {"any_": ["SCHEDULED"]}}}
        due = rows("flow_runs", flow_runs=scheduled, sort="NEXT_SCHEDULED_START_TIME_ASC")
        # By tag, the first line of each flow.
        last, coming = (defaultdict[str, dict[str, FlowRunLine]](dict) for _ in range(2))
        for lines, found, time in ((last, begun, "start_time"), (coming, due, "expected_start_time")):
            for row in found:
                if row["deployment_id"] in flows and row[time]:
                    state, (tag, flow), when = row["state"] or {}, flows[row["deployment_id"]], row[time][:19]
                    words = (str(state.get("name")), when.replace("T", " "), str(state.get("message") or ""))
                    lines[tag].setdefault(flow, FlowRunLine(flow, *words))
        return {
            tag: FlowRuns(tuple(last[tag].values()), tuple(coming[tag].values()), address, about=about.get(tag, ""))
            for tag in ([resource] if resource else about)
        }
    except (OSError, ValueError, LookupError, TypeError, HTTPException) as error:
        scrub = Secrets.of(os.environ, urls=[address]).scrub
        problem = scrub(f"the Prefect server {address} does not answer ({getattr(error, 'reason', error)})")
        return {resource: FlowRuns(address=scrub(address), problem=problem)}


def server_lines() -> list[str]:
    """Describe all runs at the server that PREFECT_API_URL names. Raises BadInputError if it cannot be read."""
    lines = []
    for runs in sorted(runs_at(os.environ.get("PREFECT_API_URL", "")).values(), key=lambda runs: runs.about):
        if runs.problem:
            raise BadInputError(runs.problem)
        lines += _lines({"run": [runs.about.removeprefix("Run ").removesuffix(".")], **_flow_sections(runs)})
    return lines or ["no run of trajmill is deployed at this server"]


def _flow_sections(runs: FlowRuns) -> dict[str, Sequence[str]]:
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    return {
        "last": [f"{run.flow} {run.state} at {run.time}{run.line and f': {run.line}'}" for run in runs.last],
        "next": [f"{run.flow} at {run.time}{', overdue' if run.time < now else ''}" for run in runs.next],
    }


def _lines(sections: Mapping[str, Sequence[str]]) -> list[str]:
    return [
        _CONTROL.sub(" ", f"{'' if place else name:<9} {text}".rstrip())
        for name, texts in sections.items()
        for place, text in enumerate(texts)
    ]


def result_lines(warehouse: Warehouse, run_id: str) -> dict[str, list[str]]:
    """Describe what a run has reached, by section: rounds, success, judge, failures, malformed replies, money."""
    with run_views(warehouse, run_id) as views:
        rounds, measured, judged = map(views.rows, ("rounds", "success", "judge"))
        failures, malformed = map(views.rows, ("last_failures", "last_malformed"))
    recent = max(rounds[0].round, rounds[-1].round - 1) if rounds else 0
    success = defaultdict[str, list[float]](list)
    for row in measured:
        if row.round >= recent:
            success[row.name].append(row.share)
    judge = [row for row in judged if row.level == "trajectory" and row.round >= recent]
    reached = f"{len(rounds)} finished" + (f", policy {rounds[-1].policy_after}" if rounds else "")
    costs = [row.cost for row in rounds]
    return {
        "rounds": [reached, *(row.reason for row in rounds[-1:] if row.reason)],
        "success": [_trend(name, success[split]) for split, name in SPLIT_NAMES.items() if split in success],
        "judge": [_trend(name, [getattr(row, name) for row in judge]) for name in ("precision", "kappa") if judge],
        "failures": [", ".join(f"{row.failures} {row.failure_class}" for row in failures) or "none"],
        "malformed": [f"{row.malformed:,} of {row.replies:,} replies of the {row.role}" for row in malformed],
        "money": [f"{money(sum(costs))} in all, {money(sum(costs[-1:]))} in the last round"],
    }


def _trend(name: str, shares: Sequence[float | None]) -> str:
    now, before = shares[-1], shares[-2] if shares[1:] else None
    if now is None:
        return f"{name} not measured"
    if name == "kappa":
        return f"{name} {now:.2f}" + ("" if before is None else f" ({now - before:+.2f})")
    return f"{name} {100 * now:.0f} %" + ("" if before is None else f" ({100 * (now - before):+.0f} points)")


def used_bytes(root: Path) -> int:
    used = 0
    for path in root.rglob("*"):
        with suppress(FileNotFoundError):  # Another process may just have removed it.
            found = path.lstat()
            used += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return used


class Status(NamedTuple):
    lines: list[str]
    damaged: list[str]
    """What could not be read, one line each; the lines have the rest."""


def status_of(context: RoundContext) -> Status:
    warehouse, damaged = context.warehouse, list[str]()

    def readable(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except BadInputError as error:
            damaged.extend({str(error)}.difference(damaged))
            return None

    runs = readable(lambda: flow_runs(warehouse, context.run_id)) or FlowRuns()
    nights = readable(lambda: list(trouble(warehouse, context.run_id, context.config.serve, datetime.now(UTC))))
    now = readable(lambda: working_stage(context))
    results = readable(lambda: result_lines(warehouse, context.run_id)) or {}
    # A choice by a command or the configuration counts more than the last round.
    if (chosen := readable(lambda: choices(first_unfinished(context)))) and results:
        finished, version = results["rounds"][0].partition(",")[0], chosen[-1].policy_row.model_version
        results["rounds"] = [f"{finished}, policy {version}, chosen since then; see `trajmill policy list`"]
    disk = shutil.disk_usage(warehouse.root)
    needs = list(_needs(context, nights or (), runs, now))
    needs += [_DISK_IS_FULL] if disk.free < LITTLE_DISK * disk.total else []
    used = "used" if warehouse.store.is_local else "of copies on this machine"
    sections = {
        "run": [f"{context.run_id} in {warehouse.address}"],
        "now": [now_line(now)] if now else [],
        "ahead": [line] if (line := readable(lambda: ahead_line(context))) else [],
        "cluster": _cluster(context, now) if now else [],
        **_flow_sections(runs),
        "server": [runs.problem] if runs.problem else [],
        **results,
        "disk": [f"{used_bytes(warehouse.root) / 1e9:,.2f} GB {used}, {disk.free / 1e9:,.1f} GB free"],
        "to do": [f"needs a person: {line}" for line in (*damaged, *needs)] or ["nothing"],
    }
    return Status(_lines(sections), damaged)


def _needs(context: RoundContext, nights: Sequence[str], runs: FlowRuns, now: WorkingStage | None) -> Iterator[str]:
    warehouse = context.warehouse
    uncommitted = warehouse.store.get(warehouse.run_file(context.run_id, TROUBLE))
    if uncommitted is not None:
        yield f"`trajmill env serve` cannot commit its episodes, and tries again: {uncommitted.decode()}"
    yield from nights
    for run in runs.last:
        how = f"{run.flow} ended as {run.state}"
        # Those that ended so may have no entry in the warehouse.
        if run.state in ("Crashed", "Failed", "TimedOut") and not any(each.startswith(how) for each in nights):
            yield f"{how}: {run.line}"
    if runs.problem and runs.address:
        yield f"{runs.problem}; start `trajmill serve` again, or correct PREFECT_API_URL"
    if now is not None and now.stage == TRAIN and now.process is None:
        yield f"round {now.round} waits before its training; `trajmill train` names the reason"
