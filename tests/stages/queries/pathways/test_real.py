"""Pathways of real programs: a page in the real Chromium, programs on a real X server."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from tests.stages.queries.pathways.office_page import serving
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.pathway import EndKind, Pathway
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.queries.base import GrammarWriter, NewQueries, SourceContext, UnseenApps
from trajmill.stages.queries.generate import QuerySet
from trajmill.stages.queries.pathways.programs import (
    PathwayProgram,
    WalkBounds,
    WalkResult,
    packaged_programs,
    read_programs,
)
from trajmill.stages.queries.pathways.search import collect_pathways
from trajmill.stages.queries.pathways.source import PathwaySettings, PathwaySource
from trajmill.stages.queries.walk import walk_all

BOUNDS = WalkBounds(depth=3, seconds=240)


def collect(
    factory: EnvironmentFactory, program: PathwayProgram, origin: Origin, bounds: WalkBounds, queries: int = 1
) -> tuple[WalkResult, NewQueries]:
    async def run() -> tuple[WalkResult, NewQueries]:
        try:
            collected = await collect_pathways(factory, program, bounds, origin)
            source = PathwaySource(collected.pathways, [program], PathwaySettings(most=queries))
            made = QuerySet([GrammarWriter()], origin)
            offer = await source.candidates(SourceContext(SimulatedSpec(), UnseenApps(), 1, origin))
            await made.take(offer, lambda drafts: walk_all(factory, drafts, origin))
            return collected, made.without_leaks(())
        finally:
            await factory.close()

    return asyncio.run(run())


def desktops() -> EnvironmentFactory:
    from trajmill.stages.environments.desktop.environment import LocalDesktops
    from trajmill.stages.environments.desktop.task import packaged_tasks

    return LocalDesktops(packaged_tasks())


def by_names(collected: WalkResult) -> dict[str, Pathway]:
    return {" > ".join(step.name for step in pathway.steps): pathway for pathway in collected.pathways}


@pytest.mark.browser
def test_menus_tabs_and_pages_of_a_web_page_are_walked_and_asked_for(origin: Origin) -> None:
    from trajmill.stages.environments.browser.environment import BrowserFactory

    asked: list[str] = []
    with serving(asked) as url:
        program = PathwayProgram(
            name="office",
            title="the office",
            platform=Platform.WEB,
            start_state=json.dumps({"url": url}),
            presses_commands=True,
        )
        collected, made = collect(BrowserFactory(), program, origin, BOUNDS, 20)
    found = by_names(collected)
    assert found["File"].end_kind is EndKind.MENU
    assert found["File > Settings"].end_kind is EndKind.PAGE
    assert found["File > Settings"].end_name == "Settings of the office"
    assert found["File > Settings > Privacy"].end_kind is EndKind.TAB
    assert found["Edit > Undo"].end_kind is EndKind.MENU_ITEM
    assert found["Help pages"].end_name == "How the office works"
    assert {"/erased", "/sent"}.isdisjoint(asked)
    assert not (collected.failures or made.failures)
    assert {"Privacy", "File", "Undo"} <= {query.slots[0].value for query in made.queries}


@pytest.mark.desktop
def test_a_calculator_on_a_real_desktop_is_walked_and_leaves_no_process(origin: Origin) -> None:
    from trajmill.stages.environments.desktop.local.processes import descendants

    before = descendants(os.getpid())
    (program,) = read_programs(packaged_programs(), ("galculator",))
    bounds = BOUNDS.model_copy(update={"depth": 2})
    collected, made = collect(desktops(), program, origin, bounds, 3)
    found = by_names(collected)
    assert found["File > Quit"].end_kind is EndKind.MENU_ITEM and not found["File > Quit"].pressed
    assert len(found) >= 20
    for pathway in collected.pathways:
        for step in pathway.steps:
            size = collected.screens[step.screen_id].screen.size
            assert 0 <= step.bounds.left < step.bounds.right <= size.width
            assert 0 <= step.bounds.top < step.bounds.bottom <= size.height
    assert len(made.queries) == 3
    assert descendants(os.getpid()) <= before


@pytest.mark.desktop
def test_what_needs_a_selection_in_a_real_file_manager(origin: Origin) -> None:
    (program,) = read_programs(packaged_programs(), ("pcmanfm",))
    narrow = BOUNDS.model_copy(update={"breadth": 2, "depth": 1})
    needs = {n: p.needs_selection for n, p in by_names(collect(desktops(), program, origin, narrow)[0]).items()}
    assert needs["Edit > Rename..."] is True and needs["Edit > Cut"] is True
    assert needs["File"] is False


@pytest.mark.desktop
@pytest.mark.parametrize(("name", "own"), [("libreoffice-writer", "Form"), ("libreoffice-calc", "Sheet")])
def test_menus_and_dialogs_of_a_real_office_are_walked(origin: Origin, name: str, own: str) -> None:
    (program,) = read_programs(packaged_programs(), (name,))
    program = program.model_copy(update={"selecting": ()})
    narrow = BOUNDS.model_copy(update={"breadth": 2, "depth": 2})
    collected = collect(desktops(), program, origin, narrow)[0]
    found = by_names(collected)
    assert [failure.message for failure in collected.failures] == []
    assert found["File > New"].end_kind is EndKind.MENU
    # Its file chooser is as high as the screen: by the tree, another page.
    assert found["File > Open..."].end_kind in (EndKind.DIALOG, EndKind.PAGE)
    assert found["File > Open..."].end_name == "Open"
    assert found["Edit > Undo"].end_kind is EndKind.MENU_ITEM
    start = collected.screens[found["File"].steps[0].screen_id]
    assert own in {element.text for element in start.elements or () if element.role == "menu"}
