"""Train a new policy version from the files of the round's release."""

from __future__ import annotations

import shutil

from trajmill.flows.context import RoundContext
from trajmill.flows.policy import is_served, policy_before, policy_of
from trajmill.flows.stage import Outcome, StageReport, finished, once
from trajmill.flows.tasks.calibrate import precise_enough
from trajmill.flows.tasks.export import EXPORT
from trajmill.pipelines.resources import use_one_thread
from trajmill.schemas.record import content_id
from trajmill.stages.models.embedded.storage import load_network, network_version
from trajmill.stages.training.embedded.base import Optimisation, Progress, SftRecipe, TrainingReport
from trajmill.stages.training.embedded.train import train_policy
from trajmill.warehouse.layout import StageRun

TRAIN = "train"


def train(context: RoundContext, progress: Progress | None = None) -> StageReport:
    """Train, unless there is nothing to learn from, the judge is too imprecise, or this is a control's early round."""

    def work(at: StageRun) -> Outcome:
        rows = finished(context, EXPORT).result["examples"]
        reason = _reason_not_to(context, rows)
        if reason:
            return Outcome(rows, 0, result={"trained": False, "reason": reason})
        use_one_thread()
        fresh = at.staging(context.warehouse) / "weights"
        report = train_policy(
            parent=policy_before(context).folder,
            release=context.warehouse.release(finished(context, EXPORT).result["release"]),
            recipe=sft_recipe(context),
            seed=int(content_id("train", context.config.run.seed, context.round)[:12], 16),
            folder=fresh,
            progress=progress,
        )
        version = network_version(load_network(fresh))
        folder = policy_of(context, version).folder
        if not folder.exists():
            fresh.rename(folder)
        shutil.rmtree(fresh, ignore_errors=True)
        return Outcome(rows, report.rows, result=_result(version, report))

    return once(context, TRAIN, work)


def sft_recipe(context: RoundContext) -> SftRecipe:
    """The recipe that the configuration asks for; a control does all updates of a run at its end."""
    settings = context.config.train
    control = settings.frozen_explorer_updates
    return SftRecipe(
        epochs=settings.epochs,
        least_updates=control or settings.min_updates,
        most_updates=control or settings.max_updates,
        optimisation=Optimisation(batch=settings.batch, learning_rate=settings.learning_rate),
    )


def _result(version: str, report: TrainingReport) -> dict[str, object]:
    return {"trained": True, "reason": "", "version": version, **report._asdict()}


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
