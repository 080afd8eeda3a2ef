"""Judge what a rollout stage of the round has committed, and compare the judge with the programmatic check."""

from __future__ import annotations

from flows.context import RoundContext
from flows.once import Outcome, StageReport, once
from pipelines.fan_out import fan_out, split_evenly
from pipelines.judge import JudgeSpec, JudgeTrajectories
from schemas.trajectory import Purpose
from schemas.verdict import Channel
from warehouse.layout import StageRun
from warehouse.read import read_table

JUDGE = "judge"
REJUDGE = "judge_guided"


def judge(context: RoundContext) -> StageReport:
    """Judge the unguided attempts."""
    return _judge(context, JUDGE, Purpose.TRAIN)


def judge_guided(context: RoundContext) -> StageReport:
    """Judge the guided attempts."""
    return _judge(context, REJUDGE, Purpose.GUIDED)


def collected(context: RoundContext, purpose: Purpose) -> list[str]:
    """Ids of the round's trajectories of a purpose, in order."""
    rows = read_table(
        context.warehouse,
        "trajectories",
        ["trajectory_id", "purpose"],
        rounds=[context.round],
        run_id=context.run_id,
    ).to_pydict()
    pairs = zip(rows["trajectory_id"], rows["purpose"], strict=True)
    return sorted(trajectory_id for trajectory_id, found in pairs if found == purpose)


def judge_spec(context: RoundContext) -> JudgeSpec:
    """The judge that the configuration asks for."""
    settings = context.config.judge
    return JudgeSpec(
        tuple(Channel(channel) for channel in settings.channels),
        settings.false_positive,
        settings.false_negative,
        context.config.run.seed,
    )


def _judge(context: RoundContext, stage: str, purpose: Purpose) -> StageReport:
    def work(at: StageRun, key: str) -> Outcome:
        trajectories = collected(context, purpose)
        shards = split_evenly(trajectories, context.config.rollout.workers)
        job = JudgeTrajectories(context.warehouse, at, context.origin, judge_spec(context))
        made = fan_out(context.warehouse, at, key, shards, job, context.beam)
        return Outcome(len(trajectories), made.rows("judgements"), made.files)

    return once(context, stage, work)
