"""From walks in the simulator to a release: every action that the simulator knows survives the way into the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stages.derive.samples import ORIGIN
from tests.stages.export.stored import EXPORTERS, write_release
from tests.stages.export.walks import SeenScreens, walks
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.stages.derive.end_to_end import end_to_end_examples
from trajmill.stages.export.check import check_release
from trajmill.stages.export.sft import SFT_FILE


@pytest.mark.slow
def test_walks_on_both_platforms_become_a_sound_release(tmp_path: Path) -> None:
    screens = SeenScreens()
    episodes = walks(screens, each=5)
    assert {episode.query.platform for episode in episodes} == {Platform.PHONE, Platform.DESKTOP}
    made = [end_to_end_examples(episode, screens.size, ORIGIN) for episode in episodes]
    assert [derived.dropped for derived in made] == [()] * len(episodes)
    rows = rows_to_arrow("examples", [example for derived in made for example in derived.examples])
    assert rows.num_rows == sum(len(episode.steps) for episode in episodes)
    write_release(tmp_path, rows.to_batches(), [], screens)
    checked = check_release(tmp_path, EXPORTERS, {}, images_every=5)
    assert checked.rows[SFT_FILE] == rows.num_rows and checked.images > 0 and checked.problems == ()
