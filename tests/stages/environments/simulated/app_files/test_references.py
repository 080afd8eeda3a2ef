"""A vocabulary made from app files holds what is drawn and what is said."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.stages.critics.little_app import ORIGIN
from trajmill.stages.environments.simulated.app_files.references import texts_of
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import load_world
from trajmill.stages.models.untrained import words_of
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import generate_queries

pytestmark = pytest.mark.slow

MARKET = Path(__file__).parents[5] / "docs" / "examples" / "market.yaml"


def test_all_words_of_instructions_and_screens_are_known() -> None:
    world = load_world([MARKET], ["bites", "clock"])
    known = set(words_of(texts_of(world.apps.values(), [task.spec for task in world.tasks()])))
    wanted = GraphQueriesSpec(train=60, heldout_slots=20, heldout_phrasings=20, heldout_apps=0, heldout_app_names=())
    made = asyncio.run(generate_queries(world, wanted, 1, ORIGIN))
    said = set(words_of(query.instruction for query in made.queries))
    assert len(made.queries) > 80 and not said - known
    for query in made.queries[::10]:
        environment = SimulatedEnvironment(world, query.platform)
        seen = environment.reset_now(query, 1)
        assert not set(words_of(each.text for each in seen.elements or () if each.clickable)) - known
    assert {"Margherita", "Quattro", "19:30", "Extra", "+", "Back"} <= known and "append" not in known
