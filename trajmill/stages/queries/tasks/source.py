"""Queries of annotated tasks: the tasks of the app files of a simulated world (`source = dag`, GUI-Owl 6.2)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import networkx as nx

from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass, StageError
from trajmill.schemas.names import refuse_unknown
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import Slot, Source, Split
from trajmill.stages.environments.kinds import FaultRates, SimulatedSpec
from trajmill.stages.environments.simulated.annotations import PathMetadata, known_slots, path_metadata
from trajmill.stages.environments.simulated.app_files.app_spec import ListChange, Scalar, TaskSpec
from trajmill.stages.environments.simulated.app_files.check import read_with_builtin
from trajmill.stages.environments.simulated.app_files.loader import Mistake, NodePath
from trajmill.stages.environments.simulated.app_files.references import names_in, place_of
from trajmill.stages.environments.simulated.drawing.canvas import undrawn
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment, SimulatedFactory
from trajmill.stages.environments.simulated.reference_path import goal_json, reference_path, start_state_json
from trajmill.stages.environments.simulated.world import TaskGraph, TaskSlot, World
from trajmill.stages.queries.base import (
    Candidate,
    GoalFacts,
    GrammarWriter,
    NewQueries,
    Offer,
    QueryPlan,
    QueryWriter,
    SourceContext,
    SplitCandidates,
    UnseenApps,
    Written,
    draft,
    failure,
)
from trajmill.stages.queries.generate import QuerySet
from trajmill.stages.queries.leaks import HELDOUT_GOALS, SPARE_GOALS, is_held_out_phrasing, rephrasings, share_goals
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.ends import Question, absent_goals, ask, asking, given_up, questions
from trajmill.stages.queries.templates import Variant, explicit_instruction, listed, tidy, variants
from trajmill.stages.queries.walk import DONE_AT_START, QueryWalker, walk

PATH_CAP = 1000
"""Most paths of a DAG that are sampled from: the first ones."""
OPTIONAL_CAP = 3
OPTIONAL_PROBABILITY = 0.35
DRAWS_PER_GOAL = 8
"""Draws for each wanted goal; afterwards the task counts as exhausted."""
CLAUSES = "clauses"
_FRESH_GOALS = 4 * SPARE_GOALS
"""Goals drawn for each fresh query; most of the first ones may be known already."""
_QUERIES_OF_GENERATED = 4
"""Training queries of each task of a generated app."""
_CALM = FaultRates(popup=0.0)

Pages = tuple[str, ...]
"""Pages as `app.screen`, from the first page of the task to one that nothing follows."""


class TaskGoal(NamedTuple):
    graph: TaskGraph
    path: Pages
    asked: Mapping[str, Scalar]
    """Values of free slots, in the order of the task; some may be on pages that this path does not visit."""
    absent: TaskSlot | None = None
    """The slot whose item the device lacks, so that the goal cannot be reached."""
    question: Question | None = None
    """The value that the user asks for instead of the task's goal."""

    @property
    def task(self) -> str:
        return self.question.task if self.question else self.graph.name

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        return tuple((name, repr(value)) for name, value in self.asked.items())

    @property
    def metadata(self) -> PathMetadata:
        return path_metadata(self.graph, self.path, self.asked)

    def facts(self) -> GoalFacts | None:
        return None if self.question else GoalFacts(self.metadata, known_slots(self.graph, self.asked))

    def worded(self, heldout: bool, seed: int) -> Written:
        if self.question:
            return ask(self, self.question, heldout, seed)
        return word_task(self.graph.spec, self.metadata, heldout, seed)

    def plan(self) -> QueryPlan:
        metadata, apps = self.metadata, tuple(dict.fromkeys(place_of(page).app for page in self.path))
        plan = QueryPlan(
            platform=self.graph.platform,
            apps=apps,
            source=Source.DAG,
            pages={page.page: page.description for page in metadata.pages},
            slots=tuple(Slot(name=it.name, value=it.value, said="", page=it.page) for it in metadata.constraints),
            path=reference_path(self.graph, self.path, self.asked),
            start_state=start_state_json(self.graph, self.asked),
            goal=goal_json(self.graph, self.asked),
        )
        plan = given_up(plan, self, self.absent) if self.absent else plan
        return asking(plan, self, self.question) if self.question else plan


