import json

import pytest

from tests.failures import failing
from tests.stages.queries.pathways.toy import PROGRAM, Toy
from trajmill.schemas.actions import Click, Wait
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.screen_goal import with_checks
from trajmill.stages.queries.pathways.programs import start_query

ORIGIN = Origin(round=1, run_id="run", code_version="code")
EDIT_MENU = Click(x=110, y=30)


class _ScoredToy(Toy):
    """A toy with a check of its own: that it was reset for a goal which says so."""

    goal = ""

    async def reset(self, query: Query, seed: int) -> Observation:
        self.goal = query.goal
        return await super().reset(query, seed)

    async def score(self) -> float | None:
        return {"{}": None, '{"own": 1}': 1.0, '{"own": 0}': 0.0}[self.goal]


def query(goal: object) -> Query:
    return start_query(PROGRAM, ORIGIN).model_copy(update={"goal": json.dumps(goal)})


async def scores_of(goal: object) -> list[float | None]:
    environment = with_checks(_ScoredToy([]), query(goal))
    await environment.reset(query(goal), 0)
    scores = []
    for action in (Wait(), EDIT_MENU):
        await environment.step(action)
        scores.append(await environment.score())
    return scores


COPY = {"role": "menu_item", "text": "Copy"}


@pytest.mark.parametrize(
    ("goal", "scores"),
    [
        ({"showing": [COPY]}, [0.0, 1.0]),
        ({"showing": [COPY | {"state": "clickable"}]}, [0.0, 0.0]),
        ({"showing": [COPY, {"role": "menu_item", "text": "Nothing"}]}, [0.0, 0.0]),
        ({"showing": [{"id": "toy/Edit/menu_item:Copy", "any_state": ["checked", "disabled"]}]}, [0.0, 1.0]),
        ({"showing": [{"id": "toy/Edit/menu_item:Copy", "any_state": ["checked"]}]}, [0.0, 0.0]),
        ({"lacking": [COPY]}, [1.0, 0.0]),
        ({"showing": [COPY], "own": 0}, [0.0, 0.0]),
        ({"showing": [COPY], "own": 1}, [0.0, 1.0]),
        ({}, [None, None]),
    ],
)
async def test_what_must_show_and_the_own_goal_must_both_be_met(goal: object, scores: list[float | None]) -> None:
    assert await scores_of(goal) == scores


def test_another_goal_leaves_an_environment_as_it_is_and_one_that_cannot_be_read_is_a_fault_of_the_task() -> None:
    toy = Toy([])
    assert with_checks(toy, query({"own": 1})) is toy
    with failing(FailureClass.TASK, "needs one of the keys"):
        with_checks(toy, query({"showing": [{"state": "checked"}]}))
