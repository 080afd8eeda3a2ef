"""Trains a policy version, or waits for one; measures versions by greedy episodes, and adopts the configured one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from trajmill.flows.configuration.config import Config, policy_family
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.deriving import derive_kind
from trajmill.flows.policies import policy as policies
from trajmill.flows.policies.policy import Policy, PolicyInForce, check_weights
from trajmill.flows.progress import watched_work
from trajmill.flows.serving.models_ready import working_on
from trajmill.flows.stage import (
    AwaitedError,
    RoundContext,
    StageOutcome,
    StageReport,
    StageResult,
    finished,
    has_begun,
    report_of,
    run_once,
    stage,
)
from trajmill.flows.tasks.generate import GENERATE
from trajmill.flows.tasks.judge import judge_precision
from trajmill.flows.tasks.release import (
    DERIVE_RL,
    NOT_ACCEPTED,
    RELEASE,
    derived_so_far,
    release_again,
    release_to_train_on,
)
from trajmill.flows.tasks.rollout import ROLLOUT, attempt_all
from trajmill.pipelines.executors.processes import elsewhere
from trajmill.pipelines.export import ExportRequest, export_release_to
from trajmill.schemas.errors import BadInputError, FailureClass, TrainingFailedError
from trajmill.schemas.names import refuse_unknown
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.policy_version import PolicyVersion, QueryOutcome, SplitSuccess
from trajmill.schemas.tables.query import HELDOUT_SPLITS, Query, Split
from trajmill.schemas.tables.trajectory import Purpose, StopReason
from trajmill.stages.critics.calibration.agreement import Precision
from trajmill.stages.critics.voting import PASSED
from trajmill.stages.metrics.intervals import success_by_split
from trajmill.stages.queries.proposals.source import PROPOSED
from trajmill.stages.rollout.base import plan_once
from trajmill.stages.training.admission import ADAPTER_CONFIG, admit
from trajmill.stages.training.child import LOG_FILE
from trajmill.stages.training.promotion import Promotion, QueryGroup, Rival, compare, reason_not_to_train
from trajmill.stages.training.spec import ParentPolicy, RecipeSpec, TrainingReport
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.releases import keep_weights, release_folder, verify_release
from trajmill.warehouse.staging import ShardProgress, forget, plan_items, progress_of

TRAIN = "train"


class Training(StageResult):
    trained: bool
    reason: str
    judge_precision: Precision
    policy_row: Policy | None = None
    """The version that was trained or added; the policy in force itself if that was added again."""
    parent: str | None = None
    release: str | None = None
    recipe: str = "{}"
    metrics: str | None = None
    updates: int = 0

    @property
    def new_policy(self) -> Policy | None:
        return self.policy_row if self.trained else None


@stage(TRAIN, "train", unit="updates")
def train(context: RoundContext, at: StageRun) -> StageOutcome:
    """Train, unless there are no examples, or the judge is too imprecise.

    If the recipe cannot train the policy, the stage waits until the user adds a new version. If a training fails, there
    is no new version, and the round has the reason.
    """
    config, recipe = context.config, context.config.train
    released = finished(context, RELEASE).result
    rows, precision = released[recipe.learns_from], judge_precision(context)
    # A release of an earlier trajmill has the reasons in its card alone.
    dropped = {reason: count for reason, count in released.get("left_out", {}).items() if reason != NOT_ACCEPTED}
    if recipe.learns_from == "rl_steps":
        dropped = dict(finished(context, DERIVE_RL).result["dropped"])
    derived = sum(report.count.rows_out for report in derived_so_far(context))
    if reason := reason_not_to_train(rows, recipe.learns_from, derived, dropped, precision):
        return _untrained(rows, reason, precision)
    parent = policies.policy_before(context)
    folder, adapter = parent.paths(context.warehouse)
    if folder is None or not recipe.trains(folder):
        raise AwaitedError(awaited_policy(context, parent))
    # Damage ends the run: unlike after a training that fails, the round must not go on without a new version.
    verify_release(context.warehouse, release_to_train_on(context))
    policies.check_weights(context.warehouse, parent)
    # An interrupted training continues from the files in this folder.
    weights = at.staging(context.warehouse) / "weights"
    try:
        frozen = {role: config.endpoints[name] for role, name in recipe.roles().items()}
        own = ParentPolicy(folder, adapter, policy_family(config), frozen)
        report = trained_weights(context, recipe, own, str(released["release"]), weights, context.round)
    except (TrainingFailedError, BadInputError) as error:
        message = str(error)
        if (log := weights / LOG_FILE).is_file():
            kept = context.warehouse.run(context.run_id)
            kept.mkdir(parents=True, exist_ok=True)
            moved = shutil.move(log, kept / f"training-r{context.round:04d}.log")
            message = f"{message}; all that the trainer printed is in {moved}"
        shutil.rmtree(weights, ignore_errors=True)
        failure = Failure(
            stage=TRAIN,
            input_id=str(released["release"]),
            failure_class=FailureClass.TRAINING,
            message=message,
            **context.origin.common(made_by=recipe.kind),
        )
        files = context.write(at, {"failures": [failure]})
        return replace(_untrained(rows, f"training failed: {message}", precision), files=files)
    # New weights, or a new adapter for the parent's weights.
    made = context.warehouse.model(report.version)
    keep_weights(context.warehouse, weights, made)
    shutil.rmtree(weights, ignore_errors=True)
    folders = (folder, made) if (made / ADAPTER_CONFIG).is_file() else (made, None)
    trained = Training(
        trained=True,
        reason="",
        judge_precision=precision,
        parent=parent.version,
        release=released["release"],
        recipe=recipe.model_dump_json(),
        policy_row=Policy.stored_in(context.warehouse, report.version, parent.kind, *folders),
        metrics=json.dumps(report._asdict()),
        updates=report.updates,
    )
    return StageOutcome(rows, report.rows, result=trained.as_json())


def leave_untrained(context: RoundContext, reason: str) -> StageReport:
    """End the training stage of a round without a training, for a reason that the round's figures show."""
    rows = finished(context, RELEASE).result[context.config.train.learns_from]
    return run_once(context, TRAIN, lambda at: _untrained(rows, reason, judge_precision(context)))


