"""Derives training rows from the trajectories that the round has judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.model_specs import policy_family, policy_gives_tokens
from trajmill.flows.context import RoundContext
from trajmill.flows.deriving.derive_kind import derive_in_round
from trajmill.flows.policies.policy import stale_versions
from trajmill.flows.stage import StageOutcome, StageReport, finished, run_once
from trajmill.flows.tasks.judge import trajectories_of_round, unjudged_of_earlier_rounds
from trajmill.pipelines.derive import DeriveExamples
from trajmill.pipelines.derive_rl import DeriveRLSteps, RLRound, plan_round, stored_place
from trajmill.pipelines.fan_out import divide, fan_out
from trajmill.pipelines.reading.verdicts import read_history, read_verdicts
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.judge import TRIED_AT_MOST, Unjudged
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_shards, read_table
from trajmill.warehouse.shards import DataFile

DERIVE = "derive"
DERIVE_RL = "derive_rl"
DERIVE_KIND = "derive_kind"
NOT_ACCEPTED = "trajectory_not_accepted"
"""The reason of trajectories that were judged incorrect or not judged."""
_LEARNED_FROM = (Purpose.TRAIN, Purpose.GUIDED, Purpose.IMPORTED)


def derive(context: RoundContext) -> StageReport:
    """Supervised examples from the accepted attempts and imports that were judged in this round."""

    def work(at: StageRun) -> StageOutcome:
        trajectories = [name for purpose in _LEARNED_FROM for name in trajectories_of_round(context, purpose)]
        rounds = {context.round}
        if context.config.judge.filter:
            late = [one for purpose in _LEARNED_FROM for one in unjudged_of_earlier_rounds(context, purpose)]
            rounds.update(one.round for one in late)
            trajectories += [one.trajectory_id for one in late]
            chosen = sorted(_accepted(context, rounds) & set(trajectories))
        else:
            chosen = sorted(trajectories)
        job = DeriveExamples(
            context.warehouse,
            at,
            context.origin,
            rounds=tuple(sorted(rounds)),
            trust_judge=context.config.judge.filter,
            trust_step_critic=context.config.judge.filter_steps,
            curate=context.config.curate,
        )
        workers = context.config.rollout.workers
        made = fan_out(context.warehouse, at, divide(chosen, workers), job, context.beam, workers)
        dropped = {NOT_ACCEPTED: len(trajectories) - len(chosen), **made.dropped}
        return StageOutcome(len(trajectories), len(chosen), made.files, {"dropped": dropped})

    return run_once(context, DERIVE, work)


def derive_rl(context: RoundContext) -> StageReport:
    """RL rows from the round's unguided attempts, and from earlier groups that waited for a judgement."""

    def work(at: StageRun) -> StageOutcome:
        own, spec = trajectories_of_round(context, Purpose.TRAIN), context.config.rl
        late = unjudged_of_earlier_rounds(context, Purpose.TRAIN) if spec.carry_over else []
        trajectories = sorted({*own, *_groups_of(context, late)})
        tried_again = [one.trajectory_id for one in late if one.tried + 1 < TRIED_AT_MOST]
        history = read_history(context.warehouse, context.run_id, context.round)
        rounds = tuple(sorted({context.round, *(one.round for one in late)}))
        remembered = history.shortest_success(guided=spec.replay_guided)
        compared = RLRound(
            context.run_id,
            context.round,
            trajectories,
            rounds,
            remembered=remembered,
            remembered_in=history.rounds_of(remembered.values()),
            may_be_judged=frozenset([*own, *tried_again] if spec.carry_over else ()),
            stale=stale_versions(context, rounds, spec.max_staleness),
        )
        plan = plan_round(context.warehouse, compared, spec, context.config.run.seed)
        job = DeriveRLSteps(
            context.warehouse,
            at,
            context.origin,
            spec.step_weight,
            family=policy_family(context.config),
            with_tokens=policy_gives_tokens(context.config),
            temperature=context.config.rollout.temperature,
        )
        workers = context.config.rollout.workers
        payloads = divide(plan.trajectories, workers, near=stored_place)
        made = fan_out(context.warehouse, at, payloads, job, context.beam, workers)
        rows_out = len(_trajectories_in(context, made.files.get("rl_steps", [])))
        dropped = Counter(made.dropped) + Counter(each.reason for each in plan.dropped)
        return StageOutcome(len(trajectories), rows_out, made.files, {"dropped": dict(dropped)})

    return run_once(context, DERIVE_RL, work)


def _accepted(context: RoundContext, rounds: Collection[int]) -> set[str]:
    """The trajectories that the run's own judge called correct in some rounds."""
    columns = ["trajectory_id", "correct"]
    rows = read_verdicts(context.warehouse, "judgements", columns, rounds=rounds, run_id=context.run_id)
    return set(rows["trajectory_id"].filter(rows["correct"]).to_pylist())


def derive_for_training(context: RoundContext) -> StageReport:
    """Rows of the derived kind that the recipe trains on; none if it trains on no kind."""

    def work(at: StageRun) -> StageOutcome:
        kind = context.config.train.learns_kind
        if not kind:
            return StageOutcome(0, 0)
        made = derive_in_round(context, kind)
        return StageOutcome(made.trajectories, made.examples, result={"dropped": dict(made.refused)})

    return run_once(context, DERIVE_KIND, work)


def trains_on_a_kind(config: Config) -> bool:
    """Whether the recipe trains on a derived kind."""
    return bool(config.train.learns_kind)


def _groups_of(context: RoundContext, late: Sequence[Unjudged]) -> list[str]:
    """All attempts that stand in one group with attempts that were judged late."""
    columns = ["round", "query_id", "purpose", "trajectory_id"]
    rounds = {one.round for one in late}
    table = read_table(context.warehouse, "trajectories", columns, rounds=rounds, run_id=context.run_id)
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    waited = {one.trajectory_id for one in late}
    groups = {(number, query_id) for number, query_id, _, trajectory_id in rows if trajectory_id in waited}
    return [
        trajectory_id
        for number, query_id, purpose, trajectory_id in rows
        if (number, query_id) in groups and purpose == Purpose.TRAIN
    ]


def left_out(context: RoundContext) -> dict[str, int]:
    """By reason, how much gave no supervised example in the rounds so far."""
    total: Counter[str] = Counter()
    for report in _derived_so_far(context):
        total.update(report.result["dropped"])
    return dict(total)


def derived_from(context: RoundContext) -> int:
    """The trajectories that supervised examples were derived from in the rounds so far."""
    return sum(report.count.rows_out for report in _derived_so_far(context))


def _derived_so_far(context: RoundContext) -> list[StageReport]:
    return [finished(context.in_round(number), DERIVE) for number in context.rounds_so_far[1:]]


def _trajectories_in(context: RoundContext, files: Sequence[DataFile]) -> set[str]:
    tables = read_shards(context.warehouse, "rl_steps", files, ["trajectory_id"])
    return {trajectory_id for table in tables for trajectory_id in table.column(0).to_pylist()}
