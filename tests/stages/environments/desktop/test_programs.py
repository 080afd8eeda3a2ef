"""Real programs on a real X server: packaged tasks are walked by their reference paths and checked by their files."""

from __future__ import annotations

import io
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from PIL import Image

from tests.stages.environments.desktop.queries import ORIGIN, query_of
from trajmill.schemas.actions import Action, Click, PressKeys, Terminate, TypeText, Wait
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.environments.desktop.environment import DesktopEnvironment, LocalDesktops
from trajmill.stages.environments.desktop.local.processes import descendants
from trajmill.stages.environments.desktop.task import import_tasks, packaged_tasks
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.worker import run_attempts

pytestmark = pytest.mark.desktop
QUERIES = import_tasks(packaged_tasks(), 0.0, ORIGIN)
OFFICE = [query for query in QUERIES if query.task in ("calc-budget", "writer-bold")]
SMALL = [query for query in QUERIES if not query.apps[0].startswith("libreoffice")]
ESCAPE = PressKeys(keys=("escape",))
MENUS = {"File", "Edit", "View", "Insert", "Format", "Styles", "Tools", "Window", "Help"}


@asynccontextmanager
async def desktops(folder: Path) -> AsyncIterator[LocalDesktops]:
    factory = LocalDesktops(folder)
    try:
        yield factory
    finally:
        await factory.close()


def launching(folder: Path, *command: str) -> Query:
    return query_of(folder, config=[{"type": "launch", "parameters": {"command": list(command)}}])


async def roll_out(queries: Sequence[Query]) -> dict[str, FinishedAttempt]:
    """Walk the paths of all queries; by task."""
    done: dict[str, FinishedAttempt] = {}

    async def record(rollout: FinishedAttempt) -> None:
        done[rollout.episode.query.task] = rollout

    attempts = [Attempt(query, Purpose.TRAIN, 0, 0) for query in queries]
    await run_attempts(attempts, ReferenceAgent, LocalDesktops(packaged_tasks()), Limits(), ORIGIN, record, 2)
    return done


def rewards(done: dict[str, FinishedAttempt]) -> dict[str, float | str | None]:
    return {task: one.failure.message if one.failure else one.episode.trajectory.reward for task, one in done.items()}


@pytest.mark.parametrize("queries", [SMALL, OFFICE], ids=["small", "office"])
async def test_the_reference_paths_pass_their_checks(queries: list[Query]) -> None:
    before = descendants(os.getpid())
    done = await roll_out(queries)
    # A program that gets no processor misses an event; a wrong path fails each time.
    done |= await roll_out([query for query in queries if rewards(done)[query.task] != 1.0])
    assert len(SMALL) >= 10
    assert rewards(done) == {query.task: 1.0 for query in queries}
    assert descendants(os.getpid()) <= before
    for rollout in done.values():
        for seen in rollout.screens.values():
            assert Image.open(io.BytesIO(seen.screen.encode())).size == seen.screen.size


async def test_doing_nothing_passes_no_check_and_every_reset_starts_afresh() -> None:
    async with desktops(packaged_tasks()) as factory:
        environment = await factory()
        for query in SMALL[:3]:
            await environment.reset(query, 0)
            await environment.step(Terminate(status="success"))
            assert await environment.score() == 0.0


async def test_equal_tasks_look_equal_on_any_instance_and_what_is_typed_is_seen(tmp_path: Path) -> None:
    # So long that the program still takes keys when the first look at the screen could be had.
    nasty = "$(touch hit) `touch hit` '; привет 你好 ñ € " * 12
    query = launching(tmp_path, "mousepad")
    async with desktops(tmp_path) as factory:
        first, second = await factory(), await factory()
        one, other = await first.reset(query, 0), await second.reset(query, 0)
        await second.step(Click(x=640, y=400))
        seen = await second.step(TypeText(text=nasty))
    assert one.screen.screen_id == other.screen.screen_id
    assert nasty in {element.value for element in seen.elements or ()}


async def test_a_press_reaches_what_the_tooltip_of_another_button_covered(tmp_path: Path) -> None:
    async with desktops(tmp_path) as factory:
        environment = await factory()
        await environment.reset(launching(tmp_path, "galculator"), 0)
        # The pointer stands in the middle of the screen, on a button whose tooltip covers the 8 below it.
        seen = await environment.step(Wait(seconds=1.0))
        eight = next(each for each in seen.elements or () if (each.role, each.text) == ("button", "8"))
        seen = await environment.step(press(eight))
    assert {each.value for each in seen.elements or () if each.role == "text_field"} == {"8"}


def press(element: UIElement) -> Click:
    return Click(x=element.bounds.center.x, y=element.bounds.center.y)


async def after(
    environment: DesktopEnvironment, *actions: Action, shows: Callable[[UIElement], bool]
) -> tuple[UIElement, ...]:
    """The elements after some actions, once one of them is such; LibreOffice may lag behind its keys."""
    deadline = time.monotonic() + 200
    for action in actions:
        seen = await environment.step(action)
    while not any(map(shows, seen.elements or ())):
        assert time.monotonic() < deadline
        seen = await environment.step(Wait(seconds=0.1))
    return seen.elements or ()


async def opened_by(environment: DesktopEnvironment, menu: UIElement) -> set[str]:
    """The texts inside a menu of the menu bar, which is opened and closed again."""

    def inside(element: UIElement) -> bool:
        return element.element_id.startswith(f"soffice/{menu.text}/")

    seen = await after(environment, press(menu), shows=inside)
    await environment.step(ESCAPE)
    return {each.text for each in seen if inside(each)}


async def test_an_office_tells_its_menus_paragraphs_and_cells(tmp_path: Path) -> None:
    office = ("soffice", "--nologo", "--norestore")
    async with desktops(tmp_path) as factory:
        environment = await factory()
        await environment.reset(launching(tmp_path, *office, "--writer"), 0)
        written = ["Dear neighbours", "the lift is broken"]
        typed = TypeText(text="\n".join(written))
        seen = await after(environment, typed, shows=lambda each: each.value == written[-1])
        menus = {each.text: each for each in seen if each.role == "menu"}
        assert [each.value for each in seen if each.role == "text_field"][:2] == written
        assert {*MENUS, "Form"} <= set(menus)
        assert {"Open...", "Save As...", "Print..."} <= await opened_by(environment, menus["File"])
        assert await opened_by(environment, menus["Form"]) and await opened_by(environment, menus["Help"])

        await environment.reset(launching(tmp_path, *office, "--calc"), 0)
        numbers = TypeText(text="Rent\n21\n=A2*2\n")
        seen = await after(environment, numbers, shows=lambda each: each.text == "A4" and "focused" in each.states)
        cells = {each.text: each for each in seen if each.role == "cell"}
        assert {name: cell.value for name, cell in cells.items() if cell.value} == {
            "A1": "Rent",
            "A2": "21",
            "A3": "42",
        }
        assert (
            cells["B2"].bounds.left == cells["A2"].bounds.right and cells["A3"].bounds.top == cells["A2"].bounds.bottom
        )
        up = PressKeys(keys=("shift", "up"))
        seen = await after(environment, up, up, shows=lambda each: each.text == "A2" and "selected" in each.states)
        assert [each.text for each in seen if each.role == "cell" and "selected" in each.states] == ["A2", "A3", "A4"]
        menus = {each.text: each for each in seen if each.role == "menu"}
        assert {*MENUS, "Sheet"} <= set(menus)
        assert "Insert Sheet..." in await opened_by(environment, menus["Sheet"])
