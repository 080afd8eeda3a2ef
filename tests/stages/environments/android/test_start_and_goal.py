from __future__ import annotations

import json
from typing import Any

import pytest

from tests.stages.environments.android.playing import environment_on, task
from tests.stages.environments.android.stand_in.phone import Phone
from tests.stages.environments.android.stand_in.server import AdbServer
from trajmill.schemas.actions import Answer, OpenApp
from trajmill.schemas.errors import EnvironmentFailure, FailureClass

NOTE = '/sdcard/Download/it\'s a "note"; $(reboot).txt'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("goal", "reached"),
    [
        ({"foreground": "org.trajmill.notes"}, 1.0),
        ({"foreground": "org.trajmill.notes/.MainActivity"}, 1.0),
        ({"foreground": "org.trajmill.notes/.Other"}, 0.0),
        ({"foreground": "org.trajmill.clock"}, 0.0),
        ({"settings": {"system.screen_brightness": "10"}}, 1.0),
        ({"settings": {"system.screen_brightness": "120"}}, 0.0),
        ({"files": {NOTE: "one\ntwo"}}, 1.0),
        ({"files": {NOTE: "one"}}, 0.0),
        ({"files": {NOTE: None}}, 0.0),
        ({"files": {"/sdcard/none.txt": None}}, 1.0),
        ({"answer": "forty two"}, 1.0),
        ({"answer": "43"}, 0.0),
        ({"answer": "forty two", "foreground": "org.trajmill.clock"}, 0.0),
        ({}, None),
    ],
)
async def test_every_part_of_a_goal_must_hold(
    phone: Phone, server: AdbServer, goal: dict[str, Any], reached: float | None
) -> None:
    start = {"settings": {"system.screen_brightness": "10"}, "files": {NOTE: "one\ntwo\n"}}
    async with environment_on(phone, server) as environment:
        await environment.reset(task(start, goal), 0)
        await environment.step(OpenApp(app="Notes"))
        await environment.step(Answer(text=" Forty  two "))
        assert await environment.score() == reached
    assert "reboot" not in {words[0] for words in phone.ran}


@pytest.mark.parametrize(
    "start",
    [
        {"settings": {"system;reboot": "1"}},
        {"files": {"/data/data/com.bank/db": None}},
        {"files": {"/sdcard/../data/x": "text"}},
        {"files": {"/sdcard/x": "nul\0"}},
        {"command": "reboot"},
        {"orientation": "sideways"},
    ],
)
async def test_a_malformed_start_state_is_a_mistake_of_the_task(
    phone: Phone, server: AdbServer, start: dict[str, Any]
) -> None:
    with pytest.raises(EnvironmentFailure, match="PhoneStart") as caught:
        query = task().model_copy(update={"start_state": json.dumps(start)})
        async with environment_on(phone, server) as environment:
            await environment.reset(query, 0)
    assert caught.value.failure_class is FailureClass.TASK
    assert "\n" not in str(caught.value)


async def test_an_unknown_app_is_a_setup_failure(phone: Phone, server: AdbServer) -> None:
    for app, words in (("No such", "no package is known"), ("com.none", "has no app")):
        with pytest.raises(EnvironmentFailure, match=words) as caught:
            async with environment_on(phone, server) as environment:
                await environment.reset(task({"open": app}), 0)
        assert caught.value.failure_class is FailureClass.SETUP
