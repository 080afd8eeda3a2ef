import random

import pytest

from tests.stages.environments.simulated.worlds import (
    NO_FAULTS,
    everything,
    garden,
    paths_of,
    query_of,
    some_values,
    task_of,
    task_query,
    walk,
    world_of,
)
from trajmill.schemas.actions import Click, Swipe, SystemButton, Terminate, TypeText
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.app_files.app_spec import Scalar
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.reference_path import (
    Position,
    Walker,
    goal_json,
    reference_path,
    resolve_slots,
    start_state_json,
)
from trajmill.stages.environments.simulated.world import TaskGraph

GARDEN = task_of(world_of(garden()), "garden.water")


WORLD = everything()


@pytest.mark.parametrize("task", WORLD.tasks(), ids=lambda task: task.name)
def test_every_path_of_every_task_reaches_its_goal(task: TaskGraph) -> None:
    reached = 0
    for number, pages in enumerate(list(paths_of(task)) * 3):
        query = task_query(task, pages, some_values(task, random.Random(number)))
        env = SimulatedEnvironment(WORLD, task.platform, FaultRates(popup=0.3))
        env.reset_now(query, number)
        if env.score_now() == 1.0:  # asks for what is already so: the writer of queries drops it
            continue
        actions = walk(env, query, number)
        assert actions[-1] == Terminate(status="success"), (query.path, actions)
        assert env.score_now() == 1.0, (query.goal, query.path)
        reached += 1
    assert reached


def test_the_annotated_path() -> None:
    steps = reference_path(
        GARDEN, ("garden.home", "garden.plant", "garden.watered"), {"plant": "Basil", "amount": 3, "feed": True}
    )
    assert [(step.operation, step.target) for step in steps] == [
        ("open", "Garden"),
        ("tap", "garden.home/plants/Basil"),
        ("tap", "garden.plant/amount/+"),
        ("tap", "garden.plant/amount/+"),
        ("tap", "garden.plant/feed"),
        ("tap", "garden.plant/water"),
        ("finish", ""),
    ]
    assert [step.page for step in steps][:3] == ["launcher", "garden.home", "garden.plant"]


def test_values_may_be_given_as_the_screen_shows_them() -> None:
    typed: dict[str, Scalar] = {"plant": "Basil", "amount": 3, "feed": True}
    shown: dict[str, Scalar] = {"plant": "Basil", "amount": "3", "feed": "on"}
    assert resolve_slots(GARDEN, shown) == typed
    assert goal_json(GARDEN, shown) == goal_json(GARDEN, typed)
    expected = '{"garden.waterings": {"append": {"amount": 3, "feed": true, "memo": "", "name": "Basil"}}}'
    assert goal_json(GARDEN, typed) == expected
    assert start_state_json(GARDEN, typed) == "{}"


@pytest.mark.parametrize(
    ("values", "message"),
    [({}, "needs a value"), ({"plant": "Basil", "pot": 1}, "no slot"), ({"plant": "Basil", "amount": 77}, "offer")],
)
def test_wrong_slots_are_bad_input(values: dict[str, Scalar], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        resolve_slots(GARDEN, values)


def test_a_walk_scrolls_types_and_uses_the_menu() -> None:
    shelf = task_of(WORLD, "shelf.lend")
    query = task_query(shelf, next(paths_of(shelf)), {"book": "Book 29"})
    actions = walk(SimulatedEnvironment(WORLD, Platform.PHONE, NO_FAULTS), query, 0)
    assert any(isinstance(action, Swipe) for action in actions)
    paper = task_of(WORLD, "paper.save")
    query = task_query(paper, next(paths_of(paper)), {"line": "Hello", "font": "Sans"})
    assert [step.target.rpartition("/")[2] for step in query.path] == [
        "Paper",
        "line",
        "file",
        "save",
        "Sans",
        "ok",
        "",
    ]
    assert query.path[-1].page == "paper.main", "OK leads back there"
    actions = walk(SimulatedEnvironment(WORLD, Platform.DESKTOP, NO_FAULTS), query, 0)
    assert TypeText(text="Hello") in actions
    assert next(action.count for action in actions if isinstance(action, Click)) == 2


@pytest.mark.parametrize("faults", [FaultRates(slow=0.4, popup=0.5), FaultRates(popup=1.0)])
def test_a_walk_survives_slow_pages_and_popups(faults: FaultRates) -> None:
    for seed in range(12):
        query = task_query(GARDEN, next(paths_of(GARDEN)), {"plant": "Basil", "amount": 2})
        env = SimulatedEnvironment(WORLD, Platform.PHONE, faults)
        assert walk(env, query, seed)[-1] == Terminate(status="success")
        assert env.score_now() == 1.0


def test_a_lost_press_on_the_way_is_done_again() -> None:
    query = task_query(GARDEN, next(paths_of(GARDEN)), {"plant": "Basil"})
    env = SimulatedEnvironment(WORLD, Platform.PHONE, NO_FAULTS)
    seen, position, walker = env.reset_now(query, 0), Position(), Walker(query.path, Platform.PHONE)
    for lost in (False, True, False, False, False, False):
        action, position = walker.next_action(seen, position)
        if not lost and not isinstance(action, Terminate):
            seen = env.step_now(action)
    assert env.score_now() == 1.0


def test_a_walk_comes_back_from_elsewhere() -> None:
    query = task_query(GARDEN, next(paths_of(GARDEN)), {"plant": "Basil"})
    env = SimulatedEnvironment(WORLD, Platform.PHONE, NO_FAULTS)
    walker, position = Walker(query.path, Platform.PHONE), Position()
    seen = env.reset_now(query, 0)
    action, position = walker.next_action(seen, position)
    env.step_now(action)
    seen = env.step_now(SystemButton(button="Home"))
    for _ in range(4):
        action, position = walker.next_action(seen, position)
        if not isinstance(action, Terminate):
            seen = env.step_now(action)
    assert env.score_now() == 1.0


def test_a_target_that_does_not_exist_ends_in_failure() -> None:
    path = (
        PathStep(page="launcher", operation="open", target="Shelf"),
        PathStep(page="shelf.home", operation="tap", target="shelf.home/books/Book 99"),
    )
    env = SimulatedEnvironment(WORLD, Platform.PHONE, NO_FAULTS)
    query = query_of(path=path)
    assert walk(env, query, 0)[-1] == Terminate(status="failure")
