"""The queue of attempts: each is taken once, whichever worker takes it."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from tests.stages.rollout.toy import toy_query
from trajmill.pipelines.rollout import AttemptQueue, attempt_key
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.rollout.base import Attempt
from trajmill.warehouse.layout import create_warehouse

ATTEMPTS = [Attempt(toy_query(f"q{number:02d}"), Purpose.TRAIN, number % 2, number) for number in range(40)]


def test_several_workers_take_each_attempt_once_and_all_get_some(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "root")
    workers = [AttemptQueue(warehouse, "staging/queue", ATTEMPTS, in_range=3) for _ in range(2)]
    taken: list[list[Attempt]] = [[], []]

    async def take_all() -> None:
        async def one(number: int) -> None:
            while (attempt := await workers[number].take()) is not None:
                taken[number].append(attempt)
                await asyncio.sleep(0)

        # Two slots of each worker.
        await asyncio.gather(*(one(number) for number in (0, 1, 0, 1)))

    asyncio.run(take_all())
    assert Counter(map(attempt_key, taken[0] + taken[1])) == Counter(map(attempt_key, ATTEMPTS))
    assert all(taken)
