"""Finds all mistakes in app files, also those that only a walk shows, such as goals out of reach."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from trajmill.schemas.errors import BadInputError, StageError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.simulated.app_files.app_spec import ListChange, Scalar
from trajmill.stages.environments.simulated.app_files.check import ReadFiles, read_with_builtin
from trajmill.stages.environments.simulated.app_files.loader import Mistake, NodePath, YamlFile
from trajmill.stages.environments.simulated.app_files.references import names_in
from trajmill.stages.environments.simulated.drawing.canvas import undrawn
from trajmill.stages.environments.simulated.world import TaskGraph, TaskSlot, World
from trajmill.stages.queries.base import Candidate, GrammarWriter, draft
from trajmill.stages.queries.tasks.sampling import SlotChoice, TaskGoal, paths
from trajmill.stages.queries.tasks.source import SimulatedValidator

_MOST_PATHS = 20
_MOST_VALUES = 50
"""Of one slot."""
_ORIGIN = Origin(round=0, run_id="check", code_version="")


class _FileTask(NamedTuple):
    source: YamlFile
    name: str
    graph: TaskGraph

    def mistake(self, path: tuple[str | int, ...], text: str) -> Mistake:
        return self.source.mistake(("tasks", self.name, *path), text)


def check_app_files(files: Sequence[Path]) -> list[Mistake]:
    """All mistakes in app and errand files, which are read together with the built-in ones.

    Tasks are walked on a simulated device if all files can be read; each path, and each value of each slot.
    """
    found = read_with_builtin(files)
    if found.mistakes:
        return list(found.mistakes)
    named = {str(path) for path in files}
    sources = [*(file.source for file in found.apps), *(file.source for file in found.errands)]
    world = _world(found)
    return [
        *(mistake for source in sources if source.file in named for mistake in _undrawn_letters(source)),
        *(mistake for task in _tasks(found, world) if task.source.file in named for mistake in _check(task, world)),
    ]


def _undrawn_letters(source: YamlFile) -> Iterator[Mistake]:
    for path, text in _texts(source.data, ()):
        if letters := undrawn(text):
            yield source.mistake(path, f"`{letters}` cannot be drawn on a screen; write it in other letters")


def _texts(data: Any, path: NodePath) -> Iterator[tuple[NodePath, str]]:
    match data:
        case str():
            yield path, data
        case dict():
            for key, value in data.items():
                yield from _texts(value, (*path, key))
        case list():
            for index, value in enumerate(data):
                yield from _texts(value, (*path, index))


def _world(files: ReadFiles) -> World:
    return World(
        {file.spec.app: file.spec for file in files.apps}, {file.spec.errand: file.spec for file in files.errands}
    )


def _tasks(files: ReadFiles, world: World) -> Iterator[_FileTask]:
    sources = {file.spec.app: file.source for file in files.apps}
    sources |= {file.spec.errand: file.source for file in files.errands}
    for graph in world.tasks():
        home, _, name = graph.name.partition(".")
        yield _FileTask(sources[home], name, graph)


def _check(task: _FileTask, world: World) -> Iterator[Mistake]:
    yield from _unused_slots(task)
    holds, walked = 0, 0
    for sample in _samples(task.graph):
        asked = ", ".join(f"{name} = {value}" for name, value in sample.asked.items())
        try:
            query = _query(sample)
        except (BadInputError, StageError) as error:
            yield task.mistake((), f"{error} (with {asked}); correct the task")
            return
        walked += 1
        if _is_done(world, query):
            holds += 1
        elif reason := SimulatedValidator(world).walk(query):
            yield task.mistake(("goal",), f"with {asked or 'no value'}: {reason}; correct the goal, or what widgets do")
            return
    if holds == walked:
        yield task.mistake(("goal",), "the goal holds before anything is done; let it ask for a change")


def _samples(task: TaskGraph) -> Iterator[TaskGoal]:
    """Each path with the first value of each of its slots, then each other value of each slot on the first path."""
    for path in islice(paths(task), _MOST_PATHS):
        slots = [slot for slot in task.slots if slot.is_free and (not slot.spec.optional or slot.page in path)]
        yield TaskGoal(task, path, _choices(slots))
    path = paths(task)[0]
    slots = [slot for slot in task.slots if slot.is_free and (not slot.spec.optional or slot.page in path)]
    for slot in slots:
        for value in islice(slot.values, 1, _MOST_VALUES):
            yield TaskGoal(task, path, _choices(slots, {slot.spec.name: value}))


def _choices(slots: Sequence[TaskSlot], instead: dict[str, Scalar] | None = None) -> tuple[SlotChoice, ...]:
    chosen = instead or {}
    return tuple(SlotChoice(slot, chosen.get(slot.spec.name, slot.values[0])) for slot in slots if slot.values)


def _query(goal: TaskGoal) -> Query:
    return asyncio.run(draft(Candidate(goal, Split.TRAIN, False, 0), GrammarWriter(), _ORIGIN))


def _is_done(world: World, query: Query) -> bool:
    """Whether the goal holds at the start: a path of no operation meets it."""
    return SimulatedValidator(world).walk(query.model_copy(update={"path": query.path[-1:]})) is None


def _unused_slots(task: _FileTask) -> Iterator[Mistake]:
    spec = task.graph.spec
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
            yield task.mistake(("slots", index), text)
