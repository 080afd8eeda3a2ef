"""Questions about a value on a page: how they are made, rewarded, judged, and answered by the embedded policy."""

from collections import Counter
from random import Random

import pytest

from tests.stages.environments.simulated.worlds import task_of
from tests.stages.queries.tasks.test_infeasible import DONE, GIVING_UP, outcome
from trajmill.schemas.actions import Answer
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import ASKED, Query, Split
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.models.embedded.candidates import answer_candidates, asks_for
from trajmill.stages.queries.base import Candidate, GrammarWriter, draft
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.ends import questions
from trajmill.stages.queries.tasks.source import draw_goals, generate_queries
from trajmill.stages.queries.walk import walk

TASKS = ["calendar.cancel", "clock.delete", "maps.save", "tunes.like"]


async def question_of(world: World, task: str, origin: Origin, number: int = 0) -> Query:
    [goals] = questions([draw_goals(task_of(world, task), 6, Random(1))])
    return await draft(Candidate(goals[number], Split.TRAIN, False, 3), GrammarWriter(), origin)


@pytest.mark.parametrize("task", TASKS)
async def test_only_the_value_on_the_page_is_a_right_answer(world: World, task: str, origin: Origin) -> None:
    query = await question_of(world, task, origin)
    shown = query.path[-1].text
    assert shown not in query.instruction and [slot.value for slot in query.slots][1:] == [ASKED]
    assert await walk(SimulatedEnvironment(world, query.platform), query) is None
    assert await outcome(world, query) == (1.0, True)
    assert await outcome(world, query, Answer(text=f" {query.slots[1].name}: {shown.upper()}.")) == (1.0, True)
    assert await outcome(world, query, Answer(text=f"{shown} no")) == (0.0, False)
    assert await outcome(world, query, DONE) == (0.0, False), "it did not answer"
    assert await outcome(world, query, GIVING_UP) == (0.0, False)
    for steps in range(len(query.path) - 1):
        _, judged = await outcome(world, query, Answer(text=shown), after=steps)
        assert not judged, "it has not looked"


async def test_the_value_of_another_item_is_no_answer(world: World, origin: Origin) -> None:
    query, other = [await question_of(world, "calendar.cancel", origin, number) for number in (0, 2)]
    assert query.slots[1].name == other.slots[1].name and query.path[-1].text != other.path[-1].text
    elsewhere = other.model_copy(update={"slots": query.slots, "goal": query.goal})
    assert await outcome(world, elsewhere) == (0.0, False)


async def test_the_policy_can_answer_with_each_labelled_value(world: World, origin: Origin) -> None:
    query = await question_of(world, "calendar.cancel", origin)
    environment = SimulatedEnvironment(world, query.platform)
    assert await walk(environment, query) is None
    page = environment.device().view().observation.elements
    assert page is not None
    offered = answer_candidates(page)
    assert len(offered) == 2
    [asked] = [candidate for candidate in offered if asks_for(query.instruction, candidate)]
    assert asked.action(phone=True) == Answer(text=query.path[-1].text)
    assert not asks_for(f"could you change the {asked.field}?", asked)


@pytest.mark.slow
async def test_a_share_of_each_split_asks_for_what_no_other_split_asks(world: World, origin: Origin) -> None:
    few = dict.fromkeys(("heldout_slots", "heldout_phrasings", "heldout_apps", "validation"), 20)
    made = await generate_queries(world, GraphQueriesSpec(train=60, **few, answers=0.1), 1, origin)
    asking = [each for each in made.queries if each.path[-1].operation == "answer"]
    assert Counter(each.split for each in asking) == {split: 6 if split is Split.TRAIN else 2 for split in Split}
    assert not made.failures, "each of them was walked"
    assert all(each.platform == "phone" for each in asking)
