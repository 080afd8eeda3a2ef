"""Pathways of real programs: a page in the real Chromium, programs on a real X server."""

import json
import os

import pytest

from tests.http_server import QuietHandler, serving
from tests.stages.queries.pathways.toy import by_names
from tests.stages.queries.samples import making, walk_all
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.pathway import EndKind
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.queries.base import NewQueries
from trajmill.stages.queries.pathways.programs import (
    PathwayProgram,
    WalkBounds,
    WalkResult,
    packaged_programs,
    read_programs,
)
from trajmill.stages.queries.pathways.search import collect_pathways
from trajmill.stages.queries.pathways.source import PathwaySource

BOUNDS = WalkBounds(depth=3, seconds=240)


async def collect(
    factory: EnvironmentFactory, program: PathwayProgram, origin: Origin, bounds: WalkBounds, queries: int
) -> tuple[WalkResult, NewQueries]:
    try:
        collected = await collect_pathways(factory, program, bounds, origin)
        source = PathwaySource(collected.pathways, [program], queries)
        made = await making(source, lambda drafts: walk_all(factory, drafts, origin), origin, seed=1)
        return collected, made
    finally:
        await factory.close()


# A small web office with menus, a submenu, tabs, a dialog and an action that must not be taken.
_PAGE = """<!doctype html><meta charset="utf-8"><title>Office</title>
<style>body { font: 16px sans-serif } [hidden] { display: none !important } button, a, [role] { margin: 4px }
#layer { position: fixed; inset: 0; background: #eee } .menu { background: #ddd; width: 220px }
.menu div { padding: 4px; cursor: pointer }</style>
<button id="file" onclick="toggle('file-menu')">File</button>
<button id="edit" onclick="toggle('edit-menu')">Edit</button>
<button id="erase" onclick="location = '/erased'">Delete everything</button>
<a href="/help" id="help">Help pages</a>
<div class="menu" id="file-menu" hidden>
 <div role="menuitem" id="settings" onclick="layer.hidden = false; toggle('')">Settings</div>
 <div role="menuitem" id="sent" onclick="location = '/sent'">Send by mail</div></div>
<div class="menu" id="edit-menu" hidden><div role="menuitem" id="undo" onclick="1">Undo</div></div>
<div id="layer" hidden><h2 id="layer-title">Settings of the office</h2>
 <button role="tab" id="general" aria-selected="true" onclick="front('general')">General</button>
 <button role="tab" id="privacy" aria-selected="false" onclick="front('privacy')">Privacy</button></div>
<script>
const toggle = (name) => document.querySelectorAll(".menu").forEach((menu) => menu.hidden = menu.id !== name);
const front = (name) => document.querySelectorAll("[role=tab]").forEach((tab) =>
  tab.setAttribute("aria-selected", tab.id === name));
addEventListener("keydown", (event) => {
  if (event.key === "Escape") { toggle(""); document.getElementById("layer").hidden = true; }
});
</script>"""
_HELP = "<!doctype html><meta charset='utf-8'><title>Help</title><h1>How the office works</h1><p>Read this first.</p>"


@pytest.mark.browser
async def test_menus_tabs_and_pages_of_a_web_page_are_walked_and_asked_for(origin: Origin) -> None:
    from trajmill.stages.environments.browser.environment import BrowserFactory

    asked: list[str] = []

    class Site(QuietHandler):
        def reply(self) -> None:
            asked.append(self.path)
            self.answer((_HELP if self.path == "/help" else _PAGE).encode(), Content_Type="text/html")

    with serving(Site) as url:
        start = json.dumps({"url": f"{url}/"})
        program = PathwayProgram(name="office", title="the office", platform=Platform.WEB, start_state=start)
        program = program.model_copy(update={"presses_commands": True})
        collected, made = await collect(BrowserFactory(), program, origin, BOUNDS, 20)
    found = by_names(collected.pathways)
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
async def test_a_real_file_manager_is_walked_with_what_needs_a_selection_and_leaves_no_process(origin: Origin) -> None:
    from trajmill.stages.environments.desktop.environment import LocalDesktops
    from trajmill.stages.environments.desktop.local.processes import descendants
    from trajmill.stages.environments.desktop.task import packaged_tasks

    before = descendants(os.getpid())
    (program,) = read_programs(packaged_programs(), ("pcmanfm",))
    narrow = BOUNDS.model_copy(update={"breadth": 2, "depth": 1})
    collected, made = await collect(LocalDesktops(packaged_tasks()), program, origin, narrow, 1)
    assert [failure.message for failure in collected.failures] == [] and len(made.queries) == 1
    needs = {name: pathway.needs_selection for name, pathway in by_names(collected.pathways).items()}
    assert needs["Edit > Rename..."] is True and needs["Edit > Cut"] is True
    assert needs["File"] is False
    for step in (step for pathway in collected.pathways for step in pathway.steps):
        size = collected.screens[step.screen_id].screen.size
        assert 0 <= step.bounds.left < step.bounds.right <= size.width
        assert 0 <= step.bounds.top < step.bounds.bottom <= size.height
    assert descendants(os.getpid()) <= before
