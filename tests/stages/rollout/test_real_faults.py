"""Real programs killed in the middle of an episode: the attempt is made again, the round ends, nothing is left."""

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.stages.environments.processes import descendants, named, until_gone
from tests.stages.rollout.toy import ORIGIN
from trajmill.schemas.actions import Terminate, TypeText
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.environments.pool.pool import EnvironmentLimits
from trajmill.stages.environments.tasks import splits_of_seeds
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.worker import run_attempts


class Saboteur:
    """Types, and says that it is done; in its first episode it strikes the environment's program before that."""

    name, model_version = "saboteur", "none"

    def __init__(self, program: str, blows: list[signal.Signals]) -> None:
        self._program = program
        self._blows = blows

    async def act(self, episode: EpisodeView) -> Decision:
        if episode.history:
            return Decision("", Terminate(status="success"), "", "", "")
        if self._blows:
            blow, struck = self._blows.pop(), named(self._program)
            for process in struck:
                with suppress(ProcessLookupError):
                    os.kill(process, blow)
            assert struck
        return Decision("", TypeText(text="x"), "", "", "")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = descendants(os.getpid())
    yield
    until_gone(list(descendants(os.getpid()) - before))


def round_of(
    queries: Sequence[Query],
    factory: EnvironmentFactory,
    program: str,
    blow: signal.Signals = signal.SIGKILL,
    step_seconds: float = 30.0,
) -> list[FinishedAttempt]:
    done: list[FinishedAttempt] = []
    blows = [blow]

    async def record(rollout: FinishedAttempt) -> None:
        done.append(rollout)

    plan = [Attempt(query, Purpose.TRAIN, number, number) for number, query in enumerate(queries)]
    limits = Limits(environment=EnvironmentLimits(step_seconds=step_seconds))
    asyncio.run(run_attempts(plan, lambda _: Saboteur(program, blows), factory, limits, ORIGIN, record, 1))
    return done


def assert_overcome(done: list[FinishedAttempt]) -> None:
    assert len(done) == 2 and not [rollout.failure for rollout in done if rollout.failure]
    hit, spared = done
    assert hit.earlier_failure is not None and spared.earlier_failure is None
    assert (hit.earlier_failure.failure_class, hit.earlier_failure.attempts) == (FailureClass.ENVIRONMENT, 1)
    assert all(rollout.episode.trajectory.answer == "success" for rollout in done)


@pytest.mark.browser
def test_a_browser_that_is_killed_costs_one_try() -> None:
    from tests.stages.environments.browser.playing import a_query
    from tests.stages.environments.browser.site import serving
    from trajmill.stages.environments.browser.environment import BrowserFactory

    with serving() as site:
        assert_overcome(round_of([a_query(f"{site}/")] * 2, BrowserFactory(), "chrom"))


@pytest.mark.desktop
@pytest.mark.parametrize("program", ["Xvfb", "mousepad"])
def test_a_display_or_program_that_is_killed_costs_one_try(tmp_path: Path, program: str) -> None:
    from tests.stages.environments.desktop.queries import query_of
    from trajmill.stages.environments.desktop.environment import LocalDesktops

    query = query_of(tmp_path, config=[{"type": "launch", "parameters": {"command": ["mousepad"]}}])
    assert_overcome(round_of([query] * 2, LocalDesktops(tmp_path), program))


@pytest.mark.browser
@pytest.mark.parametrize(
    ("program", "blow"),
    [("chrom", signal.SIGKILL), ("browsergym.player", signal.SIGKILL), ("browsergym.player", signal.SIGSTOP)],
)
def test_a_browser_or_player_of_browsergym_that_is_killed_or_hangs_costs_one_try(
    program: str, blow: signal.Signals
) -> None:
    pytest.importorskip("browsergym.core", reason="needs pip install 'trajmill[browsergym]'")
    from trajmill.stages.environments.browsergym.environment import BrowserGymFactory, import_tasks

    (query,) = asyncio.run(import_tasks(["miniwob.click-button"], splits_of_seeds(1, 0), 7, ORIGIN)).queries
    seconds = 30.0 if blow is signal.SIGKILL else 6.0
    assert_overcome(round_of([query] * 2, BrowserGymFactory(), program, blow, seconds))
