"""An environment server over the toy environment, in a thread, behind a real socket."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvicorn
from pydantic import PrivateAttr

from tests.stages.rollout.toy import ORIGIN, ToyEnvironment, ToyFactory, toy_query
from trajmill.schemas.actions import Action, Click, Terminate
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.stages.environments.pool.pool import EnvironmentLimits
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.online.host import EpisodeHost, HostSettings, ServedQueries
from trajmill.stages.rollout.base import FinishedAttempt, JudgeAttempt, Limits


class ToySpec(EnvironmentSpec):
    kind: str = "toy"
    _factory: ToyFactory = PrivateAttr(default_factory=ToyFactory)

    @classmethod
    def of(cls, *environments: ToyEnvironment, refuses: bool = False) -> ToySpec:
        spec = cls()
        spec._factory = ToyFactory(list(environments), machines=0 if refuses else 1000)
        return spec

    def factory(self, platform: Platform) -> ToyFactory:
        return self._factory


def toy_queries() -> list[Query]:
    held_out = toy_query("held_out").model_copy(update={"split": Split.HELDOUT_SLOTS})
    return [toy_query("press"), toy_query("press_again"), held_out]


async def draw(observation: Observation) -> bytes:
    return observation.screen.encode()


def in_words(action: Action, family: Family = ANY) -> str:
    """As a model of a family writes an action on the toy's screen."""
    return family.mobile.render(Reply("I press.", action, "Pressed."), family.frame(Size(20, 20)))


PRESS, DONE = in_words(Click(x=5, y=5)), in_words(Terminate(status="success"))


@dataclass
class ToyServer:
    url: str = ""
    recorded: list[FinishedAttempt] = field(default_factory=list)

    async def record(self, made: FinishedAttempt) -> None:
        self.recorded.append(made)


@contextmanager
def toy_server(
    spec: EnvironmentSpec | None = None,
    *,
    slots: int = 4,
    token: str = "",
    idle_seconds: float = 60.0,
    step_seconds: float = 5.0,
    judge: JudgeAttempt | None = None,
    splits: tuple[Split, ...] = (Split.TRAIN,),
    family: Family = ANY,
) -> Iterator[ToyServer]:
    """Serve until the context ends; then everything that was under way is recorded."""
    # OpenEnv imports Gradio, which takes seconds: not when tests are collected.
    from trajmill.stages.online.openenv_server import environment_app

    server, started = ToyServer(), threading.Event()
    limits = Limits(environment=EnvironmentLimits(step_seconds=step_seconds, reset_seconds=step_seconds))
    settings = HostSettings(ORIGIN, slots=slots, limits=limits, idle_seconds=idle_seconds, family=family)
    running: list[uvicorn.Server] = []

    async def serve() -> None:
        queries = ServedQueries(toy_queries(), splits)
        host = EpisodeHost(spec or ToySpec(), queries, settings, server.record, judge, draw)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            app = environment_app(host, slots, token)
            running.append(uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)))
            started.set()
            await running[0].serve(sockets=[listener])
        await host.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert started.wait(200)
    try:
        yield server
    finally:
        running[0].should_exit = True
        thread.join(200)
