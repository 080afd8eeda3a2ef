"""Tasks of a user that are done before they begin are refused; what an environment fails at is kept."""

from __future__ import annotations

import asyncio
import json
from typing import Literal

from tests.stages.queries.pathways.toy import PROGRAM, Toy, ToyFactory
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.environments.tasks import ImportedQueries
from trajmill.stages.queries.base import NewQueries
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


def made_by(spec: ToySpec, origin: Origin) -> NewQueries:
    return asyncio.run(own_queries(spec, 0, 2, origin))


def ids(queries: tuple[Query, ...]) -> list[str]:
    return [query.query_id for query in queries]


def test_a_task_whose_goal_holds_at_the_start_is_a_failure_of_the_task(origin: Origin) -> None:
    made = made_by(ToySpec(goals=(DONE, NOT_DONE)), origin)
    assert ids(made.queries) == [NOT_DONE, "without a goal"]
    (failure,) = made.failures
    assert (failure.input_id, failure.failure_class, failure.stage) == (DONE, FailureClass.TASK, "generate")
    assert "before anything was done" in failure.message


def test_a_goal_that_cannot_be_read_is_a_failure_of_the_task(origin: Origin) -> None:
    made = made_by(ToySpec(goals=(MALFORMED,)), origin)
    assert ids(made.queries) == ["without a goal"]
    assert [failure.failure_class for failure in made.failures] == [FailureClass.TASK]


def test_tasks_that_come_with_an_environment_are_not_tried_again(origin: Origin) -> None:
    made = made_by(ToySpec(goals=(DONE,), untried=False), origin)
    assert ids(made.queries) == [DONE, "without a goal"]


def test_an_environment_that_does_not_start_says_nothing_about_a_task(origin: Origin) -> None:
    class Broken(ToyFactory):
        async def __call__(self) -> Toy:
            raise EnvironmentFailure("there is no toy", FailureClass.SETUP)

    class BrokenSpec(ToySpec):
        def factory(self, platform: Platform) -> ToyFactory:
            return Broken()

    made = made_by(BrokenSpec(goals=(DONE,)), origin)
    assert (ids(made.queries), made.failures) == ([DONE, "without a goal"], ())


def test_a_task_is_tried_again_on_a_fresh_environment_where_one_failed(origin: Origin) -> None:
    class BrokenOnce(ToyFactory):
        started = 0

        async def __call__(self) -> Toy:
            self.started += 1
            if self.started == 1:
                raise EnvironmentFailure("there is no toy yet", FailureClass.SETUP)
            return await super().__call__()

    factory = BrokenOnce()

    class BrokenOnceSpec(ToySpec):
        def factory(self, platform: Platform) -> ToyFactory:
            return factory

    made = asyncio.run(own_queries(BrokenOnceSpec(goals=(DONE,)), 0, 1, origin))
    assert (ids(made.queries), factory.started) == (["without a goal"], 2)
