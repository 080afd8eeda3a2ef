"""Judges the trajectories of a rollout stage, and those that earlier rounds could not judge."""

from __future__ import annotations

from math import ceil

from trajmill.flows.configuration.judges import own_judge
from trajmill.flows.context import RoundContext
from trajmill.flows.stage import StageOutcome, StageReport, run_once
from trajmill.flows.tasks.unjudged import unjudged_of_earlier_rounds
from trajmill.pipelines.fan_out import fan_out, split_evenly
from trajmill.pipelines.judge import JudgeTrajectories
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_table

JUDGE = "judge"
JUDGE_GUIDED = "judge_guided"
_MOST_IN_SHARD = 1000
"""Most trajectories in a shard: its rows are held in memory, and a killed stage loses only unfinished shards."""


def judge(context: RoundContext) -> StageReport:
    """Judge the unguided attempts."""
    return _judge(context, JUDGE, Purpose.TRAIN)


def judge_guided(context: RoundContext) -> StageReport:
    """Judge the guided attempts."""
    return _judge(context, JUDGE_GUIDED, Purpose.GUIDED)


def trajectories_of_round(context: RoundContext, purpose: Purpose) -> list[str]:
    """Ids of the round's trajectories of a purpose, sorted."""
    rows = read_table(
        context.warehouse,
        "trajectories",
        ["trajectory_id", "purpose"],
        rounds=[context.round],
        run_id=context.run_id,
    ).to_pydict()
    pairs = zip(rows["trajectory_id"], rows["purpose"], strict=True)
    return sorted(trajectory_id for trajectory_id, found in pairs if found == purpose)


def _judge(context: RoundContext, stage: str, purpose: Purpose) -> StageReport:
    def work(at: StageRun) -> StageOutcome:
        own = own_judge(context.config)
        again = unjudged_of_earlier_rounds(context, purpose)
        trajectories = [one.trajectory_id for one in again] + trajectories_of_round(context, purpose)
        workers = max(context.config.rollout.workers, ceil(len(trajectories) / _MOST_IN_SHARD))
        job = JudgeTrajectories(
            context.warehouse,
            at,
            context.origin,
            own.spec,
            own.critics,
            rounds=tuple(sorted({context.round, *(one.round for one in again)})),
            tried={one.trajectory_id: one.tried for one in again},
        )
        made = fan_out(context.warehouse, at, split_evenly(trajectories, workers), job, context.beam)
        return StageOutcome(len(trajectories), made.rows("judgements"), made.files)

    return run_once(context, stage, work)
