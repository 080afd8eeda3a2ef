"""Judges the trajectories of a rollout stage, and those that earlier rounds could not judge.

A judge stage of a round runs once. Only rows of earlier rounds are read. They are final, so that a round that is killed
and started again finds the same work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from trajmill.flows.configuration.judges import own_judge
from trajmill.flows.context import RoundContext
from trajmill.flows.stage import StageOutcome, StageReport, run_once
from trajmill.pipelines.fan_out import divide, fan_out
from trajmill.pipelines.judge import JudgeTrajectories
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.judge import STAGE, Unjudged, to_judge_again
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
        made = fan_out(context.warehouse, at, divide(trajectories, workers), job, context.beam, workers)
        return StageOutcome(len(trajectories), made.rows("judgements"), made.files)

    return run_once(context, stage, work)


def unjudged_of_earlier_rounds(context: RoundContext, purpose: Purpose) -> list[Unjudged]:
    """Trajectories of a purpose from earlier rounds that are to be judged again, sorted by round and id."""
    failures = _earlier_rows(context, "failures", "stage", "input_id")
    failed_tries = Counter(
        input_id for stage, input_id in zip(failures["stage"], failures["input_id"], strict=True) if stage == STAGE
    )
    if not failed_tries:
        return []
    judgements = read_verdicts(
        context.warehouse, "judgements", ["trajectory_id"], rounds=range(context.round), run_id=context.run_id
    )
    rows = _earlier_rows(context, "trajectories", "round", "trajectory_id", "purpose")
    rounds = {
        trajectory_id: number
        for number, trajectory_id, found in zip(rows["round"], rows["trajectory_id"], rows["purpose"], strict=True)
        if found == purpose
    }
    return to_judge_again(rounds, failed_tries, set(judgements["trajectory_id"].to_pylist()))


def _earlier_rows(context: RoundContext, table: str, *names: str) -> dict[str, list[Any]]:
    rounds = range(context.round)
    rows = read_table(context.warehouse, table, names, rounds=rounds, run_id=context.run_id)
    return {name: rows[name].to_pylist() for name in names}
