import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.records import record
from trajmill.schemas.actions import Action, Click, Terminate
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import PathStep, Platform, Query
from trajmill.stages.agents.base import Decision, EpisodeView

ORIGIN = Origin(round=1, run_id="run", code_version="test")
BUTTON = UIElement("button", "Go", Box(0, 0, 10, 10), ("clickable",))


def toy_query(name: str = "press", max_steps: int = 4) -> Query:
    path = (PathStep(page="toy.home", operation="tap", target="go"),)
    words = {"task": "toy.press", "raw_instruction": "Press Go", "instruction": "Press Go", "phrasing": "0"}
    given = {
        "apps": ("toy",),
        "pages": ("toy.home",),
        "page_descriptions": ("",),
        "start_state": "{}",
        "goal": "{}",
        "difficulty": 1,
    }
    common = ORIGIN.common(made_by="test")
    return record(Query, query_id=name, path=path, max_steps=max_steps, validation="passed", **words, **given, **common)


def look(pressed: bool) -> Observation:
    handle = ScreenHandle("after" if pressed else "before", Size(20, 20), lambda: b"png")
    return Observation(handle, (BUTTON,), "toy")


@dataclass
class ToyEnvironment:
    """Solved once the button has been pressed; may crash or hang at its first step."""

    crashes: bool = False
    hangs: bool = False
    platform: Platform = Platform.PHONE
    name: str = "toy"
    pressed: bool = False
    closed: bool = False

    async def reset(self, query: Query, seed: int) -> Observation:
        self.pressed = False
        return look(False)

    async def step(self, action: Action) -> Observation:
        if self.crashes:
            raise EnvironmentFailure("the phone is gone")
        if self.hangs:
            await asyncio.sleep(60)
        self.pressed = self.pressed or isinstance(action, Click)
        return look(self.pressed)

    async def score(self) -> float | None:
        return 1.0 if self.pressed else 0.0

    async def close(self) -> None:
        self.closed = True

    def __hash__(self) -> int:
        return id(self)


@dataclass
class ToyFactory:
    kinds: list[ToyEnvironment] = field(default_factory=list)
    refuses: bool = False
    made: list[ToyEnvironment] = field(default_factory=list)

    async def __call__(self) -> ToyEnvironment:
        if self.refuses:
            raise EnvironmentFailure("no phone is free", FailureClass.SETUP)
        environment = self.kinds.pop(0) if self.kinds else ToyEnvironment()
        self.made.append(environment)
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
