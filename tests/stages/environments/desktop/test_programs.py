"""Real programs on a real X server: packaged tasks are walked by their reference paths and checked by their files."""

import io
import itertools
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from PIL import Image

from tests.stages.environments.desktop.queries import ORIGIN, query_of
from tests.stages.rollout.rolling import rolled_out
from trajmill.schemas.actions import Action, Click, PressKeys, Terminate, TypeText, Wait
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Query
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.environments.desktop.environment import DesktopEnvironment, LocalDesktops
from trajmill.stages.environments.desktop.local.processes import descendants, listened_on
from trajmill.stages.environments.desktop.task import import_tasks, packaged_tasks
from trajmill.stages.rollout.base import FinishedAttempt, Limits

pytestmark = pytest.mark.desktop
QUERIES = import_tasks(packaged_tasks(), 0.0, ORIGIN)
OFFICE = [query for query in QUERIES if query.task in ("calc-budget", "writer-bold")]
SMALL = [query for query in QUERIES if not query.apps[0].startswith("libreoffice")]


@asynccontextmanager
async def desktops(folder: Path, count: int = 1) -> AsyncIterator[list[DesktopEnvironment]]:
    factory = LocalDesktops(folder)
    try:
        yield [await factory() for _ in range(count)]
    finally:
        await factory.close()


def launching(folder: Path, *command: str) -> Query:
    return query_of(folder, config=[{"type": "launch", "parameters": {"command": list(command)}}])


async def roll_out(queries: Sequence[Query]) -> dict[str, FinishedAttempt]:
    """Walk the paths of all queries; by task."""
    done = await rolled_out(queries, ReferenceAgent, LocalDesktops(packaged_tasks()), Limits(), 2)
    return {each.episode.query.task: each for each in done}


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


async def test_doing_nothing_passes_no_check_and_a_press_reaches_what_the_tooltip_of_another_button_covered(
    tmp_path: Path,
) -> None:
    async with desktops(packaged_tasks()) as [environment]:
        await environment.reset(SMALL[0], 0)
        await environment.step(Terminate(status="success"))
        assert await environment.score() == 0.0
        await environment.reset(launching(tmp_path, "galculator"), 0)
        # The pointer stands in the middle of the screen, on a button whose tooltip covers the 8 below it.
        seen = await environment.step(Wait(seconds=1.0))
        eight = next(each for each in seen.elements or () if (each.role, each.text) == ("button", "8"))
        seen = await environment.step(Click(x=eight.bounds.center.x, y=eight.bounds.center.y))
    assert {each.value for each in seen.elements or () if each.role == "text_field"} == {"8"}


async def test_equal_tasks_look_equal_on_any_instance_and_what_is_typed_is_seen(tmp_path: Path) -> None:
    # So long that the program still takes keys when the first look at the screen could be had.
    nasty = "$(touch hit) `touch hit` '; привет 你好 ñ € " * 12
    query = launching(tmp_path, "mousepad")
    async with desktops(tmp_path, 2) as [first, second]:
        one, other = await first.reset(query, 0), await second.reset(query, 0)
        await second.step(Click(x=640, y=400))
        seen = await second.step(TypeText(text=nasty))
    assert one.screen.screen_id == other.screen.screen_id
    assert nasty in {element.value for element in seen.elements or ()}


async def test_cells_of_a_sheet_are_seen_and_a_reset_and_a_close_leave_no_socket_of_the_x_server_or_an_office(
    tmp_path: Path,
) -> None:
    async with desktops(tmp_path) as [environment]:
        await environment.reset(launching(tmp_path, "soffice", "--calc", "--nologo", "--norestore"), 0)
        first = own_sockets()

        async def after(*actions: Action, cell: str, state: str) -> dict[str, UIElement]:
            """The cells once one has a state; LibreOffice may lag behind its keys."""
            deadline, cells = time.monotonic() + 200, dict[str, UIElement]()
            for action in itertools.chain(actions, itertools.repeat(Wait(seconds=0.1))):
                seen = await environment.step(action)
                cells = {each.text: each for each in seen.elements or () if each.role == "cell"}
                if not isinstance(action, TypeText | PressKeys) and state in cells[cell].states:
                    break
                assert time.monotonic() < deadline
            return cells

        typed = await after(TypeText(text="Rent\n21\n=A2*2\n"), cell="A4", state="focused")
        up = PressKeys(keys=("shift", "up"))
        selected = await after(up, up, cell="A2", state="selected")
        await environment.reset(launching(tmp_path, "mousepad"), 0)
        assert not first & own_sockets()
        left = first | own_sockets()
    assert {name: cell.value for name, cell in typed.items() if cell.value} == {"A1": "Rent", "A2": "21", "A3": "42"}
    assert typed["B2"].bounds.left == typed["A2"].bounds.right and typed["A3"].bounds.top == typed["A2"].bounds.bottom
    assert [name for name, cell in selected.items() if "selected" in cell.states] == ["A2", "A3", "A4"]
    assert all(any(kind in str(path) for path, _, _ in first) for kind in ("X11-unix", "OSL_PIPE"))
    # Another server may use the path once it is free, with a file of its own.
    assert not [path for path, *file in left if path.exists() and file == [*file_at(path)]]


def own_sockets() -> set[tuple[Path, int, int]]:
    return {(path, *file_at(path)) for path in listened_on(descendants(os.getpid()))}


def file_at(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_ino, found.st_ctime_ns