def awaited_policy(context: RoundContext, policy: Policy) -> str:
    untrained = f"awaiting a policy: [train] kind {context.config.train.kind!r} does not train {policy.version}"
    if context.config.models.policy == EMBEDDED:
        return f"{untrained}; map models.policy to an [endpoints.NAME], or choose a kind for the embedded policy"
    folder = context.warehouse.release(str(finished(context, RELEASE).result["release"]))
    return f"{untrained}; train it on {folder}, then `trajmill policy add --model NAME` or `--adapter DIR`"


def _untrained(rows: int, reason: str, precision: Precision) -> StageOutcome:
    untrained = Training(trained=False, reason=reason, judge_precision=precision)
    return StageOutcome(rows, 0, result=untrained.as_json())


def trained_weights(
    context: RoundContext, recipe: RecipeSpec, parent: ParentPolicy, name: str, weights: Path, seed: object
) -> TrainingReport:
    """Train on the release `name` into a new folder, whose parent is the stage's, and check the weights.

    The updates are counted where `trajmill status` and the terminal look. Raises TrainingFailedError, BadInputError.
    """
    config, staging = context.config, weights.parent
    if recipe.takes is None:
        training_set = release_folder(context.warehouse, name)
    else:
        training_set = staging / "release"
        # An interrupted stage may have written a part of the export; writing it again gives the same files.
        shutil.rmtree(training_set, ignore_errors=True)
        request = ExportRequest(name, recipe.takes, parent.family, training_set, recipe.learns_kind)
        export_release_to(context.warehouse, request)
    seed = int(content_id("train", config.run.seed, seed)[:12], 16)
    count = partial(_count_updates, staging, ShardProgress(staging, "updates"))
    training = partial(recipe.train, parent, training_set, seed, weights, count)
    # Threads that make the next attempts and a network in one process would wait for one another.
    report = elsewhere(training) if config.run.asynchronous else training()
    admit(weights, parent.folder)
    return report


def _count_updates(staging: Path, counted: ShardProgress, done: int, updates: int) -> None:
    if progress_of(staging).total != updates:
        plan_items(staging, updates)
    counted.fill(done)


class TrainedModel(NamedTuple):
    """A model that is not the policy, trained by a recipe of `[recipes.NAME]`."""

    folder: Path
    release: str
    report: TrainingReport


