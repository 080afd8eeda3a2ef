"""The judge by the graph of an app, on episodes in a simulated app whose own check says who is right."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from tests.stages.queries.samples import drafted
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import PathStep, Query
from trajmill.schemas.tables.screen import ObservedScreens
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.critics.app_graph.channels import GraphChannel, StepCriticByGraph
from trajmill.stages.critics.base import Vote
from trajmill.stages.environments.simulated.environment import SimulatedFactory
from trajmill.stages.environments.simulated.world import World, shared_world
from trajmill.stages.graphs.base import AppGraph, Mark, Recogniser
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.queries.graph.routes import samples_by_task
from trajmill.stages.queries.graph.source import RouteGoal
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.stages.rollout.episode import run_episode

ORIGIN = Origin(round=1, run_id="run", code_version="code")


class Played(NamedTuple):
    episode: Episode
    screens: ObservedScreens


@pytest.fixture(scope="module")
def world() -> World:
    return shared_world(())


@pytest.fixture(scope="module")
def clock(world: World) -> AppGraph:
    return graph_of_app(world.apps["clock"])


def query_for(clock: AppGraph, task: str, value: str) -> Query:
    samples = samples_by_task(clock, 0)[f"clock.{task}"]
    sample = next(each for each in samples if value in [setting.value for setting in each.settings])
    return drafted(RouteGoal(sample), ORIGIN)


def played(world: World, query: Query, path: tuple[PathStep, ...] | None = None) -> Played:
    """The reference agent's episode; with another path, it does something else than the query asks."""

    async def play() -> Played:
        environment = await SimulatedFactory(world, query.platform)()
        acting = query if path is None else query.model_copy(update={"path": path})
        attempt = Attempt(query, Purpose.TRAIN, 0, 0)
        done = await run_episode(attempt, ReferenceAgent(acting), environment, Limits(), ORIGIN)
        return Played(done.episode, ObservedScreens(done.screens))

    return asyncio.run(play())


def vote(clock: AppGraph, played: Played) -> Vote:
    graphs = {clock.app: clock}
    text, multimodal = (
        asyncio.run(GraphChannel(channel, graphs).judge(*played, [])) for channel in (Channel.TEXT, Channel.MULTIMODAL)
    )
    assert text.correct is multimodal.correct, "each channel judges alone"
    return text


def test_what_the_reference_agent_does_is_correct(world: World, clock: AppGraph) -> None:
    for task, value in (("options-set-snooze", "5 minutes"), ("running-lengths", "3 minutes")):
        episode = played(world, query_for(clock, task, value))
        assert episode.episode.trajectory.reward == 1.0
        assert vote(clock, episode).correct


def test_another_value_is_wrong_at_the_end(world: World, clock: AppGraph) -> None:
    asked, done = (query_for(clock, "options-set-snooze", value) for value in ("5 minutes", "20 minutes"))
    found = vote(clock, played(world, asked, done.path))
    assert not found.correct and "20 minutes" in found.reason and "5 minutes" in found.reason


def test_another_page_and_an_early_end_are_wrong(world: World, clock: AppGraph) -> None:
    asked, other = (query_for(clock, "options-set-snooze", "5 minutes"), query_for(clock, "timer-set-sound", "Gong"))
    assert "timer" in vote(clock, played(world, asked, other.path)).reason
    gave_up = played(world, asked, asked.path[:-1])
    assert not vote(clock, gave_up).correct


def test_something_destructive_is_wrong_on_the_way(world: World, clock: AppGraph) -> None:
    query = query_for(clock, "running-lengths", "3 minutes")
    page = clock.pages["home"]
    elements = {
        name: element.model_copy(update={"marks": (Mark.DESTRUCTIVE,)}) for name, element in page.elements.items()
    }
    marked = clock.model_copy(update={"pages": {**clock.pages, "home": page.model_copy(update={"elements": elements})}})
    found = vote(marked, played(world, query))
    assert not found.correct and "destructive" in found.reason and found.first_error_step is not None


def test_an_unknown_end_or_query_is_unjudged(world: World, clock: AppGraph) -> None:
    query = query_for(clock, "options-set-snooze", "5 minutes")
    unknown = {name: page.model_copy(update={"recognise": Recogniser()}) for name, page in clock.pages.items()}
    with pytest.raises(JudgeFailure, match="does not know"):
        vote(clock.model_copy(update={"pages": unknown}), played(world, query))
    with pytest.raises(JudgeFailure, match="not those of an annotated app"):
        vote(clock.model_copy(update={"app": "other"}), played(world, query))


def test_steps_that_do_something_of_the_task_are_good(world: World, clock: AppGraph) -> None:
    episode = played(world, query_for(clock, "options-set-snooze", "5 minutes"))
    labels = [step.label for step in asyncio.run(StepCriticByGraph({clock.app: clock}).judge(*episode))]
    assert labels[-2:] == [StepLabel.GOOD, StepLabel.GOOD] and StepLabel.HARMFUL not in labels
