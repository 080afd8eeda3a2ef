"""Judges the trajectories of a round, and those that earlier rounds could not judge; measures the judge.

A judge stage of a round runs once and reads only final rows of earlier rounds. So a round that is killed and started
again has the same work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from trajmill.flows.configuration.judges import NamedJudge, own_judge
from trajmill.flows.progress import progress
from trajmill.flows.stage import RoundContext, StageOutcome, finished, stage, tuples
from trajmill.pipelines.fan_out import WrittenFiles, divide
from trajmill.pipelines.judge import JudgeTrajectories, RejudgeIdentity
from trajmill.pipelines.reading.episodes import read_episodes
from trajmill.schemas.tables.policy_version import JudgeQuality
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import Calibration, Channel
from trajmill.stages.critics.calibration.agreement import Precision, calibrate, precise_enough
from trajmill.stages.critics.judge import STAGE, Unjudged, to_judge_again
from trajmill.stages.environments.base import MeasuresDistance
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.screens import WarehouseScreens

JUDGE = "judge"
JUDGE_GUIDED = "judge_guided"
CALIBRATE = "calibrate"
_DECISION = "trajectory"


@stage(JUDGE, "judge")
def judge(context: RoundContext, at: StageRun) -> StageOutcome:
    """Judge the unguided attempts, and imports that could not be judged before."""
    late = unjudged_of_earlier_rounds(context, Purpose.TRAIN, Purpose.IMPORTED)
    return judge_all(context, at, trajectories_of_round(context, Purpose.TRAIN), late)


@stage(JUDGE_GUIDED, "guide")
def judge_guided(context: RoundContext, at: StageRun) -> StageOutcome:
    late = unjudged_of_earlier_rounds(context, Purpose.GUIDED)
    return judge_all(context, at, trajectories_of_round(context, Purpose.GUIDED), late)


def trajectories_of_round(context: RoundContext, *purposes: Purpose) -> list[str]:
    """The ids of the round's trajectories of some purposes, sorted within each purpose."""
    rows = sorted(tuples(context.read("trajectories", ["trajectory_id", "purpose"], [context.round])))
    return [trajectory_id for purpose in purposes for trajectory_id, found in rows if found == purpose]


def judge_all(
    context: RoundContext, at: StageRun, trajectory_ids: Sequence[str], late: Sequence[Unjudged] = ()
) -> StageOutcome:
    """Judge trajectories of this round, and some of earlier rounds."""
    trajectories = [*(one.trajectory_id for one in late), *trajectory_ids]
    rounds = {context.round, *(one.round for one in late)}
    tried = {one.trajectory_id: one.tried for one in late}
    made = judge_shards(context, at, own_judge(context.config), trajectories, rounds, tried)
    return StageOutcome(len(trajectories), made.rows("judgements"), made.files)


def judge_shards(
    context: RoundContext,
    at: StageRun,
    judge: NamedJudge,
    trajectories: Sequence[str],
    rounds: Collection[int],
    tried: Mapping[str, int],
    again: RejudgeIdentity | None = None,
) -> WrittenFiles:
    job = JudgeTrajectories(
        *(context.warehouse, at, context.origin, judge.spec, judge.critics),
        rounds=tuple(sorted(rounds)),
        tried=tried,
        rejudge=again,
    )
    return context.fan_out(job, divide(trajectories, context.config.rollout.workers))


def unjudged_of_earlier_rounds(context: RoundContext, *purposes: Purpose) -> list[Unjudged]:
    """The trajectories from earlier rounds to judge again, sorted by round and id within each purpose."""
    earlier = range(context.round)
    failures = tuples(context.read("failures", ["stage", "input_id"], earlier))
    failed_tries = Counter(input_id for stage, input_id in failures if stage == STAGE)
    if not failed_tries:
        return []
    judged = set(context.read_judgements("trajectory_id", rounds=earlier)["trajectory_id"].to_pylist())
    rows = list(tuples(context.read("trajectories", ["round", "trajectory_id", "purpose"], earlier)))
    return [
        unjudged
        for purpose in purposes
        for unjudged in to_judge_again({name: r for r, name, found in rows if found == purpose}, failed_tries, judged)
    ]


@stage(CALIBRATE, "derive")
def calibrate_judge(context: RoundContext, at: StageRun) -> StageOutcome:
    """Count how often the judge and the programmatic check agree, per level."""
    trajectories = trajectories_of_round(context, Purpose.TRAIN, Purpose.GUIDED)
    environment, rounds = context.environment, [context.round]
    distances = environment.goal_distances() if isinstance(environment, MeasuresDistance) else None
    # Read a range at a time: the episodes of a round do not fit into memory.
    episodes = (
        episode
        for part in divide(sorted(trajectories), workers=1)
        for episode in read_episodes(context.warehouse, context.run_id, part, rounds=rounds, with_verdicts=True)
    )
    quality = calibrate(episodes, WarehouseScreens(context.warehouse), distances)
    judged = context.read_judgements("trajectory_id", rounds=rounds)["trajectory_id"].to_pylist()
    count = len(set(trajectories).intersection(judged))
    return StageOutcome(len(trajectories), count, result={"judge": [level.model_dump() for level in quality]})


def judge_quality(context: RoundContext) -> tuple[JudgeQuality, ...]:
    """The counts of the round's judge, per level."""
    return tuple(map(JudgeQuality.model_validate, finished(context, CALIBRATE).result["judge"]))


def judge_precision(context: RoundContext) -> Precision:
    """Whether the precision of the round's judge reaches its floor.

    A round without programmatic rewards uses the newest calibration of the same judge version. Without one, the
    precision is unknown, and a line is shown.
    """
    floor = context.config.judge.precision_floor
    measured = precise_enough((each for each in judge_quality(context) if each.level == _DECISION), floor)
    if measured is not Precision.UNKNOWN:
        return measured
    judged = tuples(context.read_judgements("made_by", "rule", rounds=[context.round]))
    calibrations = sorted(read_rows(context.warehouse, Calibration), key=lambda row: row.number)
    newest = {(row.made_by, row.rule): row for row in calibrations if row.channel is None}
    names = {"true_positive", "false_positive", "true_negative", "false_negative"}
    counts = (
        JudgeQuality(level=_DECISION, **newest[version].model_dump(include=names))
        for version in sorted(set(judged))
        if version in newest
    )
    calibrated = precise_enough(counts, floor)
    if calibrated is Precision.UNKNOWN:
        why = (
            "the judge asks the programmatic check, so that its precision cannot be measured by that check"
            if Channel.PROGRAMMATIC in context.config.judge.channels
            else "nothing is known of the judge's precision: there are no programmatic rewards of what it called "
            "correct, and no calibration of this version of it; `trajmill calibrate --labels FOLDER` measures it"
        )
        progress().show(f"round {context.round}: {why}")
    return calibrated
