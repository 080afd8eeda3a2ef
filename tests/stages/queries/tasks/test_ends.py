"""Wishes that cannot be fulfilled, and questions about a value on a page: how they are made, rewarded and judged."""

from collections import Counter
from dataclasses import dataclass, replace
from random import Random

import pytest

from tests.stages.critics.phone import StoredScreens, impossible_query
from tests.stages.environments.simulated.worlds import task_of
from trajmill.schemas.actions import Action, Answer, Terminate, ends_episode
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import ASKED, Query, Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.critics.app_graph.channels import annotated_judge
from trajmill.stages.critics.judge import judge_episode
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.models.embedded.candidates import answer_candidates, asks_for
from trajmill.stages.queries.base import Candidate, GrammarWriter, draft
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.ends import questions
from trajmill.stages.queries.tasks.source import draw_goals, generate_queries
from trajmill.stages.queries.walk import walk
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.stages.rollout.episode import run_episode

GIVING_UP, DONE = Terminate(status="failure"), Terminate(status="success")


@dataclass(frozen=True)
class Ending:
    """Walks the path of a query, but ends with another action, maybe earlier."""

    walker: ReferenceAgent
    end: Action | None = None
    after: int = 99
    name: str = "ending"
    model_version: str = "ending"

    async def act(self, episode: EpisodeView) -> Decision:
        decision = await self.walker.act(episode)
        assert decision.action is not None
        ends = len(episode.history) >= self.after or ends_episode(decision.action)
        return replace(decision, action=self.end) if self.end and ends else decision


async def outcome(world: World, query: Query, end: Action | None = None, after: int = 99) -> tuple[float | None, bool]:
    """Return reward and judgement of the walk of a query with another end."""
    environment, origin = SimulatedEnvironment(world, query.platform), Origin(round=1, run_id="run", code_version="")
    attempt, agent = Attempt(query, Purpose.REFERENCE, 0, 0), Ending(ReferenceAgent(query), end, after)
    made = await run_episode(attempt, agent, environment, Limits(), origin)
    judged = await judge_episode(
        made.episode, annotated_judge(), StoredScreens(dict(made.screens), True, False), origin
    )
    assert judged.judgement is not None
    if judged.judgement.correct:
        assert not any(step.label is StepLabel.HARMFUL for step in judged.step_verdicts)
    return made.episode.trajectory.reward, judged.judgement.correct


@pytest.mark.parametrize("task", ["clock.delete", "clock.city", "calendar.create", "writer.font"])
async def test_giving_up_is_right_only_after_a_look_at_a_list_without_the_item(
    world: World, task: str, origin: Origin
) -> None:
    query = await impossible_query(world, task, origin)
    environment = SimulatedEnvironment(world, query.platform)
    assert await walk(environment, query) is None
    assert await outcome(world, query) == (1.0, True)
    assert await outcome(world, query, DONE) == (0.0, False), "it is not done"
    assert await outcome(world, query, Answer(text="no")) == (0.0, False)
    there = query.model_copy(update={"start_state": "{}"})
    assert (await outcome(world, there))[1] is False, "it looked at the list, which has the item"
    goal = draw_goals(task_of(world, task), 1, Random(1))[0]
    asked = await draft(Candidate(goal, Split.TRAIN, False, 3), GrammarWriter(), origin)
    for each in (query, asked):
        for steps in range(len(each.path) - 1):
            assert await outcome(world, each, GIVING_UP, after=steps) == (0.0, False), "it has not looked"


@pytest.mark.slow
async def test_a_share_of_each_split_ends_otherwise_or_asks_and_is_worded_like_the_rest(
    world: World, origin: Origin
) -> None:
    few = dict.fromkeys(("heldout_slots", "heldout_phrasings", "heldout_apps", "validation"), 20)
    made = await generate_queries(world, GraphQueriesSpec(train=60, **few, infeasible=0.1, answers=0.1), 1, origin)
    assert not made.failures and len(made.queries) == 140, "each of them was walked"
    ends = {end: [each for each in made.queries if each.path[-1].operation == end] for end in ("give_up", "answer")}
    for found in ends.values():
        assert Counter(each.split for each in found) == {split: 6 if split is Split.TRAIN else 2 for split in Split}
    assert all(each.platform == "phone" for each in ends["answer"])
    plain = {each.phrasing for each in made.queries if each.path[-1].operation == "finish"}
    assert plain & {each.phrasing for each in ends["give_up"]}


async def question_of(world: World, task: str, origin: Origin) -> Query:
    [goals] = questions([draw_goals(task_of(world, task), 6, Random(1))])
    return await draft(Candidate(goals[0], Split.TRAIN, False, 3), GrammarWriter(), origin)


@pytest.mark.parametrize("task", ["calendar.cancel", "clock.delete", "maps.save", "tunes.like"])
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
