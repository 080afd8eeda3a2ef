"""Decides whether the new policy replaces the old one, and writes the round's figures."""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import (
    PROMOTE,
    Policy,
    PolicyInForce,
    policy_before,
    policy_in,
    policy_in_force,
    policy_versions,
)
from trajmill.flows.serving.policy_servers import release_adapter
from trajmill.flows.stage import StageOutcome, StageReport, finished, report_of, run_once
from trajmill.flows.tasks.calibrate import judge_quality
from trajmill.flows.tasks.evaluate import EVALUATE, Evaluation
from trajmill.flows.tasks.guide import reference_paths_used
from trajmill.flows.tasks.measure import validation_queries
from trajmill.flows.tasks.release import RELEASE
from trajmill.flows.tasks.train import TRAIN, Training
from trajmill.schemas.record import Row
from trajmill.schemas.tables.policy_version import PolicyVersion, QueryOutcome
from trajmill.schemas.tables.round_summary import RoundSummary, StageCount
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.training.promotion import Promotion, QueryGroup, Rival, compare
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.shards import write_tables


def promote(context: RoundContext, stages: Sequence[str]) -> StageReport:
    """Promote the new policy unless it is significantly worse on the validation queries.

    Args:
        context: the round.
        stages: names of all stages of a round, in order; the figures include the finished ones.
    """

    def work(at: StageRun) -> StageOutcome:
        before, in_force = policy_before(context), policy_in_force(context)
        trained = Training.of(finished(context, TRAIN))
        evaluated = Evaluation.of(finished(context, EVALUATE))
        reason = trained.reason or evaluated.refused
        promotion = Promotion(False, reason) if reason else compared(context, before, evaluated.validation)
        updates, new, after = in_force.updates + trained.updates, trained.new_policy, in_force
        if new is not None:
            if promotion.promoted:
                after = PolicyInForce(policy_row=new, updates=updates, success=evaluated.success)
            release_unused(context, before if promotion.promoted else policy_in(context.warehouse, new))
        summary = RoundSummary(
            policy_before=before.version,
            policy_after=after.policy_row.model_version,
            stages=_counts(context, stages),
            success_before=in_force.success,
            success_after=after.success,
            judge=judge_quality(context),
            trained=trained.trained,
            reference_paths_used=reference_paths_used(context),
            release=finished(context, RELEASE).result["release"],
            reason=promotion.reason,
            **context.origin.common(made_by=PROMOTE),
        )
        rows: dict[str, Sequence[Row]] = {"rounds": [summary]}
        if new is not None:
            version = PolicyVersion(
                **new.model_dump(),
                parent=trained.parent,
                release=trained.release,
                recipe=trained.recipe,
                updates=updates,
                success=evaluated.success,
                promoted=promotion.promoted,
                reason=promotion.reason,
                metrics=trained.metrics,
                validation=evaluated.validation,
                **context.origin.common(made_by=PROMOTE),
            )
            rows["models"] = [version]
        result = after.model_copy(update=promotion._asdict())
        files = write_tables(context.warehouse, at, rows)
        return StageOutcome(1, int(promotion.promoted), files, result.as_json())

    return run_once(context, PROMOTE, work)


def compared(context: RoundContext, before: Policy, new: Sequence[QueryOutcome]) -> Promotion:
    """Whether a version with these outcomes on the validation queries replaces the policy in force."""
    rivals = {
        version: Rival(version, _by_query(row.validation or ()))
        for version, row in policy_versions(context).items()
        if row.promoted or version == before.version
    }
    queries = validation_queries(context)
    unseen = set(context.config.queries.unseen_app_names)
    groups = [
        QueryGroup("apps of training", [each.query_id for each in queries if not unseen & set(each.apps)]),
        QueryGroup("apps never seen", [each.query_id for each in queries if unseen & set(each.apps)]),
    ]
    old = rivals[before.version]
    evaluate = context.config.evaluate
    return compare(
        _by_query(new), old, list(rivals.values()), groups, evaluate.level, evaluate.promote_without_evidence
    )


def release_unused(context: RoundContext, unused: Policy) -> None:
    """Unload the adapter of a version that no longer acts from the servers of the policy."""
    spec = context.config.endpoints.get(context.config.models.policy)
    if unused.adapter is not None and isinstance(spec, OpenAiSpec):
        release_adapter(spec, unused.version)


def _by_query(outcomes: Sequence[QueryOutcome]) -> dict[str, bool]:
    return {outcome.query_id: outcome.success for outcome in outcomes}


def _counts(context: RoundContext, stages: Sequence[str]) -> tuple[StageCount, ...]:
    reports = [report_of(context, stage) for stage in stages]
    return tuple(report.count for report in reports if report is not None)
