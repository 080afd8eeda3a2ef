"""Trains a new policy version on the round's release, or waits for a version that another program trains."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

from trajmill.flows.configuration.model_specs import policy_family
from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import Policy, PolicyRow, check_weights, is_embedded, policy_before, policy_row
from trajmill.flows.stage import StageOutcome, StageReport, StageResult, Waiting, finished, run_once
from trajmill.flows.tasks.calibrate import judge_precision
from trajmill.flows.tasks.derive import DERIVE_RL, NOT_ACCEPTED, derived_from
from trajmill.flows.tasks.release import RELEASE, release_to_train_on
from trajmill.pipelines.export import ExportRequest, export_release_to
from trajmill.schemas.errors import BadInputError, FailureClass, TrainingFailedError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.stages.critics.calibration.precision import Precision
from trajmill.stages.training.admission import admit
from trajmill.stages.training.base import ParentPolicy, Progress, TrainingReport
from trajmill.stages.training.child import LOG_FILE
from trajmill.stages.training.promotion import reason_not_to_train
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.releases import release_folder, verify_release
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.staging import ShardProgress, plan_items
from trajmill.warehouse.weights import keep_weights

TRAIN = "train"
ADAPTER_FILE = "adapter_config.json"
"""The configuration file in the folder of a LoRA adapter, in PEFT's layout."""


class Training(StageResult):
    """The result of the stage: a new version, or why there is none."""

    trained: bool
    reason: str
    """Why there is no new version; empty if there is one."""
    judge_precision: Precision
    policy_row: PolicyRow | None = None
    """The version that was trained or added; the policy in force itself if that was added again."""
    parent: str | None = None
    release: str | None = None
    recipe: str = "{}"
    """JSON of the training configuration; `{}` for an added version."""
    metrics: str | None = None
    """JSON of the recipe's report; None for an added version."""
    updates: int = 0

    @property
    def new_policy(self) -> PolicyRow | None:
        """The new version; None without one."""
        return self.policy_row if self.trained else None


def train(context: RoundContext) -> StageReport:
    """Train, unless there are no examples, the judge is too imprecise, or the recipe trains only in the last round.

    If the recipe cannot train the policy, the stage waits until the user adds a new version. If a training fails, there
    is no new version, and the round says why.
    """

    def work(at: StageRun) -> StageOutcome | Waiting:
        settings = context.config
        rows = finished(context, RELEASE).result[settings.train.learns_from]
        precision = judge_precision(context)
        reason = reason_not_to_train(
            rows,
            settings.train.learns_from,
            derived_from(context),
            _dropped(context),
            precision,
            waits_for_last_round=bool(settings.train.frozen_explorer_updates) and context.round < settings.run.rounds,
        )
        if reason:
            return _untrained(rows, reason, precision)
        parent = policy_before(context)
        if parent.folder is None or not settings.train.trains(parent.folder):
            return Waiting(awaited_policy(context, parent))
        # Damage ends the run: unlike a training that fails, the round must not go on without a new version.
        verify_release(context.warehouse, release_to_train_on(context))
        check_weights(context.warehouse, parent)
        try:
            report = _trained(context, at, parent)
        except (TrainingFailedError, BadInputError) as error:
            said = f"{error}{_kept_log(context, at)}"
            shutil.rmtree(_weights(context, at), ignore_errors=True)
            failed = write_tables(context.warehouse, at, {"failures": [_failure(context, said)]})
            return replace(_untrained(rows, f"training failed: {said}", precision), files=failed)
        trained = Training(
            trained=True,
            reason="",
            judge_precision=precision,
            parent=parent.version,
            release=finished(context, RELEASE).result["release"],
            recipe=settings.train.model_dump_json(),
            policy_row=policy_row(context.warehouse, _stored(context, at, parent, report.version)),
            metrics=json.dumps(report._asdict()),
            updates=report.updates,
        )
        return StageOutcome(rows, report.rows, result=trained.as_json())

    return run_once(context, TRAIN, work)


def leave_untrained(context: RoundContext, reason: str) -> StageReport:
    """End the training stage of a round without a training, for a reason that the round's figures name."""

    def work(at: StageRun) -> StageOutcome:
        rows = finished(context, RELEASE).result[context.config.train.learns_from]
        return _untrained(rows, reason, judge_precision(context))

    return run_once(context, TRAIN, work)


