from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stages.environments.simulated.worlds import task_of
from trajmill.schemas.errors import StageError
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.queries.tasks.sampling import OPTIONAL_CAP, paths, sample

seeds = st.integers(0, 2**32)


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_samples_of_every_task_hold_what_they_must(world: World, seed: int) -> None:
    for task in world.tasks():
        drawn = sample(task, paths(task), Random(seed))
        assert drawn.path[0] == task.start
        assert all(task.graph.has_edge(*edge) for edge in zip(drawn.path, drawn.path[1:], strict=False))
        assert not list(task.graph.successors(drawn.path[-1]))
        asked = drawn.asked
        free = [slot for slot in task.slots if slot.is_free]
        assert {slot.spec.name for slot in free if not slot.spec.optional} <= asked.keys()
        optional = [slot for slot in free if slot.spec.optional and slot.spec.name in asked]
        assert len(optional) <= OPTIONAL_CAP
        assert all(slot.page in drawn.path for slot in optional)
        assert all(choice.value in choice.slot.values for choice in drawn.choices)
        assert all(choice.value != choice.slot.default for choice in drawn.choices)


def test_every_path_and_every_number_of_optional_slots_is_drawn(order: TaskGraph, world: World) -> None:
    wish = task_of(world, "bazaar.wish")
    drawn = [sample(order, paths(order), Random(seed)) for seed in range(100)]
    assert {len(each.choices) - 1 for each in drawn} == {0, 1, 2, 3}
    assert {sample(wish, paths(wish), Random(seed)).path for seed in range(20)} == set(paths(wish))


def test_the_key_forgets_the_path(world: World) -> None:
    wish = task_of(world, "bazaar.wish")
    by_path = [sample(wish, [path], Random(3)) for path in paths(wish)]
    assert by_path[0].path != by_path[1].path
    assert by_path[0].key == by_path[1].key


def test_a_slot_without_values_is_an_error_of_the_task(order: TaskGraph) -> None:
    empty = tuple(slot._replace(values=()) for slot in order.slots)
    broken = TaskGraph(order.name, order.apps, order.platform, order.spec, order.graph, order.start, empty)
    with pytest.raises(StageError, match=r"bites\.order: the slot dish has no value to ask for"):
        sample(broken, paths(broken), Random(0))
