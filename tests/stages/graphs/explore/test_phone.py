from pathlib import Path

import pytest

from tests.stages.environments.android.playing import settings_for
from tests.stages.environments.android.stand_in.phone import Phone
from tests.stages.environments.android.stand_in.server import serving
from tests.stages.graphs.explore.exploring import explore
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.simulated.world import load_world
from trajmill.stages.graphs.explore.base import ExploreBounds, unexplored
from trajmill.stages.graphs.verify import EdgeState

pytestmark = pytest.mark.slow


def test_an_app_on_a_phone_is_explored_over_adb_and_its_form_is_sent(tmp_path: Path) -> None:
    start_state = {"open": "Notes", "clear": ["Notes"]}
    opening = (PathStep(page="", operation="tap", target="notes.home/new"),)
    app = unexplored("notes", Platform.PHONE, start_state=start_state, opening=opening)
    bounds = ExploreBounds(depth=1, seconds=3600.0)

    with serving([Phone("emulator-5554", load_world())]) as server:
        factory = settings_for(server, call_seconds=60.0).factory(Platform.PHONE)
        found = explore(app, tmp_path / "notes.jsonl", bounds, 1, factory, verified=True)
    save = next(each for each in found.graph.pages["start"].transitions if each.submits)
    assert (save.by, found.graph.pages[save.to].title) == ("save-note", "Note saved")
    assert save.slots == ("title", "text", "folder", "pin-this-note")
    assert {feature.text for feature in save.shows} == {"Title: {title}", "Text: {text}", "Folder: {folder}"}
    assert {edge.state for edge in found.edges} == {EdgeState.HOLDS}
