"""Makes queries for atomic operations, and walks them in the environment of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trajmill.pipelines.generate import NewQueries
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.queries.atomic.base import STAGE
from trajmill.stages.queries.atomic.queries import AtomicCounts, atomic_queries
from trajmill.stages.queries.real_walk import WalkedQueries, walk_all


def queries_for_operations(
    counts: AtomicCounts,
    apps: Sequence[str],
    heldout_apps: Sequence[str],
    environment: EnvironmentSpec,
    instances: int,
    seed: int,
    origin: Origin,
) -> NewQueries:
    """Queries of all splits, each of which has been walked in the environment and meets its goal.

    Args:
        counts: number of queries of each operation.
        apps: the programs to make queries for.
        heldout_apps: the programs that training never sees.
        environment: where the queries are walked.
        instances: environments that work at the same time.
        seed: decides on objects and phrasings.
        origin: common columns of the rows.
    """
    queries = atomic_queries(counts, apps, heldout_apps, seed, origin)

    async def check() -> WalkedQueries:
        factory = environment.factory(Platform.DESKTOP)
        try:
            return await walk_all(factory, queries, STAGE, origin, instances)
        finally:
            await factory.close()

    return NewQueries(*asyncio.run(check()))
