"""Makes the round's release: training data of all rounds so far, as files for trainers."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime

from trajmill.flows.configuration.config import Config, policy_family, policy_gives_tokens
from trajmill.flows.configuration.judges import own_judge
from trajmill.flows.deriving import derive_in_round, kind_named
from trajmill.flows.policies.policy import policy_before, stale_versions
from trajmill.flows.progress import progress, watched_work
from trajmill.flows.serving.models_ready import working_on
from trajmill.flows.stage import RoundContext, StageOutcome, StageReport, finished, report_of, stage
from trajmill.flows.tasks.judge import trajectories_of_round, unjudged_of_earlier_rounds
from trajmill.pipelines.derive import DeriveExamples, DeriveRLSteps, RLRound, plan_round
from trajmill.pipelines.fan_out import divide
from trajmill.pipelines.reading.episodes import read_history
from trajmill.pipelines.release import Released, ReleaseRequest, make_release
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.judge import TRIED_AT_MOST
from trajmill.stages.derive.collected import LEARNED_FROM
from trajmill.stages.derive.spec import DERIVE_KINDS
from trajmill.stages.export.exporter import exporter_spec
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import tuples
from trajmill.warehouse.releases import is_release, release_names
from trajmill.warehouse.staging import forget, sweep

RELEASE = "release"


@stage(RELEASE, "release")
def release(context: RoundContext, at: StageRun) -> StageOutcome:
    released = _of_round(context)
    result = {
        "release": release_name(context),
        "examples": released.examples,
        "rl_steps": released.rl_steps,
        "left_out": dict(released.left_out),
    }
    for each in released.narrowed:
        progress().show(f"round {context.round}: the release is narrower than the one before in {each}")
    return StageOutcome(released.offered, released.examples, result=result)


def release_to_train_on(context: RoundContext) -> str:
    """Return the name of the round's release; it is made again if somebody has dropped it."""
    name = str(finished(context, RELEASE).result["release"])
    if not is_release(context.warehouse, name):
        _of_round(context)
        sweep(context.warehouse, context.at(RELEASE).staging(context.warehouse))
    return name


def _of_round(context: RoundContext) -> Released:
    previous = release_name(context.in_round(context.round - 1)) if context.round > 1 else None
    return _make(context, context.at(RELEASE), release_name(context), previous)


def release_again(config: Config) -> str:
    """Release the newest round again under a new name. Raises BadInputError (no release yet), RunInUseError."""
    newest = RoundContext.of(config)
    if report_of(newest, RELEASE) is None:
        raise BadInputError(f"run {newest.run_id}: no round was released yet; run `trajmill evolve` first")
    # The last round that has made its release, whether that was dropped or not.
    while report_of(following := newest.in_round(newest.round + 1), RELEASE) is not None:
        newest = following
    first = release_name(newest)
    with working_on(newest):
        names = (name.removeprefix(f"{first}-") for name in release_names(newest.warehouse))
        number = 1 + max((int(number) for number in names if number.isdecimal()), default=0)
        at = StageRun(newest.run_id, newest.round, RELEASE, number)
        with watched_work(newest.warehouse, at, RELEASE):
            _make(newest, at, f"{first}-{number}", first)
        forget(newest.warehouse, at.staging(newest.warehouse))
    return f"{first}-{number}"


def _make(context: RoundContext, at: StageRun, name: str, previous: str | None) -> Released:
    config, queries, kinds = context.config, context.all_queries, dict[str, int | None]()
    for kind in DERIVE_KINDS.kinds():
        # A kind whose model is not configured has no rows.
        with suppress(BadInputError):
            found = kind_named(config, kind)
            kinds[found.made_by] = found.spec.equal_words
    history = read_history(context.warehouse, context.run_id, context.round + 1)
    request = ReleaseRequest(
        name=name,
        origin=context.origin,
        policy=policy_before(context).version,
        judge=str(own_judge(config).rule),
        averages=history.averages(list(queries)) if config.train.reweight else None,
        keep_per_query=config.train.keep_per_query,
        keep_per_reply=config.train.keep_per_reply,
        formats=tuple(map(exporter_spec, config.release.formats)),
        previous=previous,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        heldout_apps=config.queries.unseen_app_names,
        left_out=dict(sum((Counter(report.result["dropped"]) for report in derived_so_far(context)), Counter[str]())),
        kinds=kinds,
        curate=config.curate,
        quotas=config.release.quotas,
    )
    return make_release(context.warehouse, request, list(queries.values()), at.staging(context.warehouse))


