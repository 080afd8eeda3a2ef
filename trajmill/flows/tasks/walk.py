"""Tries an environment: walks the annotated path of a query in it, or explores if it has none."""

from __future__ import annotations

from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import endpoint_of
from trajmill.flows.stage import StageOutcome, StageReport, run_once
from trajmill.flows.tasks.generate import untrained_policy
from trajmill.flows.tasks.rollout import attempt_all
from trajmill.pipelines.agents import ActingAgent
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.tables.query import Query, Source
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.spec import WalkerSpec
from trajmill.stages.rollout.base import plan_once
from trajmill.warehouse.layout import StageRun

WALK = "walk"


def walk_queries(context: RoundContext, queries: int, source: Source | None = None) -> StageReport:
    """Make one attempt at each of the first queries; those with an annotated path come first, then by id.

    Raises:
        TrajmillError: there are no queries of that source.
    """

    def work(at: StageRun) -> StageOutcome:
        usable = [query for query in context.queries.values() if source in (None, query.source)]
        if not usable:
            raise TrajmillError(f"no query is of source {source}; the configuration asks for none, or all were dropped")
        known = sorted(usable, key=lambda query: (not query.path, query.query_id))
        chosen = known[:queries]
        attempts = plan_once(chosen, Purpose.REFERENCE, context.config.run.seed, context.round)
        return attempt_all(context, at, attempts, _walker(context, at, chosen))

    return run_once(context, WALK, work)


def _walker(context: RoundContext, at: StageRun, queries: list[Query]) -> ActingAgent:
    explores = any(not query.path for query in queries)
    return ActingAgent(WalkerSpec(), endpoint_of(context, untrained_policy(context, at)) if explores else None)
