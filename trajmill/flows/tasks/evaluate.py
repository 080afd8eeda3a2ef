"""Evaluates the new policy on held-out queries; before the first round, the policy that the run starts with."""

from __future__ import annotations

from dataclasses import replace

from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import BASELINE, is_embedded, policy_in, policy_row
from trajmill.flows.stage import StageOutcome, StageReport, finished, run_once
from trajmill.flows.tasks.generate import GENERATE
from trajmill.flows.tasks.measure import measure, version_without_parent
from trajmill.flows.tasks.train import TRAIN
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.policy_version import QueryOutcome, SplitSuccess
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.shards import write_tables

EVALUATE = "evaluate"


def baseline(context: RoundContext) -> StageReport:
    """Measure the policy that the run starts with, as round 0."""
    start = context.in_round(0)
    policy = policy_in(context.warehouse, finished(context.in_round(1), GENERATE).result["first_policy"])
    how = "untrained" if is_embedded(context.config) else "configured"

    def work(at: StageRun) -> StageOutcome:
        measured = measure(start, at, policy, untrained=True)
        row = version_without_parent(start, policy, measured, f"{how}: the start of the loop", how)
        files = dict(measured.outcome.files) | write_tables(start.warehouse, at, {"models": [row]})
        result = {
            "policy_row": policy_row(start.warehouse, policy),
            "updates": 0,
            **measured.result,
        }
        return replace(measured.outcome, files=files, result=result)

    return run_once(start, BASELINE, work)


def evaluate(context: RoundContext) -> StageReport:
    """Measure the round's new policy, if there is one.

    A policy that its server refuses, or that cannot be loaded, is neither measured nor promoted.
    """

    def work(at: StageRun) -> StageOutcome:
        trained = finished(context, TRAIN).result
        if not trained["trained"]:
            return _unmeasured("")
        policy = policy_in(context.warehouse, trained["policy_row"])
        try:
            measured = measure(context, at, policy, untrained=False)
        except BadInputError as error:
            return _unmeasured(str(error))
        return replace(measured.outcome, result={**measured.result, "refused": ""})

    return run_once(context, EVALUATE, work)


def _unmeasured(refused: str) -> StageOutcome:
    return StageOutcome(0, 0, result={"success": [], "validation": [], "refused": refused})


def validation_of(report: StageReport) -> tuple[QueryOutcome, ...]:
    """The outcomes of validation queries in the report of a stage that measures."""
    return tuple(QueryOutcome.model_validate(outcome) for outcome in report.result["validation"])


def splits_of(report: StageReport) -> tuple[SplitSuccess, ...]:
    """The success by split in the report of a stage that measures."""
    return tuple(SplitSuccess.model_validate(split) for split in report.result["success"])
