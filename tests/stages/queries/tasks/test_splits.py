from __future__ import annotations

from random import Random

import pytest

from tests.stages.environments.simulated.worlds import task_of
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.queries.leaks import HELDOUT_GOALS, share_goals
from trajmill.stages.queries.tasks.sampling import divide_tasks, draw_goals

WANTED = {Split.TRAIN: 20, Split.HELDOUT_SLOTS: 5, Split.HELDOUT_PHRASINGS: 5, Split.VALIDATION: 5}


def test_every_task_that_touches_a_heldout_app_is_put_aside(world: World) -> None:
    sides = divide_tasks(world, ["wallet"])
    heldout = {task.name for task in sides.heldout}
    assert {"wallet.topup", "from_mail.redeem"} <= heldout
    assert all(any(page.startswith("wallet.") for page in task.graph) for task in sides.heldout)
    assert not any(page.startswith("wallet.") for task in sides.trained for page in task.graph)
    assert len(sides.trained) + len(sides.heldout) == len(world.tasks())


def test_an_unknown_app_is_refused_with_the_nearest_name(world: World) -> None:
    with pytest.raises(BadInputError, match="there is no app 'mial'; did you mean mail"):
        divide_tasks(world, ["mial"])


def test_a_task_with_few_goals_gives_those_it_has(world: World) -> None:
    assert len(draw_goals(task_of(world, "bites.cutlery"), 50, Random(1))) == 1


@pytest.mark.parametrize("drawn", [1, 3, 4, 9, 30, 60])
def test_each_goal_goes_to_one_split(order: TaskGraph, drawn: int) -> None:
    goals = draw_goals(order, drawn, Random(2))
    shares = share_goals(goals, WANTED)
    assert sorted(goal.key for share in shares.values() for goal in share) == sorted(goal.key for goal in goals)
    for split in HELDOUT_GOALS:
        assert len(shares[split]) == min(WANTED[split], drawn // 6)


def test_heldout_goals_combine_values_that_training_shows(order: TaskGraph) -> None:
    goals = draw_goals(order, 120, Random(3))
    shares = share_goals(goals, WANTED)
    shown = {value for goal in shares[Split.TRAIN][: WANTED[Split.TRAIN]] for value in goal.key}
    for split in HELDOUT_GOALS:
        assert all(shown.issuperset(goal.key) for goal in shares[split])
