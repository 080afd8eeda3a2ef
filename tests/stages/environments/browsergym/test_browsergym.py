import asyncio
import io
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from PIL import Image

from tests.failures import failing
from tests.stages.environments.browser.playing import element, press
from tests.stages.environments.processes import named, until_gone
from trajmill.schemas.actions import TypeText
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.browsergym.environment import BrowserGymEnvironment, BrowserGymFactory, import_tasks
from trajmill.stages.environments.tasks import splits_of_seeds
from trajmill.stages.reaper import end_processes

pytest.importorskip("browsergym.core", reason="needs pip install 'trajmill[browsergym]'")
pytestmark = pytest.mark.browser
ORIGIN = Origin(round=1, run_id="run", code_version="test")


@asynccontextmanager
async def playing() -> AsyncIterator[BrowserGymEnvironment]:
    """An environment of which nothing is left in the end."""
    environment = await BrowserGymFactory()()
    try:
        yield environment
    finally:
        await environment.close()
        belongings = environment.belongings()
        await asyncio.to_thread(until_gone, belongings.process_ids, *belongings.folders)


async def test_imported_queries_are_split_and_solved_by_coordinates_and_text_is_never_run(tmp_path: Path) -> None:
    made = await import_tasks(("miniwob.enter-text", "miniwob.no-such-task"), splits_of_seeds(1, 1), 7, ORIGIN)
    assert [failure.failure_class for failure in made.failures] == [FailureClass.SETUP]
    assert [query.split for query in made.queries] == [Split.TRAIN, Split.HELDOUT_SLOTS]
    query, other = made.queries
    assert query.query_id != other.query_id
    wanted = query.instruction.split('"')[1]
    hostile = f"\"); open('{tmp_path / 'ran'}', 'w') #"
    async with playing() as environment:
        with failing(FailureClass.TASK):
            await environment.reset(query.model_copy(update={"start_state": "{}"}), 0)
        first = await environment.reset(query, 0)
        assert await environment.score() == 0.0
        await environment.step(press(element(first, "text_field")))
        assert element(await environment.step(TypeText(text=hostile)), "text_field").value == hostile
        typed = await environment.step(TypeText(text=wanted, clear=True))
        field = element(typed, "text_field")
        assert field.value == wanted and "focused" in field.states
        await environment.step(press(element(typed, "button", "Submit")))
        assert await environment.score() == 1.0
        for process in named("chrom"):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with failing(FailureClass.ENVIRONMENT):
            await environment.step(TypeText(text="x"))
        await asyncio.to_thread(end_processes, environment.belongings().process_ids)
        with pytest.raises(EnvironmentFailure, match="has ended"):
            await environment.score()
        assert not await environment.healthy()
    assert first.elements is not None and first.elements[0].states == ("title",)
    picture = Image.open(io.BytesIO(first.screen.encode()))
    assert picture.size == first.screen.size and len(set(picture.convert("RGB").getdata())) > 2
    assert not (tmp_path / "ran").exists()


async def test_a_process_that_owes_an_answer_is_not_asked_again() -> None:
    async with playing() as environment:
        assert await environment.healthy()
        asked = asyncio.create_task(environment.score())
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert not await environment.healthy()
