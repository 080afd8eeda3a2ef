"""Tasks of a user that are done before they begin are refused; what an environment fails at is kept."""

from __future__ import annotations

import json
from typing import Literal

import pytest

from tests.stages.queries.pathways.toy import PROGRAM, Toy, ToyFactory
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.environments.tasks import ImportedQueries
from trajmill.stages.queries.pathways.programs import start_query
from trajmill.stages.queries.walk import own_queries


class ToySpec(EnvironmentSpec):
    """The toy program with tasks that a user wrote."""

    kind: Literal["toy"] = "toy"
    goals: tuple[str, ...] = ()
    untried: bool = True

    def factory(self, platform: Platform) -> ToyFactory:
        return ToyFactory()

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        first = start_query(PROGRAM, origin)
        made = [first.model_copy(update={"query_id": goal, "goal": goal}) for goal in self.goals]
        return ImportedQueries([*made, first.model_copy(update={"query_id": "without a goal"})], [], self.untried)


def shows(role: str, text: str) -> str:
    return json.dumps({"showing": [{"role": role, "text": text}]})


DONE, NOT_DONE, MALFORMED = shows("menu", "File"), shows("menu_item", "Open..."), '{"showing": 1}'


def ids(queries: tuple[Query, ...]) -> list[str]:
    return [query.query_id for query in queries]


async def test_a_goal_that_holds_at_the_start_or_cannot_be_read_is_a_failure_of_the_task(origin: Origin) -> None:
    made = await own_queries(ToySpec(goals=(DONE, NOT_DONE)), 0, 2, origin)
    assert ids(made.queries) == [NOT_DONE, "without a goal"]
    (failure,) = made.failures
    assert (failure.input_id, failure.failure_class, failure.stage) == (DONE, FailureClass.TASK, "generate")
    assert "before anything was done" in failure.message
    made = await own_queries(ToySpec(goals=(MALFORMED,)), 0, 2, origin)
    assert ids(made.queries) == ["without a goal"]
    assert [failure.failure_class for failure in made.failures] == [FailureClass.TASK]


async def test_tasks_that_come_with_an_environment_are_not_tried_again(origin: Origin) -> None:
    made = await own_queries(ToySpec(goals=(DONE,), untried=False), 0, 2, origin)
    assert ids(made.queries) == [DONE, "without a goal"]


@pytest.mark.parametrize("broken", [1, 100])
async def test_a_task_is_tried_again_where_an_environment_failed_and_kept_where_none_starts(
    origin: Origin, broken: int
) -> None:
    class Broken(ToyFactory):
        started = 0

        async def __call__(self) -> Toy:
            self.started += 1
            if self.started <= broken:
                raise EnvironmentFailure("there is no toy yet", FailureClass.SETUP)
            return await super().__call__()

    factory = Broken()

    class BrokenSpec(ToySpec):
        def factory(self, platform: Platform) -> ToyFactory:
            return factory

    made = await own_queries(BrokenSpec(goals=(DONE,)), 0, 1, origin)
    kept = ["without a goal"] if broken == 1 else [DONE, "without a goal"]
    assert (ids(made.queries), len(made.failures), factory.started) == (kept, broken == 1, 2)
