"""Queries of commands that a vision-language model writes for what a screen shows (GUI-Owl 6.2, computers)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import PathStep, Split
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.environments.screen_goal import KEY, LACKING, Showing
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.models.base import OpenableModel
from trajmill.stages.models.prompts import Prompt
from trajmill.stages.queries.base import (
    Candidate,
    GoalFacts,
    Offer,
    QueryPlan,
    SourceContext,
    SplitCandidates,
    Written,
    difficulty,
    failure,
    step_limit,
)
from trajmill.stages.queries.commands.places import CommandPlace
from trajmill.stages.queries.commands.writer import BATCH, CommandWriter, WrittenCommand, why_no_command
from trajmill.stages.queries.proposals.propose import KnownTasks
from trajmill.stages.queries.templates import one_line
from trajmill.stages.queries.walk import screen_after

_FEWEST_STEPS = 15
_SPARE_REQUESTS = 1
"""Further requests for a place, to replace refused commands."""
_LONGEST_QUOTE = 200


class CommandGoal(NamedTuple):
    """A command that can be used, in the model's own words."""

    command: WrittenCommand
    place: CommandPlace
    made_by: str

    @property
    def text(self) -> str:
        """The instruction."""
        return one_line(self.command.instruction)

    @property
    def task(self) -> str:
        """Each command is a task of its own."""
        return f"{self.place.app}.written-{content_id(self.place.start_state, self.text.casefold())[:12]}"

    def facts(self) -> GoalFacts | None:
        """None: the command is worded already."""
        return None

    def worded(self, heldout: bool, seed: int) -> Written:
        """The model's words."""
        return Written(self.text, self.text, "", {}, self.made_by)

    def plan(self, said: Mapping[str, str]) -> QueryPlan:
        """The columns that words do not decide."""
        command, place, page = self.command, self.place, f"{self.place.app}.start"
        pathway = place.pathways[command.pathway] if command.pathway is not None else None
        own = (PathStep(page=page, **step.model_dump()) for step in command.steps)
        first = pathway.steps if pathway else ()
        path = (*place.opening, *first, *own, PathStep(page=page, operation="finish", target=""))
        at_end = tuple(Showing(**each.model_dump()) for each in pathway.shows) if pathway else ()
        return QueryPlan(
            platform=place.platform,
            apps=(place.app,),
            source=place.source,
            pages=(page,),
            page_descriptions=(f"What {place.title} shows at the start.",),
            slots=(),
            path=path,
            start_state=place.start_state,
            goal=_goal_json(command, at_end),
            difficulty=difficulty(path, 1),
            max_steps=max(_FEWEST_STEPS, step_limit(path)),
        )


class CommandSource(NamedTuple):
    """Commands for places; each that is kept is walked, and its goal does not hold before."""

    places: Sequence[CommandPlace]
    wanted: int
    """Commands for each place."""
    model: OpenableModel
    """It must read images."""
    prompt: Prompt

    async def candidates(self, context: SourceContext) -> Offer:
        """Commands for training that can be tried; the others are failures.

        Raises:
            BadInputError: the model cannot be connected.
        """
        calls: list[ModelCall] = []
        opened = self.model.open(context.origin, calls.append)
        found: list[_PlaceCommands] = []
        try:
            for platform in dict.fromkeys(place.platform for place in self.places):
                factory, free = context.environment.factory(platform), asyncio.Semaphore(context.instances)
                writer = CommandWriter(opened, self.prompt)
                here = [_PlaceCommands(each, writer, context) for each in self.places if each.platform is platform]
                try:
                    await asyncio.gather(*(each.collect(factory, self.wanted, free) for each in here))
                finally:
                    await factory.close()
                found += here
        finally:
            await opened.close()
        goals = (Candidate(goal, Split.TRAIN, False, 0) for each in found for goal in each.goals)
        failures = tuple(one for each in found for one in each.failures)
        return Offer((SplitCandidates(Split.TRAIN, None, [goals]),), failures, tuple(calls))


class _PlaceCommands:
    """Collects the commands of one place."""

    def __init__(self, place: CommandPlace, writer: CommandWriter, context: SourceContext) -> None:
        self._place, self._writer, self._context = place, writer, context
        self._known = KnownTasks(place.exemplars)
        self._deny_list = packaged_deny_list()
        self.goals: list[CommandGoal] = []
        self.failures: list[Failure] = []

    async def collect(self, factory: EnvironmentFactory, wanted: int, free: asyncio.Semaphore) -> None:
        """Ask for commands until there are enough, with one request to spare."""
        place = self._place
        async with free:
            try:
                screen = await screen_after(
                    factory, place.platform, place.start_state, place.opening, self._context.origin
                )
                for number in range(-(-wanted // BATCH) + _SPARE_REQUESTS):
                    if (missing := wanted - len(self.goals)) > 0:
                        await self._ask(screen, min(BATCH, missing), number)
            except StageError as error:
                self._fail(place.id, f"{place.title}: {error}", error.failure_class)

    async def _ask(self, screen: Observation, count: int, number: int) -> None:
        seed = int(content_id("commands", self._context.seed, number), 16)
        known = [goal.text for goal in self.goals]
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
            self._fail(input_id, f"{self._place.source}: {reason}: {command.instruction[:_LONGEST_QUOTE]}")
            return
        goal = CommandGoal(command, self._place, self._writer.version)
        self._known.add(goal.text)
        self.goals.append(goal)

    def _fail(self, input_id: str, message: str, failure_class: FailureClass = FailureClass.TASK) -> None:
        version = self._writer.version
        self.failures.append(failure(input_id, message, self._context.origin, version, failure_class))


def _goal_json(command: WrittenCommand, at_end: tuple[Showing, ...]) -> str:
    shows = command.shows or (at_end if not command.lacks else ())
    return json.dumps(
        {
            key: [each.model_dump(exclude_defaults=True) for each in elements]
            for key, elements in ((KEY, shows), (LACKING, command.lacks))
            if elements
        },
        ensure_ascii=False,
    )
