from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.stages.graphs.explore.exploring import explore
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.desktop.spec import DesktopSpec
from trajmill.stages.graphs.explore.base import ExploreBounds, unexplored
from trajmill.stages.graphs.explore.deny_list import deny_list

pytestmark = [pytest.mark.desktop, pytest.mark.slow]


def once_more_where_starved(check: Callable[[Path], None], folder: Path) -> None:
    """Check again in a fresh folder where it failed, at most twice: a program without a processor shows menus late."""
    for attempt in ("first", "second"):
        with suppress(AssertionError, ValueError):
            return check(folder / attempt)
    return check(folder / "third")


def test_the_entries_of_the_menu_of_a_box_are_its_values(tmp_path: Path) -> None:
    once_more_where_starved(check_a_box_of_mousepad, tmp_path)


def check_a_box_of_mousepad(folder: Path) -> None:
    launch = {"config": [{"type": "launch", "parameters": {"command": ["mousepad"]}}]}
    ways = ("mousepad/menu:Edit", "mousepad/Edit/menu_item:Preferences...")
    opening = tuple(PathStep(page="", operation="tap", target=target) for target in ways)
    app = unexplored("preferences", Platform.DESKTOP, start_state=launch, opening=opening)
    bounds = ExploreBounds(depth=2, breadth=2, seconds=3600.0)
    others = "Display Document Edit Editor File Help Highlight Long Plugins Search Show Use View Window Wrap"

    factory, denied = DesktopSpec().factory(Platform.DESKTOP), deny_list(others.split())
    graph = explore(app, folder / "preferences.jsonl", bounds, 1, factory, denied).graph
    (slot,) = [each for page in graph.pages.values() for each in page.slots.values() if each.opens]
    assert (slot.values, slot.default) == (("None", "Classic"), "None")
    assert slot.shown == {"None": "none", "Classic": "classic"}
