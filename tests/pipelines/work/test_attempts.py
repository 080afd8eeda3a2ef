"""The queue of attempts: each is taken once whoever asks, and comes out as it went in."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.stages.rollout.toy import ORIGIN, toy_query
from trajmill.pipelines.work.attempts import (
    QueuedAttempts,
    attempt_from_text,
    attempt_key,
    attempt_to_text,
    queue_attempts,
)
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.rollout.base import Attempt
from trajmill.warehouse.layout import StageRun, create_warehouse

AT = StageRun("run", 1, "rollout")
ATTEMPTS = [Attempt(toy_query(f"q{number:02d}"), Purpose.TRAIN, number % 2, number) for number in range(40)]


def test_an_attempt_is_read_as_it_was_written() -> None:
    hints = Guidance(
        guidance_id="g",
        query_id="q00",
        source_trajectory="t",
        source="own_success",
        step_descriptions=("one",),
        dropped_steps=(),
        text='say "no"\n',
        **ORIGIN.common(made_by="test"),
    )
    guided = replace(ATTEMPTS[0], guidance=hints)
    for attempt in (ATTEMPTS[0], guided):
        assert attempt_from_text(attempt_to_text(attempt)) == attempt
    assert attempt_key(guided) != attempt_key(ATTEMPTS[0])


def test_several_workers_take_each_attempt_once_and_all_get_some(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    queue = queue_attempts(warehouse, AT, Platform.PHONE, ATTEMPTS, "claims", workers=2, concurrency=8)
    workers = [QueuedAttempts(warehouse, AT, queue) for _ in range(2)]
    taken: list[list[Attempt]] = [[], []]

    async def take_all() -> None:
        async def one(number: int) -> None:
            while (attempt := await workers[number].take()) is not None:
                taken[number].append(attempt)
                await asyncio.sleep(0)

        # Three slots of the first worker ask at the same time.
        await asyncio.gather(one(0), one(0), one(0), one(1))

    asyncio.run(take_all())
    assert Counter(map(attempt_key, [*taken[0], *taken[1]])) == Counter(map(attempt_key, ATTEMPTS))
    assert all(taken)


def test_ranges_are_small_beside_the_work_of_a_worker(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    queue = queue_attempts(warehouse, AT, Platform.PHONE, ATTEMPTS, "claims", workers=2, concurrency=512)
    assert queue.ranges >= 16
