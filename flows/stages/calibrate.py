"""Compare the round's judge with the programmatic check."""

from __future__ import annotations

from flows.context import RoundContext
from flows.once import Outcome, StageReport, finished, once
from flows.stages.judge import collected
from pipelines.episodes import read_episodes
from schemas.round_summary import JudgeQuality
from schemas.trajectory import Purpose
from stages.critics.calibration import agreement, calibrate
from warehouse.layout import StageRun
from warehouse.screens import WarehouseScreens

CALIBRATE = "calibrate"
_DECISION = "trajectory"


def calibrate_judge(context: RoundContext) -> StageReport:
    """Count how often the judge and the programmatic check agree, per level."""

    def work(at: StageRun, key: str) -> Outcome:
        trajectories = collected(context, Purpose.TRAIN) + collected(context, Purpose.GUIDED)
        episodes = read_episodes(
            context.warehouse, context.run_id, trajectories, rounds=[context.round], with_verdicts=True
        )
        quality = calibrate(episodes, WarehouseScreens(context.warehouse))
        result = {"judge": [level.model_dump() for level in quality]}
        return Outcome(len(trajectories), sum(episode.judgement is not None for episode in episodes), result=result)

    return once(context, CALIBRATE, work)


def judge_quality(context: RoundContext) -> tuple[JudgeQuality, ...]:
    """The counts of the round's judge, per level."""
    found = finished(context, CALIBRATE).result["judge"]
    return tuple(JudgeQuality.model_validate(level) for level in found)


def precise_enough(context: RoundContext) -> bool:
    """Whether the judge's precision may still be at its floor: the upper end of its interval is not below it."""
    floor = context.config.judge.precision_floor
    for level in judge_quality(context):
        if level.level == _DECISION:
            return agreement(level).precision.interval.high >= floor
    return True
