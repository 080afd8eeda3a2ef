"""Makes the queries of a run; each environment has its own source."""

from __future__ import annotations

import asyncio
from typing import get_args

from trajmill.flows.context import RoundContext
from trajmill.flows.tasks.pathways import queries_by_pathways
from trajmill.flows.tasks.queries.writer import writer_model
from trajmill.flows.tasks.queries.written import commands_for_documents, commands_for_pathways
from trajmill.schemas.errors import BadInputError
from trajmill.stages.environments.simulated.spec import AppFilesSpec
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.queries.atomic.base import AtomicApp
from trajmill.stages.queries.atomic.queries import AtomicCounts
from trajmill.stages.queries.atomic.walked_queries import queries_for_operations
from trajmill.stages.queries.causal.generate import causal_pathways
from trajmill.stages.queries.graph.from_world import queries_from_world
from trajmill.stages.queries.live.divide import UnseenApps
from trajmill.stages.queries.live.from_graphs import queries_from_graphs
from trajmill.stages.queries.new_queries import NewQueries
from trajmill.stages.queries.own_queries import own_queries


def new_queries(context: RoundContext) -> NewQueries:
    """The queries of all splits: the environment's own, then those from pathways, for operations and from app graphs.

    Raises:
        BadInputError: a file of tasks or programs, an app or a page is wrong or missing.
    """
    made = _own_queries(context)
    if context.config.pathways.queries:
        made = made.with_more(queries_by_pathways(context))
    if context.config.pathways.written:
        made = made.with_more(commands_for_pathways(context))
    if context.config.atomic.drawn:
        made = made.with_more(_for_operations(context))
    if context.config.atomic.written:
        made = made.with_more(commands_for_documents(context))
    if context.config.graphs.any_wanted:
        made = made.with_more(_from_app_graphs(context))
    if context.config.causal.any_wanted:
        made = made.with_more(_causal_pathways(context))
    if not (made.queries or made.failures):
        raise BadInputError(
            f"there are no queries: the environment {context.environment.kind!r} brings none; "
            "name a file of tasks (environment.tasks), or ask for queries by pathways (pathways.queries) or from "
            "graphs of apps (graphs.files, graphs.train)"
        )
    return made


def _own_queries(context: RoundContext) -> NewQueries:
    if isinstance(context.environment, AppFilesSpec):
        return _from_graph(context.environment.navigation_graph(), context)
    return asyncio.run(
        own_queries(context.environment, context.config.run.seed, context.config.rollout.concurrency, context.origin)
    )


def _from_graph(graph: World, context: RoundContext) -> NewQueries:
    config = context.config
    model = writer_model(context.config)
    return asyncio.run(queries_from_world(graph, config.queries, config.run.seed, context.origin, model))


def _from_app_graphs(context: RoundContext) -> NewQueries:
    config = context.config
    return asyncio.run(
        queries_from_graphs(
            config.graphs,
            UnseenApps(config.queries.heldout_app_names, config.queries.validation_app_names),
            context.environment,
            config.rollout.concurrency,
            config.run.seed,
            context.origin,
            writer_model(context.config),
        )
    )


def _causal_pathways(context: RoundContext) -> NewQueries:
    config = context.config
    return asyncio.run(
        causal_pathways(
            config.causal,
            UnseenApps(config.queries.heldout_app_names, config.queries.validation_app_names),
            context.environment,
            config.rollout.concurrency,
            config.run.seed,
            context.origin,
            writer_model(context.config),
        )
    )


def _for_operations(context: RoundContext) -> NewQueries:
    config = context.config
    wanted = config.atomic
    counts = AtomicCounts(
        train=wanted.train,
        heldout_slots=wanted.heldout_slots,
        heldout_phrasings=wanted.heldout_phrasings,
        validation=wanted.validation,
    )
    return asyncio.run(
        queries_for_operations(
            counts,
            wanted.programs or get_args(AtomicApp),
            config.queries.unseen_app_names,
            context.environment,
            config.rollout.concurrency,
            config.run.seed,
            context.origin,
        )
    )
