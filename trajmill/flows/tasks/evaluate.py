"""Measures policies on held-out queries, and decides whether the round's new policy replaces the old one.

A policy is measured by greedy episodes. Some training queries are measured as well, for comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from trajmill.flows.policies.policy import (
    BASELINE,
    PROMOTE,
    Policy,
    PolicyInForce,
    acting,
    is_embedded,
    policy_before,
    policy_in,
    policy_in_force,
    policy_row,
    policy_versions,
    score_prompt,
)
from trajmill.flows.serving.policy_servers import release_adapter
from trajmill.flows.stage import (
    RoundContext,
    StageOutcome,
    StageReport,
    StageResult,
    finished,
    once,
    report_of,
    run_once,
    tuples,
)
from trajmill.flows.tasks.generate import GENERATE, Generated
from trajmill.flows.tasks.guide import reference_paths_used
from trajmill.flows.tasks.judge import judge_quality
from trajmill.flows.tasks.release import RELEASE
from trajmill.flows.tasks.rollout import attempt_all
from trajmill.flows.tasks.train import TRAIN, Training
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Row
from trajmill.schemas.tables.policy_version import PolicyVersion, QueryOutcome, SplitSuccess
from trajmill.schemas.tables.query import HELDOUT_SPLITS, Query, Split
from trajmill.schemas.tables.round_summary import RoundSummary
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.metrics.success import MeasuredEpisode, success_by_split
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.queries.proposals.starts import PROPOSED
from trajmill.stages.rollout.base import plan_once
from trajmill.stages.training.promotion import Promotion, QueryGroup, Rival, compare
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_shards
from trajmill.warehouse.shards import write_tables

EVALUATE = "evaluate"
_PASSED = 1.0


class Measurement(NamedTuple):
    """The outcome to commit, and the success of the policy by split."""

    outcome: StageOutcome
    success: tuple[SplitSuccess, ...]
    validation: tuple[QueryOutcome, ...]
    """For each validation query, in order of id, whether the policy achieved it."""


class Evaluation(StageResult):
    success: tuple[SplitSuccess, ...]
    validation: tuple[QueryOutcome, ...]
    refused: str
    """Why the new policy could not be measured; empty if it was, or if there is none."""


@once(BASELINE, fixed_round=0)
def baseline(context: RoundContext, at: StageRun) -> StageOutcome:
    """Measure the policy that the run starts with, as round 0."""
    first = Generated.of(finished(context.in_round(1), GENERATE)).first_policy
    policy = policy_in(context.warehouse, first)
    how = "untrained" if is_embedded(context.config) else "configured"
    measured = measure(context, at, policy, untrained=True)
    row = version_without_parent(context, policy, measured, f"{how}: the start of the loop", how)
    files = {**measured.outcome.files, **write_tables(context.warehouse, at, {"models": [row]})}
    in_force = PolicyInForce(policy_row=first, updates=0, success=measured.success)
    return replace(measured.outcome, files=files, result=in_force.as_json())


@once(EVALUATE)
def evaluate(context: RoundContext, at: StageRun) -> StageOutcome:
    """Measure the round's new policy, if there is one.

    A policy that its server refuses, or that cannot be loaded, is neither measured nor promoted.
    """
    new, refused = Training.of(finished(context, TRAIN)).new_policy, ""
    if new is not None:
        try:
            measured = measure(context, at, policy_in(context.warehouse, new), untrained=False)
            found = Evaluation(success=measured.success, validation=measured.validation, refused="")
            return replace(measured.outcome, result=found.as_json())
        except BadInputError as error:
            refused = str(error)
    return StageOutcome(0, 0, result=Evaluation(success=(), validation=(), refused=refused).as_json())


def measure(context: RoundContext, at: StageRun, policy: Policy, untrained: bool) -> Measurement:
    """Let a policy act greedily, once on each query of the measured sample; attempts without a reward do not count.

    Raises:
        RefusedPolicyError: it is refused, or scores no prompt.
    """
    attempts = plan_once(measured_queries(context), Purpose.EVALUATE, context.config.run.seed, context.round)
    agent = acting(context, policy, temperature=0.0, untrained=untrained)
    if agent.endpoint is not None:
        score_prompt(agent.endpoint)
    outcome = attempt_all(context, at, attempts, agent)
    files, queries = outcome.files.get("trajectories", ()), context.queries
    tables = read_shards(context.warehouse, "trajectories", files, ["query_id", "reward"])
    rows = (row for table in tables for row in tuples(table))
    scored = {query_id: reward >= _PASSED for query_id, reward in rows if reward is not None}
    return Measurement(
        outcome,
        success_by_split(MeasuredEpisode(queries[query_id].split, success) for query_id, success in scored.items()),
        tuple(
            QueryOutcome(query_id=query.query_id, success=scored[query.query_id])
            for query in validation_queries(context)
            if query.query_id in scored
        ),
    )


def version_without_parent(
    context: RoundContext, policy: Policy, measured: Measurement, reason: str, made_by: str
) -> PolicyVersion:
    """The row of a measured policy that the run has not trained: it has no parent, and it is in force."""
    return PolicyVersion(
        **policy_row(context.warehouse, policy).model_dump(),
        parent=None,
        release=None,
        recipe="{}",
        updates=0,
        success=measured.success,
        validation=measured.validation,
        promoted=True,
        reason=reason,
        **context.origin.common(made_by=made_by),
    )


def measured_queries(context: RoundContext) -> list[Query]:
    """The first queries of each split in order of id, and all validation queries.

    Ids are hashes and later queries are left out, so this is always the same random sample.
    """
    settings = context.config.evaluate
    sizes = dict.fromkeys(HELDOUT_SPLITS, settings.episodes) | {Split.TRAIN: settings.train_sample}
    sampled = [query for split, size in sizes.items() for query in _of_split(context, split)[:size]]
    return [*sampled, *validation_queries(context)]


def validation_queries(context: RoundContext) -> Sequence[Query]:
    """The queries that decide which policy is promoted."""
    return _of_split(context, Split.VALIDATION)


def _of_split(context: RoundContext, split: Split) -> Sequence[Query]:
    """The queries of a split with which the run began; no check can measure proposed ones."""
    return [
        query
        for query in context.queries.values()
        if query.split is split and query.source not in PROPOSED and query.round <= 1
    ]


def promote(context: RoundContext, stages: Sequence[str]) -> StageReport:
    """Promote the new policy unless it is significantly worse on the validation queries; write the round's figures.

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
        common = context.origin.common(made_by=PROMOTE)
        rows: dict[str, Sequence[Row]] = {}
        if new is not None:
            if promotion.promoted:
                after = PolicyInForce(policy_row=new, updates=updates, success=evaluated.success)
            release_unused(context, before if promotion.promoted else policy_in(context.warehouse, new))
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
                **common,
            )
            rows["models"] = [version]
        reports = (report_of(context, stage) for stage in stages)
        summary = RoundSummary(
            policy_before=before.version,
            policy_after=after.policy_row.model_version,
            stages=tuple(report.count for report in reports if report is not None),
            success_before=in_force.success,
            success_after=after.success,
            judge=judge_quality(context),
            trained=trained.trained,
            reference_paths_used=reference_paths_used(context),
            release=finished(context, RELEASE).result["release"],
            reason=promotion.reason,
            **common,
        )
        files = write_tables(context.warehouse, at, {"rounds": [summary], **rows})
        return StageOutcome(1, int(promotion.promoted), files, after.model_copy(update=promotion._asdict()).as_json())

    return run_once(context, PROMOTE, work)


