"""Derive training rows from what the round has judged."""

from __future__ import annotations

from flows.context import RoundContext
from flows.once import Outcome, StageReport, once
from flows.stages.judge import collected
from pipelines.derive import DeriveExamples, DeriveRLSteps
from pipelines.fan_out import fan_out, split_evenly
from pipelines.history import read_history
from schemas.trajectory import Purpose
from warehouse.layout import StageRun

DERIVE = "derive"
DERIVE_RL = "derive_rl"


def derive(context: RoundContext) -> StageReport:
    """Supervised examples from the round's accepted attempts, guided or not."""

    def work(at: StageRun, key: str) -> Outcome:
        trajectories = collected(context, Purpose.TRAIN) + collected(context, Purpose.GUIDED)
        if context.config.judge.filter:
            history = read_history(context.warehouse, context.run_id, [context.round])
            accepted = {attempt.trajectory_id for attempt in history.attempts if attempt.correct}
            chosen = sorted(accepted)
        else:
            chosen = sorted(trajectories)
        job = DeriveExamples(
            context.warehouse,
            at,
            context.origin,
            trust_judge=context.config.judge.filter,
            trust_step_critic=context.config.judge.step_critic,
        )
        shards = split_evenly(chosen, context.config.rollout.workers)
        files = fan_out(context.warehouse, at, key, shards, job, context.beam)
        return Outcome(len(trajectories), len(chosen), files)

    return once(context, DERIVE, work)


def derive_rl(context: RoundContext) -> StageReport:
    """RL rows from the round's unguided attempts."""

    def work(at: StageRun, key: str) -> Outcome:
        trajectories = collected(context, Purpose.TRAIN)
        earlier = read_history(context.warehouse, context.run_id, range(context.round))
        job = DeriveRLSteps(
            context.warehouse,
            at,
            context.origin,
            earlier.shortest_success(),
            context.config.run.seed,
        )
        files = fan_out(context.warehouse, at, key, [trajectories], job, context.beam)
        rows = sum(file.rows for file in files.get("rl_steps", []))
        return Outcome(len(trajectories), rows, files)

    return once(context, DERIVE_RL, work)
