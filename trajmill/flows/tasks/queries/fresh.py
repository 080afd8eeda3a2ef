"""Adds new training queries to each round after the first, if it is asked for."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial

from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.stage import StageOutcome, StageReport, run_once
from trajmill.pipelines.reading.history import read_history
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.round_summary import StageCount
from trajmill.stages.environments.simulated.spec import AppFilesSpec
from trajmill.stages.queries.causal.fresh import fresh_pathways
from trajmill.stages.queries.difficulty import level_within_reach
from trajmill.stages.queries.graph.fresh import FreshRequest, fresh_queries
from trajmill.stages.queries.live.divide import UnseenApps
from trajmill.stages.queries.live.fresh import fresh_from_graphs
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.shards import write_tables

FRESH = "fresh"


def asks_for_fresh(config: Config) -> bool:
    """Whether the configuration asks for new queries in each round."""
    return config.queries.fresh > 0


def fresh(context: RoundContext) -> StageReport:
    """Make new training queries, harder ones as the success so far grows; the first round has only new ones anyway."""
    if not asks_for_fresh(context.config):
        return StageReport(StageCount(stage=FRESH, rows_in=0, rows_out=0, seconds=0.0, cost=0.0), {})

    def work(at: StageRun) -> StageOutcome:
        if context.round == 1:
            return StageOutcome(0, 0)
        level = _level(context)
        seed = int(content_id("fresh", context.config.run.seed, context.round), 16)
        request = FreshRequest(context.config.queries.fresh, level, seed)
        made = asyncio.run(_new_queries(context, request))
        files = write_tables(context.warehouse, at, {"queries": made})
        return StageOutcome(request.wanted, len(made), files, {"level": level})

    return run_once(context, FRESH, work)


async def _new_queries(context: RoundContext, request: FreshRequest) -> tuple[Query, ...]:
    """New queries from all graphs that the run has; each source makes up for what those before it lack."""
    config, known = context.config, list(context.queries.values())
    unseen = UnseenApps(config.queries.heldout_app_names, config.queries.validation_app_names)
    environment, instances, origin = context.environment, config.rollout.concurrency, context.origin
    world = environment.navigation_graph() if isinstance(environment, AppFilesSpec) else None
    sources: list[Callable[[FreshRequest], Awaitable[tuple[Query, ...]]]] = []
    if world is not None:
        sources.append(partial(fresh_queries, world, config.queries, known, origin=origin))
    if config.graphs.any_wanted:
        sources.append(partial(fresh_from_graphs, config.graphs, unseen, environment, instances, known, origin=origin))
    if config.causal.any_wanted:
        seed = config.run.seed
        sources.append(
            partial(fresh_pathways, config.causal, unseen, environment, instances, seed, known, origin=origin)
        )
    made: list[Query] = []
    for left, source in zip(range(len(sources), 0, -1), sources, strict=True):
        share = -(-(request.wanted - len(made)) // left)
        made += await source(request._replace(wanted=share))
    return tuple(made)


def _level(context: RoundContext) -> int:
    """The difficulty that the success so far calls for."""
    history = read_history(context.warehouse, context.run_id, context.round)
    tried = set(history.shares())
    queries = [query for query in context.queries.values() if query.split is Split.TRAIN and query.query_id in tried]
    averages = history.averages([query.query_id for query in queries])
    by_level: dict[int, list[float]] = defaultdict(list)
    for query in queries:
        by_level[query.difficulty].append(averages[query.query_id])
    success = {level: sum(found) / len(found) for level, found in by_level.items()}
    return level_within_reach(success, context.config.queries.harder_above)
