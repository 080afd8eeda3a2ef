"""Measures judges, ingredient by ingredient, against the rewards of stored trajectories or a labelled set."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trajmill.flows.configuration.config import OWN_JUDGE, Config
from trajmill.flows.configuration.judges import NamedJudge, judge_named
from trajmill.flows.judging.rejudge import finished_trajectories, judge_stored
from trajmill.flows.serving.models_ready import models_ready
from trajmill.flows.stage import RoundContext, tuples
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.record import Row
from trajmill.schemas.tables.calibration import Calibration
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import Vote
from trajmill.stages.critics.calibration.agreement import PASSED, agreement
from trajmill.stages.critics.calibration.ingredients import (
    COST_COLUMNS,
    CallCost,
    IngredientTally,
    LabelledVotes,
    tally,
)
from trajmill.stages.critics.calibration.labelled.judging import judge_labelled
from trajmill.stages.critics.calibration.labelled.trajectories import read_labels
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.views import refresh_views

STAGE = "calibrate"
"""Stage name on failures; the name of the judge follows it."""
CALIBRATION = "calibration"
_PURPOSES = (Purpose.TRAIN, Purpose.GUIDED, Purpose.EVALUATE)
"""Purposes of trajectories that measure a judge; walks along an annotated path are left out."""
_MOST_NAMED = 5


class Evaluated(NamedTuple):
    """The votes of a judge on labelled trajectories, and the counts of trajectories without votes."""

    evidence: Sequence[LabelledVotes]
    made_by: str
    """Version of the judge; empty if it judged nothing."""
    trajectories: int
    """Trajectories with a label that were to be judged."""
    unjudged: int
    void: int
    """Trajectories that did not finish and are not judged."""
    unlabelled: int
    """Trajectories without a label, or with an unsure one."""
    absent: int = 0
    """Labelled trajectories of a set that were not downloaded."""
    why_unjudged: str = 'why: trajmill sql "SELECT * FROM failures_by_class"'
    """Why trajectories could not be judged, or the query that shows it."""
    further_rows: Mapping[str, Sequence[Row]] = {}
    """Further rows to commit, by table."""


class Calibrated(NamedTuple):
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
    rewards = {} if labels is not None else _rewards(context)
    if labels is None and not rewards:
        raise BadInputError(
            f"run {config.run_id} in {warehouse.address} has no finished trajectory with a programmatic reward: "
            "run `trajmill rollout` first, or name a labelled set with --labels"
        )
    asked = {endpoint for judge in judges for endpoint in judge.endpoints}
    done = []
    with sole_worker(warehouse, config.run_id), models_ready(config, warehouse.run(config.run_id), sorted(asked)):
        for judge in judges:
            if labels is None:
                evaluated = _judge_stored(context, judge, rewards)
            else:
                evaluated = _judge_labelled_set(context, judge, labels)
            done.append(_record(context, judge, evaluated, None if labels is None else labels.resolve().name))
    refresh_views(warehouse)
    return done


def _rewards(context: RoundContext) -> dict[str, bool]:
    """By trajectory id, whether the programmatic check passed; only finished trajectories that have a reward."""
    rows = tuples(context.read("trajectories", ["trajectory_id", "reward", "status", "purpose"]))
    return {
        trajectory_id: reward >= PASSED
        for trajectory_id, reward, status, purpose in rows
        if reward is not None and status == "finished" and purpose in _PURPOSES
    }


def _judge_stored(context: RoundContext, judge: NamedJudge, rewards: Mapping[str, bool]) -> Evaluated:
    """Let the judge judge each stored trajectory that has a programmatic reward, and return its votes."""
    stored = [one for one in finished_trajectories(context) if one.trajectory_id in rewards]
    report = judge_stored(context, judge, stored)
    evidence: list[LabelledVotes] = []
    versions: dict[str, None] = {}
    for number in sorted({one.round for one in stored}):

        def rows(table: str, *columns: str, of_round: int = number) -> list[dict[str, Any]]:
            found = read_verdicts(
                context.warehouse,
                table,
                ["trajectory_id", "made_by", *columns],
                run_id=context.run_id,
                rounds=[of_round],
                judge_id=judge.identity.judge_id,
            )
            return list(found.to_pylist())

        judged = {row["trajectory_id"]: row["made_by"] for row in rows("judgements")}
        versions |= dict.fromkeys(judged.values())
        votes: dict[str, list[Vote]] = defaultdict(list)
        for row in rows("trajectory_verdicts", "channel", "resolution", "vote", "correct"):
            vote = Vote(Channel(row["channel"]), row["resolution"], row["made_by"], row["correct"], number=row["vote"])
            votes[row["trajectory_id"]].append(vote)
        calls: dict[str, list[CallCost]] = defaultdict(list)
        for row in rows("model_calls", *COST_COLUMNS, "draw", "draws"):
            calls[row["trajectory_id"]].append(CallCost.of(row))
        names = [one.trajectory_id for one in stored if one.round == number and one.trajectory_id in judged]
        evidence += [LabelledVotes(rewards[name], votes[name], calls[name]) for name in names]
    attempts = [
        status
        for status, purpose in tuples(context.read("trajectories", ["status", "purpose"]))
        if purpose in _PURPOSES
    ]
    void = sum(status != "finished" for status in attempts)
    return Evaluated(
        evidence,
        "|".join(versions),
        report.trajectories,
        report.unjudged,
        void,
        unlabelled=len(attempts) - void - report.trajectories,
    )


def _judge_labelled_set(context: RoundContext, judge: NamedJudge, folder: Path) -> Evaluated:
    """Judge every labelled trajectory whose file exists; model calls and failures are rows to commit.

    Raises:
        BadInputError: the labels cannot be read, or no trajectory file exists.
    """
    labels, stage = read_labels(folder), f"{STAGE}:{judge.name}"
    made = asyncio.run(judge_labelled(folder, labels, judge.spec, judge.critics, context.origin, stage))
    present = len(labels) - made.absent - made.unsure
    if not present:
        raise BadInputError(
            f"{folder}: none of its {len(labels):,} labelled trajectories is there; they belong to "
            "cleaned/BENCHMARK/AGENT/EXPERIMENT/TASK.json, their pictures to screenshots"
        )
    wanted = present - made.void
    named = [f"{failure.input_id}: {failure.message}" for failure in made.failures[:_MOST_NAMED]]
    if (more := len(made.failures) - len(named)) > 0:
        named.append(f"and {more} more")
    rows: dict[str, Sequence[Row]] = {
        "model_calls": [judge.identity.stamped(call) for call in made.calls],
        "failures": made.failures,
    }
    return Evaluated(
        made.evidence,
        "|".join(sorted(made.versions)),
        trajectories=wanted,
        unjudged=wanted - len(made.evidence),
        void=made.void,
        unlabelled=made.unsure,
        absent=made.absent,
        why_unjudged="; ".join(named) or "all of them are void",
        further_rows={table: found for table, found in rows.items() if found},
    )


def _record(context: RoundContext, judge: NamedJudge, evaluated: Evaluated, labels: str | None) -> Calibrated:
    """Commit the figures of a judge under the next free number."""
    if not evaluated.evidence:
        none = f"judge {judge.name} could judge none of {evaluated.trajectories} trajectories"
        raise TrajmillError(f"{none}; {evaluated.why_unjudged}")
    number = 1 + max((row.number for row in read_rows(context.warehouse, Calibration)), default=0)
    tallies = tally(judge.rule, evaluated.evidence)
    rows = tuple(_row(context, judge, evaluated, each, number, labels) for each in tallies)
    at = StageRun(context.run_id, context.round, f"{CALIBRATION}-{number:06d}")
    written = write_tables(context.warehouse, at, {**evaluated.further_rows, "calibrations": rows})
    commit_stage(context.warehouse, at, written)
    return Calibrated(judge.name, labels, rows, evaluated)


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
