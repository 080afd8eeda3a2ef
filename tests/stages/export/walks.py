"""Walks in the simulator as if a model had made them and the judge had accepted them, and their screens."""

import asyncio

from tests.records import record
from tests.stages.derive.samples import COMMON, ORIGIN
from trajmill.schemas.dialects.user_text import compose
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.screen import ObservedScreens
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import generate_queries
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.stages.rollout.episode import run_episode


class SeenScreens(ObservedScreens):
    def __init__(self) -> None:
        self.seen: dict[str, Observation] = {}
        super().__init__(self.seen)


def walks(screens: SeenScreens, each: int) -> list[Episode]:
    """So many walks on each platform; what is seen is added to the screens."""
    world = shared_world(())
    settings = GraphQueriesSpec(
        train=60, heldout_slots=0, heldout_phrasings=0, heldout_apps=0, heldout_app_names=(), validation=0
    )
    writing = generate_queries(world, settings, 0, ORIGIN)
    queries = asyncio.run(writing).queries

    def walk(query: Query) -> Episode:
        environment = SimulatedEnvironment(world, query.platform, FaultRates())
        attempt = Attempt(query, Purpose.TRAIN, 0, 0)
        rollout = asyncio.run(run_episode(attempt, ReferenceAgent(query), environment, Limits(), ORIGIN))
        screens.seen.update(rollout.screens)
        return _as_learned(rollout.episode)

    platforms = [[query for query in queries if query.platform is platform] for platform in Platform]
    return [walk(query) for chosen in platforms for query in chosen[:each]]


def _as_learned(episode: Episode) -> Episode:
    said = [step.conclusion for step in episode.steps]
    steps = [
        step.model_copy(update={"prompt": compose(episode.query.instruction, None, said[:number])})
        for number, step in enumerate(episode.steps)
    ]
    judgement = record(
        Judgement, trajectory_id=episode.trajectory.trajectory_id, correct=True, rule="test", agreed=True, **COMMON
    )
    return episode.model_copy(update={"steps": tuple(steps), "judgement": judgement})
