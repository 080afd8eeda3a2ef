"""Measures a policy: greedy episodes on held-out queries, and on some training queries for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow.parquet as pq

from trajmill.flows.context import RoundContext
from trajmill.flows.policy import Policy, acting
from trajmill.flows.stage import StageOutcome
from trajmill.flows.tasks.rollout import attempt_all
from trajmill.schemas.tables.policy_version import SplitSuccess
from trajmill.schemas.tables.query import HELDOUT_SPLITS, Query, Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.metrics.success import MeasuredEpisode, success_by_split
from trajmill.stages.queries.proposals.starting_points import PROPOSED
from trajmill.stages.rollout.attempts import plan_once
from trajmill.warehouse.layout import StageRun

_PASSED = 1.0


class Measurement(NamedTuple):
    """What to commit, and the success of the policy by split."""

    outcome: StageOutcome
    success: tuple[SplitSuccess, ...]


def measure(context: RoundContext, at: StageRun, policy: Policy, untrained: bool) -> Measurement:
    """Let a policy act greedily, once on each query of the measured sample."""
    queries = measured_queries(context)
    attempts = plan_once(queries, Purpose.EVALUATE, context.config.run.seed, context.round)
    agent = acting(context, policy, temperature=0.0, untrained=untrained)
    outcome = attempt_all(context, at, attempts, agent)
    return Measurement(outcome, _success(context, outcome))


def measured_queries(context: RoundContext) -> list[Query]:
    """The first queries of each split in order of id; ids are hashes, so this is always the same random sample."""
    settings = context.config.evaluate
    sizes = dict.fromkeys(HELDOUT_SPLITS, settings.episodes) | {Split.TRAIN: settings.train_sample}
    return [query for split, size in sizes.items() for query in _of_split(context, split)[:size]]


def _of_split(context: RoundContext, split: Split) -> Sequence[Query]:
    """The queries of a split without proposed ones, whose success no check can measure."""
    return [query for query in context.queries.values() if query.split is split and query.source not in PROPOSED]


def _success(context: RoundContext, outcome: StageOutcome) -> tuple[SplitSuccess, ...]:
    """Success by split; attempts without a reward are not counted."""
    folder = context.warehouse.table("trajectories")
    files = outcome.files.get("trajectories", ())
    tables = [pq.read_table(folder / file.path, columns=["query_id", "reward"]) for file in files if file.rows]
    rows = [row for table in tables for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    queries = context.queries
    return success_by_split(
        MeasuredEpisode(queries[query_id].split, reward >= _PASSED) for query_id, reward in rows if reward is not None
    )
