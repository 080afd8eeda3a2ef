"""Makes a query set from the navigation graphs of a world, with the grammar or a language model as writer."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.models.openable import OpenableModel
from trajmill.stages.queries.graph.generate import generate_queries
from trajmill.stages.queries.graph.grammar import GrammarWriter
from trajmill.stages.queries.graph.model_writer import ModelWriter, WriterPrompts
from trajmill.stages.queries.graph.spec import GraphQueriesSpec
from trajmill.stages.queries.graph.validation import SimulatedValidator
from trajmill.stages.queries.new_queries import NewQueries


class WriterModel(NamedTuple):
    """A language model that writes queries."""

    model: OpenableModel
    prompts: WriterPrompts
    in_flight: int
    """Queries that it writes at the same time."""


async def queries_from_world(
    world: World,
    settings: GraphQueriesSpec,
    seed: int,
    origin: Origin,
    writer: WriterModel | None = None,
) -> NewQueries:
    """Make validated queries of all splits; a language model writes them, or the grammar if there is none.

    The grammar writes the queries for which the model's drafts are refused, so that no task is missing.

    Raises:
        BadInputError: an app to hold out does not exist, a phrasing cannot be parsed, or the model cannot be connected.
    """
    grammar, validator = GrammarWriter(), SimulatedValidator(world)
    if writer is None:
        made = await generate_queries(world, settings, seed, origin, grammar, validator)
        return NewQueries(made.queries, made.failures)
    calls: list[ModelCall] = []
    model = writer.model.open(origin, calls.append)
    try:
        model_writer = ModelWriter(model, writer.prompts)
        made = await generate_queries(world, settings, seed, origin, model_writer, validator, writer.in_flight, grammar)
    finally:
        await model.close()
    return NewQueries(made.queries, made.failures, tuple(calls))
