"""Atomic operations done by their reference paths in real programs on a real X server."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest

from tests.stages.queries.samples import made_by, passes
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.desktop.environment import LocalDesktops
from trajmill.stages.environments.desktop.task import packaged_tasks
from trajmill.stages.queries.atomic.source import OPERATIONS, AtomicSource
from trajmill.stages.queries.base import NewQueries
from trajmill.stages.queries.spec import AtomicApp
from trajmill.stages.queries.walk import walk_all


@pytest.mark.desktop
def test_every_operation_is_done_on_real_objects(origin: Origin) -> None:
    counts = {**dict.fromkeys(Split, 0), Split.TRAIN: 1}
    queries = made_by(AtomicSource(counts, get_args(AtomicApp)), passes, origin, seed=2).queries
    assert len(queries) == len(OPERATIONS)

    async def run() -> NewQueries:
        factory = LocalDesktops(packaged_tasks())
        try:
            return await walk_all(factory, queries, origin, 2)
        finally:
            await factory.close()

    checked = asyncio.run(run())
    assert [failure.message for failure in checked.failures] == []
    assert {query.validation for query in checked.queries} == {"passed"}
