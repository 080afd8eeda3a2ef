"""Derives training rows from the trajectories that the round has judged."""

from __future__ import annotations

from collections import Counter

from trajmill.flows.configuration.model_specs import policy_family, policy_gives_tokens
from trajmill.flows.deriving.derive_kind import derive_in_round
from trajmill.flows.policies.policy import stale_versions
from trajmill.flows.stage import RoundContext, StageOutcome, StageReport, finished, once, tuples
from trajmill.flows.tasks.judge import trajectories_of_round, unjudged_of_earlier_rounds
from trajmill.pipelines.derive import DeriveExamples, DeriveRLSteps, RLRound, plan_round, stored_place
from trajmill.pipelines.fan_out import divide
from trajmill.pipelines.reading.verdicts import read_history
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.judge import TRIED_AT_MOST
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_shards

DERIVE = "derive"
DERIVE_RL = "derive_rl"
DERIVE_KIND = "derive_kind"
NOT_ACCEPTED = "trajectory_not_accepted"
"""The reason of trajectories that were judged incorrect or not judged."""
_LEARNED_FROM = (Purpose.TRAIN, Purpose.GUIDED, Purpose.IMPORTED)


@once(DERIVE)
def derive(context: RoundContext, at: StageRun) -> StageOutcome:
    """Derive supervised examples from the accepted attempts and imports that were judged in this round."""
    config, rounds = context.config, {context.round}
    trajectories = trajectories_of_round(context, *_LEARNED_FROM)
    chosen = sorted(trajectories)
    if config.judge.filter:
        late = unjudged_of_earlier_rounds(context, *_LEARNED_FROM)
        rounds.update(one.round for one in late)
        trajectories += [one.trajectory_id for one in late]
        rows = context.read_judgements("trajectory_id", "correct", rounds=rounds)
        accepted = set(rows["trajectory_id"].filter(rows["correct"]).to_pylist())
        chosen = sorted(accepted.intersection(trajectories))
    job = DeriveExamples(
        context.warehouse,
        at,
        context.origin,
        rounds=tuple(sorted(rounds)),
        trust_judge=config.judge.filter,
        trust_step_critic=config.judge.filter_steps,
        curate=config.curate,
    )
    made = context.fan_out(at, divide(chosen, config.rollout.workers), job)
    dropped = {NOT_ACCEPTED: len(trajectories) - len(chosen), **made.dropped}
    return StageOutcome(len(trajectories), len(chosen), made.files, {"dropped": dropped})


@once(DERIVE_RL)
def derive_rl(context: RoundContext, at: StageRun) -> StageOutcome:
    """Derive RL rows from the round's unguided attempts, and from earlier groups that waited for a judgement."""
    config, spec = context.config, context.config.rl
    own = trajectories_of_round(context, Purpose.TRAIN)
    late = unjudged_of_earlier_rounds(context, Purpose.TRAIN) if spec.carry_over else []
    columns = ["round", "query_id", "purpose", "trajectory_id"]
    attempts = list(tuples(context.read("trajectories", columns, {one.round for one in late})))
    waited = {one.trajectory_id for one in late}
    groups = {(number, query_id) for number, query_id, _, name in attempts if name in waited}
    late_groups = [
        name
        for number, query_id, purpose, name in attempts
        if (number, query_id) in groups and purpose == Purpose.TRAIN
    ]
    trajectories = sorted({*own, *late_groups})
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
    plan = plan_round(context.warehouse, compared, spec, config.run.seed)
    job = DeriveRLSteps(
        context.warehouse,
        at,
        context.origin,
        spec.step_weight,
        family=policy_family(config),
        with_tokens=policy_gives_tokens(config),
        temperature=config.rollout.temperature,
    )
    made = context.fan_out(at, divide(plan.trajectories, config.rollout.workers, near=stored_place), job)
    tables = read_shards(context.warehouse, "rl_steps", made.files.get("rl_steps", []), ["trajectory_id"])
    rows_out = len({name for table in tables for name in table["trajectory_id"].to_pylist()})
    dropped = Counter(made.dropped) + Counter(each.reason for each in plan.dropped)
    return StageOutcome(len(trajectories), rows_out, made.files, {"dropped": dict(dropped)})


@once(DERIVE_KIND)
def derive_for_training(context: RoundContext, at: StageRun) -> StageOutcome:
    """Derive rows of the kind that the recipe trains on."""
    made = derive_in_round(context, context.config.train.learns_kind)
    return StageOutcome(made.trajectories, made.examples, result={"dropped": dict(made.refused)})


def left_out(context: RoundContext) -> dict[str, int]:
    """By reason, how much gave no supervised example in the rounds so far."""
    total: Counter[str] = Counter()
    for report in _derived_so_far(context):
        total.update(report.result["dropped"])
    return dict(total)


def derived_from(context: RoundContext) -> int:
    """The number of trajectories that supervised examples were derived from in the rounds so far."""
    return sum(report.count.rows_out for report in _derived_so_far(context))


def _derived_so_far(context: RoundContext) -> list[StageReport]:
    return [finished(context.in_round(number), DERIVE) for number in context.rounds_so_far[1:]]
