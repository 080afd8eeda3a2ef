"""Finds out which stage of a run works now, and how far it is."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from trajmill.flows.context import RoundContext
from trajmill.flows.round import current_round
from trajmill.flows.round_stages import stages_of
from trajmill.flows.stage import report_of
from trajmill.flows.tasks.planned import planned_attempts
from trajmill.pipelines.rollout import attempt_counter

_MARKER = "done.json"


class WorkingStage(NamedTuple):
    """The first stage of a run that is not finished."""

    round: int
    stage: str
    process: int | None
    """The process that works on it; None if nobody does."""
    done: int
    """Finished attempts."""
    total: int | None
    """Attempts that it makes, at most; None for a stage that makes none."""
    seconds: float
    """Since it began, or since the process went on with it."""

    @property
    def seconds_left(self) -> float | None:
        """At the rate so far; None if it is not known."""
        return None if not self.done or self.total is None else self.seconds / self.done * (self.total - self.done)


def working_stage(context: RoundContext) -> WorkingStage:
    """The stage of a run that works now, or that would be next."""
    current = current_round(context.config)
    stage = next(each for each in stages_of(context.config) if report_of(each.in_its_round(current), each.name) is None)
    within = stage.in_its_round(current)
    lock = context.warehouse.staging(context.run_id) / "lock"
    began = max((path.stat().st_mtime for path in (lock, *_markers(context)) if path.exists()), default=time.time())
    return WorkingStage(
        current.round,
        stage.name,
        owner_of(lock),
        attempt_counter(context.warehouse, within.at(stage.name)).count(),
        planned_attempts(within, stage.name),
        max(time.time() - began, 0.0),
    )


def owner_of(lock: Path) -> int | None:
    """The process that holds the lock of a run; None if none does. Nothing is locked by asking."""
    try:
        process, inode = int(lock.read_text()), lock.stat().st_ino
    except (OSError, ValueError):
        return None
    locks = Path("/proc/locks")
    if locks.exists():
        held = any(line.split()[5].endswith(f":{inode}") for line in locks.read_text().splitlines() if "FLOCK" in line)
        return process if held else None
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return process
    return process


def _markers(context: RoundContext) -> list[Path]:
    return list(context.warehouse.staging(context.run_id).glob(f"*/{_MARKER}"))
