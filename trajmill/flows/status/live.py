"""The slots of a run as cells on the terminal: where the time goes, while it goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.status.now import working_stage
from trajmill.flows.status.page import now_line
from trajmill.pipelines.reading.slots import LiveSlots, read_slots
from trajmill.stages.rollout.slots import SlotState, SlotView
from trajmill.warehouse.layout import Warehouse

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


def watch(config: Config, warehouse: Warehouse, console: Console) -> None:
    """Show the slots until Ctrl-C; once, where the output is no terminal."""
    context = RoundContext(config, warehouse, 1)
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
