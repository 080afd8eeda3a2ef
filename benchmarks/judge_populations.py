"""Rollouts of known kinds for the judge benchmark: right walks, walks with one injected mistake, and explorers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from trajmill.schemas.actions import Action, Click, SystemButton, Terminate, TypeText
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.base import Agent, AgentMaker, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.environment import SimulatedFactory
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.guidance.write import REFERENCE_PATH, write_guidance
from trajmill.stages.models.base import ChatModel
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits, episode_seed
from trajmill.stages.rollout.worker import run_attempts

ORIGIN = Origin(round=0, run_id="benchmark", code_version="benchmark")
MISTAKES = ("wrong_control", "wrong_item", "wrong_text", "too_early", "twice", "stray_presses", "many_stray_presses")
"""What can be injected into a walk; a stray press often does no harm, so that walks with some are often right."""
_SLIPS = {"stray_presses": 0.08, "many_stray_presses": 0.25}
_CONCURRENCY = 64


class Seen:
    """The screens of some rollouts, by id."""

    def __init__(self) -> None:
        self._observations: dict[str, Observation] = {}

    def add(self, rollout: FinishedAttempt) -> None:
        """Remember the screens of a rollout."""
        self._observations.update(rollout.screens)

    def image(self, screen_id: str) -> bytes:
        """The encoded image."""
        return self._observations[screen_id].screen.encode()

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        """The accessibility tree."""
        return self._observations[screen_id].elements or ()

    def size(self, screen_id: str) -> Size:
        """Width and height in pixels."""
        return self._observations[screen_id].screen.size


class Population(NamedTuple):
    """Episodes of one kind."""

    name: str
    episodes: list[Episode]


@dataclass(frozen=True)
class ClumsyReference:
    """Walks the annotated path and makes one kind of mistake on the way."""

    query: Query
    mistake: str
    model_version: str = "clumsy"

    @property
    def name(self) -> str:
        """Reference, with its mistake."""
        return f"reference~{self.mistake}"

    async def act(self, episode: EpisodeView) -> Decision:
        """The next action of the walk, or the mistake."""
        right = await ReferenceAgent(self.query).act(episode)
        chance = Random(int(content_id(episode.seed, self.query.query_id, self.mistake, len(episode.history)), 16))
        held = episode.history[-1].role_outputs if episode.history else {"step": "0", "upwards": "0"}
        wrong = self._mistaken(right, episode, chance)
        if wrong is None:
            return right
        return Decision(
            "a mistake",
            wrong,
            "made a mistake",
            role_outputs={**held, "slipped": "1"} if not isinstance(wrong, TypeText) else right.role_outputs,
        )

    def _mistaken(self, right: Decision, episode: EpisodeView, chance: Random) -> Action | None:
        elements = episode.observation.elements or ()
        slipped = any("slipped" in decision.role_outputs for decision in episode.history)
        match self.mistake:
            case "wrong_control" if not slipped:
                return _press_one(elements, chance, ("radio", "switch", "checkbox", "stepper_button"), right)
            case "wrong_item" if not slipped and isinstance(right.action, Click):
                touched = next((e for e in elements if e.bounds.center == (right.action.x, right.action.y)), None)
                if touched is not None and touched.role == "list_item":
                    return _press_one(elements, chance, ("list_item",), right)
                return None
            case "wrong_text" if isinstance(right.action, TypeText):
                return TypeText(text=right.action.text[:-1] or "x")
            case "too_early" if isinstance(right.action, Click) and chance.random() < 0.25:
                return Terminate(status="success")
            case "twice" if isinstance(right.action, Terminate) and not slipped:
                if self.query.platform is Platform.PHONE:
                    return SystemButton(button="Back")
                return _press_named(elements, "Back")
            case "stray_presses" | "many_stray_presses" if chance.random() < _SLIPS[self.mistake]:
                return _press_one(elements, chance, (), right)
        return None


def _press_one(elements: Sequence[UIElement], chance: Random, roles: tuple[str, ...], right: Decision) -> Action | None:
    """A press on a random element of these roles, or on any, other than the right one."""
    places = [
        e.bounds.center
        for e in elements
        if e.clickable and "disabled" not in e.states and (not roles or e.role in roles)
    ]
    if isinstance(right.action, Click):
        places = [place for place in places if place != (right.action.x, right.action.y)]
    if not places:
        return None
    x, y = chance.choice(places)
    return Click(x=x, y=y)


def _press_named(elements: Sequence[UIElement], text: str) -> Action | None:
    for element in elements:
        if element.text == text and element.clickable:
            return Click(x=element.bounds.center.x, y=element.bounds.center.y)
    return None


def walk(queries: Sequence[Query], mistake: str, world: World, seen: Seen, faults: FaultRates) -> Population:
    """Every query walked once, with one kind of mistake, or with none if `mistake` is empty."""

    def maker(query: Query) -> Agent:
        return ClumsyReference(query, mistake) if mistake else ReferenceAgent(query)

    attempts = [_attempt(query, number, None) for number, query in enumerate(queries)]
    return Population(mistake or "reference", _roll_out(attempts, maker, world, seen, faults))


def explore(
    queries: Sequence[Query], model: ChatModel, hints: dict[str, Guidance], world: World, seen: Seen, faults: FaultRates
) -> Population:
    """Every query tried once by sampling from a model, with guidance where there is some."""

    def maker(query: Query) -> Agent:
        return EndToEndAgent(model, query.platform, 1.0)

    attempts = [_attempt(query, number, hints.get(query.query_id)) for number, query in enumerate(queries)]
    name = "guided explorer" if hints else "explorer"
    return Population(name, _roll_out(attempts, maker, world, seen, faults))


def reference_guidance(population: Population, seen: Seen) -> dict[str, Guidance]:
    """Guidance by query, from walks of the annotated paths."""

    async def write() -> dict[str, Guidance]:
        found = {}
        for episode in population.episodes:
            made = await write_guidance(episode, seen, ORIGIN, REFERENCE_PATH)
            if isinstance(made, Guidance):
                found[episode.query.query_id] = made
        return found

    return asyncio.run(write())


def _attempt(query: Query, number: int, hint: Guidance | None) -> Attempt:
    purpose = Purpose.GUIDED if hint else Purpose.TRAIN
    return Attempt(query, purpose, number, episode_seed(0, 1, query.query_id, purpose, number), hint)


def _roll_out(
    attempts: Sequence[Attempt], maker: AgentMaker, world: World, seen: Seen, faults: FaultRates
) -> list[Episode]:
    episodes: list[Episode] = []

    async def record(rollout: FinishedAttempt) -> None:
        seen.add(rollout)
        episodes.append(rollout.episode)

    for platform in Platform:
        own = [attempt for attempt in attempts if attempt.query.platform is platform]
        if own:
            factory = SimulatedFactory(world, platform, faults)
            asyncio.run(run_attempts(own, maker, factory, Limits(), ORIGIN, record, _CONCURRENCY))
    return episodes
