"""Trains a new policy version on the round's release, or waits for a version that another program trains."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

from trajmill.flows.configuration.config import policy_family
from trajmill.flows.policies.policy import Policy, check_weights, is_embedded, policy_before
from trajmill.flows.serving.model_server import ADAPTER_FILE
from trajmill.flows.stage import (
    AwaitedError,
    RoundContext,
    StageOutcome,
    StageReport,
    StageResult,
    finished,
    run_once,
    stage,
)
from trajmill.flows.tasks.judge import judge_precision
from trajmill.flows.tasks.release import DERIVE_RL, NOT_ACCEPTED, RELEASE, derived_from, release_to_train_on
from trajmill.pipelines.export import ExportRequest, export_release_to
from trajmill.schemas.errors import BadInputError, FailureClass, TrainingFailedError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.stages.critics.calibration.agreement import Precision
from trajmill.stages.training.admission import admit
from trajmill.stages.training.child import LOG_FILE
from trajmill.stages.training.promotion import reason_not_to_train
from trajmill.stages.training.spec import ParentPolicy, TrainingReport
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.releases import release_folder, verify_release
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.staging import ShardProgress, plan_items
from trajmill.warehouse.weights import keep_weights

TRAIN = "train"


class Training(StageResult):
    """The result of the stage: a new version, or why there is none."""

    trained: bool
    reason: str
    """Why there is no new version; empty if there is one."""
    judge_precision: Precision
    policy_row: Policy | None = None
    """The version that was trained or added; the policy in force itself if that was added again."""
    parent: str | None = None
    release: str | None = None
    recipe: str = "{}"
    """JSON of the training configuration; `{}` for an added version."""
    metrics: str | None = None
    """JSON of the recipe's report; None for an added version."""
    updates: int = 0

    @property
    def new_policy(self) -> Policy | None:
        return self.policy_row if self.trained else None


@stage(TRAIN, "train")
def train(context: RoundContext, at: StageRun) -> StageOutcome:
    """Train, unless there are no examples, the judge is too imprecise, or the recipe trains only in the last round.

    If the recipe cannot train the policy, the stage waits until the user adds a new version. If a training fails, there
    is no new version, and the round has the reason.
    """
    config, recipe = context.config, context.config.train
    released = finished(context, RELEASE).result
    rows, precision = released[recipe.learns_from], judge_precision(context)
    if recipe.learns_from == "rl_steps":
        dropped = dict(finished(context, DERIVE_RL).result["dropped"])
    else:
        # A release of an earlier trajmill has the reasons in its card alone.
        left_out = released.get("left_out", {})
        dropped = {reason: count for reason, count in left_out.items() if reason != NOT_ACCEPTED}
    reason = reason_not_to_train(
        rows,
        recipe.learns_from,
        derived_from(context),
        dropped,
        precision,
        waits_for_last_round=bool(recipe.frozen_explorer_updates) and context.round < config.run.rounds,
    )
    if reason:
        return _untrained(rows, reason, precision)
    parent = policy_before(context)
    folder, adapter = parent.paths(context.warehouse)
    if folder is None or not recipe.trains(folder):
        raise AwaitedError(awaited_policy(context, parent))
    # Damage ends the run: unlike after a training that fails, the round must not go on without a new version.
    verify_release(context.warehouse, release_to_train_on(context))
    check_weights(context.warehouse, parent)
    # An interrupted training continues from the files in this folder.
    weights = at.staging(context.warehouse) / "weights"
    try:
        frozen = {role: config.endpoints[name] for role, name in recipe.roles().items()}
        report = _train(context, at, ParentPolicy(folder, adapter, policy_family(config), frozen), weights)
        admit(weights, folder)
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
            attempts=1,
            **context.origin.common(made_by=recipe.kind),
        )
        files = write_tables(context.warehouse, at, {"failures": [failure]})
        return replace(_untrained(rows, f"training failed: {message}", precision), files=files)
    # New weights, or a new adapter for the parent's weights.
    made = context.warehouse.model(report.version)
    keep_weights(context.warehouse, weights, made)
    shutil.rmtree(weights, ignore_errors=True)
    folders = (folder, made) if (made / ADAPTER_FILE).is_file() else (made, None)
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
    """Return the line with what to do if the recipe cannot train a policy."""
    untrained = f"awaiting a policy: [train] kind {context.config.train.kind!r} does not train {policy.version}"
    if is_embedded(context.config):
        return f"{untrained}; map models.policy to an [endpoints.NAME], or choose a kind for the embedded policy"
    folder = context.warehouse.release(str(finished(context, RELEASE).result["release"]))
    return f"{untrained}; train it on {folder}, then `trajmill policy add --model NAME` or `--adapter DIR`"


def _untrained(rows: int, reason: str, precision: Precision) -> StageOutcome:
    untrained = Training(trained=False, reason=reason, judge_precision=precision)
    return StageOutcome(rows, 0, result=untrained.as_json())


def _train(context: RoundContext, at: StageRun, parent: ParentPolicy, weights: Path) -> TrainingReport:
    """Train into a folder; the updates are counted where `trajmill status` and the terminal look."""
    config, recipe, staging = context.config, context.config.train, at.staging(context.warehouse)
    name = str(finished(context, RELEASE).result["release"])
    if recipe.takes is None:
        training_set = release_folder(context.warehouse, name)
    else:
        training_set = staging / "release"
        # An interrupted stage may have written a part of the export; writing it again gives the same files.
        shutil.rmtree(training_set, ignore_errors=True)
        request = ExportRequest(name, recipe.takes, parent.family, training_set, recipe.learns_kind)
        export_release_to(context.warehouse, request)
    progress, counted = ShardProgress(staging, "updates"), 0

    def count(done: int, updates: int) -> None:
        nonlocal counted
        if not counted:
            plan_items(staging, updates)
        progress.add(done - counted)
        counted = done

    return recipe.train(
        parent=parent,
        release=training_set,
        seed=int(content_id("train", config.run.seed, context.round)[:12], 16),
        folder=weights,
        progress=count,
    )
