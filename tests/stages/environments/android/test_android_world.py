from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.stages.environments.android.stand_in.tasks import ORIGIN
from trajmill.schemas.actions import Action, Answer, Click, OpenApp, PressKeys, Swipe, SystemButton, Terminate, TypeText
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.android.android_world import (
    AndroidWorld,
    AndroidWorldEnvironment,
    AndroidWorldFactory,
    json_action,
    query_of,
)


@dataclass
class StandInEnv:
    """An `AsyncEnv` with one button and one field, as android_world's interface has it."""

    actions: list[dict[str, Any]] = field(default_factory=list)
    resets: int = 0
    closed: bool = False
    hangs: float = 0.0
    interaction_cache: str = ""
    foreground_activity_name: str = "com.contacts/.Main"

    def reset(self, go_home: bool) -> None:
        assert go_home
        self.resets += 1

    def get_state(self, wait_to_stabilize: bool) -> Any:
        time.sleep(self.hangs)
        pixels = np.zeros((40, 20, 3), np.uint8)
        pixels[:, :, 0] = len(self.actions)
        return SimpleNamespace(pixels=pixels, forest=None, ui_elements=[BUTTON, FIELD, HIDDEN], auxiliaries={})

    def execute_action(self, action: Any) -> None:
        self.actions.append(vars(action))
        if action.action_type == "answer":
            self.interaction_cache = action.text

    def close(self) -> None:
        self.closed = True


@dataclass
class StandInTask:
    """A `TaskEval`."""

    params: dict[str, Any]
    ended: int = 0
    complexity: float = 1.4
    app_names: tuple[str, ...] = ("contacts",)

    @property
    def goal(self) -> str:
        return f"Answer {self.params['number']}."

    def initialize_task(self, env: StandInEnv) -> None:
        if self.params["number"] == "broken":
            raise RuntimeError("no such contact")
        env.interaction_cache = ""

    def is_successful(self, env: StandInEnv) -> float:
        return float(env.interaction_cache == self.params["number"])

    def tear_down(self, env: StandInEnv) -> None:
        self.ended += 1


def ui_element(**changes: Any) -> Any:
    names = "text content_description class_name bbox_pixels hint_text is_checked is_clickable is_enabled is_focused"
    names += " is_scrollable is_selected is_visible resource_name resource_id"
    return SimpleNamespace(**{**dict.fromkeys(names.split()), "is_visible": True, "is_enabled": True, **changes})


def box(left: int, top: int, right: int, bottom: int) -> Any:
    return SimpleNamespace(x_min=left, y_min=top, x_max=right, y_max=bottom)


BUTTON = ui_element(text="Add", class_name="android.widget.Button", bbox_pixels=box(0, 0, 20, 10), is_clickable=True)
FIELD = ui_element(
    text="Ann",
    hint_text="Name",
    class_name="android.widget.EditText",
    bbox_pixels=box(0, 10, 20, 20),
    is_clickable=True,
    is_focused=True,
    resource_name="com.contacts:id/name",
)
HIDDEN = ui_element(text="x", bbox_pixels=box(0, 0, 1, 1), is_visible=False)


def world_with(env: StandInEnv, made: list[StandInTask] | None = None) -> AndroidWorld:
    def make(params: dict[str, Any]) -> StandInTask:
        task = StandInTask(params)
        if made is not None:
            made.append(task)
        return task

    return AndroidWorld(env, {"Answer": make}, SimpleNamespace)


def query(world: AndroidWorld, number: str = "42") -> Query:
    return query_of(world, "Answer", {"number": number}, Split.TRAIN, ORIGIN)


def test_a_task_becomes_a_query_with_its_step_budget() -> None:
    made = query(world_with(StandInEnv()))
    assert (made.instruction, made.task, made.max_steps) == ("Answer 42.", "Answer", 14)


def test_an_episode_initialises_acts_scores_and_tears_down() -> None:
    env, tasks = StandInEnv(), list[StandInTask]()

    async def play() -> tuple[Observation, float | None, float | None]:
        world = world_with(env, tasks)
        environment = await AndroidWorldFactory(lambda: world)()
        seen = await environment.reset(query(world), 0)
        before = await environment.score()
        await environment.step(Click(x=1, y=2))
        await environment.step(Answer(text="42"))
        after = await environment.score()
        await environment.close()
        await environment.close()
        return seen, before, after

    seen, before, after = asyncio.run(play())
    assert (before, after) == (0.0, 1.0)
    assert seen.screen.size == Size(20, 40)
    assert seen.screen.encode().startswith(b"\x89PNG")
    assert seen.elements is not None
    assert [(each.role, each.text, each.value) for each in seen.elements] == [
        ("heading", "com.contacts", ""),
        ("button", "Add", ""),
        ("text_field", "Name", "Ann"),
    ]
    assert seen.elements[2].states == ("clickable", "focused", "editable")
    assert tasks[-1].ended == 1
    assert env.closed
    assert env.actions[0] == {"action_type": "click", "x": 1, "y": 2}


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        (Click(x=1, y=2, count=2), {"action_type": "double_tap", "x": 1, "y": 2}),
        (Swipe(x=10, y=30, x2=10, y2=5), {"action_type": "swipe", "direction": "up"}),
        (
            TypeText(text="é", clear=True),
            {"action_type": "input_text", "text": "é", "x": 10, "y": 15, "clear_text": True},
        ),
        (SystemButton(button="Back"), {"action_type": "navigate_back"}),
        (SystemButton(button="Menu"), None),
        (PressKeys(keys=("power",)), None),
        (OpenApp(app="Contacts"), {"action_type": "open_app", "app_name": "Contacts"}),
        (Terminate(status="failure"), {"action_type": "status", "goal_status": "infeasible"}),
    ],
)
def test_actions_become_json_actions(action: Action, fields: dict[str, Any] | None) -> None:
    async def look() -> Observation:
        world = world_with(StandInEnv())
        return await AndroidWorldEnvironment(world, 5).reset(query(world), 0)

    assert json_action(action, asyncio.run(look())) == fields


def test_what_androidworld_raises_is_a_failure_of_the_right_class() -> None:
    async def fail() -> None:
        env = StandInEnv()
        world = world_with(env)
        environment = AndroidWorldEnvironment(world, 5)
        with pytest.raises(EnvironmentFailure, match="no such contact") as caught:
            await environment.reset(query(world, "broken"), 0)
        assert caught.value.failure_class is FailureClass.SETUP
        wrong = query(world).model_copy(update={"start_state": '{"task": "None", "params": {}}'})
        with pytest.raises(EnvironmentFailure, match="names no AndroidWorld task") as caught:
            await environment.reset(wrong, 0)
        assert caught.value.failure_class is FailureClass.SETUP
        await environment.reset(query(world), 0)
        env.hangs = 0.5
        slow = AndroidWorldEnvironment(world, 0.1)
        with pytest.raises(EnvironmentFailure, match="did not answer within"):
            await slow.reset(query(world), 0)

    asyncio.run(fail())
