"""Walks the transitions of a graph in the running app of a configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from trajmill.flows.configuration.config import Config
from trajmill.schemas.errors import BadInputError
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.environments.simulated.app_files.loader import Mistake
from trajmill.stages.graphs.explore.walker import Budget
from trajmill.stages.graphs.file import GraphFile, parse_graph
from trajmill.stages.graphs.verify import EdgeState, VerifiedEdge, verify_graph


class VerifyReport(NamedTuple):
    edges: list[VerifiedEdge]
    notes: list[Mistake]
    """Each transition that does not hold, with its line; then those that were not walked."""

    def count(self, state: EdgeState) -> int:
        return sum(edge.state is state for edge in self.edges)


def verify_app(config: Config, path: Path, progress: Callable[[VerifiedEdge], None]) -> VerifyReport:
    """Walk each transition of a graph from its own start state. Raises BadInputError if the file is no graph."""
    reading = parse_graph(path)
    if reading.file is None:
        raise BadInputError("\n".join(map(str, reading.mistakes)))
    edges = asyncio.run(_verify(config, reading.file, progress))
    notes = []
    for edge in edges:
        if edge.state is not EdgeState.HOLDS:
            transition = reading.file.graph.pages[edge.page].transitions[edge.number]
            what = f"{edge.page}: {transition.by or transition.keys} -> {transition.to}"
            place = ("pages", edge.page, "transitions", edge.number)
            notes.append(reading.file.source.mistake(place, f"{edge.state}: {what}: {edge.reason}"))
    return VerifyReport(edges, notes)


async def _verify(config: Config, file: GraphFile, progress: Callable[[VerifiedEdge], None]) -> list[VerifiedEdge]:
    settings = config.explore
    pool = EnvironmentPool(config.environment.factory(file.graph.platform), settings.instances)
    try:
        budget = Budget(settings.actions, settings.seconds)
        return await verify_graph(file.graph, pool, budget, settings.instances, progress)
    finally:
        await pool.close()
