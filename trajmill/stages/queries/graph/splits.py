"""Divides tasks and goals between the splits before training: whole apps are held out, then goals and phrasings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from random import Random
from typing import NamedTuple, Protocol, TypeVar

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.nearest import instead_of
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.queries.graph.sampling import TaskSample, apps_of, paths, sample

HELDOUT_GOALS = (Split.HELDOUT_SLOTS, Split.HELDOUT_PHRASINGS, Split.VALIDATION)
"""The splits that hold out goals of tasks that training has."""
HELDOUT_SHARE = 6
"""Each held-out split gets at most one in six goals of a task; so training keeps at least half."""
DRAWS_PER_GOAL = 8
"""Draws for each wanted goal; after them the task is taken to have no more goals."""


class GoalWithKey(Protocol):
    """What a query asks for."""

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Pairs of slot and value; equal for goals that ask for the same thing."""
        ...


GoalT = TypeVar("GoalT", bound=GoalWithKey)


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


def draw_goals(task: TaskGraph, wanted: int, rng: Random) -> tuple[TaskSample, ...]:
    """Up to `wanted` samples of a task that all ask for different things.

    Raises:
        StageError: the task cannot be sampled.
    """
    candidates = paths(task)
    found: dict[tuple[tuple[str, str], ...], TaskSample] = {}
    for _ in range(DRAWS_PER_GOAL * wanted):
        drawn = sample(task, candidates, rng)
        found.setdefault(drawn.key, drawn)
        if len(found) == wanted:
            break
    return tuple(found.values())


def share_goals(goals: Sequence[GoalT], wanted: Mapping[Split, int]) -> dict[Split, tuple[GoalT, ...]]:
    """Give each goal of a task to one split; training gets the goals that the held-out splits do not need.

    Training gets the goals in which slot values first appear. The held-out splits get goals whose values training has
    seen, so that they are new combinations, if a task has enough slots and goals.
    """
    share = {split: min(wanted[split], len(goals) // HELDOUT_SHARE) for split in HELDOUT_GOALS}
    ordered = _values_first(goals)
    trained = min(wanted[Split.TRAIN], len(goals) - sum(share.values()))
    seen = {value for goal in ordered[:trained] for value in goal.key}
    spare = sorted(ordered[trained:], key=lambda goal: len(set(goal.key) - seen))
    # In the order of drawing again, so that no held-out split gets the more familiar values.
    heldout = iter(sorted(spare[: sum(share.values())], key=goals.index))
    shares = {split: tuple(islice(heldout, share[split])) for split in HELDOUT_GOALS}
    return {Split.TRAIN: (*ordered[:trained], *spare[sum(share.values()) :]), **shares}


def _values_first(goals: Sequence[GoalT]) -> list[GoalT]:
    seen: set[tuple[str, str]] = set()
    first: list[GoalT] = []
    later: list[GoalT] = []
    for goal in goals:
        (later if seen.issuperset(goal.key) else first).append(goal)
        seen.update(goal.key)
    return first + later
