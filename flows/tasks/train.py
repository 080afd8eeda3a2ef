"""Train a new policy version from the files of the round's release."""

from __future__ import annotations

import shutil

from trajmill.flows.context import RoundContext
from trajmill.flows.policy import is_served, policy_before, policy_of
from trajmill.flows.stage import StageOutcome, StageReport, finished, once
from trajmill.flows.tasks.calibrate import precise_enough
from trajmill.flows.tasks.export import EXPORT
from trajmill.schemas.record import content_id
from trajmill.stages.training.base import Progress
from trajmill.warehouse.layout import StageRun

TRAIN = "train"


def train(context: RoundContext, progress: Progress | None = None) -> StageReport:
    """Train, unless there is nothing to learn from, the judge is too imprecise, or this is a control's early round."""

    def work(at: StageRun) -> StageOutcome:
        rows = finished(context, EXPORT).result["examples"]
        reason = _reason_not_to(context, rows)
        if reason:
            return StageOutcome(rows, 0, result={"trained": False, "reason": reason})
        fresh = at.staging(context.warehouse) / "weights"
        report = context.config.train.train(
            parent=policy_before(context).folder,
            release=context.warehouse.release(finished(context, EXPORT).result["release"]),
            seed=int(content_id("train", context.config.run.seed, context.round)[:12], 16),
            folder=fresh,
            progress=progress,
        )
        folder = policy_of(context, report.version).folder
        if not folder.exists():
            fresh.rename(folder)
        shutil.rmtree(fresh, ignore_errors=True)
        return StageOutcome(rows, report.rows, result={"trained": True, "reason": "", **report._asdict()})

    return once(context, TRAIN, work)


def _reason_not_to(context: RoundContext, rows: int) -> str:
    if is_served(context):
        return f"{policy_before(context).version} is served, and trained by its own trainer: the release is for it"
    if rows == 0:
        return "no trajectory was accepted"
    if not precise_enough(context):
        return "the judge's precision is under its floor"
    if context.config.train.frozen_explorer_updates and context.round < context.config.run.rounds:
        return "a frozen explorer is trained once, at the end"
    return ""
