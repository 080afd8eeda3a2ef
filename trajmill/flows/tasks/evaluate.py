"""Evaluates the new policy on held-out queries; before the first round, the policy that the run starts with."""

from __future__ import annotations

from dataclasses import replace

from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import BASELINE, PolicyInForce, is_embedded, policy_in
from trajmill.flows.stage import StageOutcome, StageReport, StageResult, finished, run_once
from trajmill.flows.tasks.generate import GENERATE, Generated
from trajmill.flows.tasks.measure import measure, version_without_parent
from trajmill.flows.tasks.train import TRAIN, Training
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.policy_version import QueryOutcome, SplitSuccess
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.shards import write_tables

EVALUATE = "evaluate"


class Evaluation(StageResult):
    """The result of stage `evaluate`."""

    success: tuple[SplitSuccess, ...]
    validation: tuple[QueryOutcome, ...]
    refused: str
    """Why the new policy could not be measured; empty if it was, or if there is none."""


def baseline(context: RoundContext) -> StageReport:
    """Measure the policy that the run starts with, as round 0."""
    start = context.in_round(0)
    first = Generated.of(finished(context.in_round(1), GENERATE)).first_policy
    policy = policy_in(context.warehouse, first)
    how = "untrained" if is_embedded(context.config) else "configured"

    def work(at: StageRun) -> StageOutcome:
        measured = measure(start, at, policy, untrained=True)
        row = version_without_parent(start, policy, measured, f"{how}: the start of the loop", how)
        files = dict(measured.outcome.files) | write_tables(start.warehouse, at, {"models": [row]})
        in_force = PolicyInForce(policy_row=first, updates=0, success=measured.success)
        return replace(measured.outcome, files=files, result=in_force.as_json())

    return run_once(start, BASELINE, work)


def evaluate(context: RoundContext) -> StageReport:
    """Measure the round's new policy, if there is one.

    A policy that its server refuses, or that cannot be loaded, is neither measured nor promoted.
    """

    def work(at: StageRun) -> StageOutcome:
        new = Training.of(finished(context, TRAIN)).new_policy
        if new is None:
            return _unmeasured("")
        try:
            measured = measure(context, at, policy_in(context.warehouse, new), untrained=False)
        except BadInputError as error:
            return _unmeasured(str(error))
        evaluation = Evaluation(success=measured.success, validation=measured.validation, refused="")
        return replace(measured.outcome, result=evaluation.as_json())

    return run_once(context, EVALUATE, work)


def _unmeasured(refused: str) -> StageOutcome:
    return StageOutcome(0, 0, result=Evaluation(success=(), validation=(), refused=refused).as_json())
