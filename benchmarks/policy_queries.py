"""The queries that the policy benchmark learns on and is measured with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import generate_queries


def benchmark_queries(
    world: World, train: int, heldout: int, seed: int, heldout_apps: Sequence[str] = ()
) -> list[Query]:
    """Queries of all splits, checked by the state of the apps alone; `heldout` for each held-out split."""
    settings = GraphQueriesSpec(
        train=train,
        heldout_slots=heldout,
        heldout_phrasings=heldout,
        heldout_apps=heldout if heldout_apps else 0,
        heldout_app_names=tuple(heldout_apps),
        validation=0,
        infeasible=0.0,
        answers=0.0,
    )
    origin = Origin(round=0, run_id="benchmark", code_version="benchmark")
    made = asyncio.run(generate_queries(world, settings, seed, origin))
    for failure in made.failures:
        print("not made:", failure.message)
    return list(made.queries)
