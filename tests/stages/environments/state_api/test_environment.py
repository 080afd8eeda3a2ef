"""Applications with a state API in a real browser, and a small round there."""

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from tests.failures import failing
from tests.stages.environments.browser.playing import ORIGIN, element, press
from tests.stages.environments.shared_factory import SharedFactory
from tests.stages.environments.simulated.scripted import ScriptedAgent
from tests.stages.environments.state_api.apps import SHOP, StateApi, serving
from tests.stages.rollout.rolling import rolled_out
from trajmill.schemas.actions import TypeText
from trajmill.schemas.errors import FailureClass, TrajmillError
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.stages.environments.base import Patience, Restorable
from trajmill.stages.environments.browser.episode import PageTimeouts
from trajmill.stages.environments.state_api.environment import StateApiEnvironment, StateApiFactory
from trajmill.stages.environments.tasks import own_query
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.stages.rollout.episode import run_episode

pytestmark = pytest.mark.browser
WAITING = PageTimeouts(load=100.0, turn=100.0, network=1.0)
SharedWorld = SharedFactory[StateApiEnvironment]
MILK = {"id": "t1", "title": "Milk", "done": False}
BREAD = {"id": "t2", "title": "Bread", "done": False}
DONE = {"path": "tasks.t1.done", "to": True}
start_browser = partial(StateApiFactory, timeouts=WAITING)


@pytest.fixture(scope="module")
def tasks() -> Iterator[type[StateApi]]:
    with serving() as served:
        yield served


def query(served: type[StateApi], *changes: dict[str, Any], state: Any = None, allowed: Sequence[str] = ()) -> Query:
    start = {"url": f"{served.url}/", "viewport": [640, 480], **({} if state is None else {"state": state})}
    goal = {"changes": changes, "allowed": allowed}
    others = {"apps": ("app",), "goal": json.dumps(goal), "phrasing": "test", "max_steps": 10}
    return own_query(Platform.WEB, "task", "Do it.", json.dumps(start), ORIGIN, "test", **others)


async def rolled(world: StateApiEnvironment, asked: Query, *presses: str, end: str = "finish") -> Trajectory:
    attempt, agent = Attempt(asked, Purpose.TRAIN, 0, 1), ScriptedAgent((*presses, end), Platform.WEB)
    return (await run_episode(attempt, agent, world, Limits(), ORIGIN)).episode.trajectory


async def test_rewards_side_effects_and_false_completes_come_from_the_state(
    tasks: type[StateApi], browser: SharedWorld
) -> None:
    asked = query(tasks, DONE, state={"tasks": [MILK, BREAD]})
    world = await browser.factory()
    with serving(SHOP) as shop:
        bought = query(shop, {"path": "orders.*", "added": {"items": {"apple": 1}}}, allowed=["cart"])
        found = [
            await rolled(world, asked, "done-t1"),
            await rolled(world, asked, "done-t1", "delete-t1"),
            await rolled(world, asked, "delete-t1", "done-t2"),
            await rolled(world, asked, end="give up"),
            await rolled(world, bought, "buy-apple", "order"),
            await rolled(world, bought, "buy-apple", "order", "order"),
            await rolled(world, query(tasks), "add"),
        ]
    await world.close()
    assert [(each.reward, each.side_effects and len(each.side_effects), each.false_complete) for each in found] == [
        (1.0, (), False),
        (0.0, (), True),  # Milk, which was done, is deleted: named by the goal
        (0.0, 1, True),
        (0.0, (), False),
        (1.0, (), False),
        (1.0, 1, False),
        (None, None, None),
    ]
    assert found[2].side_effects == ("tasks.t2.done",)


async def test_a_snapshot_is_an_exact_copy_in_a_session_of_its_own(tasks: type[StateApi], browser: SharedWorld) -> None:
    asked = query(tasks, DONE, {"path": "tasks.*", "added": {"title": "Eggs"}}, state={"tasks": [MILK]})
    one, other = await browser.factory(), await browser.factory()
    try:
        seen = await one.reset(asked, 1)
        assert (await other.reset(asked, 1)).screen.screen_id == seen.screen.screen_id, "no screen shows the session"
        seen = await one.step(press(element(seen, "button", "Done")))
        copied = await one.snapshot()
        assert isinstance(one, Restorable) and copied is not None
        restored = await other.restore(copied)
        assert restored.elements == seen.elements
        field, add = element(restored, "text_field"), element(restored, "button", "Add")
        for action in (press(field), TypeText(text="Eggs"), press(add)):
            restored = await other.step(action)
        assert await other.score() == 1.0 and await other.side_effects() == ()
        assert await one.score() == 0.0, "the copied session goes on by itself"
        seen = await one.step(press(element(seen, "text_field")))
        await one.step(TypeText(text="Egg"))
        assert await one.snapshot() is None, "no state has what is typed so far"
        with failing(FailureClass.SETUP):
            await other.restore("nonsense")
    finally:
        await one.close()
        await other.close()


async def test_an_episode_whose_server_came_back_without_it_is_void(browser: SharedWorld) -> None:
    """As after a restart; the page writes a state again, which looks like the work of the agent."""
    world = await browser.factory()
    with serving() as served:
        seen = await world.reset(query(served, DONE), 1)
        served.sessions.clear()
        await world.step(press(element(seen, "text_field")))
        await world.step(TypeText(text="Eggs"))
        await world.step(press(element(seen, "button", "Add")))
        assert len(served.sessions) == 1, "the page has written its state again"
        with failing(FailureClass.ENVIRONMENT, match="has lost the session of the episode"):
            await world.score()
    await world.close()


async def test_a_server_that_is_gone_costs_no_attempt(browser: SharedWorld) -> None:
    """An episode that begins without it waits; in the end it is one line."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    idle, server = ScriptedAgent(("finish",), Platform.WEB), ExitStack()
    asked = query(type("Away", (StateApi,), {"url": f"http://127.0.0.1:{port}"}), DONE, state={"tasks": [MILK]})
    threading.Timer(0.5, lambda: server.enter_context(serving(port=port))).start()
    with server:
        made = await rolled_out([asked] * 2, lambda _: idle, browser.factory, concurrency=2)
    assert [one.failure or one.earlier_failure for one in made] == [None, None]
    impatient = StateApiFactory(timeouts=WAITING, waits=Patience(0.3))
    with pytest.raises(TrajmillError, match=rf"127.0.0.1:{port} did not answer for 0.3 s .*; start it, or ") as gone:
        await rolled_out([asked] * 2, lambda _: idle, impatient, concurrency=2)
    assert "\n" not in str(gone.value)
    await impatient.close()