def train_beside(config: Config, name: str) -> TrainedModel:
    """Train another model than the policy, such as a judge, on what the run has stored; no round changes.

    Raises BadInputError (no such recipe, no weights, no rows), TrainingFailedError, RunInUseError.
    """
    refuse_unknown([name], config.recipes, "the configuration's [recipes] has no")
    recipe, endpoint = config.recipes[name], config.endpoints[config.recipes[name].model]
    folder = endpoint.weights_folder
    if folder is None or not recipe.trains(folder):
        raise BadInputError(
            f"recipes.{name}.model: [endpoints.{recipe.model}] has no folder of weights that kind {recipe.kind!r} "
            "trains; set its weights"
        )
    if recipe.learns_kind:
        derive_kind(config, recipe.learns_kind)
    release, context = release_again(config), RoundContext.of(config)
    at = StageRun(context.run_id, context.round, f"recipe-{name}")
    frozen = {role: config.endpoints[each] for role, each in recipe.roles().items()}
    parent = ParentPolicy(folder, endpoint.adapter_folder, endpoint.vision_family, frozen)
    with working_on(context, [*recipe.roles().values()]), watched_work(context.warehouse, at, f"train {name}"):
        weights = at.staging(context.warehouse) / "weights"
        try:
            report = trained_weights(context, recipe, parent, release, weights, name)
        except TrainingFailedError as error:
            raise TrainingFailedError(f"{error}; all that the trainer printed is in {weights / LOG_FILE}") from error
        made = context.warehouse.model(report.version)
        keep_weights(context.warehouse, weights, made)
        forget(context.warehouse, at.staging(context.warehouse))
    return TrainedModel(made, release, report)


EVALUATE = "evaluate"
_BROKEN_OFF = (StopReason.TIME_LIMIT, StopReason.FAILED)
_ENOUGH_VALIDATION = 40
"""With fewer validation queries training queries decide as well: a test of few queries notices only large losses."""


class Evaluation(StageResult):
    success: tuple[SplitSuccess, ...]
    validation: tuple[QueryOutcome, ...]
    """For each validation query, in order of id, whether the policy achieved it."""
    training: tuple[QueryOutcome, ...] = ()
    """The same for each measured training query."""
    unscored: tuple[str, ...] = ()
    """Queries whose attempts broke off: at the time limit, or by a failure."""
    refused: str
    """Why the new policy could not be measured; empty if it was, or if there is none."""


@stage(policies.BASELINE, "generate", fixed_round=0)
def baseline(context: RoundContext, at: StageRun) -> StageOutcome:
    first = Policy.model_validate(finished(context.in_round(1), GENERATE).result["first_policy"])
    how = "untrained" if context.config.models.policy == EMBEDDED else "configured"
    return measure_and_decide(context, at, first, Promotion(True, f"{how}: the start of the loop"), made_by=how)


@stage(EVALUATE, "evaluate")
def evaluate(context: RoundContext, at: StageRun) -> StageOutcome:
    """Measure the round's new policy; one that is refused, or cannot be loaded, is neither measured nor promoted."""
    new, refused = Training.of(finished(context, TRAIN)).new_policy, ""
    if new is not None:
        try:
            outcome, measured = measure(context, at, new)
            return replace(outcome, result=measured.as_json())
        except BadInputError as error:
            refused = str(error)
    return StageOutcome(0, 0, result=Evaluation(success=(), validation=(), refused=refused).as_json())


def measure(
    context: RoundContext, at: StageRun, policy: Policy, untrained: bool = False
) -> tuple[StageOutcome, Evaluation]:
    """Let a policy act greedily once on each measured query. Raises RefusedPolicyError."""
    attempts = plan_once(measured_queries(context), Purpose.EVALUATE, context.config.run.seed, context.round)
    agent = policies.acting(context, policy, temperature=0.0, untrained=untrained)
    if agent.endpoint is not None:
        policies.score_prompt(agent.endpoint)
    outcome, queries = attempt_all(context, at, attempts, agent), context.queries
    rows = list(context.written("trajectories", outcome.files, ["query_id", "reward", "stop_reason"]))
    scored = {query_id: reward >= PASSED for query_id, reward, _ in rows if reward is not None}
    unscored = tuple(query_id for query_id, reward, stop in rows if reward is None and stop in _BROKEN_OFF)
    success = success_by_split((queries[query_id].split, done) for query_id, done in scored.items())

    def outcomes(split: Split) -> tuple[QueryOutcome, ...]:
        of_split = (query.query_id for query in _of_split(context, split) if query.query_id in scored)
        return tuple(QueryOutcome(query_id=query_id, success=scored[query_id]) for query_id in of_split)

    validation, training = outcomes(Split.VALIDATION), outcomes(Split.TRAIN)
    return outcome, Evaluation(success=success, validation=validation, training=training, unscored=unscored, refused="")


def measure_and_decide(
    context: RoundContext,
    at: StageRun,
    policy: Policy,
    decided: Promotion | None = None,
    made_by: str = "",
    **columns: Any,
) -> StageOutcome:
    """Measure a version, decide about it by default, and write its row. Raises RefusedPolicyError."""
    outcome, measured = measure(context, at, policy, untrained=True)
    decided = decided or compared(context, measured)
    row = version_row(context, policy, measured, decided, made_by or at.stage, **columns)
    files = {**outcome.files, **context.write(at, {"models": [row]})}
    in_force = PolicyInForce(policy_row=policy, updates=row.updates, success=measured.success, **decided._asdict())
    return replace(outcome, files=files, result=in_force.as_json())


