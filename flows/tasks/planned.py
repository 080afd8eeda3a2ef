"""How many attempts a stage makes, so that progress has a total from the first second."""

from __future__ import annotations

from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import BASELINE
from trajmill.flows.tasks.evaluate import EVALUATE
from trajmill.flows.tasks.guide import GUIDED
from trajmill.flows.tasks.measure import measured_queries
from trajmill.flows.tasks.rollout import ROLLOUT


def planned_attempts(context: RoundContext, stage: str) -> int | None:
    """Attempts that a stage makes, at most; None for a stage that makes none."""
    config = context.config
    if stage == ROLLOUT:
        return config.unguided_episodes
    if stage == GUIDED:
        return config.rollout.episodes_per_round - config.unguided_episodes
    return len(measured_queries(context)) if stage in (BASELINE, EVALUATE) else None
