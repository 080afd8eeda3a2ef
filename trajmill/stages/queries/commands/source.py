"""Queries of commands that a vision-language model writes for what a screen shows (GUI-Owl 6.2, computers)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import PathStep, Split
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.environments.screen_goal import Showing
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.models.base import ChatModel, OpenableModel
from trajmill.stages.models.prompts import Prompt, PromptedModel
from trajmill.stages.queries.base import (
    LONGEST_QUOTE,
    Candidate,
    GoalFacts,
    Offer,
    QueryPlan,
    SourceContext,
    SplitCandidates,
    Written,
    difficulty,
    failure,
    goal_parts,
    step_limit,
)
from trajmill.stages.queries.commands.places import CommandPlace
from trajmill.stages.queries.commands.writer import WrittenCommand, why_no_command, write_commands
from trajmill.stages.queries.proposals.known import KnownTasks, ask_until
from trajmill.stages.queries.templates import one_line
from trajmill.stages.queries.walk import screen_after

_FEWEST_STEPS = 15
_SPARE_REQUESTS = 1
"""Further requests for a place, to replace refused commands."""


class CommandGoal(NamedTuple):
    """A usable command in the model's words."""

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
        """Return None: the command is worded already."""
        return None

    def worded(self, heldout: bool, seed: int) -> Written:
        """Return the model's words."""
        return Written(self.text, self.text, "", {}, self.made_by)

    def plan(self, said: Mapping[str, str]) -> QueryPlan:
        """Return the other columns of the query."""
        command, place, page = self.command, self.place, f"{self.place.app}.start"
        pathway = place.pathways[command.pathway] if command.pathway is not None else None
        own = (PathStep(page=page, **step.model_dump()) for step in command.steps)
        first = pathway.steps if pathway else ()
        path = (*place.opening, *first, *own, PathStep(page=page, operation="finish", target=""))
        shows = command.shows
        if pathway and not (shows or command.lacks):
            shows = tuple(Showing(**each.model_dump()) for each in pathway.shows)
        return QueryPlan(
            platform=place.platform,
            apps=(place.app,),
            source=place.source,
            pages=(page,),
            page_descriptions=(f"What {place.title} shows at the start.",),
            slots=(),
            path=path,
            start_state=place.start_state,
            goal=json.dumps(goal_parts(shows, command.lacks), ensure_ascii=False),
            difficulty=difficulty(path, 1),
            max_steps=step_limit(path, _FEWEST_STEPS),
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
        """Return commands for training that can be tried; the others are failures.

        Raises:
            BadInputError: the model cannot be connected.
        """
        calls: list[ModelCall] = []
        opened = self.model.open(context.origin, calls.append)
        goals: list[CommandGoal] = []
        failures: list[Failure] = []
        try:
            for platform in dict.fromkeys(place.platform for place in self.places):
                factory, free = context.environment.factory(platform), asyncio.Semaphore(context.instances)
                here = [place for place in self.places if place.platform is platform]
                try:
                    asked = (self._collect(place, opened, factory, free, context) for place in here)
                    for of_place, refused in await asyncio.gather(*asked):
                        goals += of_place
                        failures += refused
                finally:
                    await factory.close()
        finally:
            await opened.close()
        stream = (Candidate(goal, Split.TRAIN, False, 0) for goal in goals)
        return Offer((SplitCandidates(Split.TRAIN, None, [stream]),), tuple(failures), tuple(calls))

    async def _collect(
        self,
        place: CommandPlace,
        model: ChatModel,
        factory: EnvironmentFactory,
        free: asyncio.Semaphore,
        context: SourceContext,
    ) -> tuple[list[CommandGoal], list[Failure]]:
        """Ask for commands for a place until there are enough, with one request to spare."""
        prompted, deny_list = PromptedModel(model, self.prompt), packaged_deny_list()
        known, goals, failures = KnownTasks(place.exemplars), list[CommandGoal](), list[Failure]()

        def fail(input_id: str, message: str, failure_class: FailureClass = FailureClass.TASK) -> None:
            failures.append(failure(input_id, message, context.origin, prompted.version, failure_class))

        async def ask(count: int, number: int) -> int:
            seed, before = int(content_id("commands", context.seed, number), 16), len(goals)
            written = await write_commands(prompted, place, screen, [goal.text for goal in goals], count, seed)
            for command in written[:count]:
                reason, similar = why_no_command(command, place, screen, deny_list), known.find(command.instruction)
                if not reason and similar:
                    reason = f'it repeats "{similar.text[:LONGEST_QUOTE]}"'
                if reason:
                    message = f"{place.source}: {reason}: {command.instruction[:LONGEST_QUOTE]}"
                    fail(content_id("command", place.id, command.instruction), message)
                    continue
                goals.append(CommandGoal(command, place, prompted.version))
                known.add(goals[-1].text)
            return len(goals) - before

        async with free:
            try:
                screen = await screen_after(factory, place.platform, place.start_state, place.opening, context.origin)
                await ask_until(self.wanted, _SPARE_REQUESTS, ask)
            except StageError as error:
                fail(place.id, f"{place.title}: {error}", error.failure_class)
        return goals, failures
