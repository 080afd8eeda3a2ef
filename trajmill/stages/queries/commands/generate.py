"""Makes queries of commands that a model writes; each one is walked before it counts."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.models.openable import OpenableModel
from trajmill.stages.models.prompts import Prompt
from trajmill.stages.queries.commands.admit import command_query, why_no_command
from trajmill.stages.queries.commands.base import BATCH, CommandPlace, WrittenCommand
from trajmill.stages.queries.commands.writer import CommandWriter
from trajmill.stages.queries.new_queries import NewQueries
from trajmill.stages.queries.proposals.similarity import KnownTasks
from trajmill.stages.queries.real_walk import screen_after, walk_all

STAGE = "commands"
"""Name of the stage on failures."""
_SPARE_REQUESTS = 1
"""Further requests for a place, to replace refused commands."""
_LONGEST_QUOTE = 200


class CommandRequest(NamedTuple):
    """What is wanted."""

    places: tuple[CommandPlace, ...]
    wanted: int
    """Commands for each place."""
    instances: int
    """Environments that work at the same time."""
    seed: int
    prompt: Prompt


async def written_commands(
    request: CommandRequest, environment: EnvironmentSpec, model: OpenableModel, origin: Origin
) -> NewQueries:
    """Let a model write commands for places; each that is kept was walked, and its goal does not hold before.

    Args:
        request: the places, and how many commands.
        environment: where the places are opened and the commands are walked.
        model: a model that reads images.
        origin: common columns of the rows.

    Raises:
        BadInputError: the model cannot be connected.
    """
    calls: list[ModelCall] = []
    opened = model.open(origin, calls.append)
    made = NewQueries(())
    try:
        for platform in dict.fromkeys(place.platform for place in request.places):
            factory = environment.factory(platform)
            here = request._replace(places=tuple(each for each in request.places if each.platform is platform))
            try:
                made = made.with_more(await commands_in(here, factory, CommandWriter(opened, request.prompt), origin))
            finally:
                await factory.close()
    finally:
        await opened.close()
    return made._replace(model_calls=tuple(calls))


async def commands_in(
    request: CommandRequest, factory: EnvironmentFactory, writer: CommandWriter, origin: Origin
) -> NewQueries:
    """As `written_commands`, in environments of one platform."""
    free = asyncio.Semaphore(request.instances)

    async def written(place: CommandPlace) -> NewQueries:
        async with free:
            return await _Place(place, writer, request, origin).commands(factory)

    made = NewQueries(())
    for each in await asyncio.gather(*map(written, request.places)):
        made = made.with_more(each)
    # A command that fits two places is asked for once.
    queries = tuple({query.query_id: query for query in made.queries}.values())
    walked = await walk_all(factory, queries, STAGE, origin, request.instances)
    return NewQueries(walked.queries, (*made.failures, *walked.failures))


class _Place:
    """Collects the commands of one place."""

    def __init__(self, place: CommandPlace, writer: CommandWriter, request: CommandRequest, origin: Origin) -> None:
        self._place, self._writer, self._request, self._origin = place, writer, request, origin
        self._known = KnownTasks(place.exemplars)
        self._deny_list = packaged_deny_list()
        self._queries: list[Query] = []
        self._failures: list[Failure] = []

    async def commands(self, factory: EnvironmentFactory) -> NewQueries:
        """The commands that can be walked, and why the others cannot."""
        place, wanted = self._place, self._request.wanted
        try:
            screen = await screen_after(factory, place.platform, place.start_state, place.opening, self._origin)
            for number in range(-(-wanted // BATCH) + _SPARE_REQUESTS):
                if (missing := wanted - len(self._queries)) > 0:
                    await self._ask(screen, min(BATCH, missing), number)
        except StageError as error:
            self._fail(place.id, f"{place.title}: {error}", error.failure_class)
        return NewQueries(tuple(self._queries), tuple(self._failures))

    async def _ask(self, screen: Observation, count: int, number: int) -> None:
        seed = int(content_id("commands", self._request.seed, number), 16)
        known = [query.instruction for query in self._queries]
        written = await self._writer.write(self._place, screen, known, count, seed)
        for command in written[:count]:
            self._admit(command, screen)

    def _admit(self, command: WrittenCommand, screen: Observation) -> None:
        reason = why_no_command(command, self._place, screen, self._deny_list)
        similar = self._known.find(command.instruction)
        if not reason and similar:
            reason = f'it repeats "{similar.text[:_LONGEST_QUOTE]}"'
        if reason:
            input_id = content_id("command", self._place.id, command.instruction)
            text = command.instruction[:_LONGEST_QUOTE]
            self._fail(input_id, f"{self._place.source}: {reason}: {text}", FailureClass.TASK)
            return
        query = command_query(command, self._place, self._writer.version, self._origin)
        self._known.add(query.instruction)
        self._queries.append(query)

    def _fail(self, input_id: str, message: str, failure_class: FailureClass) -> None:
        self._failures.append(
            Failure(
                stage=STAGE,
                input_id=input_id,
                failure_class=failure_class,
                message=message,
                attempts=1,
                **self._origin.common(made_by=self._writer.version),
            )
        )
