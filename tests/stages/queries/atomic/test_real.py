"""Atomic operations done by their reference paths in real programs on a real X server."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest

from trajmill.schemas.record import Origin
from trajmill.stages.environments.desktop.environment import LocalDesktops
from trajmill.stages.environments.desktop.task import packaged_tasks
from trajmill.stages.queries.atomic.base import AtomicApp
from trajmill.stages.queries.atomic.operations import all_operations
from trajmill.stages.queries.atomic.queries import AtomicCounts, atomic_queries
from trajmill.stages.queries.real_walk import WalkedQueries, walk_all


@pytest.mark.desktop
def test_every_operation_is_done_on_real_objects(origin: Origin) -> None:
    counts = AtomicCounts(train=1, heldout_slots=0, heldout_phrasings=0)
    queries = atomic_queries(counts, get_args(AtomicApp), (), 2, origin)
    assert len(queries) == len(all_operations())

    async def run() -> WalkedQueries:
        factory = LocalDesktops(packaged_tasks())
        try:
            return await walk_all(factory, queries, "atomic", origin, 2)
        finally:
            await factory.close()

    checked = asyncio.run(run())
    assert [failure.message for failure in checked.failures] == []
    assert {query.validation for query in checked.queries} == {"passed"}
