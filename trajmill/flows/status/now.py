"""Finds out which stage of a run works now, and how far it is; and what has begun of the next round."""

from __future__ import annotations

import time
from typing import NamedTuple

from trajmill.flows.context import RoundContext
from trajmill.flows.importing.import_folder import working_import
from trajmill.flows.policies.policy import acting_round, policy_before
from trajmill.flows.round import first_unfinished
from trajmill.flows.round_stages import stages_of
from trajmill.flows.stage import has_begun, report_of
from trajmill.flows.tasks.planned import stage_counter
from trajmill.flows.tasks.rollout import ROLLOUT
from trajmill.warehouse.lock import worker_of

_MARKER = "/done.json"
_CLOCK = 1.0
"""Seconds by which the times of two files may be apart that were written one after the other."""


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
