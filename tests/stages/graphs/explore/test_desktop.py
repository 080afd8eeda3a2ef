"""The graph of a part of a real desktop program: a menu, and what its items lead to."""

import asyncio
from pathlib import Path

import pytest

from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.desktop.spec import DesktopSpec
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.graphs.base import OUTSIDE, Mark
from trajmill.stages.graphs.explore.base import ExploreBounds, ExploredApp
from trajmill.stages.graphs.explore.build import GraphBuilder
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.graphs.explore.explore import Exploration
from trajmill.stages.graphs.explore.journal import ExploreJournal
from trajmill.stages.graphs.explore.walker import Budget
from trajmill.stages.graphs.verify import EdgeState, verify_graph

pytestmark = [pytest.mark.desktop, pytest.mark.slow]


def test_a_menu_of_a_program_is_explored_and_leads_back_into_it(tmp_path: Path) -> None:
    launch = {"config": [{"type": "launch", "parameters": {"command": ["galculator"]}}]}
    opening = (PathStep(page="", operation="tap", target="galculator/menu:View"),)
    app = ExploredApp(name="galculator", platform=Platform.DESKTOP, start_state=launch, opening=opening)
    bounds = ExploreBounds(depth=1, breadth=4, seconds=3600.0)

    async def run() -> None:
        pool = EnvironmentPool(DesktopSpec().factory(Platform.DESKTOP), 1)
        try:
            journal = ExploreJournal(tmp_path / "galculator.jsonl", app)
            explored = await Exploration(pool, app, bounds, packaged_deny_list(), journal, lambda seen: None).run(1)
            graph = GraphBuilder(app, explored.book, explored.trials, packaged_deny_list()).build({})
            edges = await verify_graph(graph, pool, Budget(1000, 3600.0), 1, lambda edge: None)
        finally:
            await pool.close()
        assert explored.complete
        assert {edge.state for edge in edges} == {EdgeState.HOLDS}
        ends = {each.to for each in graph.pages["start"].transitions}
        assert ends >= {"file-menu", "edit-menu", "basic-mode", "scientific-mode"} and OUTSIDE not in ends
        assert [each.name for each in graph.pages["file-menu"].elements.values()] == ["Quit"]
        assert graph.pages["file-menu"].elements["quit"].marks == (Mark.DESTRUCTIVE,)

    asyncio.run(run())
