"""Shows the slots of a worker to other processes: a small file in its stage's staging folder, once a second."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from trajmill.stages.rollout.base import SlotBoard, SlotState, SlotView
from trajmill.warehouse.layout import Warehouse

_SUFFIX = ".slots"
_SECONDS_BETWEEN = 1.0
_SECONDS_ALIVE = 15.0
"""A file that is older belongs to a worker that has ended or is stuck."""
_MOST_BYTES = 8 << 20


class LiveSlots(NamedTuple):
    """The slots of all running workers of a run."""

    workers: int
    slots: tuple[SlotView, ...]
    spent: Mapping[SlotState, float]
    """Seconds of all slots in each state, since their workers began."""


@asynccontextmanager
async def shown_slots(board: SlotBoard, beside: Path) -> AsyncIterator[None]:
    """Write the board's slots next to a file of the worker while the block runs; a full disk does not end the work."""
    file = beside.with_suffix(_SUFFIX)
    temporary = file.with_suffix(f"{_SUFFIX}-{os.getpid()}")

    async def write() -> None:
        while True:
            with suppress(OSError):
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


def read_slots(warehouse: Warehouse, run_id: str) -> LiveSlots:
    """Read the slots of a run's workers; a worker that does not write any more is left out."""
    workers, slots, spent = 0, list[SlotView](), dict.fromkeys(SlotState, 0.0)
    for file in sorted(warehouse.staging(run_id).glob(f"*/*{_SUFFIX}")):
        try:
            if time.time() - file.stat().st_mtime > _SECONDS_ALIVE or file.stat().st_size > _MOST_BYTES:
                continue
            found = json.loads(file.read_bytes())
            slots += [SlotView(SlotState(state), int(step), float(seconds)) for state, step, seconds in found["slots"]]
            for state, seconds in found["spent"].items():
                spent[SlotState(state)] += float(seconds)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue  # It ended while it was read, or was cut short by a full disk.
        workers += 1
    return LiveSlots(workers, tuple(slots), spent)