class TaskSource(NamedTuple):
    world: World
    settings: GraphQueriesSpec

    async def candidates(self, context: SourceContext) -> Offer:
        """Return goals that are walked on a simulated device; raises BadInputError if an app to hold out is none."""
        settings, draws = self.settings, _Draws(context)
        validation_apps = settings.validation_apps(self.world.apps)
        trained, unseen, deciding, generated = divide_tasks(self.world, settings.heldout_app_names, validation_apps)
        walk = QueryWalker(lambda platform: SimulatedFactory(self.world, platform, _CALM), 1, context.origin).walk
        if fresh := context.fresh:
            trained += generated
            goals = draws.goals(trained, _FRESH_GOALS * _share(fresh.wanted, trained))
            return Offer((draws.offered(Split.TRAIN, None, goals),), walk=walk)
        of_own_apps = settings.validation // 2 if validation_apps else 0
        wanted = {split: settings.wanted(split) for split in Split}
        wanted[Split.VALIDATION] -= of_own_apps
        of_task = {split: SPARE_GOALS * _share(wanted[split], trained) for split in HELDOUT_GOALS}
        of_task[Split.TRAIN] = _share(wanted[Split.TRAIN], trained)
        shares: dict[Split, list[tuple[TaskGoal, ...]]] = {split: [] for split in Split}
        drawn = draws.goals(trained, SPARE_GOALS * sum(of_task.values()))
        for goals_of_task in drawn:
            for split, shared in share_goals(goals_of_task, of_task).items():
                shares[split].append(shared)
        shares[Split.HELDOUT_APPS] = draws.goals(unseen, SPARE_GOALS * _share(wanted[Split.HELDOUT_APPS], unseen))
        own = draws.goals(deciding, SPARE_GOALS * _share(of_own_apps, deciding))
        asked = {split: questions(drawn, split) for split in Split}
        asked[Split.HELDOUT_APPS] = questions(shares[Split.HELDOUT_APPS])
        places = [(split, wanted[split], shares[split], asked[split]) for split in Split]
        places.append((Split.VALIDATION, of_own_apps, own, questions(own)))
        if generated:
            goals = draws.goals(generated, _QUERIES_OF_GENERATED)
            places.append((Split.TRAIN, _QUERIES_OF_GENERATED * len(generated), goals, questions(goals)))
        others, offers = list[SplitCandidates](), list[SplitCandidates]()
        for split, number, goals, of_values in places:
            left = number
            for share, found in ((settings.infeasible, absent_goals(goals)), (settings.answers, of_values)):
                few = int(share * number) if found else 0
                others.append(draws.offered(split, few, found))
                left -= few
            offers.append(draws.offered(split, left, goals))
        return Offer((*others, *offers), tuple(draws.failures), walk=walk)


class _Draws:
    """Draws goals, and the words and the order of their candidates; equal seeds draw equal ones."""

    def __init__(self, context: SourceContext) -> None:
        fresh, self._origin = context.fresh, context.origin
        self._seed: tuple[Hashable, ...] = ("fresh", fresh.seed) if fresh else ("generate", context.seed)
        self.failures: list[Failure] = []

    def goals(self, tasks: Sequence[TaskGraph], of_task: int) -> list[tuple[TaskGoal, ...]]:
        drawn: list[tuple[TaskGoal, ...]] = []
        for task in tasks:
            try:
                drawn.append(draw_goals(task, of_task, Random(self._derive(task.name, "goals"))))
            except StageError as error:
                self.failures.append(failure(task.name, str(error), self._origin, "grammar-1", error.failure_class))
        return drawn

    def offered(self, split: Split, number: int | None, shares: Sequence[Sequence[TaskGoal]]) -> SplitCandidates:
        streams = [self._stream(split, goals) for goals in shares if goals]
        Random(self._derive(split, "order")).shuffle(streams)
        return SplitCandidates(split, number, streams)

    def _stream(self, split: Split, goals: Sequence[TaskGoal]) -> Iterator[Candidate]:
        for turn in rephrasings(split):
            for place, goal in enumerate(goals):
                words = self._derive(goal.task, split, goal.key, turn)
                yield Candidate(goal, split, is_held_out_phrasing(split, turn + place), words)

    def _derive(self, *parts: Hashable) -> int:
        return int(content_id(*self._seed, *parts), 16)


