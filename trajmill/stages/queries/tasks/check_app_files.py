"""Find all mistakes in app files, also those that only a walk shows, such as goals out of reach."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from trajmill.schemas.errors import BadInputError, EnvironmentFailure, StageError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.app_files.app_spec import ListChange, Scalar, TaskSpec
from trajmill.stages.environments.simulated.app_files.check import read_with_builtin
from trajmill.stages.environments.simulated.app_files.loader import Mistake, NodePath
from trajmill.stages.environments.simulated.app_files.references import names_in
from trajmill.stages.environments.simulated.drawing.canvas import undrawn
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.queries.base import Candidate, GrammarWriter, draft
from trajmill.stages.queries.tasks.source import TaskGoal, paths
from trajmill.stages.queries.walk import DONE_AT_START, walk

_MOST_PATHS = 20
_MOST_VALUES = 50
_ORIGIN = Origin(round=0, run_id="check", code_version="")


def check_app_files(files: Sequence[Path]) -> list[Mistake]:
    """Return all mistakes in app and errand files, which are read together with the built-in ones.

    If all files can be read, each path of each task, and each value of each slot, is walked on a simulated device.
    """
    found = read_with_builtin(files)
    if found.mistakes:
        return list(found.mistakes)
    named = {str(path) for path in files}
    sources = {file.spec.app: file.source for file in found.apps}
    sources |= {file.spec.errand: file.source for file in found.errands}
    apps = {file.spec.app: file.spec for file in found.apps}
    world = World(apps, {file.spec.errand: file.spec for file in found.errands})
    mistakes: list[Mistake] = []
    for source in sources.values():
        for path, text in _texts(source.data, ()) if source.file in named else ():
            if letters := undrawn(text):
                advice = f"`{letters}` cannot be drawn on a screen; write it in other letters"
                mistakes.append(source.mistake(path, advice))
    for graph in world.tasks():
        home, _, name = graph.name.partition(".")
        if sources[home].file in named:
            mistakes += [sources[home].mistake(("tasks", name, *path), text) for path, text in _check(graph, world)]
    return mistakes


def _texts(data: Any, path: NodePath) -> Iterator[tuple[NodePath, str]]:
    match data:
        case str():
            yield path, data
        case dict() | list():
            for key, value in data.items() if isinstance(data, dict) else enumerate(data):
                yield from _texts(value, (*path, key))


def _check(task: TaskGraph, world: World) -> Iterator[tuple[NodePath, str]]:
    """Yield each mistake of a task, with its place in the task."""
    yield from _unused_slots(task.spec)
    environment, holds, walked = SimulatedEnvironment(world, task.platform, FaultRates(popup=0.0)), 0, 0
    for goal in _goals(task):
        asked = ", ".join(f"{name} = {value}" for name, value in goal.asked.items())
        try:
            query = asyncio.run(draft(Candidate(goal, Split.TRAIN, False, 0), GrammarWriter(), _ORIGIN))
        except (BadInputError, StageError) as error:
            yield (), f"{error} (with {asked}); correct the task"
            return
        walked += 1
        try:
            reason = asyncio.run(walk(environment, query))
        except EnvironmentFailure as error:
            reason = str(error)
        if reason == DONE_AT_START:
            holds += 1
        elif reason:
            yield ("goal",), f"with {asked or 'no value'}: {reason}; correct the goal, or what widgets do"
            return
    if holds == walked:
        yield ("goal",), "the goal holds before anything is done; let it ask for a change"


def _goals(task: TaskGraph) -> Iterator[TaskGoal]:
    """Yield each path with the first value of each of its slots, then the first path with every other value."""
    for number, path in enumerate(islice(paths(task), _MOST_PATHS)):
        slots = [slot for slot in task.slots if slot.is_free and (not slot.spec.optional or slot.page in path)]
        chosen = TaskGoal(task, path, {slot.spec.name: slot.values[0] for slot in slots if slot.values})
        yield chosen
        if number == 0:
            first, of_first = chosen, slots
    for slot in of_first:
        for value in islice(slot.values, 1, _MOST_VALUES):
            yield first._replace(asked={**first.asked, slot.spec.name: value})


def _unused_slots(spec: TaskSpec) -> Iterator[tuple[NodePath, str]]:
    # What a reset writes on the screen decides the task too.
    values: list[Scalar] = [value for record in spec.setup.values() for value in record.values()]
    for change in spec.goal.values():
        if isinstance(change, ListChange):
            values += [change.name, *(change.append or {}).values(), *(change.update or {}).values()]
        else:
            values.append(change)
    used = {name for value in values for name in names_in(value)}
    used |= {slot.implied_by.slot for slot in spec.slots if slot.implied_by and slot.name in used}
    for index, slot in enumerate(spec.slots):
        if slot.implied_by is None and slot.name not in used:
            text = f"the goal never uses the slot `{slot.name}`, so that any value would do; name `${slot.name}` in it"
            yield ("slots", index), text