def version_row(
    context: RoundContext, policy: Policy, measured: Evaluation, decided: Promotion, made_by: str, **columns: Any
) -> PolicyVersion:
    """Return the row of a measured version with the decision about it; `columns` are those of its training."""
    row = {"parent": None, "release": None, "recipe": "{}", "updates": 0, **columns, **policy.model_dump()}
    row |= {**decided._asdict(), **measured.model_dump(include={"success", "validation", "training"})}
    return PolicyVersion(**row, **context.origin.common(made_by=made_by))


def measured_queries(context: RoundContext) -> list[Query]:
    """The first queries of each split by id, the same random sample in each round, and all validation queries."""
    settings = context.config.evaluate
    sizes = dict.fromkeys(HELDOUT_SPLITS, settings.episodes) | {Split.TRAIN: settings.train_sample}
    sampled = [query for split, size in sizes.items() for query in _of_split(context, split)[:size]]
    return [*sampled, *_of_split(context, Split.VALIDATION)]


def _of_split(context: RoundContext, split: Split) -> Sequence[Query]:
    """The queries of a split with which the run began; no check can measure proposed ones."""
    first = (query for query in context.queries.values() if query.split is split and query.round <= 1)
    return [query for query in first if query.source not in PROPOSED]


def compared(context: RoundContext, new: Evaluation) -> Promotion:
    """Whether a version that was measured like this replaces the policy in force."""
    before = policies.policy_before(context).version
    rivals = {
        version: Rival(version, _outcomes(row))
        for version, row in policies.policy_versions(context).items()
        if row.promoted or version == before
    }
    queries, unseen = _of_split(context, Split.VALIDATION), set(context.config.queries.unseen_app_names)
    never_seen = {each.query_id for each in queries if unseen & set(each.apps)}
    known = {each.query_id for each in queries} - never_seen
    groups = [QueryGroup("apps of training", known), QueryGroup("apps never seen", never_seen)]
    settings, old = context.config.evaluate, rivals[before]
    if len(queries) < _ENOUGH_VALIDATION:
        groups.append(QueryGroup("training queries", [each.query_id for each in _of_split(context, Split.TRAIN)]))
    return compare(
        _outcomes(new), old, rivals.values(), groups, settings.level, settings.promote_without_evidence, new.unscored
    )


def _outcomes(measured: Evaluation | PolicyVersion) -> dict[str, bool]:
    return {each.query_id: each.success for each in (*(measured.validation or ()), *(measured.training or ()))}


def adopt_configured(context: RoundContext) -> None:
    """Measure and adopt a configured model that the run has no version of; a round that has begun keeps its policy."""
    if not names_another_policy(context) or has_begun(context, ROLLOUT):
        return

    def work(at: StageRun) -> StageOutcome:
        policy = policies.starting_policy(context, at)
        known = policies.policy_versions(context).get(policy.version)
        if known is not None:
            return chosen(context, at, known, "the configuration names it again")
        return measure_and_decide(context, at, policy, Promotion(True, "the configuration names it"))

    policies.choose(context, work)


def names_another_policy(context: RoundContext) -> bool:
    """Whether the configuration names a model, or a kind of one, that the run lacks; False without a baseline."""
    if report_of(context.in_round(0), policies.BASELINE) is None:
        return False
    in_force, config = policies.policy_before(context), context.config
    if config.models.policy == EMBEDDED:
        return in_force.kind != EMBEDDED
    configured = policies.configured_policy(context)
    return configured.version not in policies.policy_versions(context) or configured.kind != in_force.kind


def chosen(
    context: RoundContext, at: StageRun, row: PolicyVersion, reason: str, replaced: Sequence[PolicyVersion] = ()
) -> StageOutcome:
    """Put a version in force; the rows of replaced versions already have their decision."""
    policy = Policy.model_validate(row, from_attributes=True)
    check_weights(context.warehouse, policy)
    choice = PolicyInForce(policy_row=policy, updates=row.updates, success=row.success)
    common = context.origin.common(made_by=at.stage)
    decided = row.model_copy(update={"promoted": True, "reason": reason, **common})
    rows = [*(each.model_copy(update=common) for each in replaced), decided]
    return StageOutcome(1, 1, context.write(at, {"models": rows}), choice.as_json())
