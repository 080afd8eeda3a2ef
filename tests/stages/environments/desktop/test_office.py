"""What LibreOffice tells of itself: its menu bar, the text of cells and paragraphs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.stages.environments.desktop.queries import query_of
from trajmill.schemas.actions import Action, Click, PressKeys, TypeText, Wait
from trajmill.schemas.observation import UIElement
from trajmill.stages.environments.desktop.environment import DesktopEnvironment, LocalDesktops

pytestmark = pytest.mark.desktop
T = TypeVar("T")
ESCAPE = PressKeys(keys=("escape",))
MENUS = ("File", "Edit", "View", "Insert", "Format", "Styles", "Tools", "Window", "Help")


def play(folder: Path, kind: str, work: Callable[[DesktopEnvironment], Awaitable[T]]) -> T:
    """Do something in a fresh, empty document of a kind, `writer` or `calc`."""
    command = ["soffice", f"--{kind}", "--nologo", "--norestore"]
    query = query_of(folder, config=[{"type": "launch", "parameters": {"command": command}}])

    async def run() -> T:
        factory = LocalDesktops(folder)
        try:
            environment = await factory()
            await environment.reset(query, 0)
            return await work(environment)
        finally:
            await factory.close()

    return asyncio.run(run())


async def after(
    environment: DesktopEnvironment, *actions: Action, shows: Callable[[UIElement], bool] = lambda element: True
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

    x, y = menu.bounds.center
    seen = await after(environment, Click(x=x, y=y), shows=inside)
    await environment.step(ESCAPE)
    return {each.text for each in seen if inside(each)}


def test_every_menu_of_a_writer_opens_and_paragraphs_show_their_text(tmp_path: Path) -> None:
    written = ["Dear neighbours", "the lift is broken"]

    async def work(environment: DesktopEnvironment) -> tuple[tuple[UIElement, ...], dict[str, set[str]]]:
        typed = TypeText(text="\n".join(written))
        seen = await after(environment, typed, shows=lambda each: each.value == written[-1])
        return seen, {each.text: await opened_by(environment, each) for each in seen if each.role == "menu"}

    seen, opened = play(tmp_path, "writer", work)
    assert [each.value for each in seen if each.role == "text_field"][:2] == written
    assert {*MENUS, "Form"} <= set(opened)
    assert {"Open...", "Save As...", "Print..."} <= opened["File"]


def test_the_sheet_menu_of_a_calc_opens_and_cells_show_their_text_and_which_are_selected(tmp_path: Path) -> None:
    up = PressKeys(keys=("shift", "up"))

    async def work(environment: DesktopEnvironment) -> tuple[list[dict[str, UIElement]], set[str]]:
        typed = await after(environment, TypeText(text="Rent\n21\n=A2*2\n"), shows=lambda each: focused(each, "A4"))
        selected = await after(environment, up, up, shows=lambda each: each.text == "A2" and "selected" in each.states)
        menus = {each.text: each for each in selected if each.role == "menu"}
        assert {*MENUS, "Sheet"} <= set(menus)
        cells = [{each.text: each for each in seen if each.role == "cell"} for seen in (typed, selected)]
        return cells, await opened_by(environment, menus["Sheet"])

    def focused(element: UIElement, name: str) -> bool:
        return element.text == name and "focused" in element.states

    (typed, selected), opened = play(tmp_path, "calc", work)
    assert {name: cell.value for name, cell in typed.items() if cell.value} == {"A1": "Rent", "A2": "21", "A3": "42"}
    assert [name for name, cell in selected.items() if "selected" in cell.states] == ["A2", "A3", "A4"]
    assert typed["B2"].bounds.left == typed["A2"].bounds.right and typed["A3"].bounds.top == typed["A2"].bounds.bottom
    assert "Insert Sheet..." in opened
