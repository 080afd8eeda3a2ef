"""AndroidWorld's tasks as an environment: the user's own `AsyncEnv` and `TaskEval` objects, by their interface alone.

Nothing of android_world is imported. Its facts that show here (reference: `env/interface.py`, `env/json_action.py`,
`task_evals/task_eval.py` of android_world): `input_text` taps its place first and presses Enter afterwards; `swipe`
knows a direction only, that of the finger; an answer goes to the environment's `interaction_cache`.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypeVar

from PIL import Image

from trajmill.schemas.actions import (
    Action,
    Answer,
    Click,
    LongPress,
    OpenApp,
    Swipe,
    SystemButton,
    Terminate,
    TypeText,
    Wait,
)
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.stages.environments.android.roles import Surroundings, class_name, is_checkable, is_field, role_of
from trajmill.stages.environments.imported import ImportedTask

T = TypeVar("T")

_MAKER = "android_world"
_STEPS_PER_COMPLEXITY = 10
"""AndroidWorld gives an agent ten steps for each unit of a task's complexity."""
_LONGEST_WAIT = 10.0
_BUTTONS = {"Back": "navigate_back", "Home": "navigate_home", "Enter": "keyboard_enter"}


class TaskEval(Protocol):
    """A task with its parameters filled in."""

    complexity: float

    @property
    def goal(self) -> str:
        """The instruction."""
        ...

    @property
    def app_names(self) -> Sequence[str]:
        """Apps it needs."""
        ...

    def initialize_task(self, env: Any) -> None:
        """Make the start state."""
        ...

    def is_successful(self, env: Any) -> float:
        """The programmatic check, 0 to 1."""
        ...

    def tear_down(self, env: Any) -> None:
        """Clean up."""
        ...


class AndroidWorld(NamedTuple):
    """What a user brings from android_world."""

    env: Any
    """An `AsyncEnv`."""
    tasks: Mapping[str, Callable[[dict[str, Any]], TaskEval]]
    """Task class (or any function of the parameters) by name."""
    json_action: Callable[..., Any]
    """The class `JSONAction`."""


class AndroidWorldEnvironment:
    """One emulator of AndroidWorld; `Query.start_state` is `{"task": name, "params": {...}}`."""

    platform = Platform.PHONE
    name = "android_world"

    def __init__(self, world: AndroidWorld, seconds: float) -> None:
        """Nothing happens to the emulator before the first reset.

        Args:
            world: The user's objects; the environment closes `world.env` with itself.
            seconds: A call that takes longer is a failure.
        """
        self._world = world
        self._seconds = seconds
        # AndroidWorld's calls block, and must never overlap.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="android-world")
        self._task: TaskEval | None = None
        self._seen: Observation | None = None
        self._closed = False

    async def reset(self, query: Query, seed: int) -> Observation:
        """Tear the last task down, go home and initialise the query's task; the seed stands in its parameters."""
        try:
            await self._tear_down()
            start = json.loads(query.start_state)
            make = self._world.tasks[start["task"]]
            task = await self._call(lambda: make(start["params"]))
            await self._call(lambda: self._world.env.reset(go_home=True))
            self._task = task
            await self._call(lambda: task.initialize_task(self._world.env))
            return await self._look()
        except (ValueError, KeyError, TypeError) as error:
            text = f"the start state `{query.start_state[:80]}` names no AndroidWorld task: {error!r}"
            raise EnvironmentFailure(text, FailureClass.SETUP) from error
        except EnvironmentFailure as error:
            raise EnvironmentFailure(str(error), FailureClass.SETUP) from error

    async def step(self, action: Action) -> Observation:
        """Do one action; one that AndroidWorld has not (keys, Menu) changes nothing."""
        seen = self._running()
        if isinstance(action, Wait):
            await asyncio.sleep(min(action.seconds, _LONGEST_WAIT))
        arguments = json_action(action, seen)
        if arguments is not None:
            world = self._world
            await self._call(lambda: world.env.execute_action(world.json_action(**arguments)))
        return seen if isinstance(action, Terminate | Answer) else await self._look()

    async def score(self) -> float | None:
        """What the task's own check says."""
        self._running()
        task = self._task
        assert task is not None, "a reset makes the task"
        return float(await self._call(lambda: task.is_successful(self._world.env)))

    async def close(self) -> None:
        """Tear the task down and close the emulator's environment; closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._tear_down()
        finally:
            try:
                await self._call(self._world.env.close)
            finally:
                # A call that hangs cannot be ended: its thread is left to it.
                self._thread.shutdown(wait=False, cancel_futures=True)

    async def _tear_down(self) -> None:
        task, self._task, self._seen = self._task, None, None
        if task is not None:
            await self._call(lambda: task.tear_down(self._world.env))

    async def _look(self) -> Observation:
        state = await self._call(lambda: self._world.env.get_state(wait_to_stabilize=True))
        app = str(await self._call(lambda: self._world.env.foreground_activity_name)).partition("/")[0]
        self._seen = observation_of(state, app)
        return self._seen

    def _running(self) -> Observation:
        if self._seen is None:
            raise EnvironmentFailure("there was no reset", FailureClass.SETUP)
        return self._seen

    async def _call(self, work: Callable[[], T]) -> T:
        """Run what blocks; whatever it raises is a failure, since it is not this project's code."""
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except TimeoutError as error:
            raise EnvironmentFailure(f"AndroidWorld did not answer within {self._seconds:g} s") from error
        except Exception as error:
            raise EnvironmentFailure(f"AndroidWorld: {type(error).__name__}: {str(error)[:200]}") from error


