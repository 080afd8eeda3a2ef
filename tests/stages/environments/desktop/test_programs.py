import asyncio
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
from PIL import Image

from tests.stages.environments.desktop.queries import ORIGIN, query_of, step
from tests.stages.queries.samples import making, passes
from tests.stages.rollout.rolling import rolled_out
from trajmill.schemas.actions import Click, Terminate, TypeText, Wait
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.environments.desktop.environment import LocalDesktops
from trajmill.stages.environments.desktop.local.processes import descendants, listened_on
from trajmill.stages.environments.desktop.task import import_tasks, packaged_tasks
from trajmill.stages.queries.atomic.source import AtomicSource, packaged_objects
from trajmill.stages.queries.spec import AtomicApp
from trajmill.stages.rollout.base import FinishedAttempt, Limits

pytestmark = pytest.mark.desktop
SMALL = Size(960, 560)
"""Of a screen: a sheet shows few cells, each of which is asked for."""
PACKAGED = {query.task: query for query in import_tasks(packaged_tasks(), 0.0, ORIGIN)}
WALKED = ("galculator-product", "mousepad-replace-word")
OPERATIONS = ("double_click", "right_click", "drag_move", "shortcut", "scroll")
"""What is walked, with menus, dialogs and the clipboard; all that others need is among it or walked for commands."""


@pytest.fixture(scope="module")
def queries() -> list[Query]:
    source = AtomicSource({**dict.fromkeys(Split, 0), Split.TRAIN: 1}, get_args(AtomicApp))
    made = asyncio.run(making(source, passes, ORIGIN, seed=2)).queries
    walked = [query for query in made if query.task.partition(".")[2] in OPERATIONS]
    return walked + [PACKAGED[task] for task in WALKED]


async def roll_out(queries: Sequence[Query], sockets: set[tuple[Path, int, int]]) -> dict[str, FinishedAttempt]:
    """Walk the paths of all queries, and note the sockets that the programs listen on; by task."""
    # Earlier tests leave processes that serve later ones (multiprocessing's fork server), with their sockets.
    before = descendants(os.getpid())

    class Watching(ReferenceAgent):
        async def act(self, episode: EpisodeView) -> Decision:
            programs = descendants(os.getpid()) - before
            sockets.update((path, *file_at(path)) for path in listened_on(programs) if path.exists())
            return await super().act(episode)

    done = await rolled_out(queries, Watching, LocalDesktops(packaged_tasks(), SMALL), Limits(), 2)
    return {each.episode.query.task: each for each in done}


def file_at(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_ino, found.st_ctime_ns


def rewards(done: dict[str, FinishedAttempt]) -> dict[str, float | str | None]:
    return {task: one.failure.message if one.failure else one.episode.trajectory.reward for task, one in done.items()}


async def test_reference_paths_pass_their_checks_and_leave_no_process_and_no_socket(queries: list[Query]) -> None:
    before, sockets = descendants(os.getpid()), set[tuple[Path, int, int]]()
    done = await roll_out(queries, sockets)
    # A program that gets no processor misses an event; a wrong path fails each time.
    done |= await roll_out([query for query in queries if rewards(done)[query.task] != 1.0], sockets)
    assert rewards(done) == {query.task: 1.0 for query in queries} and len(done) == len(OPERATIONS) + len(WALKED)
    assert descendants(os.getpid()) <= before
    for rollout in done.values():
        for seen in rollout.screens.values():
            assert Image.open(io.BytesIO(seen.screen.encode())).size == seen.screen.size
    assert not [path for path, *file in sockets if path.exists() and file == [*file_at(path)]]
    for kind in ("X11-unix", "OSL_PIPE"):
        assert any(kind in str(path) for path, _, _ in sockets)
    seen_cells = [seen.elements or () for seen in done["libreoffice-calc.scroll"].screens.values()]
    sheets = [{each.text: each for each in elements if each.role == "cell"} for elements in seen_cells]
    first, last = sheets[0], sheets[-1]
    (walked,) = (query for query in queries if query.apps == ("libreoffice-calc",))
    assert {cell.value for cell in last.values() if cell.value} == {walked.slots[0].value}
    assert last[walked.slots[1].value].value == walked.slots[0].value
    assert [first[name].value for name in ("A1", "B1", "C1", "D1")] == [*packaged_objects().headings, ""]
    assert first["B2"].bounds.left == first["A2"].bounds.right and first["A3"].bounds.top == first["A2"].bounds.bottom
    assert "focused" in first["A1"].states


async def test_equal_tasks_look_equal_what_is_typed_is_seen_and_nothing_passes_no_check(tmp_path: Path) -> None:
    # So long that the program still takes keys when the first look at the screen could be had.
    nasty = "$(touch hit) `touch hit` '; привет 你好 ñ € " * 12
    query, factory = PACKAGED["mousepad-greetings"], LocalDesktops(packaged_tasks())
    try:
        first, second = await factory(), await factory()
        one, other = await first.reset(query, 0), await second.reset(query, 0)
        assert one.screen.screen_id == other.screen.screen_id
        await first.step(Terminate(status="success"))
        assert await first.score() == 0.0
        await second.step(Click(x=640, y=400))
        seen = await second.step(TypeText(text=nasty))
        assert nasty in {element.value for element in seen.elements or ()}

        await second.reset(query_of(tmp_path, config=[step("launch", command=["galculator"])]), 0)
        # The pointer stands in the middle of the screen, on a button whose tooltip covers the 8 below it.
        seen = await second.step(Wait(seconds=1.0))
        eight = next(each for each in seen.elements or () if (each.role, each.text) == ("button", "8"))
        seen = await second.step(Click(x=eight.bounds.center.x, y=eight.bounds.center.y))
        assert {each.value for each in seen.elements or () if each.role == "text_field"} == {"8"}
    finally:
        await factory.close()
