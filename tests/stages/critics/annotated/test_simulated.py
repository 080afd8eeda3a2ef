"""The critics on the simulator's own apps: every annotated path that is walked is seen to be right."""

from __future__ import annotations

import asyncio

import pytest

from tests.stages.critics.little_app import ORIGIN
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.critics.app_graph.channels import annotated_judge
from trajmill.stages.critics.calibration.agreement import calibrate
from trajmill.stages.critics.judge import judge_episodes
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import World, shared_world
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import generate_queries
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.stages.rollout.episode import run_episode


class Seen:
    """The screens of the walks; nobody may ask for pixels."""

    def __init__(self) -> None:
        self.observations: dict[str, Observation] = {}

    def image(self, screen_id: str) -> bytes:
        raise AssertionError("a state critic asked for pixels")

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        return self.observations[screen_id].elements or ()

    def size(self, screen_id: str) -> Size:
        return self.observations[screen_id].screen.size


@pytest.fixture(scope="module")
def world() -> World:
    return shared_world(())


@pytest.fixture(scope="module")
def queries(world: World) -> tuple[Query, ...]:
    settings = GraphQueriesSpec(
        train=110, heldout_slots=0, heldout_phrasings=0, heldout_apps=0, heldout_app_names=(), validation=0
    )
    made = generate_queries(world, settings, 5, ORIGIN)
    return asyncio.run(made).queries


def walked(queries: tuple[Query, ...], world: World, seen: Seen) -> list[Episode]:
    async def walk() -> list[Episode]:
        episodes = []
        for number, query in enumerate(queries):
            environment = SimulatedEnvironment(world, query.platform)
            attempt = Attempt(query, Purpose.REFERENCE, 0, number)
            rollout = await run_episode(attempt, ReferenceAgent(query), environment, Limits(), ORIGIN)
            seen.observations.update(rollout.screens)
            episodes.append(rollout.episode)
        return episodes

    return asyncio.run(walk())


def unfinished(episode: Episode) -> Episode:
    """The same walk, ended one step too early."""
    *steps, skipped, last = episode.steps
    here = {"screen_before": skipped.screen_before, "screen_after": skipped.screen_before}
    trajectory = episode.trajectory.model_copy(update={"reward": 0.0})
    return episode.model_copy(update={"steps": (*steps, last.model_copy(update=here)), "trajectory": trajectory})


@pytest.mark.slow
def test_right_walks_are_correct_and_unfinished_ones_are_not(world: World, queries: tuple[Query, ...]) -> None:
    seen = Seen()
    episodes = walked(queries, world, seen)
    assert len({episode.query.task for episode in episodes}) > 80
    assert all(episode.trajectory.reward == 1.0 for episode in episodes)
    cut = [unfinished(episode) for episode in episodes if episode.steps[-2].action_kind == "click"]
    judged = asyncio.run(judge_episodes([*episodes, *cut], annotated_judge(), seen, ORIGIN))
    assert judged.failures == []
    counts = {quality.level: quality for quality in calibrate(judged.episodes, seen)}
    for level in ("trajectory", "text", "multimodal"):
        assert counts[level].false_negative <= len(episodes) // 25, level
        assert counts[level].false_positive <= len(cut) // 50, level
    harmful = [v for e in judged.episodes[: len(episodes)] for v in e.step_verdicts if v.label == "HARMFUL"]
    assert len(harmful) <= len(episodes) // 25
