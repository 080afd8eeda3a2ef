"""Trains a new policy version on the files of the round's release."""

from __future__ import annotations

import shutil

from trajmill.flows.context import RoundContext
from trajmill.flows.policy import is_served, policy_before, policy_of
from trajmill.flows.stage import StageOutcome, StageReport, finished, run_once
from trajmill.flows.tasks.calibrate import judge_precision
from trajmill.flows.tasks.release import RELEASE
from trajmill.schemas.record import content_id
from trajmill.stages.training.base import ParentPolicy, Progress
from trajmill.stages.training.promotion import reason_not_to_train
from trajmill.warehouse.layout import StageRun

TRAIN = "train"


def train(context: RoundContext, progress: Progress | None = None) -> StageReport:
    """Train, unless there are no examples, the judge is too imprecise, or the recipe trains only in the last round."""

    def work(at: StageRun) -> StageOutcome:
        settings = context.config
        rows = finished(context, RELEASE).result[settings.train.learns_from]
        precision = judge_precision(context)
        reason = reason_not_to_train(
            rows,
            settings.train.learns_from,
            precision,
            served=policy_before(context).version if is_served(context) else None,
            waits_for_last_round=bool(settings.train.frozen_explorer_updates) and context.round < settings.run.rounds,
        )
        if reason:
            return StageOutcome(rows, 0, result={"trained": False, "reason": reason, "judge_precision": precision})
        fresh = at.staging(context.warehouse) / "weights"
        report = context.config.train.train(
            parent=ParentPolicy(policy_before(context).folder),
            release=context.warehouse.release(finished(context, RELEASE).result["release"]),
            seed=int(content_id("train", context.config.run.seed, context.round)[:12], 16),
            folder=fresh,
            progress=progress,
        )
        folder = policy_of(context, report.version).folder
        if not folder.exists():
            fresh.rename(folder)
        shutil.rmtree(fresh, ignore_errors=True)
        return StageOutcome(
            rows, report.rows, result={"trained": True, "reason": "", "judge_precision": precision, **report._asdict()}
        )

    return run_once(context, TRAIN, work)
