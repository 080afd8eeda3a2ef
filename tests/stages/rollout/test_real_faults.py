"""Real programs killed in the middle of an episode: the attempt is made again, the round ends, nothing is left."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.stages.environments.processes import descendants, named, until_gone
from tests.stages.rollout.rolling import rolled_out
from trajmill.schemas.actions import Terminate, TypeText
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.tables.query import Query
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.environments.base import EnvironmentFactory


class Saboteur:
    """Types, and says that it is done; in its first episode it ends the environment's program before that."""

    name, model_version = "saboteur", "none"

    def __init__(self, program: str, blows: list[int]) -> None:
        self._program = program
        self._blows = blows

    async def act(self, episode: EpisodeView) -> Decision:
        if episode.history:
            return Decision("", Terminate(status="success"), "", "", "")
        if self._blows:
            self._blows.pop()
            for process in named(self._program):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        return Decision("", TypeText(text="x"), "", "", "")


async def assert_overcome(query: Query, factory: EnvironmentFactory, program: str) -> None:
    blows, before = [1], descendants(os.getpid())
    hit, spared = await rolled_out([query] * 2, lambda query: Saboteur(program, blows), factory)
    assert hit.failure is spared.failure is None
    assert hit.earlier_failure is not None and spared.earlier_failure is None
    assert (hit.earlier_failure.failure_class, hit.earlier_failure.attempts) == (FailureClass.ENVIRONMENT, 1)
    assert all(rollout.episode.trajectory.answer == "success" for rollout in (hit, spared))
    until_gone(descendants(os.getpid()) - before)


@pytest.mark.browser
async def test_a_browser_that_is_killed_costs_one_try() -> None:
    from tests.stages.environments.browser.playing import a_query
    from tests.stages.environments.browser.site import serving
    from trajmill.stages.environments.browser.environment import BrowserFactory

    with serving() as site:
        await assert_overcome(a_query(f"{site}/"), BrowserFactory(), "chromium-headless-shell")


@pytest.mark.desktop
async def test_a_display_that_is_killed_costs_one_try(tmp_path: Path) -> None:
    from tests.stages.environments.desktop.queries import query_of
    from trajmill.stages.environments.desktop.environment import LocalDesktops

    query = query_of(tmp_path, config=[{"type": "launch", "parameters": {"command": ["mousepad"]}}])
    await assert_overcome(query, LocalDesktops(tmp_path), "Xvfb")
