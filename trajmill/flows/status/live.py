"""What a run does now: its working stage, the rollout ahead of it, and its slots as cells on the terminal."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from trajmill.flows.configuration.config import Config
from trajmill.flows.importing.import_folder import working_import
from trajmill.flows.policies.policy import acting_round, policy_before
from trajmill.flows.round import first_unfinished, stage_counter, stages_of
from trajmill.flows.stage import RoundContext, has_begun, report_of
from trajmill.flows.tasks.rollout import ROLLOUT
from trajmill.pipelines.reading.slots import read_slots
from trajmill.stages.rollout.base import SlotState
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.lock import worker_of

_CLOCK = 1.0
"""Seconds by which the times of two files may differ that were written one after the other."""
_SECONDS_BETWEEN = 1.0
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
_BAR = 40


class WorkingStage(NamedTuple):
    """The first stage of a run that is not finished."""

    round: int
    stage: str
    process: str | None
    """The process that works on it, of another machine with its name; None if nobody does."""
    done: int
    """Finished attempts, judged trajectories, or what else it counts."""
    total: int | None
    """How many it has, attempts at most; None if it is not known."""
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
    done, total = stage_counter(following, ROLLOUT).progress()
    of = "" if total is None else f" of {total:,}"
    count = f"{done:,}{of} attempts" if report_of(following, ROLLOUT) is None else "finished"
    policy = policy_before(acting_round(following)).version
    return f"round {following.round}, rollout: {count}, by {policy} while round {current.round} learns"


def working_stage(context: RoundContext) -> WorkingStage:
    """Return the stage of a run that works now, or that would be next."""
    current, stages = first_unfinished(context.in_round(1)), stages_of(context.config)
    stage = next(each for each in stages if report_of(each.in_its_round(current), each.name) is None)
    name, within = stage.name, stage.in_its_round(current)
    process = worker_of(context.warehouse, context.run_id)
    began = _began(context)
    # An import of the process may be one into the next round, while this one trains.
    for landing in (current, current.in_round(current.round + 1)) if process else ():
        imported = working_import(landing)
        if imported is not None and _last_change(landing, imported) >= began - _CLOCK:
            name, within = imported, landing
            break
    has_rows = any(has_begun(current, each.name) for each in stages if each.fixed_round is None)
    return WorkingStage(
        current.round,
        name,
        process,
        *stage_counter(within, name).progress(),
        max(time.time() - began, 0.0),
        is_further=current.round > context.config.run.rounds and not has_rows,
    )


def _last_change(context: RoundContext, stage: str) -> float:
    """When a stage wrote last, here or on another machine, in seconds since the epoch."""
    warehouse, folder = context.warehouse, context.at(stage).staging(context.warehouse)
    here = [folder.stat().st_mtime] if folder.exists() else []
    return max([*here, *(file.modified for file in warehouse.store.files(warehouse.name(folder)))], default=0.0)


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
    """Describe what works now, how far it is, and how long it needs."""
    where = f"round {now.round}, {now.stage}"
    if now.process is None and now.is_further:
        return "nobody is at work; all configured rounds are done; with a larger run.rounds `trajmill evolve` does more"
    if now.process is None:
        return f"nobody is at work; {where} is next"
    of, rate, left = "" if now.total is None else f" of {now.total:,}", "", ""
    count = f", {now.done:,}{of}" if now.done or of else ""
    if now.done and now.seconds:
        rate = f", {now.done / now.seconds:,.1f} a second"
    if now.done and now.total is not None:
        left = f", {_duration(now.seconds / now.done * (now.total - now.done))} left"
    return f"{where} since {_duration(now.seconds)}{count}{rate}{left} (process {now.process})"


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def watch(config: Config, warehouse: Warehouse, console: Console, run_id: str = "") -> None:
    """Show the slots until Ctrl-C; once if the output is no terminal."""
    context = RoundContext(config, warehouse, 1, run_id)
    if not console.is_terminal:
        console.print(live_page(context))
        return
    with Live(live_page(context), console=console, auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(_SECONDS_BETWEEN)
            live.update(live_page(context), refresh=True)


def live_page(context: RoundContext) -> RenderableType:
    """Render the working stage, the shares of the slots' time, and a cell for each slot."""
    slots = read_slots(context.warehouse, context.run_id)
    head = Text(f"{context.run_id}: {now_line(working_stage(context))}")
    if not slots.workers:
        return Group(head, Text("no rollout is at work, so there are no slots", style="dim"))
    count = Text(f"{len(slots.slots)} slots of {slots.workers} {'workers' if slots.workers > 1 else 'worker'}")
    total, shares, cells = sum(slots.spent.values()) or 1.0, [], []
    for state, seconds in slots.spent.items():
        now = sum(slot.state is state for slot in slots.slots)
        line = Text(f"{state:<12}{100 * seconds / total:5.1f} % ")
        line.append("█" * round(_BAR * seconds / total), style=_STYLES[state][0])
        shares.append(line.append(f" {now} now"))
    for slot in slots.slots:
        style, short = _STYLES[slot.state]
        late = slot.seconds > _LATE and slot.state is not SlotState.IDLE
        cells.append(Text(f"{slot.step:>3} {short:<5} {slot.seconds:4.0f}", style=f"bold {style}" if late else style))
    columns = Columns(cells, padding=(0, 1), equal=True)
    return Group(head, count, *shares, Text(), Text("step, what it waits for, seconds"), columns)
