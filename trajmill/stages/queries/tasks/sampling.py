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
from trajmill.stages.queries.explicit import explicit_instruction
from trajmill.stages.queries.tasks.phrasing import draw_phrasing, expand_phrasing

PATH_CAP = 1000
"""Most paths of a DAG that are sampled from: the first ones."""
OPTIONAL_CAP = 3
OPTIONAL_PROBABILITY = 0.35
DRAWS_PER_GOAL = 8
"""Draws for each wanted goal; afterwards the task counts as exhausted."""

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
        return {choice.name: choice.value for choice in self.choices}

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Equal for goals that ask for the same thing, whatever their path."""
        return tuple((choice.name, repr(choice.value)) for choice in self.choices)

    @property
    def metadata(self) -> PathMetadata:
        """The facts about the path; raises BadInputError for a value that the task does not have."""
        return path_metadata(self.graph, self.path, self.asked)

    def facts(self) -> GoalFacts:
        """The facts for a language model, with all values of all slots of the task."""
        return GoalFacts(self.metadata, known_slots(self.graph, self.asked))

    def worded(self, heldout: bool, seed: int) -> Written:
        """Draw a phrasing of the app file and expand it; raises as `draw_phrasing`."""
        metadata = self.metadata
        phrasing = draw_phrasing(self.graph.spec, metadata, heldout, seed)
        raw = explicit_instruction(metadata)
        return Written(raw, expand_phrasing(phrasing), phrasing.id, phrasing.said, "grammar-1")

    def plan(self, said: Mapping[str, str]) -> QueryPlan:
        """The columns that words do not decide; raises BadInputError if the path does not belong to the task."""
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
    """The tasks that training may use, and those that touch an app that it never sees."""

    trained: tuple[TaskGraph, ...]
    heldout: tuple[TaskGraph, ...]
    validation: tuple[TaskGraph, ...]


def divide_tasks(world: World, heldout_apps: Collection[str], validation_apps: Collection[str] = ()) -> TaskSides:
    """Put aside every task that touches a held-out app, then every one that touches an app of the validation queries.

    Raises:
        BadInputError: there is no such app.
    """
    for key, names in (("heldout_app_names", heldout_apps), ("validation_app_names", validation_apps)):
        for name in names:
            if name not in world.apps:
                raise BadInputError(f"{key}: there is no app {name!r}; {instead_of(name, sorted(world.apps))}")
    sides: dict[str, list[TaskGraph]] = {"trained": [], "heldout": [], "validation": []}
    for task in world.tasks():
        apps = set(apps_of(task.graph))
        touched = "heldout" if apps & set(heldout_apps) else "validation" if apps & set(validation_apps) else "trained"
        sides[touched].append(task)
    return TaskSides(*(tuple(tasks) for tasks in sides.values()))


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
    """The apps that pages belong to, in order of their first page."""
    return tuple(dict.fromkeys(place_of(page).app for page in pages))


def paths(task: TaskGraph) -> tuple[Path, ...]:
    """The start-to-end paths of a task's DAG."""
    ends = [page for page in task.graph if task.graph.out_degree(page) == 0]
    if task.start in ends:
        return ((task.start,),)
    return tuple(tuple(path) for path in islice(nx.all_simple_paths(task.graph, task.start, ends), PATH_CAP))


def sample(task: TaskGraph, candidates: Sequence[Path], rng: Random) -> TaskGoal:
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
    return TaskGoal(
        task, path, tuple(SlotChoice(slot, _value(task, slot, rng)) for slot in free if slot.spec.name in asked)
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