async def generate_queries(
    world: World,
    settings: GraphQueriesSpec,
    seed: int,
    origin: Origin,
    writers: Sequence[QueryWriter] = (GrammarWriter(),),
    in_flight: int = 1,
) -> NewQueries:
    """Make the walked queries of all splits of a world; equal arguments, `in_flight` apart, give equal queries.

    Each writer words the queries for which those before it fail. Raises BadInputError if an app to hold out does not
    exist, or a phrasing cannot be parsed.
    """
    unseen = UnseenApps(settings.heldout_app_names, settings.validation_app_names)
    offer = await TaskSource(world, settings).candidates(SourceContext(SimulatedSpec(), unseen, seed, origin))
    assert offer.walk is not None
    made = QuerySet(writers, origin, in_flight=in_flight)
    await made.take(offer, offer.walk)
    return made.without_leaks(settings.heldout_app_names)


def _share(wanted: int, tasks: Sequence[TaskGraph]) -> int:
    return math.ceil(wanted / max(len(tasks), 1))


class TaskSides(NamedTuple):
    trained: list[TaskGraph]
    heldout: list[TaskGraph]
    validation: list[TaskGraph]
    generated: list[TaskGraph]


def divide_tasks(world: World, heldout_apps: Collection[str], validation_apps: Collection[str] = ()) -> TaskSides:
    """Set aside the tasks of generated apps, of held-out apps, then those that touch an app for validation."""
    refuse_unknown(heldout_apps, sorted(world.apps), "heldout_app_names: there is no app")
    refuse_unknown(validation_apps, sorted(world.apps), "validation_app_names: there is no app")
    sides = TaskSides([], [], [], [])
    for task in world.tasks:
        apps = {place_of(page).app for page in task.graph}
        side = sides.validation if apps & set(validation_apps) else sides.trained
        side = sides.generated if world.generated_of(sorted(apps)) else side
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


def paths(task: TaskGraph) -> tuple[Pages, ...]:
    ends = [page for page in task.graph if task.graph.out_degree(page) == 0]
    return tuple(tuple(path) for path in islice(nx.all_simple_paths(task.graph, task.start, ends), PATH_CAP))


def sample(task: TaskGraph, candidates: Sequence[Pages], rng: Random) -> TaskGoal:
    """Draw a path and values, of at most three optional slots; raises StageError if a slot has no value to ask for."""
    path = rng.choice(candidates)
    free = [slot for slot in task.slots if slot.is_free]
    required = [slot for slot in free if not slot.spec.optional]
    optional = [slot for slot in free if slot.spec.optional and slot.page in path]
    drawn = [slot for slot in optional if rng.random() < OPTIONAL_PROBABILITY]
    if not (drawn or required) and optional:
        drawn = [rng.choice(optional)]
    elif len(drawn) > OPTIONAL_CAP:
        drawn = rng.sample(drawn, OPTIONAL_CAP)
    names = {slot.spec.name for slot in (*required, *drawn)}
    asked: dict[str, Scalar] = {}
    for slot in (each for each in free if each.spec.name in names):
        if not slot.values:
            raise StageError(f"{task.name}: the slot {slot.spec.name} has no value to ask for", FailureClass.TASK)
        asked[slot.spec.name] = rng.choice(slot.values)
    return TaskGoal(task, path, asked)


