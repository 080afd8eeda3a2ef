"""Real programs on a real X server: every packaged task is walked by its reference path and checked by its files."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from tests.stages.environments.desktop.queries import ORIGIN, query_of
from trajmill.schemas.actions import Click, Terminate, TypeText, Wait
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.environments.desktop.environment import LocalDesktops
from trajmill.stages.environments.desktop.local.processes import descendants
from trajmill.stages.environments.desktop.task import import_tasks, packaged_tasks
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.worker import run_attempts

pytestmark = pytest.mark.desktop
QUERIES = import_tasks(packaged_tasks(), 0.0, ORIGIN)
OFFICE = [query for query in QUERIES if query.apps[0].startswith("libreoffice")]
SMALL = [query for query in QUERIES if query not in OFFICE]


def roll_out(queries: Sequence[Query], concurrency: int) -> dict[str, FinishedAttempt]:
    """Walk the paths of all queries; by task."""
    done: dict[str, FinishedAttempt] = {}

    async def record(rollout: FinishedAttempt) -> None:
        done[rollout.episode.query.task] = rollout

    attempts = [Attempt(query, Purpose.TRAIN, 0, 0) for query in queries]
    factory = LocalDesktops(packaged_tasks())
    asyncio.run(run_attempts(attempts, ReferenceAgent, factory, Limits(), ORIGIN, record, concurrency))
    return done


def rewards(done: dict[str, FinishedAttempt]) -> dict[str, float | str | None]:
    return {task: one.failure.message if one.failure else one.episode.trajectory.reward for task, one in done.items()}


def test_the_reference_paths_of_small_programs_pass_their_checks() -> None:
    before = descendants(os.getpid())
    done = roll_out(SMALL, 2)
    # A program that gets no processor misses an event; a wrong path fails each time.
    done |= roll_out([query for query in SMALL if rewards(done)[query.task] != 1.0], 1)
    assert len(SMALL) >= 10
    assert rewards(done) == {query.task: 1.0 for query in SMALL}
    assert descendants(os.getpid()) <= before
    for rollout in done.values():
        for seen in rollout.screens.values():
            assert Image.open(io.BytesIO(seen.screen.encode())).size == seen.screen.size


@pytest.mark.parametrize("task", ["calc-budget", "writer-bold"])
def test_the_reference_paths_of_an_office_pass_their_checks(task: str) -> None:
    assert rewards(roll_out([query for query in OFFICE if query.task == task], 1)) == {task: 1.0}


def test_doing_nothing_passes_no_check_and_every_reset_starts_afresh() -> None:
    async def idle() -> list[float | None]:
        factory = LocalDesktops(packaged_tasks())
        try:
            environment = await factory()
            scores = []
            for query in SMALL[:5]:
                await environment.reset(query, 0)
                await environment.step(Terminate(status="success"))
                scores.append(await environment.score())
            return scores
        finally:
            await factory.close()

    assert asyncio.run(idle()) == [0.0] * 5


def test_equal_tasks_look_equal_on_any_instance_and_what_is_typed_is_seen(tmp_path: Path) -> None:
    query = query_of(tmp_path, config=[{"type": "launch", "parameters": {"command": ["mousepad"]}}])
    # So long that the program still takes keys when the first look at the screen could be had.
    nasty = "$(touch hit) `touch hit` '; привет 你好 ñ € " * 12

    async def look() -> tuple[str, str, set[str]]:
        factory = LocalDesktops(tmp_path)
        try:
            first, second = await factory(), await factory()
            one, other = await first.reset(query, 0), await second.reset(query, 0)
            await second.step(Click(x=640, y=400))
            seen = await second.step(TypeText(text=nasty))
            assert seen.elements is not None
            return one.screen.screen_id, other.screen.screen_id, {element.value for element in seen.elements}
        finally:
            await factory.close()

    one, other, values = asyncio.run(look())
    assert one == other
    assert nasty in values


def test_a_press_reaches_what_the_tooltip_of_another_button_covered(tmp_path: Path) -> None:
    query = query_of(tmp_path, config=[{"type": "launch", "parameters": {"command": ["galculator"]}}])

    async def press() -> set[str]:
        factory = LocalDesktops(tmp_path)
        try:
            environment = await factory()
            await environment.reset(query, 0)
            # The pointer stands in the middle of the screen, on a button whose tooltip covers the 8 below it.
            seen = await environment.step(Wait(seconds=1.0))
            eight = next(each.bounds for each in seen.elements or () if (each.role, each.text) == ("button", "8"))
            seen = await environment.step(Click(x=eight.center.x, y=eight.center.y))
            return {each.value for each in seen.elements or () if each.role == "text_field"}
        finally:
            await factory.close()

    assert asyncio.run(press()) == {"8"}