def compared(context: RoundContext, before: Policy, new: Sequence[QueryOutcome]) -> Promotion:
    """Whether a version with these outcomes on the validation queries replaces the policy in force."""

    def by_query(outcomes: Sequence[QueryOutcome]) -> dict[str, bool]:
        return {outcome.query_id: outcome.success for outcome in outcomes}

    rivals = {
        version: Rival(version, by_query(row.validation or ()))
        for version, row in policy_versions(context).items()
        if row.promoted or version == before.version
    }
    queries, unseen = validation_queries(context), set(context.config.queries.unseen_app_names)
    groups = [
        QueryGroup("apps of training", [each.query_id for each in queries if not unseen & set(each.apps)]),
        QueryGroup("apps never seen", [each.query_id for each in queries if unseen & set(each.apps)]),
    ]
    settings, old = context.config.evaluate, rivals[before.version]
    return compare(by_query(new), old, list(rivals.values()), groups, settings.level, settings.promote_without_evidence)


def release_unused(context: RoundContext, unused: Policy) -> None:
    """Unload the adapter of a version that no longer acts from the servers of the policy."""
    spec = context.config.endpoints.get(context.config.models.policy)
    if unused.adapter is not None and isinstance(spec, OpenAiSpec):
        release_adapter(spec, unused.version)
