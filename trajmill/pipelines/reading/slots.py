"""Shows the slots of a worker to other processes: a small file in its stage's staging folder, once a second."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from trajmill.stages.rollout.base import SlotBoard, SlotState, SlotView
from trajmill.warehouse.layout import Warehouse

_SUFFIX = ".slots"
_SCREENS = ".slot-screens"
_SECONDS_BETWEEN = 1.0
_SECONDS_ALIVE = 15.0
"""A file that is older belongs to a worker that has ended or is stuck."""
_MOST_BYTES = 8 << 20


class LiveSlots(NamedTuple):
    workers: int
    slots: tuple[SlotView, ...]
    spent: Mapping[SlotState, float]
    """Seconds of all slots in each state, since their workers began."""


@asynccontextmanager
async def shown_slots(board: SlotBoard, beside: Path, with_screens: bool = False) -> AsyncIterator[None]:
    """Write the board's slots next to a file of the worker while the block runs; a full disk does not end the work.

    With `with_screens`, the last screen of each slot is written, too: for environments that have its image already.
    """
    file, screens = beside.with_suffix(_SUFFIX), beside.with_suffix(_SCREENS)
    temporary = file.with_suffix(f"{_SUFFIX}-{os.getpid()}")

    def write_screens() -> None:
        shown = board.screens()
        screens.mkdir(exist_ok=True)
        for path in screens.iterdir():
            if shown.pop(path.name, None) is None:
                path.unlink()
        for screen_id, screen in shown.items():
            temporary.write_bytes(screen.encode())
            temporary.replace(screens / screen_id)

    async def write() -> None:
        while True:
            with suppress(OSError):
                if with_screens:
                    write_screens()
                temporary.write_text(json.dumps({"slots": board.views(), "spent": board.spent()}))
                temporary.replace(file)
            await asyncio.sleep(_SECONDS_BETWEEN)

    writing = asyncio.create_task(write())
    try:
        yield
    finally:
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing
        file.unlink(missing_ok=True)
        shutil.rmtree(screens, ignore_errors=True)


def read_slots(warehouse: Warehouse, run_id: str) -> LiveSlots:
    """Read the slots of a run's workers; a worker that does not write any more is left out."""
    workers, slots, spent = 0, list[SlotView](), dict.fromkeys(SlotState, 0.0)
    for file in sorted(warehouse.staging(run_id).glob(f"*/*{_SUFFIX}")):
        try:
            if time.time() - file.stat().st_mtime > _SECONDS_ALIVE or file.stat().st_size > _MOST_BYTES:
                continue
            found = json.loads(file.read_bytes())
            views = [
                SlotView(SlotState(state), int(step), float(seconds), *map(str, texts))
                for state, step, seconds, *texts in found["slots"]
            ]
            times = {SlotState(state): float(seconds) for state, seconds in found["spent"].items()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue  # It ended while it was read, or was cut short by a full disk.
        slots += views
        for state, seconds in times.items():
            spent[state] += seconds
        workers += 1
    return LiveSlots(workers, tuple(slots), spent)


def slot_screen(warehouse: Warehouse, run_id: str, screen_id: str) -> bytes | None:
    for path in warehouse.staging(run_id).glob(f"*/*{_SCREENS}/*"):
        if path.name == screen_id:
            with suppress(OSError):
                return path.read_bytes()
    return None
