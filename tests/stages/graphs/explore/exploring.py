"""Explores simulated apps, whose graphs are known."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.environments.simulated.spec import FaultRates, SimulatedSpec
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.explore.base import ExploreBounds, ExploredApp
from trajmill.stages.graphs.explore.build import GraphBuilder
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.graphs.explore.explore import Exploration, Explored
from trajmill.stages.graphs.explore.journal import ExploreJournal
from trajmill.stages.graphs.from_simulated import graph_of_app


class ExploredGraph(NamedTuple):
    explored: Explored
    builder: GraphBuilder
    graph: AppGraph
    pictures: list[str]


def simulated_app(name: str) -> ExploredApp:
    known = graph_of_app(shared_world(()).apps[name])
    return ExploredApp(name=name, platform=known.platform, opening=known.opening)


def explore(app: ExploredApp, journal: Path, bounds: ExploreBounds | None = None, workers: int = 2) -> ExploredGraph:
    async def run() -> tuple[Explored, list[str]]:
        pictures: list[str] = []
        pool = EnvironmentPool(SimulatedSpec(faults=FaultRates(popup=0)).factory(app.platform), workers)
        try:
            exploration = Exploration(
                pool,
                app,
                bounds or ExploreBounds(),
                packaged_deny_list(),
                ExploreJournal(journal, app),
                lambda seen: pictures.append(seen.screen.screen_id),
            )
            return await exploration.run(workers), pictures
        finally:
            await pool.close()

    explored, pictures = asyncio.run(run())
    builder = GraphBuilder(app, explored.book, explored.trials, packaged_deny_list())
    return ExploredGraph(explored, builder, builder.build({}), pictures)
