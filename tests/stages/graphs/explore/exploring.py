import asyncio
from pathlib import Path
from typing import NamedTuple

from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.environments.kinds import FaultRates, SimulatedSpec
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.explore.base import ExploreBounds, unexplored
from trajmill.stages.graphs.explore.build import GraphBuilder
from trajmill.stages.graphs.explore.deny_list import DenyList, packaged_deny_list
from trajmill.stages.graphs.explore.explore import Exploration, Explored
from trajmill.stages.graphs.explore.journal import ExploreJournal
from trajmill.stages.graphs.explore.walker import Budget
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.graphs.verify import VerifiedEdge, verify_graph


class ExploredGraph(NamedTuple):
    explored: Explored
    builder: GraphBuilder
    graph: AppGraph
    edges: list[VerifiedEdge]
    """Of the graph, walked in the same environments; empty unless asked for."""


def simulated_app(name: str) -> AppGraph:
    known = graph_of_app(shared_world(()).apps[name])
    return unexplored(name, known.platform, opening=known.opening)


def explore(
    app: AppGraph,
    journal: Path,
    bounds: ExploreBounds | None = None,
    workers: int = 2,
    factory: EnvironmentFactory | None = None,
    denied: DenyList | None = None,
    verified: bool = False,
) -> ExploredGraph:
    deny_list = denied or packaged_deny_list()

    async def run() -> ExploredGraph:
        pool = EnvironmentPool(
            factory or SimulatedSpec(faults=FaultRates(popup=0, slow=0)).factory(app.platform), workers
        )
        limits, kept = bounds or ExploreBounds(), ExploreJournal(journal, app)
        try:
            explored = await Exploration(pool, app, limits, deny_list, kept, lambda seen: None).run(workers)
            builder = GraphBuilder(app, explored.book, explored.trials, deny_list)
            graph = builder.build({})
            walks = verify_graph(graph, pool, Budget(1000, 3600.0), workers, lambda edge: None) if verified else None
            edges = await walks if walks is not None else []
        finally:
            await pool.close()
        return ExploredGraph(explored, builder, graph, edges)

    return asyncio.run(run())
