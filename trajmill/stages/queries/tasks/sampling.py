"""Draws goals of annotated tasks: a path through a task's navigation DAG and its slot values (GUI-Owl 6.2, step 1)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from random import Random
from typing import NamedTuple

import networkx as nx

from trajmill.schemas.errors import BadInputError, FailureClass, StageError
from trajmill.schemas.names import instead_of
from trajmill.schemas.tables.query import Slot, Source
from trajmill.stages.environments.simulated.annotations import PathMetadata, known_slots, path_metadata
from trajmill.stages.environments.simulated.app_files.app_spec import Scalar
from trajmill.stages.environments.simulated.app_files.references import place_of
from trajmill.stages.environments.simulated.reference_path import goal_json, reference_path, start_state_json
from trajmill.stages.environments.simulated.world import TaskGraph, TaskSlot, World
from trajmill.stages.queries.base import GoalFacts, QueryPlan, Written, difficulty, step_limit
from trajmill.stages.queries.tasks.phrasing import draw_phrasing
from trajmill.stages.queries.templates import explicit_instruction

PATH_CAP = 1000
"""Most paths of a DAG that are sampled from: the first ones."""
OPTIONAL_CAP = 3
OPTIONAL_PROBABILITY = 0.35
DRAWS_PER_GOAL = 8
"""Draws for each wanted goal; afterwards the task counts as exhausted."""

Path = tuple[str, ...]
"""Pages as `app.screen`, from the first page of the task to one that nothing follows."""


class SlotChoice(NamedTuple):
    """A slot and its wanted value."""

    slot: TaskSlot
    value: Scalar


class TaskGoal(NamedTuple):
    """One path and one combination of slot values of an annotated task."""

    graph: TaskGraph
    path: Path
    choices: tuple[SlotChoice, ...]
    """Free slots only, in the order of the task; some may be on pages that this path does not visit."""

    @property
    def task(self) -> str:
        """Name of the task, `app.task` or `errand.task`."""
        return self.graph.name

    @property
    def asked(self) -> dict[str, Scalar]:
        """The value by slot."""
        return {choice.slot.spec.name: choice.value for choice in self.choices}

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Equal for goals that ask for the same thing, whatever their path."""
        return tuple((name, repr(value)) for name, value in self.asked.items())

    @property
    def metadata(self) -> PathMetadata:
        """The facts about the path; raises BadInputError for a value that the task does not have."""
        return path_metadata(self.graph, self.path, self.asked)

    def facts(self) -> GoalFacts:
        """Return the facts for a language model, with all values of all slots of the task."""
        return GoalFacts(self.metadata, known_slots(self.graph, self.asked))

    def worded(self, heldout: bool, seed: int) -> Written:
        """Draw a phrasing of the app file and expand it; raises as `draw_phrasing`."""
        metadata = self.metadata
        phrasing = draw_phrasing(self.graph.spec, metadata, heldout, seed)
        raw = explicit_instruction(metadata)
        return Written(raw, phrasing.expand(), phrasing.id, phrasing.said, "grammar-1")

    def plan(self, said: Mapping[str, str]) -> QueryPlan:
        """Return the other columns; raises BadInputError if the path does not belong to the task."""
        metadata, apps = self.metadata, apps_of(self.path)
        path = reference_path(self.graph, self.path, self.asked)
        return QueryPlan(
            platform=self.graph.platform,
            apps=apps,
            source=Source.DAG,
            pages=self.path,
            page_descriptions=tuple(page.description for page in metadata.pages),
            slots=tuple(
                Slot(name=slot.name, value=slot.value, said=said.get(slot.name, ""), page=slot.page)
                for slot in metadata.constraints
            ),
            path=path,
            start_state=start_state_json(self.graph, self.asked),
            goal=goal_json(self.graph, self.asked),
            difficulty=difficulty(path, len(apps)),
            max_steps=step_limit(path),
        )


class TaskSides(NamedTuple):
    """The tasks for training, and those that touch an unseen app."""

    trained: list[TaskGraph]
    heldout: list[TaskGraph]
    validation: list[TaskGraph]


def divide_tasks(world: World, heldout_apps: Collection[str], validation_apps: Collection[str] = ()) -> TaskSides:
    """Set aside every task that touches a held-out app, then every one that touches an app for validation.

    Raises:
        BadInputError: there is no such app.
    """
    for key, names in (("heldout_app_names", heldout_apps), ("validation_app_names", validation_apps)):
        for name in names:
            if name not in world.apps:
                raise BadInputError(f"{key}: there is no app {name!r}; {instead_of(name, sorted(world.apps))}")
    sides = TaskSides([], [], [])
    for task in world.tasks():
        apps = set(apps_of(task.graph))
        side = sides.validation if apps & set(validation_apps) else sides.trained
        (sides.heldout if apps & set(heldout_apps) else side).append(task)
    return sides


def draw_goals(task: TaskGraph, wanted: int, rng: Random) -> tuple[TaskGoal, ...]:
    """Draw up to `wanted` different goals of a task.

    Raises:
        StageError: the task cannot be sampled.
    """
    candidates = paths(task)
    found: dict[tuple[tuple[str, str], ...], TaskGoal] = {}
    for _ in range(DRAWS_PER_GOAL * wanted):
        drawn = sample(task, candidates, rng)
        found.setdefault(drawn.key, drawn)
        if len(found) == wanted:
            break
    return tuple(found.values())


def apps_of(pages: Iterable[str]) -> tuple[str, ...]:
    """Return the apps of pages, in order of their first page."""
    return tuple(dict.fromkeys(place_of(page).app for page in pages))


def paths(task: TaskGraph) -> tuple[Path, ...]:
    """Return the start-to-end paths of a task's DAG."""
    ends = [page for page in task.graph if task.graph.out_degree(page) == 0]
    if task.start in ends:
        return ((task.start,),)
    return tuple(tuple(path) for path in islice(nx.all_simple_paths(task.graph, task.start, ends), PATH_CAP))


def sample(task: TaskGraph, candidates: Sequence[Path], rng: Random) -> TaskGoal:
    """Draw one of the `candidates` and slot values: all required slots, up to three of the optional ones on the path.

    A task without required slots gets at least one optional slot; otherwise it would ask for nothing.

    Raises:
        StageError: a slot has no value to ask for.
    """
    path = rng.choice(candidates)
    free = [slot for slot in task.slots if slot.is_free]
    required = [slot for slot in free if not slot.spec.optional]
    optional = [slot for slot in free if slot.spec.optional and slot.page in path]
    drawn = [slot for slot in optional if rng.random() < OPTIONAL_PROBABILITY]
    if not (drawn or required) and optional:
        drawn = [rng.choice(optional)]
    elif len(drawn) > OPTIONAL_CAP:
        drawn = rng.sample(drawn, OPTIONAL_CAP)
    asked = {slot.spec.name for slot in (*required, *drawn)}
    choices: list[SlotChoice] = []
    for slot in free:
        if slot.spec.name in asked:
            if not slot.values:
                text = f"{task.name}: the slot {slot.spec.name} has no value to ask for"
                raise StageError(text, FailureClass.TASK)
            choices.append(SlotChoice(slot, rng.choice(slot.values)))
    return TaskGoal(task, path, tuple(choices))
