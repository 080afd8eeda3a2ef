"""Generates the queries of a run: those of all splits before anything is trained, and fresh ones in later rounds."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import get_args

from trajmill.flows.configuration.judges import prompts_of
from trajmill.flows.configuration.model_specs import model_of
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.policies.policy import Policy, PolicyRow, configured_policy, is_embedded, policy_row
from trajmill.flows.stage import RoundContext, StageOutcome, StageResult, once
from trajmill.flows.tasks.pathways import found_pathways, programs_of
from trajmill.pipelines.reading.verdicts import read_history
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.record import Row, content_id
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.kinds import AppFilesSpec
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.queries.atomic.source import AtomicSource
from trajmill.stages.queries.base import (
    FreshRequest,
    NewQueries,
    QuerySource,
    SourceContext,
    UnseenApps,
    level_within_reach,
)
from trajmill.stages.queries.causal.source import causal_source
from trajmill.stages.queries.commands.places import CommandPlace, document_place, pathway_places
from trajmill.stages.queries.commands.source import CommandSource
from trajmill.stages.queries.generate import WriterModel, fresh_queries, make_queries
from trajmill.stages.queries.graph.source import graph_source
from trajmill.stages.queries.pathways.source import PathwaySettings, PathwaySource
from trajmill.stages.queries.spec import AtomicApp
from trajmill.stages.queries.tasks.source import SimulatedValidator, TaskSource
from trajmill.stages.queries.walk import own_queries
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.weights import keep_weights

GENERATE = "generate"
FRESH = "fresh"


class Generated(StageResult):
    first_policy: PolicyRow


@once(GENERATE, fixed_round=1)
def generate(context: RoundContext, at: StageRun) -> StageOutcome:
    """Make the validated queries of the run, and the policy that it starts with."""
    made = new_queries(context)
    if not any(query.split is Split.TRAIN for query in made.queries):
        first, count = next(iter(made.failures), None), len(made.failures)
        why = "; raise queries.train"
        if first is not None:
            why = f": {count} failures, the first of {first.input_id}: {' '.join(first.message.split())}"
        raise TrajmillError(f"no query to learn on could be made{why}")
    rows: dict[str, Sequence[Row]] = {
        "queries": made.queries,
        "failures": made.failures,
        "model_calls": made.model_calls,
    }
    files = write_tables(context.warehouse, at, rows)
    policy = untrained_policy(context, at) if is_embedded(context.config) else configured_policy(context.config)
    generated = Generated(first_policy=policy_row(context.warehouse, policy))
    return StageOutcome(len(made.queries) + len(made.failures), len(made.queries), files, generated.as_json())


def untrained_policy(context: RoundContext, at: StageRun) -> Policy:
    """Return the embedded policy before any training; its folder is made if it does not exist."""
    # Imports torch, which a server of environments does not need.
    from trajmill.stages.models.embedded.model import save_network, untrained_network

    fresh_folder = at.staging(context.warehouse) / "untrained"
    version = save_network(untrained_network(context.config.run.seed), fresh_folder)
    folder = context.warehouse.model(version)
    keep_weights(context.warehouse, fresh_folder, folder)
    return Policy(version, EMBEDDED, folder)


@once(FRESH)
def fresh(context: RoundContext, at: StageRun) -> StageOutcome:
    """Make new training queries, harder ones as success grows; the first round has only new ones anyway."""
    if context.round == 1:
        return StageOutcome(0, 0)
    queries, config = context.queries, context.config
    history = read_history(context.warehouse, context.run_id, context.round)
    tried = history.shares()
    trained = [query for query in queries.values() if query.split is Split.TRAIN and query.query_id in tried]
    averages = history.averages([query.query_id for query in trained])
    by_level: dict[int, list[float]] = defaultdict(list)
    for query in trained:
        by_level[query.difficulty].append(averages[query.query_id])
    success = {level: sum(found) / len(found) for level, found in by_level.items()}
    level = level_within_reach(success, config.queries.harder_above)
    request = FreshRequest(config.queries.fresh, level, int(content_id("fresh", config.run.seed, context.round), 16))
    sources = graph_sources(context)
    made = asyncio.run(fresh_queries(sources, source_context(context), request, list(queries.values())))
    return StageOutcome(
        request.wanted, len(made), write_tables(context.warehouse, at, {"queries": made}), {"level": level}
    )


def new_queries(context: RoundContext) -> NewQueries:
    """Make the queries of all splits.

    Raises:
        BadInputError: there is no source, or a file of tasks, programs or graphs, an app or a page is wrong or missing.
    """
    config = context.config
    sources = [*graph_sources(context), *_other_sources(context)]
    own = NewQueries(())
    if not isinstance(context.environment, AppFilesSpec):
        instances = config.rollout.concurrency
        own = asyncio.run(own_queries(context.environment, config.run.seed, instances, context.origin))
    made = own.with_more(queries_of(context, sources)) if sources else own
    if not (made.queries or made.failures):
        raise BadInputError(
            f"there are no queries: the environment {context.environment.kind!r} brings none; "
            "name a file of tasks (environment.tasks), or ask for queries by pathways (pathways.queries) or from "
            "graphs of apps (graphs.files, graphs.train)"
        )
    return made


def queries_of(context: RoundContext, sources: list[QuerySource]) -> NewQueries:
    """Make the queries of some sources, worded by `models.writer`, or by the grammar if that is embedded."""
    config, endpoint = context.config, context.config.models.writer
    writer = None
    if endpoint != EMBEDDED:
        in_flight = config.endpoints[endpoint].max_in_flight
        writer = WriterModel(model_of(config, endpoint), prompts_of(config).writer, in_flight)
    return asyncio.run(make_queries(sources, source_context(context), writer))


def source_context(context: RoundContext) -> SourceContext:
    """The environment, held-out apps and seed that sources draw their candidates for."""
    config, queries = context.config, context.config.queries
    return SourceContext(
        environment=context.environment,
        unseen=UnseenApps(queries.heldout_app_names, queries.validation_app_names if queries.validation else ()),
        seed=config.run.seed,
        origin=context.origin,
        instances=config.rollout.concurrency,
    )


def graph_sources(context: RoundContext) -> list[QuerySource]:
    """The sources that can give new queries each round: annotated tasks, graphs of apps, causal pathways, plug-ins."""
    config, environment = context.config, context.environment
    sources: list[QuerySource] = []
    if isinstance(environment, AppFilesSpec):
        world = environment.navigation_graph()
        sources.append(TaskSource(world, config.queries, SimulatedValidator(world)))
    if config.graphs.any_wanted:
        sources.append(graph_source(config.graphs))
    if config.causal.any_wanted:
        sources.append(causal_source(config.causal, environment))
    return [*sources, *(spec.open() for spec in config.sources.values())]


def pathway_source(context: RoundContext) -> PathwaySource:
    """The pathways of the round; the programs are walked first if they were not."""
    settings = PathwaySettings(most=context.config.pathways.queries)
    return PathwaySource(found_pathways(context), programs_of(context.config), settings)


def _other_sources(context: RoundContext) -> list[QuerySource]:
    config, sources = context.config, list[QuerySource]()

    def commands(places: Sequence[CommandPlace], wanted: int) -> CommandSource:
        seen = [place for place in places if place.app not in config.queries.unseen_app_names]
        return CommandSource(seen, wanted, model_of(config, config.models.writer), prompts_of(config).commands)

    if config.pathways.queries:
        sources.append(pathway_source(context))
    if config.pathways.written:
        found, programs = found_pathways(context), programs_of(config)
        sources.append(commands(pathway_places(programs, found, packaged_deny_list()), config.pathways.written))
    if config.atomic.drawn:
        wanted = {split: getattr(config.atomic, split.value, 0) for split in Split}
        sources.append(AtomicSource(wanted, config.atomic.programs or get_args(AtomicApp)))
    if config.atomic.written:
        documents = [document_place(kind, config.run.seed) for kind in config.atomic.documents]
        sources.append(commands(documents, config.atomic.written))
    return sources
