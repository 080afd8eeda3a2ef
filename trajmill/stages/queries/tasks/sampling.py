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
from trajmill.stages.environments.simulated.annotations import PathMetadata, SlotValue, known_slots, path_metadata
from trajmill.stages.environments.simulated.app_files.app_spec import Scalar, TaskSpec
from trajmill.stages.environments.simulated.app_files.references import place_of
from trajmill.stages.environments.simulated.reference_path import goal_json, reference_path, start_state_json
from trajmill.stages.environments.simulated.world import TaskGraph, TaskSlot, World
from trajmill.stages.queries.base import GoalFacts, QueryPlan, Written, difficulty, step_limit
from trajmill.stages.queries.templates import Variant, explicit_instruction, listed, parse_template, tidy

PATH_CAP = 1000
"""Most paths of a DAG that are sampled from: the first ones."""
OPTIONAL_CAP = 3
OPTIONAL_PROBABILITY = 0.35
DRAWS_PER_GOAL = 8
"""Draws for each wanted goal; afterwards the task counts as exhausted."""

Path = tuple[str, ...]
"""Pages as `app.screen`, from the first page of the task to one that nothing follows."""


class SlotChoice(NamedTuple):
    slot: TaskSlot
    value: Scalar


class TaskGoal(NamedTuple):
    graph: TaskGraph
    path: Path
    choices: tuple[SlotChoice, ...]
    """Free slots only, in the order of the task; some may be on pages that this path does not visit."""

    @property
    def task(self) -> str:
        return self.graph.name

    @property
    def asked(self) -> dict[str, Scalar]:
        return {choice.slot.spec.name: choice.value for choice in self.choices}

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        return tuple((name, repr(value)) for name, value in self.asked.items())

    @property
    def metadata(self) -> PathMetadata:
        return path_metadata(self.graph, self.path, self.asked)

    def facts(self) -> GoalFacts:
        return GoalFacts(self.metadata, known_slots(self.graph, self.asked))

    def worded(self, heldout: bool, seed: int) -> Written:
        metadata = self.metadata
        phrasing = draw_phrasing(self.graph.spec, metadata, heldout, seed)
        raw = explicit_instruction(metadata)
        return Written(raw, phrasing.expand(), phrasing.id, phrasing.said, "grammar-1")

    def plan(self, said: Mapping[str, str]) -> QueryPlan:
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
    trained: list[TaskGraph]
    heldout: list[TaskGraph]
    validation: list[TaskGraph]


def divide_tasks(world: World, heldout_apps: Collection[str], validation_apps: Collection[str] = ()) -> TaskSides:
    """Set aside the tasks that touch a held-out app, then those that touch an app for validation."""
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
    """Draw up to `wanted` different goals of a task. Raises StageError if the task cannot be sampled."""
    candidates = paths(task)
    found: dict[tuple[tuple[str, str], ...], TaskGoal] = {}
    for _ in range(DRAWS_PER_GOAL * wanted):
        drawn = sample(task, candidates, rng)
        found.setdefault(drawn.key, drawn)
        if len(found) == wanted:
            break
    return tuple(found.values())


def apps_of(pages: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(place_of(page).app for page in pages))


def paths(task: TaskGraph) -> tuple[Path, ...]:
    ends = [page for page in task.graph if task.graph.out_degree(page) == 0]
    if task.start in ends:
        return ((task.start,),)
    return tuple(tuple(path) for path in islice(nx.all_simple_paths(task.graph, task.start, ends), PATH_CAP))


def sample(task: TaskGraph, candidates: Sequence[Path], rng: Random) -> TaskGoal:
    """Draw one of the `candidates` and slot values: all required slots, up to three of the optional ones on the path.

    A task without required slots gets an optional one. Raises StageError if a slot has no value to ask for.
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


CLAUSES = "clauses"


class Clause(NamedTuple):
    slot: str
    variant: Variant
    words: str
    """The expanded clause, without an `and` before it."""


class Phrasing(NamedTuple):
    task: str
    template: Variant
    clauses: tuple[Clause, ...]
    said: Mapping[str, str]
    """By slot, the words that the instruction must contain."""
    seed: int

    @property
    def id(self) -> str:
        """As stored on the query, e.g. `bites.order/h0 place/1 size/h0`."""
        clauses = sorted(f"{clause.slot}/{clause.variant.id}" for clause in self.clauses)
        return " ".join([f"{self.task}/{self.template.id}", *clauses])

    def expand(self) -> str:
        rng, clauses = Random(self.seed), ""
        if self.clauses:
            words = [clause.words for clause in self.clauses]
            joined = listed(words) if rng.random() < 0.5 else ", ".join(words)
            # In the middle of a sentence the clauses have a comma on both sides.
            clauses = f", {joined}" if self.template.text.rstrip().endswith(f"{{{CLAUSES}}}") else f", {joined},"
        return tidy(self.template.expand(self.task, {**self.said, CLAUSES: clauses}, rng))


def draw_phrasing(spec: TaskSpec, metadata: PathMetadata, heldout: bool, seed: int) -> Phrasing:
    """Draw a phrasing, held-out parts first; raises StageError if no template or clause says the wanted values."""
    rng, task = Random(seed), metadata.task
    spoken = [slot for slot in metadata.constraints if slot.words]
    said = {slot.name: rng.choice(slot.words) for slot in spoken}
    template = _draw_template(spec, task, spoken, heldout, rng)
    named = parse_template(template.text, task).names()
    clauses = [_draw_clause(spec, task, slot, said, heldout, rng) for slot in spoken if slot.name not in named]
    rng.shuffle(clauses)
    # The whole clause expresses an option that is on or off.
    said |= {c.slot: c.words for c in clauses if c.slot not in parse_template(c.variant.text, task).names()}
    return Phrasing(task, template, tuple(clauses), said, rng.getrandbits(32))


def _draw_template(spec: TaskSpec, task: str, spoken: Sequence[SlotValue], heldout: bool, rng: Random) -> Variant:
    required = {slot.name for slot in spoken if not slot.optional}
    optional = {slot.name for slot in spoken if slot.optional}
    fitting = []
    for variant in _variants(spec.heldout_phrasings if heldout else spec.phrasings, heldout):
        names = parse_template(variant.text, task).names()
        leaves_room = CLAUSES in names or optional <= names
        if required <= names <= required | optional | {CLAUSES} and leaves_room:
            fitting.append(variant)
    if not fitting:
        kind = "held-out phrasing" if heldout else "phrasing"
        what = ", ".join(sorted(required | optional)) or "nothing"
        raise StageError(f"{task}: no {kind} says exactly {what}", FailureClass.TASK)
    return rng.choice(fitting)


def _draw_clause(
    spec: TaskSpec, task: str, slot: SlotValue, said: Mapping[str, str], heldout: bool, rng: Random
) -> Clause:
    variants = _variants(spec.heldout_clauses.get(slot.name, ()), True) if heldout else []
    variants = variants or _variants(spec.clauses.get(slot.name, ()), False)
    # A clause without the slot's name means that an option is on.
    is_on = slot.is_option and slot.value == "on"
    fitting = [each for each in variants if is_on or slot.name in parse_template(each.text, task).names()]
    if not fitting:
        raise StageError(f"{task}: no clause says {slot.name} = {slot.value}", FailureClass.TASK)
    variant = rng.choice(fitting)
    return Clause(slot.name, variant, variant.expand(task, said, rng).strip().removeprefix("and "))


def _variants(texts: Sequence[str], heldout: bool) -> list[Variant]:
    return [Variant(text, number, heldout) for number, text in enumerate(texts)]
