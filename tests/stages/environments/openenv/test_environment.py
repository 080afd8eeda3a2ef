"""Episodes in environments that a server runs."""

from __future__ import annotations

import asyncio
import io
import json
from base64 import b64encode
from collections import Counter
from typing import Any

import pytest
from PIL import Image

from tests.stages.online.toy_server import ToySpec, picture, toy_server
from tests.stages.rollout.toy import ORIGIN, ToyAgent, ToyEnvironment, press_and_finish, toy_query
from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Purpose, StopReason
from trajmill.stages.environments.openenv.client import BUSY, ServerBusy, read_answer, session_address
from trajmill.stages.environments.openenv.environment import ServerSessions, ServerTimeouts
from trajmill.stages.environments.openenv.wire import WireScreen, to_observation, to_screen
from trajmill.stages.environments.pool.pool import EnvironmentLimits
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.worker import run_attempts

pytestmark = pytest.mark.slow

ROOM = ServerTimeouts(connect=5.0, lease=5.0)


def roll(
    urls: list[str],
    attempts: int = 1,
    concurrency: int = 1,
    agent: ToyAgent | None = None,
    query: str = "press",
    step_seconds: float = 5.0,
) -> list[FinishedAttempt]:
    finished: list[FinishedAttempt] = []

    async def record(made: FinishedAttempt) -> None:
        finished.append(made)

    async def run() -> None:
        factory = ServerSessions(tuple(urls), "", ROOM, Platform.PHONE)
        planned = [Attempt(toy_query(query), Purpose.TRAIN, number, number) for number in range(attempts)]
        limits = Limits(environment=EnvironmentLimits(step_seconds=step_seconds))
        maker = agent or ToyAgent(press_and_finish)
        await run_attempts(planned, lambda _: maker, factory, limits, ORIGIN, record, concurrency)

    asyncio.run(run())
    return finished


def test_an_episode_is_as_in_the_environment_itself_and_only_the_run_records_it() -> None:
    with toy_server() as server:
        (made,) = roll([server.url])
    trajectory = made.episode.trajectory
    assert (trajectory.reward, trajectory.environment, trajectory.stop_reason) == (
        1.0,
        "openenv",
        StopReason.AGENT_DONE,
    )
    steps = [(step.screen_before, step.screen_after, step.target and step.target.text) for step in made.episode.steps]
    assert steps == [("before", "after", "Go"), ("after", "after", None)]
    assert made.screens["after"].screen.size == Size(20, 20)
    assert made.screens["after"].screen.encode() == picture()
    assert server.recorded == []


@pytest.mark.slow
def test_a_failed_or_hanging_environment_is_tried_again_in_another_session() -> None:
    for broken in (ToyEnvironment(crashes=True), ToyEnvironment(hangs=True)):
        with toy_server(ToySpec.of(broken), step_seconds=2.0) as server:
            (made,) = roll([server.url], step_seconds=1.0)
        assert made.episode.trajectory.reward == 1.0
        assert made.earlier_failure is not None
        assert made.earlier_failure.failure_class is FailureClass.ENVIRONMENT


def test_a_full_server_is_not_waited_for_while_we_hold_sessions() -> None:
    with toy_server(slots=2) as first, toy_server(slots=1) as second:
        made = roll([first.url, second.url], attempts=12, concurrency=6)
    assert Counter(each.episode.trajectory.reward for each in made) == {1.0: 12}


def test_sessions_spread_over_the_servers() -> None:
    async def held(urls: tuple[str, ...]) -> list[str]:
        sessions = ServerSessions(urls, "", ROOM)
        opened = await asyncio.gather(*(sessions.open() for _ in range(4)))
        with pytest.raises(EnvironmentFailure, match=r"is free: .* is full; .* is full"):
            await sessions.open()
        await opened[0].close()
        again = await sessions.open()
        for session in [*opened, again]:
            await session.close()
        return [session.url for session in opened]

    with toy_server(slots=2) as first, toy_server(slots=2) as second:
        counts = Counter(asyncio.run(held((first.url, second.url))))
    assert counts == {first.url: 2, second.url: 2}


def test_a_query_that_the_server_does_not_know_is_a_failure_of_the_setup() -> None:
    with toy_server() as server:
        (made,) = roll([server.url], query="unknown")
    assert made.failure is not None
    assert made.failure.failure_class is FailureClass.SETUP
    assert "no query has the id 'unknown'" in made.failure.message


async def test_servers_that_are_not_there_are_a_failure_of_the_setup() -> None:
    with toy_server() as gone:
        pass
    with pytest.raises(EnvironmentFailure, match=r"is free: .* cannot be reached: ") as error:
        await ServerSessions((gone.url,), "", ServerTimeouts(lease=0.0)).open()
    assert error.value.failure_class is FailureClass.SETUP


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        ("nonsense", "sent no JSON"),
        ("[" * 100_000, "sent no JSON"),
        ("[]", "sent a message without data"),
        ('{"type": "observation", "data": {}}', "sent no observation of a GUI: the whole: "),
        ('{"type": "observation", "data": {"observation": {"text": "hi"}}}', "screenshot: Field required"),
        (
            '{"type": "observation", "data": {"observation": {"screenshot": ""}, "reward": NaN}}',
            "sent a reward that is no number",
        ),
        ('{"type": "error", "data": {"message": "out of\\nmemory", "code": "EXECUTION_ERROR"}}', "out of memory"),
    ],
)
def test_whatever_a_server_sends_gives_one_error_line(raw: str, line: str) -> None:
    with pytest.raises(EnvironmentFailure) as error:
        read_answer(raw, "http://far")
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_a_full_server_is_told_from_a_failing_one() -> None:
    with pytest.raises(ServerBusy):
        read_answer(json.dumps({"type": "error", "data": {"message": "full", "code": BUSY}}), "http://far")


def large_picture() -> bytes:
    png = io.BytesIO()
    Image.new("1", (9000, 9000)).save(png, "PNG")
    return png.getvalue()


@pytest.mark.parametrize(
    ("screen", "line"),
    [
        ({"screenshot": "!"}, "the screenshot is not base64"),
        ({"screenshot": "aGFsbG8="}, "5 bytes that are no screenshot"),
        ({"screenshot": b64encode(large_picture()).decode()}, "9000 x 9000"),
    ],
)
def test_a_screenshot_is_checked_before_it_is_decoded(screen: dict[str, Any], line: str) -> None:
    with pytest.raises(EnvironmentFailure, match=line):
        to_observation(WireScreen(**screen))


def test_a_screenshot_that_is_too_large_is_not_sent() -> None:
    with toy_server() as server:
        (made,) = roll([server.url])
    with pytest.raises(EnvironmentFailure, match="a screenshot of 60,000,000 bytes"):
        to_screen(made.screens["after"], bytes(60_000_000))


@pytest.mark.parametrize("address", ["", "far:8000", "ftp://far"])
def test_an_invalid_address_gives_one_error_line(address: str) -> None:
    with pytest.raises(BadInputError, match="is no address of an environment server"):
        session_address(address)
