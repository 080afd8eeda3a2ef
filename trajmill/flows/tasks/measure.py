"""Measures a policy: greedy episodes on held-out queries, and on some training queries for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import Policy, acting, policy_row, score_prompt
from trajmill.flows.stage import StageOutcome
from trajmill.flows.tasks.rollout import attempt_all
from trajmill.schemas.tables.policy_version import PolicyVersion, QueryOutcome, SplitSuccess
from trajmill.schemas.tables.query import HELDOUT_SPLITS, Query, Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.metrics.success import MeasuredEpisode, success_by_split
from trajmill.stages.queries.proposals.starts import PROPOSED
from trajmill.stages.rollout.base import plan_once
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_shards

_PASSED = 1.0


class Measurement(NamedTuple):
    """The outcome to commit, and the success of the policy by split."""

    outcome: StageOutcome
    success: tuple[SplitSuccess, ...]
    validation: tuple[QueryOutcome, ...]
    """For each validation query, in order of id, whether the policy achieved it."""


def measure(context: RoundContext, at: StageRun, policy: Policy, untrained: bool) -> Measurement:
    """Let a policy act greedily, once on each query of the measured sample.

    Raises:
        RefusedPolicyError: it is refused, or scores no prompt.
    """
    queries = measured_queries(context)
    attempts = plan_once(queries, Purpose.EVALUATE, context.config.run.seed, context.round)
    agent = acting(context, policy, temperature=0.0, untrained=untrained)
    if agent.endpoint is not None:
        score_prompt(agent.endpoint)
    outcome = attempt_all(context, at, attempts, agent)
    return _measurement(context, outcome)


def version_without_parent(
    context: RoundContext, policy: Policy, measured: Measurement, reason: str, made_by: str
) -> PolicyVersion:
    """The row of a measured policy that the run itself has not trained: it has no parent, and it is in force."""
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


def _measurement(context: RoundContext, outcome: StageOutcome) -> Measurement:
    """Success by split and by validation query; attempts without a reward are not counted."""
    files = outcome.files.get("trajectories", ())
    tables = read_shards(context.warehouse, "trajectories", files, ["query_id", "reward"])
    rows = [row for table in tables for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    queries = context.queries
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
