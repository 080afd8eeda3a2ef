"""Makes a query set from the navigation graphs of an environment."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import NamedTuple

from trajmill.pipelines.models import Endpoint
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.queries.graph.generate import Generated, generate_queries
from trajmill.stages.queries.graph.grammar import GrammarWriter
from trajmill.stages.queries.graph.model_writer import ModelWriter, WriterPrompts
from trajmill.stages.queries.graph.spec import GraphQueriesSpec
from trajmill.stages.queries.graph.validation import SimulatedValidator


class NewQueries(NamedTuple):
    """The rows of a query set."""

    queries: tuple[Query, ...]
    failures: tuple[Failure, ...] = ()
    model_calls: tuple[ModelCall, ...] = ()

    def with_more(self, more: NewQueries) -> NewQueries:
        """These rows, followed by more."""
        return NewQueries(
            (*self.queries, *more.queries), (*self.failures, *more.failures), (*self.model_calls, *more.model_calls)
        )


class WriterModel(NamedTuple):
    """A language model that writes queries."""

    model: Endpoint
    prompts: WriterPrompts
    in_flight: int
    """Queries that it writes at the same time."""


def queries_from_dags(
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
    calls: list[ModelCall] = []

    async def make() -> Generated:
        async with AsyncExitStack() as stack:
            grammar, validator = GrammarWriter(), SimulatedValidator(world)
            if writer is None:
                return await generate_queries(world, settings, seed, origin, grammar, validator)
            model = writer.model.open(origin, calls.append)
            stack.push_async_callback(model.close)
            model_writer = ModelWriter(model, writer.prompts)
            return await generate_queries(
                world, settings, seed, origin, model_writer, validator, writer.in_flight, grammar
            )

    made = asyncio.run(make())
    return NewQueries(made.queries, made.failures, tuple(calls))
