"""The built-in apps and errands: paths reach goals, which can be seen and are not met at the start; fair phrasings."""

import random
import re
from collections.abc import Iterator

import pytest

from tests.stages.environments.simulated.worlds import NO_FAULTS, everything, paths_of, some_values, task_query, walk
from trajmill.schemas.actions import Terminate
from trajmill.schemas.observation import Observation
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.app_files.app_spec import ListChange, Scalar
from trajmill.stages.environments.simulated.app_files.references import shown
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.reference_path import resolve_slots
from trajmill.stages.environments.simulated.world import TaskGraph, shared_world

WORLD, BUILTIN = everything(), shared_world(())
EVERYDAY_WORDS = {"could", "you", "so", "were", "feel", "goes"}
UNSEEN_WORDS = 1
"""How many words a held-out phrasing may have that no training phrasing of any task has."""


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


def wanted(task: TaskGraph, values: dict[str, Scalar]) -> Iterator[str]:
    """The values that the goal checks, as a screen shows them; values that must stay empty are left out."""
    resolved = resolve_slots(task, values)
    for change in task.spec.goal.values():
        fields = {**(change.append or {}), **(change.update or {})} if isinstance(change, ListChange) else {"": change}
        for value in fields.values():
            bound = resolved[value[1:]] if isinstance(value, str) and value.startswith("$") else value
            if bound != "":
                yield shown(bound)


@pytest.mark.slow
@pytest.mark.parametrize("task", WORLD.tasks(), ids=lambda task: task.name)
def test_every_path_reaches_its_goal_and_shows_what_that_checks(task: TaskGraph) -> None:
    plain = SimulatedEnvironment(WORLD, task.platform, NO_FAULTS)
    disturbed = SimulatedEnvironment(WORLD, task.platform, FaultRates(popup=0.3))
    for number in range(12 if task.name in {each.name for each in BUILTIN.tasks()} else 0):
        plain.reset_now(task_query(task, next(paths_of(task)), asked(task, number)), 0)
        assert plain.score_now() == 0.0, "met before anything is done"
    for number, pages in enumerate(paths_of(task)):
        values = asked(task, number + len(task.name))
        walked = walk(plain, task_query(task, pages, values), number + len(task.name))
        seen = {text for each in walked.seen for text in seen_on(each)}
        assert walked.actions[-1] == Terminate(status="success") and plain.score_now() == 1.0
        for value in wanted(task, values):
            assert any(value in text for text in seen), f"`{value}` is never to be seen"
        query = task_query(task, pages, some_values(task, random.Random(number)))
        disturbed.reset_now(query, number)
        if disturbed.score_now() == 1.0:  # asks for what is already so: the writer of queries drops it
            continue
        assert walk(disturbed, query, number).actions[-1] == Terminate(status="success"), query.path
        assert disturbed.score_now() == 1.0, (query.goal, query.path)


def words_of(template: str) -> set[str]:
    return set(re.findall(r"[a-z]{2,}", re.sub(r"\{\w+\}", " ", template.lower())))


def test_heldout_phrasings_are_new_but_use_known_words() -> None:
    known: set[str] = set(EVERYDAY_WORDS)
    for task in BUILTIN.tasks():
        for said in (*task.spec.phrasings, *(clause for some in task.spec.clauses.values() for clause in some)):
            known |= words_of(said)
    for task in BUILTIN.tasks():
        assert len(task.spec.phrasings) >= 6 and len(task.spec.heldout_phrasings) >= 3, task.name
        for template in task.spec.heldout_phrasings:
            assert template not in task.spec.phrasings
            assert len(words_of(template) - known) <= UNSEEN_WORDS, f"{task.name}: {words_of(template) - known}"