def word_task(spec: TaskSpec, metadata: PathMetadata, heldout: bool, seed: int) -> Written:
    """Word a task, held-out parts first; raises StageError if no template or clause says the wanted values."""
    rng, task = Random(seed), metadata.task
    spoken = [slot for slot in metadata.constraints if slot.words]
    said = {slot.name: rng.choice(slot.words) for slot in spoken}
    optional = {slot.name for slot in spoken if slot.optional}
    required = {slot.name for slot in spoken if not slot.optional}
    templates: list[Variant] = []
    for variant in variants(spec.heldout_phrasings if heldout else spec.phrasings, heldout):
        names = variant.names(task)
        if required <= names <= required | optional | {CLAUSES} and (CLAUSES in names or optional <= names):
            templates.append(variant)
    if not templates:
        what = ", ".join(sorted(required | optional)) or "nothing"
        raise StageError(f"{task}: no {'held-out ' * heldout}phrasing says exactly {what}", FailureClass.TASK)
    template = rng.choice(templates)
    clauses: list[tuple[str, Variant, str]] = []
    for slot in (each for each in spoken if each.name not in template.names(task)):
        offered = variants(spec.heldout_clauses.get(slot.name, ()), True) if heldout else []
        offered = offered or variants(spec.clauses.get(slot.name, ()), False)
        # A clause without the slot's name means that an option is on.
        is_on = slot.is_option and slot.value == "on"
        fitting = [each for each in offered if is_on or slot.name in each.names(task)]
        if not fitting:
            raise StageError(f"{task}: no clause says {slot.name} = {slot.value}", FailureClass.TASK)
        variant = rng.choice(fitting)
        clauses.append((slot.name, variant, variant.expand(task, said, rng).strip().removeprefix("and ")))
    rng.shuffle(clauses)
    # The whole clause expresses an option that is on or off.
    said |= {name: words for name, variant, words in clauses if name not in variant.names(task)}
    ids = [f"{task}/{template.id}", *sorted(f"{name}/{variant.id}" for name, variant, _ in clauses)]
    joined, rng = "", Random(rng.getrandbits(32))
    if words := [words for *_, words in clauses]:
        joined = f", {listed(words) if rng.random() < 0.5 else ', '.join(words)}"
        # In the middle of a sentence the clauses have a comma on both sides.
        joined += "" if template.text.rstrip().endswith(f"{{{CLAUSES}}}") else ","
    text = tidy(template.expand(task, {**said, CLAUSES: joined}, rng))
    return Written(explicit_instruction(metadata), text, " ".join(ids), said, "grammar-1")


_MOST_PATHS = 20
_MOST_VALUES = 50
_ORIGIN = Origin(round=0, run_id="check", code_version="")


def check_app_files(files: Sequence[Path]) -> list[Mistake]:
    """Return all mistakes in files; if all can be read, each path and each value of each slot is walked."""
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
    for graph in world.tasks:
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
    yield from _unused_slots(task.spec)
    environment, needs_nothing = SimulatedEnvironment(world, task.platform, _CALM), True

    async def tried(goal: TaskGoal) -> str | None:
        return await walk(environment, await draft(Candidate(goal, Split.TRAIN, False, 0), GrammarWriter(), _ORIGIN))

    for goal in _goals(task):
        asked = ", ".join(f"{name} = {value}" for name, value in goal.asked.items())
        try:
            reason = asyncio.run(tried(goal))
        except EnvironmentFailure as error:
            reason = str(error)
        except (BadInputError, StageError) as error:
            yield (), f"{error} (with {asked}); correct the task"
            return
        needs_nothing &= reason == DONE_AT_START
        if reason not in (None, DONE_AT_START):
            yield ("goal",), f"with {asked or 'no value'}: {reason}; correct the goal, or what widgets do"
            return
    if needs_nothing:
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
