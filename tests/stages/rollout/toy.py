import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.records import record
from tests.stages.models.pictures import plain
from trajmill.schemas.actions import Action, Click, Terminate
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import PathStep, Platform, Query
from trajmill.stages.agents.base import Decision, EpisodeView

ORIGIN = Origin(round=1, run_id="run", code_version="test")
SIZE = Size(20, 20)
BUTTON = UIElement("button", "Go", Box(0, 0, 10, 10), ("clickable",), element_id="go")


def toy_query(name: str = "press", max_steps: int = 4) -> Query:
    path = (PathStep(page="toy.home", operation="tap", target="go"),)
    words = {"task": "toy.press", "instruction": "Press Go", "apps": ("toy",), "start_state": "{}", "goal": "{}"}
    common = ORIGIN.common(made_by="test")
    return record(Query, query_id=name, path=path, max_steps=max_steps, validation="passed", **words, **common)


def look(pressed: bool) -> Observation:
    handle = ScreenHandle("after" if pressed else "before", SIZE, lambda: plain("black", SIZE).encode())
    return Observation(handle, (BUTTON,), "toy")


@dataclass
class ToyEnvironment:
    """Solved once the button has been pressed; a call may hang, steps may raise or take some time."""

    hanging: str = ""
    """reset, step, score or close."""
    raised: Exception | None = None
    step_seconds: float = 0.0
    ill: bool = False
    platform: Platform = Platform.PHONE
    name: str = "toy"
    pressed: bool = False
    closed: bool = False
    open_now: list[int] = field(default_factory=list)

    def again(self) -> "ToyEnvironment":
        """Another instance with the same fault."""
        return ToyEnvironment(self.hanging, self.raised)

    async def _meet(self, call: str) -> None:
        if self.hanging == call:
            await asyncio.sleep(600)

    async def reset(self, query: Query, seed: int) -> Observation:
        await self._meet("reset")
        self.pressed = False
        return look(False)

    async def step(self, action: Action) -> Observation:
        await self._meet("step")
        await asyncio.sleep(self.step_seconds)
        if self.raised is not None:
            raise self.raised
        self.pressed = self.pressed or isinstance(action, Click)
        return look(self.pressed)

    async def score(self) -> float | None:
        await self._meet("score")
        return 1.0 if self.pressed else 0.0

    async def close(self) -> None:
        await self._meet("close")
        if not self.closed and self.open_now:
            self.open_now.pop()
        self.closed = True

    async def healthy(self) -> bool:
        return not self.ill

    def __hash__(self) -> int:
        return id(self)


@dataclass
class ToyFactory:
    """Gives the prepared environments, then sound ones, and counts how many are open at once and how many it refuses.

    It has so many machines; another environment cannot be started.
    """

    prepared: list[ToyEnvironment] = field(default_factory=list)
    machines: int = 1000
    made: list[ToyEnvironment] = field(default_factory=list)
    open_now: list[int] = field(default_factory=list)
    most_at_once: int = 0
    refused: int = 0

    async def __call__(self) -> ToyEnvironment:
        if len(self.open_now) >= self.machines:
            self.refused += 1
            raise EnvironmentFailure("no phone is free", FailureClass.SETUP)
        environment = self.prepared.pop(0) if self.prepared else ToyEnvironment()
        environment.open_now = self.open_now
        self.open_now.append(1)
        self.most_at_once = max(self.most_at_once, len(self.open_now))
        self.made.append(environment)
        await asyncio.sleep(0)
        return environment

    async def close(self) -> None:
        pass


@dataclass(frozen=True)
class ToyAgent:
    """Follows a script of actions, None for a reply that is no action."""

    script: Callable[[int], Action | None]
    name: str = "scripted"
    model_version: str = "none"

    async def act(self, episode: EpisodeView) -> Decision:
        await asyncio.sleep(0)
        action = self.script(len(episode.history))
        return Decision("think", action, "done", raw_response="words", prompt="prompt")


def press_and_finish(step: int) -> Action | None:
    return Click(x=5, y=5) if step == 0 else Terminate(status="success")
