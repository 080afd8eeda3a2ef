"""Finds out which stage of a run works now, and how far it is."""

from __future__ import annotations

import time
from typing import NamedTuple

from trajmill.flows.context import RoundContext
from trajmill.flows.round import current_round
from trajmill.flows.round_stages import stages_of
from trajmill.flows.stage import report_of
from trajmill.flows.tasks.planned import planned_attempts
from trajmill.pipelines.rollout import attempt_counter
from trajmill.warehouse.lock import worker_of

_MARKER = "/done.json"


class WorkingStage(NamedTuple):
    """The first stage of a run that is not finished."""

    round: int
    stage: str
    process: str | None
    """The process that works on it, of another machine with its name; None if nobody does."""
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
    began = max(_changes(context), default=time.time())
    return WorkingStage(
        current.round,
        stage.name,
        worker_of(context.warehouse, context.run_id),
        attempt_counter(context.warehouse, within.at(stage.name)).count(),
        planned_attempts(within, stage.name),
        max(time.time() - began, 0.0),
    )


def _changes(context: RoundContext) -> list[float]:
    """When the run was locked, and when its stages ended, in seconds since the epoch."""
    folder = context.warehouse.name(context.warehouse.staging(context.run_id))
    files = ((file, file.name.removeprefix(f"{folder}/")) for file in context.warehouse.store.files(folder))
    return [
        file.modified
        for file, name in files
        if (name.endswith(_MARKER) and name.count("/") == 1) or name.startswith("lock")
    ]
