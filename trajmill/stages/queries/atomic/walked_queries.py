"""Makes queries for atomic operations, and walks them in the environment of the run."""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.queries.atomic.base import STAGE
from trajmill.stages.queries.atomic.queries import AtomicCounts, atomic_queries
from trajmill.stages.queries.new_queries import NewQueries
from trajmill.stages.queries.real_walk import walk_all


async def queries_for_operations(
    counts: AtomicCounts,
    apps: Sequence[str],
    heldout_apps: Sequence[str],
    environment: EnvironmentSpec,
    instances: int,
    seed: int,
    origin: Origin,
) -> NewQueries:
    """Make queries of all splits; each was walked in the environment and meets its goal.

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
    factory = environment.factory(Platform.DESKTOP)
    try:
        return NewQueries(*await walk_all(factory, queries, STAGE, origin, instances))
    finally:
        await factory.close()
