import asyncio
import json
from base64 import b64encode
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from PIL import Image

from tests.failures import failing
from tests.http_server import QuietHandler, serving
from tests.stages.models.pictures import as_png
from tests.stages.online.toy_server import ToySpec, toy_queries, toy_server
from tests.stages.rollout.rolling import rolled_out
from tests.stages.rollout.toy import ORIGIN, ToyAgent, ToyEnvironment, look, press_and_finish, toy_query
from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.schemas.tables.trajectory import StopReason
from trajmill.stages.environments.kinds import OpenEnvSpec
from trajmill.stages.environments.openenv.client import BUSY, ServerBusy, read_answer, session_address
from trajmill.stages.environments.openenv.environment import ServerSessions
from trajmill.stages.environments.openenv.wire import WireScreen, to_observation, to_screen
from trajmill.stages.environments.pool.pool import EnvironmentLimits
from trajmill.stages.rollout.base import FinishedAttempt, Limits

pytestmark = pytest.mark.slow

ROOM = 5.0


async def roll(
    *urls: str, attempts: int = 1, concurrency: int = 1, query: str = "press", step_seconds: float = 5.0
) -> list[FinishedAttempt]:
    factory = ServerSessions(urls, "", ROOM, Platform.PHONE)
    limits = Limits(environment=EnvironmentLimits(step_seconds=step_seconds))
    queries = [toy_query(query)] * attempts
    return await rolled_out(queries, lambda _: ToyAgent(press_and_finish), factory, limits, concurrency)


async def test_an_episode_is_as_in_the_environment_itself_and_only_the_run_records_it() -> None:
    with toy_server() as server:
        (made,) = await roll(server.url)
        (unknown,) = await roll(server.url, query="unknown")
    trajectory = made.episode.trajectory
    outcome = (trajectory.reward, trajectory.environment, trajectory.stop_reason)
    assert outcome == (1.0, "openenv", StopReason.AGENT_DONE)
    steps = [(step.screen_before, step.screen_after, step.target and step.target.text) for step in made.episode.steps]
    assert steps == [("before", "after", "Go"), ("after", "after", None)]
    assert made.screens["after"].screen.size == Size(20, 20)
    assert made.screens["after"].screen.encode() == look(True).screen.encode()
    assert server.recorded == []
    with pytest.raises(EnvironmentFailure, match="a screenshot of 60,000,000 bytes"):
        to_screen(made.screens["after"], bytes(60_000_000))
    assert unknown.failure is not None and unknown.failure.failure_class is FailureClass.SETUP
    assert "no query has the id 'unknown'" in unknown.failure.message


@pytest.mark.parametrize("broken", [ToyEnvironment(raised=EnvironmentFailure("gone")), ToyEnvironment("step")])
async def test_a_failed_or_hanging_environment_is_tried_again_in_another_session(broken: ToyEnvironment) -> None:
    with toy_server(ToySpec.of(broken), step_seconds=6.0) as server:
        (made,) = await roll(server.url, step_seconds=3.0)
    assert made.episode.trajectory.reward == 1.0
    assert made.earlier_failure is not None and made.earlier_failure.failure_class is FailureClass.ENVIRONMENT


async def test_a_full_server_is_not_waited_for_while_we_hold_sessions() -> None:
    with toy_server(slots=2) as first, toy_server(slots=1) as second:
        made = await roll(first.url, second.url, attempts=12, concurrency=6)
    assert Counter(each.episode.trajectory.reward for each in made) == {1.0: 12}


async def test_sessions_spread_over_the_servers_and_servers_that_are_gone_are_a_setup_failure() -> None:
    with toy_server(slots=2) as first, toy_server(slots=2) as second:
        sessions = ServerSessions((first.url, second.url), "", ROOM)
        opened = await asyncio.gather(*(sessions.open() for _ in range(4)))
        with pytest.raises(EnvironmentFailure, match=r"is free: .* is full; .* is full"):
            await sessions.open()
        await opened[0].close()
        for session in [*opened, await sessions.open()]:
            await session.close()
        assert Counter(session.url for session in opened) == {first.url: 2, second.url: 2}
    with failing(FailureClass.SETUP, r"is free: .* cannot be reached: "):
        await ServerSessions((first.url,), "", 0.0).open()


