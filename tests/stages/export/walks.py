"""Walks in the simulator as if a model had made them and the judge had accepted them, and their screens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from tests.stages.derive.samples import COMMON, ORIGIN
from trajmill.schemas.dialects.user_text import compose
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.screen import tree_column
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


class SeenScreens(dict[str, Observation]):
    """The screens of some episodes, drawn when they are asked for."""

    def image(self, screen_id: str) -> bytes:
        return self[screen_id].screen.encode()

    def images(self, screen_ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        return ((screen_id, self.image(screen_id)) for screen_id in screen_ids)

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        return self[screen_id].elements or ()

    def trees(self, screen_ids: Sequence[str]) -> pa.ListArray:
        return tree_column([self.elements(screen_id) for screen_id in screen_ids])

    def size(self, screen_id: str) -> Size:
        return self[screen_id].screen.size


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
        screens.update(rollout.screens)
        return _as_learned(rollout.episode)

    platforms = [[query for query in queries if query.platform is platform] for platform in Platform]
    return [walk(query) for chosen in platforms for query in chosen[:each]]


def _as_learned(episode: Episode) -> Episode:
    said = [step.conclusion for step in episode.steps]
    steps = [
        step.model_copy(update={"prompt": compose(episode.query.instruction, None, said[:number])})
        for number, step in enumerate(episode.steps)
    ]
    judgement = Judgement(
        trajectory_id=episode.trajectory.trajectory_id,
        correct=True,
        rule="test",
        agreed=True,
        redundant_steps=(),
        first_error_step=None,
        **COMMON,
    )
    return episode.model_copy(update={"steps": tuple(steps), "judgement": judgement})
