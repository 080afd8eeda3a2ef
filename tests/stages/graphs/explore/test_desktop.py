import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tests.stages.graphs.explore.exploring import explore
from tests.stages.rollout.toy import ORIGIN
from trajmill.schemas.tables.query import PathStep, Platform, Split
from trajmill.stages.environments.desktop.spec import DesktopSpec
from trajmill.stages.graphs.explore.base import ExploreBounds, unexplored
from trajmill.stages.graphs.explore.deny_list import deny_list
from trajmill.stages.queries.base import SourceContext, UnseenApps
from trajmill.stages.queries.generate import make_queries
from trajmill.stages.queries.graph.source import GraphSource

pytestmark = [pytest.mark.desktop, pytest.mark.slow]


def test_the_entries_of_the_menu_of_a_box_are_its_values_and_queries_choose_them(tmp_path: Path) -> None:
    # A program that gets no processor shows menus late; a wrong graph fails each time.
    for attempt in ("first", "second"):
        with suppress(AssertionError, ValueError):
            check_a_box_of_mousepad(tmp_path / attempt)
            return
    check_a_box_of_mousepad(tmp_path / "third")


def check_a_box_of_mousepad(folder: Path) -> None:
    launch = {"config": [{"type": "launch", "parameters": {"command": ["mousepad"]}}]}
    ways = ("mousepad/menu:Edit", "mousepad/Edit/menu_item:Preferences...")
    opening = tuple(PathStep(page="", operation="tap", target=target) for target in ways)
    app = unexplored("preferences", Platform.DESKTOP, start_state=launch, opening=opening)
    bounds = ExploreBounds(depth=2, breadth=4, seconds=3600.0)
    others = "Display Document Edit Editor File Help Highlight Long Plugins Search Show Use View Window Wrap"

    factory, denied = DesktopSpec().factory(Platform.DESKTOP), deny_list(others.split())
    graph = explore(app, folder / "preferences.jsonl", bounds, 1, factory, denied).graph
    (slot,) = [each for page in graph.pages.values() for each in page.slots.values() if each.opens]
    assert (slot.values, slot.default) == (("None", "Classic"), "None")
    assert slot.shown == {"None": "none", "Classic": "classic"}
    source = GraphSource((graph,), {**dict.fromkeys(Split, 0), Split.TRAIN: 1})
    made = asyncio.run(make_queries([source], SourceContext(DesktopSpec(), UnseenApps(), 0, ORIGIN)))
    chosen = [query for query in made.queries if "Classic" in [each.value for each in query.slots]]
    assert chosen and {query.validation for query in chosen} == {"passed"}
    assert {tuple(step.target for step in query.path) for query in chosen} == {
        (*ways, slot.opens, slot.target_of("Classic"), "")
    }
