from __future__ import annotations

import pytest

from tests.stages.queries.samples import chosen, drafted
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.queries.tasks.source import SimulatedValidator


@pytest.fixture
def query(order: TaskGraph, origin: Origin) -> Query:
    asked = chosen(order, dish="Udon Soup", quantity=3, note="no onions")
    return drafted(asked, origin, 1)


def _walk(world: World, query: Query, **changes: object) -> str:
    return SimulatedValidator(world).walk(query.model_copy(update=changes)) or "passed"


def test_a_right_path_passes(world: World, query: Query) -> None:
    assert _walk(world, query) == "passed"


def test_a_path_that_misses_the_goal_is_refused(world: World, query: Query) -> None:
    plus = next(step for step in query.path if step.target == "bites.dish/quantity/+")
    one_less = list(query.path)
    one_less.remove(plus)
    reason = _walk(world, query, path=tuple(one_less))
    assert reason.startswith("the reference path does not meet the goal check (`bites.orders` is [{")
    assert '"quantity": 2' in reason.partition(" not [")[0] and '"quantity": 3' in reason.partition(" not [")[2]


def test_a_path_over_a_missing_element_is_refused(world: World, query: Query) -> None:
    at = next(n for n, step in enumerate(query.path) if step.target == "bites.menu/dishes/Udon Soup")
    gone = query.path[at].model_copy(update={"target": "bites.menu/dishes/Roast Duck"})
    reason = _walk(world, query, path=(*query.path[:at], gone, *query.path[at + 1 :]))
    assert reason == "the reference path is lost on bites.menu: cannot tap bites.menu/dishes/Roast Duck"


def test_a_step_limit_that_is_too_low_is_refused(world: World, query: Query) -> None:
    assert _walk(world, query, max_steps=5) == "the reference path is not done after 5 steps"


def test_a_query_without_a_goal_check_is_refused(world: World, query: Query) -> None:
    assert _walk(world, query, goal="{}") == "there is no goal check"


def test_a_start_state_that_is_nonsense_is_refused(world: World, query: Query) -> None:
    assert _walk(world, query, start_state='{"setup": {"nowhere.at_all": {}}}') != "passed"
