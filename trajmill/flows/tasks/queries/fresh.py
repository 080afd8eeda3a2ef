"""Adds new training queries to each round after the first, if it is asked for."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.stage import StageOutcome, StageReport, run_once
from trajmill.flows.tasks.queries.sources import graph_sources, source_context
from trajmill.pipelines.reading.verdicts import read_history
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.round_summary import StageCount
from trajmill.stages.queries.base import FreshRequest, level_within_reach
from trajmill.stages.queries.generate import fresh_queries
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
        known = list(context.queries.values())
        made = asyncio.run(fresh_queries(graph_sources(context), source_context(context), request, known))
        files = write_tables(context.warehouse, at, {"queries": made})
        return StageOutcome(request.wanted, len(made), files, {"level": level})

    return run_once(context, FRESH, work)


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