class AndroidWorldFactory(NamedTuple):
    """Makes environments of AndroidWorld; picklable if `connect` is."""

    connect: Callable[[], AndroidWorld]
    """Connects to an emulator that nobody uses yet."""
    seconds: float = 120.0
    """A call that takes longer is a failure."""

    async def __call__(self) -> AndroidWorldEnvironment:
        """Connect to one emulator more.

        Raises:
            EnvironmentFailure: of class `setup`: whatever `connect` raised.
        """
        try:
            return AndroidWorldEnvironment(await asyncio.to_thread(self.connect), self.seconds)
        except Exception as error:
            text = f"AndroidWorld: {type(error).__name__}: {str(error)[:200]}"
            raise EnvironmentFailure(text, FailureClass.SETUP) from error

    async def close(self) -> None:
        """Nothing is shared."""


def query_of(world: AndroidWorld, name: str, params: dict[str, Any], split: Split, origin: Origin) -> Query:
    """The query of a task with these parameters, which must be what JSON can hold.

    Raises:
        KeyError: there is no such task.
    """
    task = world.tasks[name](params)
    imported = ImportedTask(
        platform=Platform.PHONE,
        name=name,
        instruction=task.goal,
        start_state=json.dumps({"task": name, "params": params}, sort_keys=True),
        apps=tuple(task.app_names),
        pages=tuple(task.app_names),
        page_description="",
        phrasing=_MAKER,
        difficulty=min(3, max(1, round(task.complexity))),
        max_steps=max(1, round(task.complexity * _STEPS_PER_COMPLEXITY)),
    )
    return imported.query(split, origin, _MAKER)


def json_action(action: Action, seen: Observation) -> dict[str, Any] | None:
    """The fields of the `JSONAction` for an action on a screen, None for one that does nothing there."""
    match action:
        case Click(x=x, y=y, button="left", count=count):
            return {"action_type": "click" if count == 1 else "double_tap", "x": x, "y": y}
        case LongPress(x=x, y=y):
            return {"action_type": "long_press", "x": x, "y": y}
        case Swipe():
            return {"action_type": "swipe", "direction": _direction(action)}
        case TypeText(text=text, clear=clear):
            field = next((each for each in seen.elements or () if "focused" in each.states), None)
            if field is None:
                return None
            x, y = field.bounds.center
            return {"action_type": "input_text", "text": text, "x": x, "y": y, "clear_text": clear}
        case SystemButton(button=button) if button in _BUTTONS:
            return {"action_type": _BUTTONS[button]}
        case OpenApp(app=app):
            return {"action_type": "open_app", "app_name": app}
        case Answer(text=text):
            return {"action_type": "answer", "text": text}
        case Terminate(status=status):
            return {"action_type": "status", "goal_status": "complete" if status == "success" else "infeasible"}
        case _:
            return None


def observation_of(state: Any, app: str) -> Observation:
    """An AndroidWorld `State` as an observation: its RGB array as a PNG, its elements with roles."""
    pixels = state.pixels
    size = Size(pixels.shape[1], pixels.shape[0])
    found = (_element(each) for each in state.ui_elements)
    elements = (UIElement("heading", app, Box(0, 0, size.width, 1), ("title",)), *(each for each in found if each))
    digest = hashlib.blake2b(pixels.tobytes(), digest_size=12)
    digest.update(repr((app, elements)).encode())
    return Observation(ScreenHandle(digest.hexdigest(), size, lambda: _png(pixels)), elements, app)


def _element(found: Any) -> UIElement | None:
    box = found.bbox_pixels
    if box is None or not found.is_visible:
        return None
    resource = found.resource_name or found.resource_id or ""
    role = role_of(class_name(found.class_name or ""), resource, bool(found.is_clickable), Surroundings())
    said = (found.text or "", found.content_description or "")
    text, value = (found.hint_text or said[1], said[0]) if is_field(role) else (said[0] or said[1], "")
    flags = {
        "clickable": found.is_clickable,
        "checked": found.is_checked and is_checkable(role),
        "selected": found.is_selected,
        "focused": found.is_focused,
        "editable": is_field(role),
        "disabled": found.is_enabled is False,
    }
    states = tuple(name for name, holds in flags.items() if holds)
    if found.is_scrollable:
        role, states = "list", ("scrollable_down", "scrollable_up")
    bounds = Box(int(box.x_min), int(box.y_min), int(box.x_max), int(box.y_max))
    return UIElement(role, text, bounds, states, value, resource)


def _direction(swipe: Swipe) -> str:
    right, down = swipe.x2 - swipe.x, swipe.y2 - swipe.y
    if abs(right) > abs(down):
        return "right" if right > 0 else "left"
    return "down" if down > 0 else "up"


def _png(pixels: Any) -> bytes:
    target = io.BytesIO()
    Image.fromarray(pixels).save(target, "PNG")
    return target.getvalue()
