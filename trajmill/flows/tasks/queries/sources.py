"""The sources of a run's queries, as its configuration asks for them."""

from __future__ import annotations

import asyncio
from typing import get_args

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.judges import prompts_of
from trajmill.flows.configuration.model_specs import model_of
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.context import RoundContext
from trajmill.flows.tasks.pathways import found_pathways, programs_of
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.simulated.spec import AppFilesSpec
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.queries.atomic.source import AtomicSource
from trajmill.stages.queries.base import NewQueries, QuerySource, SourceContext, UnseenApps
from trajmill.stages.queries.causal.source import causal_source
from trajmill.stages.queries.commands.places import CommandPlace, document_place, pathway_places
from trajmill.stages.queries.commands.source import CommandSource
from trajmill.stages.queries.generate import WriterModel, make_queries
from trajmill.stages.queries.graph.source import graph_source
from trajmill.stages.queries.pathways.source import PathwaySettings, PathwaySource
from trajmill.stages.queries.spec import AtomicApp
from trajmill.stages.queries.tasks.source import SimulatedValidator, TaskSource
from trajmill.stages.queries.walk import own_queries


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
    """Make the queries of some sources; `models.writer` words them if it is a model."""
    return asyncio.run(make_queries(sources, source_context(context), _writer_model(context.config)))


def source_context(context: RoundContext) -> SourceContext:
    """What sources draw their candidates for."""
    config = context.config
    return SourceContext(
        environment=context.environment,
        unseen=UnseenApps(
            config.queries.heldout_app_names, config.queries.validation_app_names if config.queries.validation else ()
        ),
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
    if config.pathways.queries:
        sources.append(pathway_source(context))
    if config.pathways.written:
        found, programs = found_pathways(context), programs_of(config)
        places = pathway_places(programs, found, packaged_deny_list())
        sources.append(_command_source(config, places, config.pathways.written))
    if config.atomic.drawn:
        wanted = {split: getattr(config.atomic, split.value, 0) for split in Split}
        sources.append(AtomicSource(wanted, config.atomic.programs or get_args(AtomicApp)))
    if config.atomic.written:
        documents = tuple(document_place(kind, config.run.seed) for kind in config.atomic.documents)
        sources.append(_command_source(config, documents, config.atomic.written))
    return sources


def _command_source(config: Config, places: tuple[CommandPlace, ...], wanted: int) -> CommandSource:
    seen = [place for place in places if place.app not in config.queries.unseen_app_names]
    return CommandSource(seen, wanted, model_of(config, config.models.writer), prompts_of(config).commands)


def _writer_model(config: Config) -> WriterModel | None:
    """The model of `models.writer`; None if the grammar writes the queries."""
    endpoint = config.models.writer
    if endpoint == EMBEDDED:
        return None
    return WriterModel(model_of(config, endpoint), prompts_of(config).writer, config.endpoints[endpoint].max_in_flight)
