"""Walks on the simulated phone with their screens, pixels and trees, for critics that ask a model."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tests.stages.critics.little_app import ORIGIN
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.critics.base import StepResult
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import World, shared_world
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import generate_queries
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.stages.rollout.episode import run_episode


@dataclass
class StoredScreens:
    """The screens of a walk; `broken` ones do not decode."""

    observations: dict[str, Observation] = field(default_factory=dict)
    has_trees: bool = True
    broken: bool = False
    read: list[str] = field(default_factory=list)
    """Ids of the images that were asked for."""

    def image(self, screen_id: str) -> bytes:
        self.read.append(screen_id)
        encoded = self.observations[screen_id].screen.encode()
        return encoded[: len(encoded) // 2] if self.broken else encoded

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        found = self.observations[screen_id].elements or ()
        return found if self.has_trees else ()

    def size(self, screen_id: str) -> Size:
        return self.observations[screen_id].screen.size


@dataclass(frozen=True)
class PhoneWalk:
    """One reference walk and what it saw."""

    episode: Episode
    observations: dict[str, Observation]

    def screens(self, has_trees: bool = True, broken: bool = False) -> StoredScreens:
        return StoredScreens(dict(self.observations), has_trees, broken)


def walk_phone(train: int = 8, seed: int = 5) -> PhoneWalk:
    """The longest of some reference walks on the phone."""
    return asyncio.run(_longest(shared_world(()), train, seed))


def notes_on(episode: Episode) -> list[StepResult]:
    """Step verdicts as a step critic might give them."""
    return [StepResult(step.index, "seen", f"summary of {step.index}", StepLabel.GOOD) for step in episode.steps]


def repeated(episode: Episode, times: int) -> Episode:
    """One long episode of the steps of a walk, repeated."""
    steps = [step for _ in range(times) for step in episode.steps]
    return episode.model_copy(
        update={"steps": tuple(step.model_copy(update={"index": at}) for at, step in enumerate(steps))}
    )


async def _longest(world: World, train: int, seed: int) -> PhoneWalk:
    settings = GraphQueriesSpec(
        train=train, heldout_slots=0, heldout_phrasings=0, heldout_apps=0, heldout_app_names=(), validation=0
    )
    made = await generate_queries(world, settings, seed, ORIGIN)
    walks = [await _walk(query, world) for query in made.queries if query.platform is Platform.PHONE]
    return max(walks, key=lambda walk: len(walk.episode.steps))


async def _walk(query: Query, world: World) -> PhoneWalk:
    environment = SimulatedEnvironment(world, query.platform)
    attempt = Attempt(query, Purpose.REFERENCE, 0, 0)
    rollout = await run_episode(attempt, ReferenceAgent(query), environment, Limits(), ORIGIN)
    return PhoneWalk(rollout.episode, dict(rollout.screens))
