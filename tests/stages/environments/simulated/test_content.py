"""The built-in apps and errands: what a goal checks can be seen, no goal is met at the start, phrasings are fair."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.stages.environments.simulated.worlds import NO_FAULTS, paths_of, task_query
from trajmill.schemas.actions import Terminate
from trajmill.schemas.observation import Observation
from trajmill.stages.environments.simulated.app_files.app_spec import ListChange, Scalar
from trajmill.stages.environments.simulated.app_files.references import shown
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.reference_path import Position, Walker, resolve_slots
from trajmill.stages.environments.simulated.world import TaskGraph, shared_world

WORLD = shared_world(())
MOST_STEPS = 80
EVERYDAY_WORDS = {"could", "you", "so", "were", "feel", "goes"}
UNSEEN_WORDS = 1
"""How many words a held-out phrasing may have that no training phrasing of any task has."""

by_task = pytest.mark.parametrize("task", WORLD.tasks(), ids=lambda task: task.name)


def asked(task: TaskGraph, number: int) -> dict[str, Scalar]:
    """A value for every slot; another number gives other values."""
    return {slot.spec.name: slot.values[number % len(slot.values)] for slot in task.slots if slot.is_free}


def seen_on(observation: Observation) -> Iterator[str]:
    for element in observation.elements or ():
        marked = {"checked", "selected"} & {*element.states}
        if element.role in ("switch", "checkbox"):
            yield "on" if marked else "off"
        elif marked or element.role != "radio":
            yield f"{element.text} {element.value}"


def seen_on_the_way(task: TaskGraph, pages: tuple[str, ...], values: dict[str, Scalar], seed: int) -> set[str]:
    query = task_query(task, pages, values)
    environment = SimulatedEnvironment(WORLD, task.platform, NO_FAULTS)
    observation = environment.reset_now(query, seed)
    walker, position, seen = Walker(query.path, task.platform), Position(), set(seen_on(observation))
    for _ in range(MOST_STEPS):
        action, position = walker.next_action(observation, position)
        if isinstance(action, Terminate):
            return seen
        observation = environment.step_now(action)
        seen.update(seen_on(observation))
    raise AssertionError("the walk does not end")


def wanted(task: TaskGraph, values: dict[str, Scalar]) -> Iterator[str]:
    """The values that the goal checks, as a screen shows them; values that must stay empty are left out."""
    resolved = resolve_slots(task, values)
    for change in task.spec.goal.values():
        fields = {**(change.append or {}), **(change.update or {})} if isinstance(change, ListChange) else {"": change}
        for value in fields.values():
            bound = resolved[value[1:]] if isinstance(value, str) and value.startswith("$") else value
            if bound != "":
                yield shown(bound)


@by_task
def test_what_a_goal_checks_can_be_seen_on_the_way(task: TaskGraph) -> None:
    for number, pages in enumerate(paths_of(task)):
        values = asked(task, number + len(task.name))
        seen = seen_on_the_way(task, pages, values, seed=number + len(task.name))
        for value in wanted(task, values):
            assert any(value in text for text in seen), f"`{value}` is never to be seen"


@by_task
def test_no_goal_is_met_before_anything_is_done(task: TaskGraph) -> None:
    pages = next(paths_of(task))
    environment = SimulatedEnvironment(WORLD, task.platform, NO_FAULTS)
    for number in range(12):
        environment.reset_now(task_query(task, pages, asked(task, number)), 0)
        assert environment.score_now() == 0.0


def words_of(template: str) -> set[str]:
    return set(re.findall(r"[a-z]{2,}", re.sub(r"\{\w+\}", " ", template.lower())))


def test_heldout_phrasings_are_new_but_use_known_words() -> None:
    known: set[str] = set(EVERYDAY_WORDS)
    for task in WORLD.tasks():
        for said in (*task.spec.phrasings, *(clause for some in task.spec.clauses.values() for clause in some)):
            known |= words_of(said)
    for task in WORLD.tasks():
        assert len(task.spec.phrasings) >= 6, task.name
        assert len(task.spec.heldout_phrasings) >= 3, task.name
        for template in task.spec.heldout_phrasings:
            assert template not in task.spec.phrasings
            assert len(words_of(template) - known) <= UNSEEN_WORDS, f"{task.name}: {words_of(template) - known}"
