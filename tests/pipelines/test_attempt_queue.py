"""The queue of attempts: each is taken once whoever asks, and comes out as it went in."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.stages.rollout.toy import ORIGIN, toy_query
from trajmill.pipelines import attempt_queue
from trajmill.pipelines.attempt_queue import QueuedAttempts, attempt_key, queue_attempts
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.rollout.base import Attempt
from trajmill.warehouse.layout import create_warehouse

ATTEMPTS = [Attempt(toy_query(f"q{number:02d}"), Purpose.TRAIN, number % 2, number) for number in range(40)]


def test_an_attempt_is_read_as_it_was_written(tmp_path: Path) -> None:
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
    warehouse = create_warehouse(tmp_path / "warehouse")
    given = [ATTEMPTS[0], guided]
    queue = QueuedAttempts(queue_attempts(warehouse, "staging/queue", Platform.PHONE, given, workers=1, concurrency=8))

    async def take_all() -> list[Attempt | None]:
        return [await queue.take() for _ in range(3)]

    assert asyncio.run(take_all()) == [*given, None]
    assert attempt_key(guided) != attempt_key(ATTEMPTS[0])


def test_several_workers_take_each_attempt_once_and_all_get_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    monkeypatch.setattr(attempt_queue, "_MOST_IN_FILE", 8)
    queue = queue_attempts(warehouse, "staging/queue", Platform.PHONE, ATTEMPTS, workers=2, concurrency=8)
    workers = [QueuedAttempts(queue) for _ in range(2)]
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
    queue = queue_attempts(warehouse, "staging/queue", Platform.PHONE, ATTEMPTS, workers=2, concurrency=512)
    assert queue.ranges >= 16
