"""Samples a path through a task's navigation DAG, and the values that the user asks for (paper 6.2, step 1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from random import Random
from typing import NamedTuple

import networkx as nx

from trajmill.schemas.errors import FailureClass, StageError
from trajmill.stages.environments.simulated.app_files.app_spec import Scalar
from trajmill.stages.environments.simulated.app_files.references import place_of
from trajmill.stages.environments.simulated.world import TaskGraph, TaskSlot

PATH_CAP = 1000
"""Most paths of a DAG that are sampled from: the first ones."""
OPTIONAL_CAP = 3
OPTIONAL_PROBABILITY = 0.35

Path = tuple[str, ...]
"""Pages as `app.screen`, from the first page of the task to one that nothing follows."""


class SlotChoice(NamedTuple):
    """A slot and the value that the query asks for."""

    slot: TaskSlot
    value: Scalar

    @property
    def name(self) -> str:
        """The slot's name."""
        return self.slot.spec.name


class TaskSample(NamedTuple):
    """One path and one combination of slot values, for one query."""

    path: Path
    choices: tuple[SlotChoice, ...]
    """Free slots only, in the order of the task; some may be on pages that this path does not visit."""

    @property
    def asked(self) -> dict[str, Scalar]:
        """The value by slot."""
        return {choice.name: choice.value for choice in self.choices}

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Equal for samples that ask for the same thing, whatever their path."""
        return tuple((choice.name, repr(choice.value)) for choice in self.choices)


def apps_of(pages: Iterable[str]) -> tuple[str, ...]:
    """The apps that pages belong to, in order of their first page."""
    return tuple(dict.fromkeys(place_of(page).app for page in pages))


def paths(task: TaskGraph) -> tuple[Path, ...]:
    """The start-to-end paths of a task's DAG."""
    ends = [page for page in task.graph if task.graph.out_degree(page) == 0]
    if task.start in ends:
        return ((task.start,),)
    return tuple(tuple(path) for path in islice(nx.all_simple_paths(task.graph, task.start, ends), PATH_CAP))


def sample(task: TaskGraph, candidates: Sequence[Path], rng: Random) -> TaskSample:
    """Draw one of the `candidates` and slot values: all required slots, up to three of the optional ones on the path.

    A task without required slots gets at least one optional slot, because it would ask for nothing otherwise.

    Raises:
        StageError: a slot has no value to ask for.
    """
    path = rng.choice(candidates)
    free = [slot for slot in task.slots if slot.is_free]
    required = [slot for slot in free if not slot.spec.optional]
    optional = [slot for slot in free if slot.spec.optional and slot.page in path]
    asked = {slot.spec.name for slot in (*required, *_drawn(optional, rng, at_least=0 if required else 1))}
    return TaskSample(
        path, tuple(SlotChoice(slot, _value(task, slot, rng)) for slot in free if slot.spec.name in asked)
    )


def _drawn(optional: Sequence[TaskSlot], rng: Random, at_least: int) -> list[TaskSlot]:
    drawn = [slot for slot in optional if rng.random() < OPTIONAL_PROBABILITY]
    if len(drawn) < at_least and optional:
        return [rng.choice(optional)]
    return drawn if len(drawn) <= OPTIONAL_CAP else rng.sample(drawn, OPTIONAL_CAP)


def _value(task: TaskGraph, slot: TaskSlot, rng: Random) -> Scalar:
    if not slot.values:
        raise StageError(f"{task.name}: the slot {slot.spec.name} has no value to ask for", FailureClass.TASK)
    return rng.choice(slot.values)
