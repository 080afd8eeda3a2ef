"""The graph of an app on a phone, over the adb protocol."""

import asyncio
from pathlib import Path

import pytest

from tests.stages.environments.android.playing import settings_for
from tests.stages.environments.android.stand_in.phone import Phone
from tests.stages.environments.android.stand_in.server import serving
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.environments.simulated.world import load_world
from trajmill.stages.graphs.explore.base import ExploreBounds, ExploredApp
from trajmill.stages.graphs.explore.build import GraphBuilder
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.graphs.explore.explore import Exploration
from trajmill.stages.graphs.explore.journal import ExploreJournal
from trajmill.stages.graphs.explore.walker import Budget
from trajmill.stages.graphs.verify import EdgeState, verify_graph

pytestmark = pytest.mark.slow


def test_an_app_on_a_phone_is_explored_and_its_form_is_sent_from_below_the_keyboard(tmp_path: Path) -> None:
    start_state = {"open": "Notes", "clear": ["Notes"]}
    opening = (PathStep(page="", operation="tap", target="notes.home/new"),)
    app = ExploredApp(name="notes", platform=Platform.PHONE, start_state=start_state, opening=opening)
    bounds = ExploreBounds(depth=1, seconds=3600.0)

    async def run() -> None:
        with serving([Phone("emulator-5554", load_world())]) as server:
            pool = EnvironmentPool(settings_for(server, call_seconds=60.0).factory(Platform.PHONE), 1)
            try:
                journal = ExploreJournal(tmp_path / "notes.jsonl", app)
                exploration = Exploration(pool, app, bounds, packaged_deny_list(), journal, lambda seen: None)
                explored = await exploration.run(1)
                graph = GraphBuilder(app, explored.book, explored.trials, packaged_deny_list()).build({})
                edges = await verify_graph(graph, pool, Budget(1000, 3600.0), 1, lambda edge: None)
            finally:
                await pool.close()
        save = next(each for each in graph.pages["start"].transitions if each.by == "save-note")
        assert (save.slots, graph.pages[save.to].title) == (("title", "text"), "Note saved")
        assert {feature.text for feature in save.shows} == {"Title: {title}", "Text: {text}"}
        assert {edge.state for edge in edges} == {EdgeState.HOLDS}

    asyncio.run(run())
