"""Judges stored trajectories again, without any environment, and measures how good judges are, by ingredient.

A batch of `trajmill judge --again` is the trajectories of one round that the judge has not judged yet. One that could
not be judged is in the next batch again, until `TRIED_AT_MOST` tries have failed.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from trajmill.flows.configuration.config import OWN_JUDGE, Config
from trajmill.flows.configuration.judges import NamedJudge, judge_named
from trajmill.flows.serving.models_ready import working_on
from trajmill.flows.stage import RoundContext, do_batches
from trajmill.flows.tasks.judge import CALIBRATE, judge_shards
from trajmill.pipelines.fan_out import WrittenFiles
from trajmill.pipelines.judge import AGAIN
from trajmill.pipelines.reading.episodes import read_verdicts
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.record import Row
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import Calibration, Channel
from trajmill.stages.critics.calibration.agent_reward_bench import AgentRewardBench
from trajmill.stages.critics.calibration.agreement import (
    COST_COLUMNS,
    CallCost,
    IngredientTally,
    LabelledVotes,
    agreement,
    tally,
)
from trajmill.stages.critics.calibration.cua_verifier_bench import CuaVerifierBench
from trajmill.stages.critics.calibration.labelled_set import LabelledSet, judge_labelled
from trajmill.stages.critics.judge import still_to_judge
from trajmill.stages.critics.voting import PASSED, Ask, Vote
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_rows, tuples

_MEASURING = (Purpose.TRAIN, Purpose.GUIDED, Purpose.EVALUATE)
"""Purposes of trajectories that measure a judge; walks along an annotated path are left out."""
HELDOUT = "held-out attempts"
"""The labels of a calibration on attempts at queries that nothing is trained on."""
_MOST_NAMED = 5


class RejudgeReport(NamedTuple):
    trajectories: int
    before: int
    judged: int
    unjudged: int


def rejudge(config: Config, name: str | None, round_number: int | None = None) -> RejudgeReport:
    """Judge finished trajectories again. Raises BadInputError (no such judge, or nothing to judge), RunInUseError."""
    judge, context = judge_named(config, name or OWN_JUDGE), RoundContext.of(config, 0)
    stored = _finished(context, None if round_number is None else [round_number])
    if not stored:
        where = "" if round_number is None else f" in round {round_number}"
        raise BadInputError(
            f"run {context.run_id} in {context.warehouse.address} has no finished trajectory{where}; "
            "run `trajmill rollout` first"
        )
    with working_on(context, judge.endpoints):
        return _judge_stored(context, judge, stored)


def _finished(context: RoundContext, rounds: Collection[int] | None = None) -> dict[str, int]:
    rows = tuples(context.read("trajectories", ["round", "trajectory_id"], rounds, {"status": ["finished"]}))
    return {name: number for number, name in sorted(rows)}


def _judge_stored(context: RoundContext, judge: NamedJudge, stored: Mapping[str, int]) -> RejudgeReport:
    """Judge the trajectories, given with their rounds, that this judge has not judged; a second call adds nothing."""

    def judged() -> set[str]:
        return set(_of_judge(context, judge, "judgements", ["trajectory_id"])["trajectory_id"].to_pylist())

    def judge_round(within: RoundContext) -> None:
        trajectories = [trajectory_id for trajectory_id, made_in in stored.items() if made_in == within.round]

        def remaining(finished: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
            failed_tries = Counter(trajectory_id for batch in finished for trajectory_id in batch["unjudged"])
            return still_to_judge(trajectories, failed_tries, judged())

        def work(at: StageRun, batch: Mapping[str, int]) -> tuple[WrittenFiles, dict[str, list[str]]]:
            tried = {trajectory_id: tries for trajectory_id, tries in batch.items() if tries}
            made = judge_shards(within, at, judge, list(batch), [within.round], tried, judge.identity)
            decided = {each for (each,) in within.written("judgements", made.files, ["trajectory_id"])}
            return made, {"unjudged": sorted(batch.keys() - decided)}

        do_batches(within, name, name, f"{AGAIN} {judge.name}", remaining, work)

    before, name = judged().intersection(stored), f"{AGAIN}-{judge.name}-{judge.identity.judge_id}"
    for number in sorted(set(stored.values())):
        judge_round(context.in_round(number))
    after = judged().intersection(stored)
    return RejudgeReport(len(stored), len(before), len(after) - len(before), len(stored) - len(after))


def _of_judge(
    context: RoundContext, judge: NamedJudge, table: str, columns: Sequence[str], rounds: Collection[int] | None = None
) -> pa.Table:
    judge_id = judge.identity.judge_id
    return read_verdicts(context.warehouse, table, columns, run_id=context.run_id, rounds=rounds, judge_id=judge_id)


class Evaluated(NamedTuple):
    """The votes of a judge on labelled trajectories, and the counts of trajectories without votes."""

    evidence: Sequence[LabelledVotes]
    made_by: str
    trajectories: int
    unjudged: int
    void: int
    unlabelled: int
    """Trajectories without a label, or with an unsure one."""
    absent: int = 0
    why_unjudged: str = 'why: trajmill sql "SELECT * FROM failures_by_class"'
    """Why trajectories could not be judged, or the query that shows it."""
    further_rows: Mapping[str, Sequence[Row]] = {}


class Calibrated(NamedTuple):
    judge: str
    labels: str | None
    rows: tuple[Calibration, ...]
    evaluated: Evaluated


def calibrate(
    config: Config, names: Sequence[str], labels: Path | None = None, heldout: bool = False
) -> list[Calibrated]:
    """Let judges, by default the run's own, give every vote, and write the quality of ingredients to `calibrations`.

    The truth is a folder of labels, or the programmatic rewards of stored trajectories; with `heldout`, of attempts at
    queries that nothing is trained on, which measures a trained judge. Raises BadInputError (unknown judge, no rewards,
    a judge that repeats them, unreadable labels), RunInUseError, TrajmillError (nothing was judged).
    """
    chosen = [judge_named(config, name) for name in names or (OWN_JUDGE,)]
    judges = [replace(judge, spec=judge.spec.model_copy(update={"ask": Ask.ALL})) for judge in chosen]
    repeating = [judge.name for judge in judges if judge.rule.repeats_the_check]
    if labels is None and repeating:
        raise BadInputError(
            f"the judge {repeating[0]!r} uses the programmatic check and cannot be measured against it: "
            "name a labelled set with --labels"
        )
    if labels is not None and heldout:
        raise BadInputError("--heldout is for attempts of the run; leave it out with --labels")
    context, rewards, are_finished = RoundContext.of(config, 0), dict[str, bool](), Counter[bool]()
    if labels is None:
        rows = tuples(context.read("trajectories", ["trajectory_id", "reward", "status", "purpose", "query_id"]))
        splits = {name: query.split for name, query in context.all_queries.items()} if heldout else {}
        measuring = [row for row in rows if row[3] in _MEASURING and splits.get(row[4]) is not Split.TRAIN]
        are_finished = Counter(status == "finished" for _, _, status, _, _ in measuring)
        rewards = {
            trajectory_id: reward >= PASSED
            for trajectory_id, reward, status, _, _ in measuring
            if reward is not None and status == "finished"
        }
        if not rewards:
            what, do = ("held-out trajectory", "evaluate") if heldout else ("trajectory", "rollout")
            raise BadInputError(
                f"run {context.run_id} in {context.warehouse.address} has no finished {what} with a programmatic "
                f"reward: run `trajmill {do}` first, or name a labelled set with --labels"
            )
    done = []
    with working_on(context, sorted({endpoint for judge in judges for endpoint in judge.endpoints})):
        for judge in judges:
            if labels is None:
                evaluated = _votes_on_stored(context, judge, rewards, are_finished)
            else:
                evaluated = _votes_on_labelled(context, judge, labels)
            named = (HELDOUT if heldout else None) if labels is None else labels.resolve().name
            done.append(_record(context, judge, evaluated, named))
    return done


def _votes_on_stored(
    context: RoundContext, judge: NamedJudge, rewards: Mapping[str, bool], are_finished: Mapping[bool, int]
) -> Evaluated:
    stored = {name: number for name, number in _finished(context).items() if name in rewards}
    report = _judge_stored(context, judge, stored)
    evidence: list[LabelledVotes] = []
    versions: dict[str, None] = {}
    for number in sorted(set(stored.values())):

        def rows(table: str, *columns: str, of_round: int = number) -> list[dict[str, Any]]:
            columns = ("trajectory_id", "made_by", *columns)
            return list(_of_judge(context, judge, table, columns, [of_round]).to_pylist())

        judged = {row["trajectory_id"]: row["made_by"] for row in rows("judgements")}
        versions |= dict.fromkeys(judged.values())
        votes: dict[str, list[Vote]] = defaultdict(list)
        for row in rows("trajectory_verdicts", "channel", "resolution", "vote", "correct"):
            vote = Vote(Channel(row["channel"]), row["resolution"], row["made_by"], row["correct"], number=row["vote"])
            votes[row["trajectory_id"]].append(vote)
        calls: dict[str, list[CallCost]] = defaultdict(list)
        for row in rows("model_calls", *COST_COLUMNS, "draw", "draws"):
            calls[row["trajectory_id"]].append(CallCost.of(row))
        names = [name for name, made_in in stored.items() if made_in == number and name in judged]
        evidence += [LabelledVotes(rewards[name], votes[name], calls[name]) for name in names]
    unlabelled, void = are_finished[True] - report.trajectories, are_finished[False]
    return Evaluated(
        evidence, "|".join(versions), report.trajectories, report.unjudged, void=void, unlabelled=unlabelled
    )


def _votes_on_labelled(context: RoundContext, judge: NamedJudge, folder: Path) -> Evaluated:
    """Judge every labelled trajectory that has a file. Raises BadInputError: there is none, or wrong labels."""
    kind = CuaVerifierBench if (folder / "annotations").is_dir() else AgentRewardBench
    labelled: LabelledSet = kind(folder)
    stage = f"{CALIBRATE}:{judge.name}"
    made = asyncio.run(judge_labelled(labelled, judge.spec, judge.critics, context.origin, stage))
    present = made.labels - made.absent - made.unsure
    if not present:
        raise BadInputError(
            f"{folder}: none of its {made.labels:,} labelled trajectories is there; they belong to {labelled.holds}"
        )
    wanted = present - made.void
    named = [f"{failure.input_id}: {failure.message}" for failure in made.failures[:_MOST_NAMED]]
    if (more := len(made.failures) - len(named)) > 0:
        named.append(f"and {more} more")
    rows: dict[str, Sequence[Row]] = {"model_calls": [judge.identity.stamped(call) for call in made.calls]}
    return Evaluated(
        made.evidence,
        "|".join(sorted(made.versions)),
        trajectories=wanted,
        unjudged=wanted - len(made.evidence),
        void=made.void,
        unlabelled=made.unsure,
        absent=made.absent,
        why_unjudged="; ".join(named) or "all of them are void",
        further_rows={**rows, "failures": made.failures},
    )


def _record(context: RoundContext, judge: NamedJudge, evaluated: Evaluated, labels: str | None) -> Calibrated:
    if not evaluated.evidence:
        none = f"judge {judge.name} could judge none of {evaluated.trajectories} trajectories"
        raise TrajmillError(f"{none}; {evaluated.why_unjudged}")
    number = 1 + max((row.number for row in read_rows(context.warehouse, Calibration)), default=0)

    def row(each: IngredientTally) -> Calibration:
        found, n = agreement(each.quality), each.trajectories
        return Calibration(
            number=number,
            judge=judge.name,
            judge_id=judge.identity.judge_id,
            labels=labels,
            ingredient=each.ingredient.kind,
            channel=each.ingredient.channel,
            resolution=each.ingredient.resolution,
            models="+".join(each.models),
            rule=str(judge.rule),
            votes=each.ingredient.votes,
            trajectories=evaluated.trajectories,
            unjudged=evaluated.unjudged,
            undecided=each.undecided,
            **each.quality.model_dump(exclude={"level"}),
            precision=found.precision.value,
            precision_low=found.precision.interval.low,
            precision_high=found.precision.interval.high,
            recall=found.recall.value,
            recall_low=found.recall.interval.low,
            recall_high=found.recall.interval.high,
            f1=found.f1,
            kappa=found.kappa,
            calls=each.calls / n,
            tokens=each.tokens / n,
            seconds=each.milliseconds / 1000 / n,
            cached=each.cached / each.calls if each.calls else 0.0,
            **context.origin.common(made_by=evaluated.made_by),
        )

    rows = tuple(map(row, tally(judge.rule, evaluated.evidence)))
    at = StageRun(context.run_id, context.round, f"calibration-{number:06d}")
    commit_stage(context.warehouse, at, context.write(at, {**evaluated.further_rows, "calibrations": rows}))
    return Calibrated(judge.name, labels, rows, evaluated)