def release_name(context: RoundContext) -> str:
    return f"{context.run_id}-r{context.round:04d}"


DERIVE = "derive"
DERIVE_RL = "derive_rl"
DERIVE_KIND = "derive_kind"
NOT_ACCEPTED = "trajectory_not_accepted"
"""The reason of trajectories that were judged incorrect or not judged."""


@stage(DERIVE, "derive")
def derive(context: RoundContext, at: StageRun) -> StageOutcome:
    """Derive supervised examples from the accepted attempts and imports that were judged in this round."""
    rounds, trajectories = {context.round}, trajectories_of_round(context, *LEARNED_FROM)
    late = unjudged_of_earlier_rounds(context, *LEARNED_FROM)
    rounds.update(one.round for one in late)
    trajectories += [one.trajectory_id for one in late]
    correct = context.correctness(rounds)
    chosen = sorted({each for each in trajectories if correct.get(each)})
    filter_steps, curate = context.config.judge.filter_steps, context.config.curate
    job = DeriveExamples(**context.common(at), rounds=tuple(sorted(rounds)), filter_steps=filter_steps, curate=curate)
    made = context.fan_out(job, divide(chosen, context.workers))
    dropped = {NOT_ACCEPTED: len(trajectories) - len(chosen), **made.dropped}
    return StageOutcome(len(trajectories), len(chosen), made.files, {"dropped": dropped})


@stage(DERIVE_RL, "derive")
def derive_rl(context: RoundContext, at: StageRun) -> StageOutcome:
    """Derive RL rows from the round's unguided attempts, and from earlier groups that waited for a judgement."""
    config, spec = context.config, context.config.rl
    own = trajectories_of_round(context, Purpose.TRAIN)
    late = unjudged_of_earlier_rounds(context, Purpose.TRAIN)
    columns, waited = ["round", "query_id", "purpose", "trajectory_id"], {one.trajectory_id for one in late}
    attempts = list(tuples(context.read("trajectories", columns, {one.round for one in late})))
    groups = {(number, query_id) for number, query_id, _, name in attempts if name in waited}
    late_groups = [name for *group, purpose, name in attempts if tuple(group) in groups and purpose == Purpose.TRAIN]
    trajectories = sorted({*own, *late_groups, *trajectories_of_round(context, Purpose.BRANCH)})
    tried_again = [one.trajectory_id for one in late if one.tried + 1 < TRIED_AT_MOST]
    history = read_history(context.warehouse, context.run_id, context.round)
    rounds = tuple(sorted({context.round, *(one.round for one in late)}))
    remembered = history.shortest_success(guided=False)
    compared = RLRound(
        context.run_id,
        context.round,
        trajectories,
        rounds,
        remembered=remembered,
        remembered_in=history.rounds_of(remembered.values()),
        may_be_judged=frozenset([*own, *tried_again]),
        stale=stale_versions(context, rounds, spec.max_staleness),
    )
    plan = plan_round(context.warehouse, compared, spec, config.run.seed)
    job = DeriveRLSteps(
        **context.common(at),
        step_weight=spec.step_weight,
        family=policy_family(config),
        with_tokens=policy_gives_tokens(config),
        temperature=config.rollout.temperature,
    )
    # As they are stored: by round, then by id.
    parts = divide(plan.trajectories, context.workers, near=lambda one: (one.round, one.trajectory_id))
    made = context.fan_out(job, parts)
    rows_out = len(set(context.written("rl_steps", made.files, ["trajectory_id"])))
    dropped = Counter(made.dropped) + Counter(each.reason for each in plan.dropped)
    return StageOutcome(len(trajectories), rows_out, made.files, {"dropped": dict(dropped)})


@stage(DERIVE_KIND, "derive", is_wanted=lambda config: bool(config.train.learns_kind))
def derive_for_training(context: RoundContext, at: StageRun) -> StageOutcome:
    made = derive_in_round(context, context.config.train.learns_kind)
    return StageOutcome(made.trajectories, made.examples, result={"dropped": dict(made.refused)})


def derived_so_far(context: RoundContext) -> list[StageReport]:
    return [finished(context.in_round(number), DERIVE) for number in range(1, context.round + 1)]
