from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest
from PIL import Image

from tests.stages.environments.android.playing import element, environment_on, press, task
from tests.stages.environments.android.stand_in.phone import START_FILE, Phone
from tests.stages.environments.android.stand_in.server import AdbServer
from trajmill.schemas.actions import (
    Action,
    Answer,
    Click,
    Drag,
    LongPress,
    OpenApp,
    PressKeys,
    Scroll,
    Swipe,
    SystemButton,
    Terminate,
    Wait,
)
from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.android.commands import gesture


async def play(
    phone: Phone, server: AdbServer, actions: Sequence[Action], start: dict[str, Any] | None = None, **settings: Any
) -> list[Observation]:
    async with environment_on(phone, server, **settings) as environment:
        return [await environment.reset(task(start), 0), *[await environment.step(action) for action in actions]]


@pytest.mark.parametrize(
    ("action", "commands"),
    [
        (Click(x=1, y=2), ["input tap 1 2"]),
        (Click(x=1, y=2, count=2), ["input tap 1 2"] * 2),
        (Click(x=1, y=2, button="right"), []),
        (LongPress(x=1, y=2, seconds=2), ["input swipe 1 2 1 2 2000"]),
        (Swipe(x=1, y=2, x2=3, y2=4), ["input swipe 1 2 3 4 500"]),
        (Drag(x=1, y=2, x2=3, y2=4), ["input draganddrop 1 2 3 4 1000"]),
        (SystemButton(button="Back"), ["input keyevent KEYCODE_BACK"]),
        (SystemButton(button="Menu"), ["input keyevent KEYCODE_APP_SWITCH"]),
        (PressKeys(keys=("volume_up",)), ["input keyevent KEYCODE_VOLUME_UP"]),
        (PressKeys(keys=("KEYCODE_66",)), ["input keyevent 66"]),
        (PressKeys(keys=("power; reboot",)), []),
        (Scroll(x=1, y=2, clicks=3), []),
    ],
)
def test_gestures_become_input_commands(action: Action, commands: list[str]) -> None:
    assert [" ".join(words) for words in gesture(action)] == commands


async def test_a_click_on_the_middle_of_an_element_presses_it(phone: Phone, server: AdbServer) -> None:
    home, app = await play(phone, server, [OpenApp(app="clock")])
    assert (home.app, app.app) == ("", "Clock")
    assert home.elements is not None
    assert home.elements[0].states == ("title",)
    assert app.screen.size == Size(720, 1280)
    assert app.screen.encode() == phone.screenshot()


async def test_a_warning_about_a_second_display_is_not_in_the_screenshot(phone: Phone, server: AdbServer) -> None:
    phone.two_displays = True
    assert (await play(phone, server, []))[0].screen.encode() == phone.screenshot()


async def test_turned_to_its_side_it_answers_in_the_pixels_of_its_screenshot(phone: Phone, server: AdbServer) -> None:
    async with environment_on(phone, server) as environment:
        seen = await environment.reset(task({"orientation": "landscape"}), 0)
        assert seen.screen.size == Size(1280, 720) == Image.open(io.BytesIO(seen.screen.encode())).size
        assert (await environment.step(press(seen, "launcher/clock"))).app == "Clock"


async def test_an_app_without_a_package_is_opened_by_its_label(phone: Phone, server: AdbServer) -> None:
    assert (await play(phone, server, [OpenApp(app="wallet")], apps={}))[-1].app == "org.trajmill.wallet"


@pytest.mark.parametrize("name", ["No such app", "com.none.such", "'; reboot #", "$(reboot)"])
async def test_an_app_that_does_not_exist_leaves_the_launcher_open(phone: Phone, server: AdbServer, name: str) -> None:
    assert (await play(phone, server, [OpenApp(app="Clock"), OpenApp(app=name)]))[-1].app == ""
    assert "reboot" not in {words[0] for words in phone.ran}


async def test_the_end_of_the_episode_touches_nothing(phone: Phone, server: AdbServer) -> None:
    async with environment_on(phone, server) as environment:
        seen = await environment.reset(task(), 0)
        ran = len(phone.ran)
        for action in (Answer(text="42"), Terminate(status="success")):
            assert (await environment.step(action)).screen.screen_id == seen.screen.screen_id
        assert len(phone.ran) == ran


async def test_a_list_shows_its_end_once_a_swipe_has_found_it(phone: Phone, server: AdbServer) -> None:
    async with environment_on(phone, server) as environment:
        start = {"files": {START_FILE: '{"start_state": "{}", "goal": "{}", "seed": 2}'}, "open": "Maps"}
        seen = await environment.reset(task(start), 0)
        for name in ("maps.home/search",):
            seen = await environment.step(press(seen, name))
        for _ in range(4):
            box = element(seen, "maps.search/scroll").bounds
            assert "scrollable_up" in element(seen, "maps.search/scroll").states
            x, y = box.center
            seen = await environment.step(Swipe(x=x, y=y + 200, x2=x, y2=y - 200))
        assert element(seen, "maps.search/scroll").states == ("scrollable_up",)


async def test_what_was_changed_on_the_device_is_as_before_in_the_end(phone: Phone, server: AdbServer) -> None:
    before, files = dict(phone.settings), dict(phone.files)
    async with environment_on(phone, server) as environment:
        settings = {"system.screen_brightness": "10", "global.new": "it's $(1)"}
        goal = {"settings": {"system.volume": "3"}, "files": {"/sdcard/wanted": "x"}}
        again = task({"settings": settings, "files": {"/sdcard/mine": "text"}}, goal)
        for _ in range(2):
            await environment.reset(again, 0)
            assert await environment.score() == 0.0
            assert phone.files == {"/sdcard/mine": b"text"}
            during = dict(phone.settings)
            phone.settings["system.volume"] = "3"
            phone.files["/sdcard/wanted"] = b"x"
            assert await environment.score() == 1.0
        await environment.reset(task(), 0)
        assert phone.settings["system.screen_brightness"] == "120"
        assert not {"global.new", "system.volume"} & phone.settings.keys()
    assert during["global.new"] == "it's $(1)"
    assert during["global.window_animation_scale"] == during["system.accelerometer_rotation"] == "0"
    assert phone.settings == before
    assert phone.files == files


async def test_a_reset_stops_the_apps_and_clears_what_is_named(phone: Phone, server: AdbServer) -> None:
    start: dict[str, Any]
    for start in ({}, {"clear": ["Notes"]}):
        async with environment_on(phone, server) as environment:
            seen = await environment.reset(task({"open": "Notes"}, {}, "Notes"), 0)
            seen = await environment.step(press(seen, "notes.home/new"))
            await environment.reset(task(start, {}, "Notes"), 0)
            shown = await environment.step(OpenApp(app="Notes"))
        assert shown.elements is not None
        assert shown.elements[0].element_id == "notes.home/title"
    assert ("pm", "clear", "org.trajmill.notes") in phone.ran


async def test_it_refuses_to_act_before_a_reset_and_for_another_platform(phone: Phone, server: AdbServer) -> None:
    async with environment_on(phone, server) as environment:
        with pytest.raises(EnvironmentFailure, match="no reset"):
            await environment.step(Wait())
        with pytest.raises(EnvironmentFailure, match="platform desktop"):
            await environment.reset(task().model_copy(update={"platform": Platform.DESKTOP}), 0)
