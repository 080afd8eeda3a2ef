"""Compares the round's judge with the programmatic check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trajmill.flows.context import RoundContext
from trajmill.flows.progress import progress
from trajmill.flows.stage import StageOutcome, StageReport, finished, run_once
from trajmill.flows.tasks.judge import trajectories_of_round
from trajmill.pipelines.fan_out import divide
from trajmill.pipelines.reading.episodes import read_episodes
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.calibration import Calibration
from trajmill.schemas.tables.round_summary import JudgeQuality
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.calibration.agreement import calibrate
from trajmill.stages.critics.calibration.precision import Precision, precise_enough
from trajmill.stages.environments.base import MeasuresDistance
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.screens import WarehouseScreens

CALIBRATE = "calibrate"
_DECISION = "trajectory"


def calibrate_judge(context: RoundContext) -> StageReport:
    """Count how often the judge and the programmatic check agree, per level."""

    def work(at: StageRun) -> StageOutcome:
        trajectories = trajectories_of_round(context, Purpose.TRAIN) + trajectories_of_round(context, Purpose.GUIDED)
        environment, screens = context.environment, WarehouseScreens(context.warehouse)
        distances = environment.goal_distances() if isinstance(environment, MeasuresDistance) else None
        quality = calibrate(_episodes(context, sorted(trajectories)), screens, distances)
        result = {"judge": [level.model_dump() for level in quality]}
        judged = read_verdicts(
            context.warehouse, "judgements", ["trajectory_id"], rounds=[context.round], run_id=context.run_id
        )
        count = len(set(trajectories).intersection(judged["trajectory_id"].to_pylist()))
        return StageOutcome(len(trajectories), count, result=result)

    return run_once(context, CALIBRATE, work)


def _episodes(context: RoundContext, trajectories: Sequence[str]) -> Iterator[Episode]:
    """The episodes of some trajectories of the round, read a range at a time."""
    for part in divide(trajectories, workers=1):
        yield from read_episodes(context.warehouse, context.run_id, part, rounds=[context.round], with_verdicts=True)


def judge_quality(context: RoundContext) -> tuple[JudgeQuality, ...]:
    """The counts of the round's judge, per level."""
    found = finished(context, CALIBRATE).result["judge"]
    return tuple(JudgeQuality.model_validate(level) for level in found)


def judge_precision(context: RoundContext) -> Precision:
    """Whether the precision of the round's judge reaches its floor.

    A round without programmatic rewards uses the newest calibration of the same judge version. If there is none, the
    precision is unknown, and a line says so.
    """
    floor = context.config.judge.precision_floor
    measured = precise_enough((each for each in judge_quality(context) if each.level == _DECISION), floor)
    if measured is not Precision.UNKNOWN:
        return measured
    calibrated = precise_enough(map(_counts, _calibrated_before(context)), floor)
    if calibrated is Precision.UNKNOWN:
        progress().show(f"round {context.round}: {_why_unknown(context)}")
    return calibrated


def _why_unknown(context: RoundContext) -> str:
    if Channel.PROGRAMMATIC in context.config.judge.channels:
        return "the judge asks the programmatic check, so that its precision cannot be measured by that check"
    return (
        "nothing is known of the judge's precision: there are no programmatic rewards of what it called correct, and "
        "no calibration of this version of it; `trajmill calibrate --labels FOLDER` measures it"
    )


def _counts(calibrated: Calibration) -> JudgeQuality:
    names = ("true_positive", "false_positive", "true_negative", "false_negative")
    return JudgeQuality(level=_DECISION, **calibrated.model_dump(include=set(names)))


def _newest_consensus(warehouse: Warehouse, made_by: str, rule: str) -> Calibration | None:
    """The newest calibration of the whole judge of this version; None if there is none."""
    found = [
        row
        for row in read_rows(warehouse, Calibration)
        if row.channel is None and row.made_by == made_by and row.rule == rule
    ]
    return max(found, key=lambda row: row.number, default=None)


def _calibrated_before(context: RoundContext) -> list[Calibration]:
    """The newest calibration of each judge version that judged in this round."""
    rows = read_verdicts(
        context.warehouse, "judgements", ["made_by", "rule"], rounds=[context.round], run_id=context.run_id
    )
    versions = sorted(set(zip(rows["made_by"].to_pylist(), rows["rule"].to_pylist(), strict=True)))
    found = [_newest_consensus(context.warehouse, made_by, rule) for made_by, rule in versions]
    return [row for row in found if row is not None]
