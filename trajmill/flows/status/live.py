"""What a run does now: its working stage, the rollout ahead of it, and its slots as cells on the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import NamedTuple

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.importing.import_folder import working_import
from trajmill.flows.policies.policy import acting_round, policy_before
from trajmill.flows.round import first_unfinished, stages_of
from trajmill.flows.stage import has_begun, report_of
from trajmill.flows.tasks.planned import stage_counter
from trajmill.flows.tasks.rollout import ROLLOUT
from trajmill.pipelines.reading.slots import LiveSlots, read_slots
from trajmill.stages.rollout.slots import SlotState, SlotView
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.lock import worker_of

_MARKER = "/done.json"
_CLOCK = 1.0
"""Seconds by which the times of two files may be apart that were written one after the other."""
_SECONDS_BETWEEN = 1.0
_STYLES: Mapping[SlotState, str] = {
    SlotState.INSTANCE: "magenta",
    SlotState.ENVIRONMENT: "cyan",
    SlotState.MODEL: "yellow",
    SlotState.STORING: "green",
    SlotState.IDLE: "dim",
}
_SHORT: Mapping[SlotState, str] = {
    SlotState.INSTANCE: "start",
    SlotState.ENVIRONMENT: "env",
    SlotState.MODEL: "model",
    SlotState.STORING: "store",
    SlotState.IDLE: "idle",
}
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
    """Since it began, or since the process went on with it."""
    is_further: bool = False
    """Whether it is the first one of a round after the configured ones, which `evolve` does not begin."""

    @property
    def seconds_left(self) -> float | None:
        """At the rate so far; None if it is not known."""
        return None if not self.done or self.total is None else self.seconds / self.done * (self.total - self.done)


class RolloutAhead(NamedTuple):
    """The rollout of a round whose predecessor has not ended (`run.asynchronous`)."""

    round: int
    policy: str
    """The version that acts in it: the one in force, not the one that is trained meanwhile."""
    done: int
    """Finished attempts."""
    total: int | None
    """How many it has at most; None if it is not known."""
    is_finished: bool


def rollout_ahead(context: RoundContext) -> RolloutAhead | None:
    """The rollout of the next round of a run, if it has begun; else None."""
    current = first_unfinished(context.in_round(1))
    following = current.in_round(current.round + 1)
    if not has_begun(following, ROLLOUT):
        return None
    report = report_of(following, ROLLOUT)
    if report is None:
        done, total = stage_counter(following, ROLLOUT).progress()
    else:
        done, total = report.count.rows_out, report.count.rows_in
    policy = policy_before(acting_round(following)).version
    return RolloutAhead(following.round, policy, done, total, report is not None)


def working_stage(context: RoundContext) -> WorkingStage:
    """The stage of a run that works now, or that would be next."""
    current = first_unfinished(context.in_round(1))
    stage = next(each for each in stages_of(context.config) if report_of(each.in_its_round(current), each.name) is None)
    name, within = stage.name, stage.in_its_round(current)
    process = worker_of(context.warehouse, context.run_id)
    began = max(_changes(context), default=time.time())
    imported = _import_since(current, began) if process else None
    if imported is not None:
        name, within = imported
    return WorkingStage(
        current.round,
        name,
        process,
        *stage_counter(within, name).progress(),
        max(time.time() - began, 0.0),
        is_further=current.round > context.config.run.rounds and not _has_begun(current),
    )


def _has_begun(round_: RoundContext) -> bool:
    return any(has_begun(round_, stage.name) for stage in stages_of(round_.config) if stage.fixed_round is None)


def _import_since(current: RoundContext, began: float) -> tuple[str, RoundContext] | None:
    """The import that the process at work does, with its round: it may be the next one, while this one trains."""
    for context in (current, current.in_round(current.round + 1)):
        name = working_import(context)
        if name is not None and _last_change(context, name) >= began - _CLOCK:
            return name, context
    return None


def _last_change(context: RoundContext, stage: str) -> float:
    """When a stage wrote last, here or on another machine, in seconds since the epoch."""
    warehouse, folder = context.warehouse, context.at(stage).staging(context.warehouse)
    here = [folder.stat().st_mtime] if folder.exists() else []
    return max([*here, *(file.modified for file in warehouse.store.files(warehouse.name(folder)))], default=0.0)


def _changes(context: RoundContext) -> list[float]:
    """When the run was locked, and when its stages ended, in seconds since the epoch."""
    folder = context.warehouse.name(context.warehouse.staging(context.run_id))
    files = ((file, file.name.removeprefix(f"{folder}/")) for file in context.warehouse.store.files(folder))
    return [
        file.modified
        for file, name in files
        if (name.endswith(_MARKER) and name.count("/") == 1) or name.startswith("lock")
    ]


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


def watch(config: Config, warehouse: Warehouse, console: Console, run_id: str = "") -> None:
    """Show the slots until Ctrl-C; once, where the output is no terminal."""
    context = RoundContext(config, warehouse, 1, run_id)
    if not console.is_terminal:
        console.print(live_page(context))
        return
    with Live(live_page(context), console=console, auto_refresh=False, screen=True) as live:
        _forever(lambda: live.update(live_page(context), refresh=True))


def live_page(context: RoundContext) -> RenderableType:
    """The working stage, the shares of the slots' time, and a cell for each slot."""
    slots = read_slots(context.warehouse, context.run_id)
    head = Text(f"{context.run_id}: {now_line(working_stage(context))}")
    if not slots.workers:
        return Group(head, Text("no rollout is at work, so there are no slots", style="dim"))
    count = Text(f"{len(slots.slots)} slots of {slots.workers} {'workers' if slots.workers > 1 else 'worker'}")
    cells = Columns([_cell(slot) for slot in slots.slots], padding=(0, 1), equal=True)
    return Group(head, count, *_shares(slots), Text(), Text("step, what it waits for, seconds"), cells)


def _shares(slots: LiveSlots) -> list[Text]:
    """A bar for each state: its share of all slots' time so far, and how many slots are in it now."""
    total = sum(slots.spent.values()) or 1.0
    lines = []
    for state, seconds in slots.spent.items():
        now = sum(slot.state is state for slot in slots.slots)
        line = Text(f"{state:<12}{100 * seconds / total:5.1f} % ")
        line.append("█" * round(_BAR * seconds / total), style=_STYLES[state])
        line.append(f" {now} now")
        lines.append(line)
    return lines


def _cell(slot: SlotView) -> Text:
    style = _STYLES[slot.state]
    late = slot.seconds > _LATE and slot.state is not SlotState.IDLE
    return Text(f"{slot.step:>3} {_SHORT[slot.state]:<5} {slot.seconds:4.0f}", style=f"bold {style}" if late else style)


def _forever(show: Callable[[], None]) -> None:
    while True:
        time.sleep(_SECONDS_BETWEEN)
        show()