def awaited_policy(context: RoundContext, policy: Policy) -> str:
    """Return the line with what to do if the recipe cannot train a policy."""
    untrained = f"awaiting a policy: [train] kind {context.config.train.kind!r} does not train {policy.version}"
    if is_embedded(context.config):
        return f"{untrained}; map models.policy to an [endpoints.NAME], or choose a kind for the embedded policy"
    folder = context.warehouse.release(str(finished(context, RELEASE).result["release"]))
    return f"{untrained}; train it on {folder}, then `trajmill policy add --model NAME` or `--adapter DIR`"


def _dropped(context: RoundContext) -> dict[str, int]:
    """By reason, what gave no row of the table that the recipe learns from."""
    if context.config.train.learns_from == "rl_steps":
        return dict(finished(context, DERIVE_RL).result["dropped"])
    # A release of an earlier trajmill has the reasons in its card alone.
    left_out = finished(context, RELEASE).result.get("left_out", {})
    return {reason: count for reason, count in left_out.items() if reason != NOT_ACCEPTED}


def _untrained(rows: int, reason: str, precision: Precision) -> StageOutcome:
    untrained = Training(trained=False, reason=reason, judge_precision=precision)
    return StageOutcome(rows, 0, result=untrained.as_json())


def _failure(context: RoundContext, message: str) -> Failure:
    return Failure(
        stage=TRAIN,
        input_id=str(finished(context, RELEASE).result["release"]),
        failure_class=FailureClass.TRAINING,
        message=message,
        attempts=1,
        **context.origin.common(made_by=context.config.train.kind),
    )


def _kept_log(context: RoundContext, at: StageRun) -> str:
    """Move the log of a failed training to the folder of the run; returns where it is, for the error's line."""
    log, kept = _weights(context, at) / LOG_FILE, context.warehouse.run(context.run_id)
    if not log.is_file():
        return ""
    kept.mkdir(parents=True, exist_ok=True)
    moved = shutil.move(log, kept / f"training-r{context.round:04d}.log")
    return f"; all that the trainer printed is in {moved}"


def _weights(context: RoundContext, at: StageRun) -> Path:
    """The folder in which the stage trains; an interrupted training continues from its files."""
    return at.staging(context.warehouse) / "weights"


def _trained(context: RoundContext, at: StageRun, parent: Policy) -> TrainingReport:
    assert parent.folder is not None
    frozen = {role: context.config.endpoints[name] for role, name in context.config.train.roles().items()}
    report = context.config.train.train(
        parent=ParentPolicy(parent.folder, parent.adapter, policy_family(context.config), frozen),
        release=_training_set(context, at),
        seed=int(content_id("train", context.config.run.seed, context.round)[:12], 16),
        folder=_weights(context, at),
        progress=_counted(at.staging(context.warehouse)),
    )
    admit(_weights(context, at), parent.folder)
    return report


def _counted(folder: Path) -> Progress:
    """Counts the updates in the staging folder of the stage, where `trajmill status` and the terminal look."""
    progress, counted = ShardProgress(folder, "updates"), 0

    def tell(done: int, updates: int) -> None:
        nonlocal counted
        if not counted:
            plan_items(folder, updates)
        progress.add(done - counted)
        counted = done

    return tell


def _training_set(context: RoundContext, at: StageRun) -> Path:
    """The folder that the recipe reads: the release, or its export in the recipe's format."""
    recipe, release = context.config.train, str(finished(context, RELEASE).result["release"])
    form = recipe.takes
    if form is None:
        return release_folder(context.warehouse, release)
    folder = at.staging(context.warehouse) / "release"
    # An interrupted stage may have written a part of the export; writing it again gives the same files.
    shutil.rmtree(folder, ignore_errors=True)
    family = policy_family(context.config)
    export_release_to(context.warehouse, ExportRequest(release, form, family, folder, recipe.learns_kind))
    return folder


def _stored(context: RoundContext, at: StageRun, parent: Policy, version: str) -> Policy:
    """Move the new weights, or the new adapter for the parent's weights, to their place in the warehouse."""
    fresh, folder = _weights(context, at), context.warehouse.model(version)
    keep_weights(context.warehouse, fresh, folder)
    shutil.rmtree(fresh, ignore_errors=True)
    if (folder / ADAPTER_FILE).is_file():
        return Policy(version, parent.kind, parent.folder, folder)
    return Policy(version, parent.kind, folder)
