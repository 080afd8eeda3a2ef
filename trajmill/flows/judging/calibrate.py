"""Measures judges, ingredient by ingredient, against the rewards of stored trajectories or a labelled set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from trajmill.flows.configuration.config import OWN_JUDGE, Config
from trajmill.flows.configuration.judges import NamedJudge, judge_named
from trajmill.flows.context import RoundContext
from trajmill.flows.judging.labelled_set import judge_labelled_set
from trajmill.flows.judging.stored_votes import Evaluated, rewards_of, stored_evidence
from trajmill.flows.serving.models_ready import models_ready
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.record import Row
from trajmill.schemas.tables.calibration import Calibration
from trajmill.stages.critics.calibration.agreement import agreement
from trajmill.stages.critics.calibration.ingredients import IngredientTally, tally
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.views import refresh_views

CALIBRATION = "calibration"


class Calibrated(NamedTuple):
    """A calibrated judge and its figures."""

    judge: str
    labels: str | None
    rows: tuple[Calibration, ...]
    evaluated: Evaluated


def calibrate(config: Config, names: Sequence[str], labels: Path | None = None) -> list[Calibrated]:
    """Let judges give every vote once, and write the quality of each ingredient to table `calibrations`.

    Args:
        config: the configuration.
        names: judges of `[judges.NAME]`; the run's own if empty.
        labels: folder of a labelled set; None takes the programmatic rewards of the run's stored trajectories.

    Raises:
        BadInputError: an unknown judge, no rewards, a judge that repeats them, or labels that cannot be read.
        RunInUseError: another process works on the run.
        TrajmillError: a judge could judge nothing.
    """
    judges = [judge_named(config, name).asking_for_all() for name in names or (OWN_JUDGE,)]
    repeating = [judge.name for judge in judges if judge.rule.repeats_the_check]
    if labels is None and repeating:
        raise BadInputError(
            f"judge {repeating[0]} asks the programmatic check, which it cannot be measured by: "
            "name a labelled set with --labels"
        )
    warehouse = create_warehouse(config.run.root)
    context = RoundContext(config, warehouse, 0)
    if labels is None and not rewards_of(context):
        raise BadInputError(
            f"run {config.run_id} in {warehouse.address} has no finished trajectory with a programmatic reward: "
            "run `trajmill rollout` first, or name a labelled set with --labels"
        )
    asked = {endpoint for judge in judges for endpoint in judge.endpoints}
    with sole_worker(warehouse, config.run_id), models_ready(config, warehouse.run(config.run_id), sorted(asked)):
        done = [_calibrate(context, judge, labels) for judge in judges]
    refresh_views(warehouse)
    return done


def _calibrate(context: RoundContext, judge: NamedJudge, labels: Path | None) -> Calibrated:
    evaluated = stored_evidence(context, judge) if labels is None else judge_labelled_set(context, judge, labels)
    if not evaluated.evidence:
        none = f"judge {judge.name} could judge none of {evaluated.trajectories} trajectories"
        raise TrajmillError(f"{none}; {evaluated.why_unjudged}")
    number = 1 + max((row.number for row in read_rows(context.warehouse, Calibration)), default=0)
    name = None if labels is None else labels.resolve().name
    rows = tuple(_row(context, judge, evaluated, each, number, name) for each in tally(judge.rule, evaluated.evidence))
    _commit(context, number, {**evaluated.further_rows, "calibrations": rows})
    return Calibrated(judge.name, name, rows, evaluated)


def _commit(context: RoundContext, number: int, rows: Mapping[str, Sequence[Row]]) -> None:
    at = StageRun(context.run_id, context.round, f"{CALIBRATION}-{number:06d}")
    commit_stage(context.warehouse, at, write_tables(context.warehouse, at, rows))


def _row(
    context: RoundContext,
    judge: NamedJudge,
    evaluated: Evaluated,
    tally_: IngredientTally,
    number: int,
    labels: str | None,
) -> Calibration:
    counts = tally_.quality
    found, ingredient, n = agreement(counts), tally_.ingredient, tally_.trajectories
    return Calibration(
        number=number,
        judge=judge.name,
        judge_id=judge.identity.judge_id,
        labels=labels,
        ingredient=ingredient.kind,
        channel=ingredient.channel,
        resolution=ingredient.resolution,
        models="+".join(tally_.models),
        rule=str(judge.rule),
        votes=ingredient.votes,
        trajectories=evaluated.trajectories,
        unjudged=evaluated.unjudged,
        undecided=tally_.undecided,
        **counts.model_dump(exclude={"level"}),
        precision=found.precision.value,
        precision_low=found.precision.interval.low,
        precision_high=found.precision.interval.high,
        recall=found.recall.value,
        recall_low=found.recall.interval.low,
        recall_high=found.recall.interval.high,
        f1=found.f1,
        kappa=found.kappa,
        calls=tally_.calls / n,
        tokens=tally_.tokens / n,
        seconds=tally_.milliseconds / 1000 / n,
        cached=tally_.cached / tally_.calls if tally_.calls else 0.0,
        **context.origin.common(made_by=evaluated.made_by),
    )
