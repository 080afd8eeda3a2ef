"""How many attempts a stage makes, so that progress has a total from the first second."""

from __future__ import annotations

from contextlib import AbstractContextManager

from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import BASELINE
from trajmill.flows.tasks.evaluate import EVALUATE
from trajmill.flows.tasks.guide import GUIDED
from trajmill.flows.tasks.measure import measured_queries
from trajmill.flows.tasks.rollout import ROLLOUT
from trajmill.flows.tasks.train import TRAIN
from trajmill.flows.tasks.watched import StageCounter, watched_work


def planned_attempts(context: RoundContext, stage: str) -> int | None:
    """Attempts that a stage makes, at most; None for a stage that makes none."""
    config = context.config
    if stage == ROLLOUT:
        return config.unguided_episodes
    if stage == GUIDED:
        return config.rollout.episodes_per_round - config.unguided_episodes
    return len(measured_queries(context)) if stage in (BASELINE, EVALUATE) else None


def stage_counter(context: RoundContext, stage: str) -> StageCounter:
    """Counts how far a stage of a round is."""
    return StageCounter(context.warehouse, context.at(stage), planned_attempts(context, stage))


def watched(context: RoundContext, stage: str) -> AbstractContextManager[None]:
    """Show how far a stage of a round is."""
    unit = "updates" if stage == TRAIN else "rows"
    return watched_work(context.warehouse, context.at(stage), stage, planned_attempts(context, stage), unit)