def test_whatever_a_server_sends_gives_one_error_line_and_a_full_one_is_told_apart() -> None:
    for raw, line in (
        ("nonsense", "sent no JSON"),
        ("[" * 100_000, "sent no JSON"),
        ("[]", "sent a message without data"),
        ('{"type": "observation", "data": {}}', "sent no observation of a GUI: observation is missing"),
        ('{"type": "observation", "data": {"observation": {"text": "hi"}}}', "screenshot is missing"),
        ('{"type": "observation", "data": {"observation": {"screenshot": ""}, "reward": NaN}}', "reward should be"),
        ('{"type": "error", "data": {"message": "out of\\nmemory", "code": "EXECUTION_ERROR"}}', "out of memory"),
    ):
        with pytest.raises(ServerBusy):
            read_answer(json.dumps({"type": "error", "data": {"message": "full", "code": BUSY}}), "http://far")
        with pytest.raises(EnvironmentFailure) as error:
            read_answer(raw, "http://far")
        assert line in str(error.value) and "\n" not in str(error.value)


def test_a_screenshot_is_checked_before_it_is_decoded_and_an_address_before_it_is_used() -> None:
    large = as_png(Image.new("1", (9000, 9000)))
    for content, line in ((b"hallo", "5 bytes that are no screenshot"), (large, "9000 x 9000")):
        with pytest.raises(EnvironmentFailure, match=line):
            to_observation(WireScreen(screenshot=b64encode(content).decode()))
    with pytest.raises(EnvironmentFailure, match="the screenshot is not base64"):
        to_observation(WireScreen(screenshot="!"))
    for address in ("", "far:8000", "ftp://far"):
        with pytest.raises(BadInputError, match="is no address of an environment server"):
            session_address(address)


async def queries_of(*servers: str, token_file: Path | None = None) -> list[Query]:
    return (await OpenEnvSpec(servers=servers, token_file=token_file).own_queries(0, ORIGIN)).queries


def foreign_server(*tasks: object) -> AbstractContextManager[str]:
    """A server of somebody else, as far as its task list goes."""
    answers = {
        "/list_environments": ["theirs"],
        "/theirs/splits": [{"name": "train"}],
        "/theirs/tasks": {"tasks": tasks},
    }

    class Handler(QuietHandler):
        def reply(self) -> None:
            self.answer(json.dumps(answers[self.path]).encode())

    return serving(Handler)


async def test_served_queries_have_what_clients_may_know_and_are_of_the_served_splits(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    with toy_server(token="secret", splits=(Split.TRAIN, Split.HELDOUT_SLOTS)) as server:
        found = await queries_of("http://127.0.0.1:9", server.url, token_file=tmp_path / "token")
        with pytest.raises(EnvironmentFailure, match="/list_environments answered 401"):
            await queries_of(server.url)
    known = ("query_id", "platform", "apps", "task", "instruction", "difficulty", "max_steps", "split")
    expected = {query.query_id: [getattr(query, name) for name in known] for query in toy_queries()}
    assert {query.query_id: [getattr(query, name) for name in known] for query in found} == expected
    assert {(query.goal, query.path, query.slots, query.pages) for query in found} == {("{}", (), (), ())}
    assert len({query.goal_key() for query in found}) == len({query.goal_key() for query in toy_queries()})


async def test_tasks_of_another_server_need_an_id_and_an_instruction() -> None:
    with foreign_server({"query_id": "7", "instruction": "Buy milk", "platform": "phone", "reward": 3}) as url:
        (query,) = await queries_of(url)
    assert (query.query_id, query.instruction, query.platform) == ("7", "Buy milk", Platform.PHONE)
    assert (query.split, query.goal, query.max_steps) == (Split.TRAIN, "{}", 20)
    for task, line in (
        ("7", "a task that cannot be used"),
        ({"query_id": "7"}, "instruction is missing"),
        ({"query_id": "7", "instruction": "Buy", "platform": "fridge"}, "'fridge' is not a valid Platform"),
    ):
        with foreign_server(task) as url, pytest.raises(EnvironmentFailure, match=line) as error:
            await queries_of(url)
        assert "\n" not in str(error.value)


async def test_a_file_without_a_token_gives_one_error_line(tmp_path: Path) -> None:
    for text in ("", "two words", "x" * 1001, "tab\there"):
        (tmp_path / "token").write_text(text)
        with pytest.raises(BadInputError, match="no token"):
            await queries_of("http://127.0.0.1:9", token_file=tmp_path / "token")
    assert [missing.key for missing in OpenEnvSpec().missing(False)] == ["servers"]
