"""From walks in the simulator to a release: every action that the simulator knows survives the way into the files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from tests.stages.derive.samples import COMMON, ORIGIN
from tests.stages.export.stored import EXPORTERS, write_release
from trajmill.schemas.dialects.user_text import compose
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.derive.end_to_end import end_to_end_examples
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.spec import FaultRates
from trajmill.stages.environments.simulated.world import load_world
from trajmill.stages.export.check import check_release
from trajmill.stages.export.trl.exporter import SFT_FILE
from trajmill.stages.queries.graph.generate import generate_queries
from trajmill.stages.queries.graph.grammar import GrammarWriter
from trajmill.stages.queries.graph.spec import GraphQueriesSpec
from trajmill.stages.queries.graph.validation import SimulatedValidator
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.stages.rollout.episode import run_episode


class SeenScreens(dict[str, Observation]):
    """The screens of some episodes, drawn when they are asked for."""

    def image(self, screen_id: str) -> bytes:
        return self[screen_id].screen.encode()

    def images(self, screen_ids: Iterable[str]) -> dict[str, bytes]:
        return {screen_id: self.image(screen_id) for screen_id in screen_ids}

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        return self[screen_id].elements or ()

    def size(self, screen_id: str) -> Size:
        return self[screen_id].screen.size


def as_learned(episode: Episode) -> Episode:
    """The walk as if a model had made it and the judge had accepted it."""
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


def test_walks_on_both_platforms_become_a_sound_release(tmp_path: Path) -> None:
    world, screens = load_world(), SeenScreens()
    settings = GraphQueriesSpec(train=60, heldout_slots=0, heldout_phrasings=0, heldout_apps=0, heldout_app_names=())
    writing = generate_queries(world, settings, 0, ORIGIN, GrammarWriter(), SimulatedValidator(world))
    queries = asyncio.run(writing).queries

    def walk(query: Query) -> Episode:
        environment = SimulatedEnvironment(world, query.platform, FaultRates())
        attempt = Attempt(query, Purpose.TRAIN, 0, 0)
        rollout = asyncio.run(run_episode(attempt, ReferenceAgent(query), environment, Limits(), ORIGIN))
        screens.update(rollout.screens)
        return as_learned(rollout.episode)

    platforms = [[query for query in queries if query.platform is platform] for platform in Platform]
    episodes = [walk(query) for chosen in platforms for query in chosen[:5]]
    assert {episode.query.platform for episode in episodes} == {Platform.PHONE, Platform.DESKTOP}
    made = [end_to_end_examples(episode, screens.size, ORIGIN) for episode in episodes]
    assert [derived.dropped for derived in made] == [()] * len(episodes)
    rows = rows_to_arrow("examples", [example for derived in made for example in derived.examples])
    assert rows.num_rows == sum(len(episode.steps) for episode in episodes)
    write_release(tmp_path, rows.to_batches(), [], screens)
    checked = check_release(tmp_path, EXPORTERS, {}, images_every=5)
    assert checked.rows[SFT_FILE] == rows.num_rows and checked.images > 0 and checked.problems == ()
