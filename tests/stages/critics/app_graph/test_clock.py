import asyncio
from collections.abc import Callable
from functools import cache

import pytest

from tests.stages.critics.little_app import ORIGIN
from tests.stages.queries.samples import drafted
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.screen import ObservedScreens
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.critics.app_graph.channels import GraphChannel, StepCriticByGraph
from trajmill.stages.critics.voting import Vote
from trajmill.stages.environments.simulated.environment import SimulatedFactory
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.graphs.base import AppGraph, GraphPage, Mark, Recogniser
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.queries.graph.routes import samples_by_task
from trajmill.stages.queries.graph.source import RouteGoal
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.stages.rollout.episode import run_episode

CLOCK = graph_of_app(shared_world(()).apps["clock"])
Played = tuple[Episode, ObservedScreens]


@cache
def query_for(task: str, value: str) -> Query:
    samples = samples_by_task(CLOCK, 0)[f"clock.{task}"]
    sample = next(each for each in samples if value in [setting.value for setting in each.settings])
    return drafted(RouteGoal(sample), ORIGIN)


@cache
def played(query: Query) -> Played:
    async def play() -> Played:
        environment = await SimulatedFactory(shared_world(()), query.platform)()
        attempt = Attempt(query, Purpose.TRAIN, 0, 0)
        done = await run_episode(attempt, ReferenceAgent(query), environment, Limits(), ORIGIN)
        return done.episode, ObservedScreens(done.screens)

    return asyncio.run(play())


def vote(played: Played, graph: AppGraph = CLOCK) -> Vote:
    channels = (GraphChannel(channel, {graph.app: graph}) for channel in (Channel.TEXT, Channel.MULTIMODAL))
    text, multimodal = (asyncio.run(channel.judge(*played, [])) for channel in channels)
    assert text.correct is multimodal.correct, "each channel judges alone"
    return text


def with_pages(change: Callable[[GraphPage], GraphPage]) -> AppGraph:
    return CLOCK.model_copy(update={"pages": {name: change(page) for name, page in CLOCK.pages.items()}})


SNOOZE, LENGTHS = query_for("options-set-snooze", "5 minutes"), query_for("running-lengths", "3 minutes")


def test_what_the_reference_agent_does_is_correct_and_its_steps_are_good() -> None:
    for query in (SNOOZE, LENGTHS):
        assert played(query)[0].trajectory.reward == 1.0 and vote(played(query)).correct
    labels = [step.label for step in asyncio.run(StepCriticByGraph({CLOCK.app: CLOCK}).judge(*played(SNOOZE)))]
    assert labels[-2:] == [StepLabel.GOOD, StepLabel.GOOD] and StepLabel.HARMFUL not in labels


def test_something_destructive_is_wrong_on_the_way() -> None:
    def marked(page: GraphPage) -> GraphPage:
        named = page.elements.items() if page is CLOCK.pages["home"] else ()
        marks = {name: each.model_copy(update={"marks": (Mark.DESTRUCTIVE,)}) for name, each in named}
        return page.model_copy(update={"elements": page.elements | marks})

    found = vote(played(LENGTHS), with_pages(marked))
    assert not found.correct and "destructive" in found.reason and found.first_error_step is not None


def test_an_unknown_end_or_query_is_unjudged() -> None:
    unknown = with_pages(lambda page: page.model_copy(update={"recognise": Recogniser()}))
    with pytest.raises(JudgeFailure, match="does not know"):
        vote(played(SNOOZE), unknown)
    with pytest.raises(JudgeFailure, match="not those of an annotated app"):
        vote(played(SNOOZE), CLOCK.model_copy(update={"app": "other"}))
