"""Judges the trajectories of a rollout stage, and those that earlier rounds could not judge."""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.flows.configuration.judges import own_judge
from trajmill.flows.context import RoundContext
from trajmill.flows.stage import StageOutcome, StageReport, run_once
from trajmill.flows.tasks.unjudged import unjudged_of_earlier_rounds
from trajmill.pipelines.judge import JudgeTrajectories
from trajmill.pipelines.work.lists import fan_out_listed
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.unjudged import Unjudged
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_table

JUDGE = "judge"
JUDGE_GUIDED = "judge_guided"


def judge(context: RoundContext) -> StageReport:
    """Judge the unguided attempts, and imports that could not be judged before."""
    late = unjudged_of_earlier_rounds(context, Purpose.TRAIN) + unjudged_of_earlier_rounds(context, Purpose.IMPORTED)
    return judge_all(context, JUDGE, trajectories_of_round(context, Purpose.TRAIN), late)


def judge_guided(context: RoundContext) -> StageReport:
    """Judge the guided attempts."""
    late = unjudged_of_earlier_rounds(context, Purpose.GUIDED)
    return judge_all(context, JUDGE_GUIDED, trajectories_of_round(context, Purpose.GUIDED), late)


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


def judge_all(
    context: RoundContext, stage: str, trajectory_ids: Sequence[str], late: Sequence[Unjudged] = ()
) -> StageReport:
    """Judge trajectories of this round, and some of earlier rounds, as a stage of this round."""

    def work(at: StageRun) -> StageOutcome:
        own = own_judge(context.config)
        trajectories = [*(one.trajectory_id for one in late), *trajectory_ids]
        job = JudgeTrajectories(
            context.warehouse,
            at,
            context.origin,
            own.spec,
            own.critics,
            rounds=tuple(sorted({context.round, *(one.round for one in late)})),
            tried={one.trajectory_id: one.tried for one in late},
        )
        workers = context.config.rollout.workers
        made = fan_out_listed(context.warehouse, at, trajectories, job, context.beam, workers=workers, decode=str)
        return StageOutcome(len(trajectories), made.rows("judgements"), made.files)

    return run_once(context, stage, work)
