import io
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.failures import failing
from tests.stages.environments.android.playing import element, environment_on, press, task
from tests.stages.environments.android.stand_in.phone import ADB_KEYBOARD, OWN_KEYBOARD, START_FILE, Faults, Phone
from tests.stages.environments.android.stand_in.server import AdbServer
from tests.stages.environments.android.stand_in.sh import Result, Shell
from trajmill.schemas import actions as act
from trajmill.schemas.actions import OpenApp, SystemButton, TypeText
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.android.commands import gesture, shell_line

NOTE = '/sdcard/Download/it\'s a "note"; $(reboot).txt'


async def play(
    phone: Phone, server: AdbServer, actions: Sequence[act.Action], start: dict[str, Any] | None = None, **settings: Any
) -> list[Observation]:
    async with environment_on(phone, server, **settings) as environment:
        return [await environment.reset(task(start), 0), *[await environment.step(action) for action in actions]]


@pytest.mark.skipif(shutil.which("adb") is None, reason="adb is not installed; run `make system-deps`")
def test_the_stand_in_is_an_adb_server_to_debians_adb(phone: Phone, server: AdbServer, tmp_path: Path) -> None:
    def adb(*words: str) -> bytes:
        command = ["adb", "-P", str(server.port), "-s", "emulator-5554", *words]
        return subprocess.run(command, capture_output=True, check=True, timeout=200).stdout

    assert b"emulator-5554\tdevice\nemulator-5556\tdevice\n" in adb("devices")
    assert Image.open(io.BytesIO(adb("exec-out", "screencap -p"))).size == (720, 1280)
    assert b"dumped to: /sdcard/w.xml" in adb("shell", "uiautomator dump /sdcard/w.xml")
    adb("pull", "/sdcard/w.xml", str(tmp_path / "w.xml"))
    assert 'resource-id="launcher/clock"' in (tmp_path / "w.xml").read_text()
    adb("shell", "am start -n org.trajmill.clock/.MainActivity")
    assert b"org.trajmill.clock/" in adb("shell", "dumpsys window | grep mCurrentFocus")
    adb("shell", "input keyevent 3; echo not a word of it: $?")
    assert phone.ran[-2:] == [("input", "keyevent", "3"), ("echo", "not", "a", "word", "of", "it:", "0")]


@pytest.mark.parametrize(
    ("action", "commands"),
    [
        (act.Click(x=1, y=2, count=2), ["input tap 1 2"] * 2),
        (act.Click(x=1, y=2, button="right"), []),
        (act.LongPress(x=1, y=2, seconds=2), ["input swipe 1 2 1 2 2000"]),
        (act.Drag(x=1, y=2, x2=3, y2=4), ["input draganddrop 1 2 3 4 1000"]),
        (act.SystemButton(button="Menu"), ["input keyevent KEYCODE_APP_SWITCH"]),
        (act.PressKeys(keys=("volume_up",)), ["input keyevent KEYCODE_VOLUME_UP"]),
        (act.PressKeys(keys=("KEYCODE_66",)), ["input keyevent 66"]),
        (act.PressKeys(keys=("power; reboot",)), []),
        (act.Scroll(x=1, y=2, clicks=3), []),
    ],
)
def test_gestures_become_input_commands(action: act.Action, commands: list[str]) -> None:
    assert [" ".join(words) for words in gesture(action)] == commands


async def test_screens_have_their_pixels_app_and_elements(phone: Phone, server: AdbServer) -> None:
    phone.two_displays = True  # a warning about them would come before the picture
    home, app = await play(phone, server, [act.OpenApp(app="clock")])
    assert (home.app, app.app, app.screen.size) == ("", "Clock", Size(720, 1280))
    assert home.elements is not None and home.elements[0].states == ("title",)
    assert app.screen.encode() == phone.screenshot()


async def test_turned_to_its_side_it_answers_in_the_pixels_of_its_screenshot(phone: Phone, server: AdbServer) -> None:
    async with environment_on(phone, server) as environment:
        seen = await environment.reset(task({"orientation": "landscape"}), 0)
        assert seen.screen.size == Size(1280, 720) == Image.open(io.BytesIO(seen.screen.encode())).size
        assert (await environment.step(press(seen, "launcher/clock"))).app == "Clock"


async def test_an_app_is_opened_by_its_label_and_a_wrong_one_leaves_the_launcher(
    phone: Phone, server: AdbServer
) -> None:
    assert (await play(phone, server, [act.OpenApp(app="wallet")], apps={}))[-1].app == "org.trajmill.wallet"
    wrong = [act.OpenApp(app=name) for name in ("No such app", "com.none.such", "'; reboot #", "$(reboot)")]
    seen = await play(phone, server, [each for app in wrong for each in (act.OpenApp(app="Clock"), app)])
    assert [each.app for each in seen[1:]] == ["Clock", ""] * len(wrong)
    assert "reboot" not in {words[0] for words in phone.ran}


async def test_the_end_of_the_episode_touches_nothing(phone: Phone, server: AdbServer) -> None:
    async with environment_on(phone, server) as environment:
        with pytest.raises(EnvironmentFailure, match="no reset"):
            await environment.step(act.Wait())
        with pytest.raises(EnvironmentFailure, match="platform desktop"):
            await environment.reset(task().model_copy(update={"platform": Platform.DESKTOP}), 0)
        seen = await environment.reset(task(), 0)
        ran = len(phone.ran)
        for action in (act.Answer(text="42"), act.Terminate(status="success")):
            assert (await environment.step(action)).screen.screen_id == seen.screen.screen_id
        assert len(phone.ran) == ran


async def test_a_list_shows_its_end_once_a_swipe_has_found_it(phone: Phone, server: AdbServer) -> None:
    async with environment_on(phone, server) as environment:
        start = {"files": {START_FILE: '{"start_state": "{}", "goal": "{}", "seed": 2}'}, "open": "Maps"}
        seen = await environment.step(press(await environment.reset(task(start), 0), "maps.home/search"))
        for _ in range(4):
            found = element(seen, "maps.search/scroll")
            assert "scrollable_up" in found.states
            x, y = found.bounds.center
            seen = await environment.step(act.Swipe(x=x, y=y + 200, x2=x, y2=y - 200))
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
    assert (phone.settings, phone.files) == (before, files)


async def test_a_reset_stops_the_apps_and_clears_what_is_named(phone: Phone, server: AdbServer) -> None:
    start: dict[str, Any]
    async with environment_on(phone, server) as environment:
        for start in ({}, {"clear": ["Notes"]}):
            seen = await environment.reset(task({"open": "Notes"}, {}, "Notes"), 0)
            await environment.step(press(seen, "notes.home/new"))
            await environment.reset(task(start, {}, "Notes"), 0)
            shown = await environment.step(act.OpenApp(app="Notes"))
            assert shown.elements is not None and shown.elements[0].element_id == "notes.home/title"
    assert ("pm", "clear", "org.trajmill.notes") in phone.ran


@pytest.mark.slow
async def test_every_part_of_a_goal_must_hold(phone: Phone, server: AdbServer) -> None:
    start = {"settings": {"system.screen_brightness": "10"}, "files": {NOTE: "one\ntwo\n"}}
    goals: list[tuple[dict[str, Any], float | None]] = [
        ({"foreground": "org.trajmill.notes/.MainActivity"}, 1.0),
        ({"foreground": "org.trajmill.notes/.Other"}, 0.0),
        ({"foreground": "org.trajmill.clock"}, 0.0),
        ({"settings": {"system.screen_brightness": "120"}}, 0.0),
        ({"files": {NOTE: "one\ntwo"}}, 1.0),
        ({"files": {NOTE: None}}, 0.0),
        ({"answer": "forty two"}, 1.0),
        ({"answer": "43"}, 0.0),
        ({"answer": "forty two", "foreground": "org.trajmill.clock"}, 0.0),
        ({}, None),
    ]
    async with environment_on(phone, server) as environment:
        for goal, reached in goals:
            await environment.reset(task(start, goal), 0)
            await environment.step(act.OpenApp(app="Notes"))
            await environment.step(act.Answer(text=" Forty  two "))
            assert await environment.score() == reached, goal
    assert "reboot" not in {words[0] for words in phone.ran}


@pytest.mark.parametrize(
    ("start", "words", "kind"),
    [
        ({"settings": {"system;reboot": "1"}}, "the start state .* is malformed", FailureClass.TASK),
        ({"files": {"/sdcard/../data/x": None}}, "the start state .* is malformed", FailureClass.TASK),
        ({"files": {"/sdcard/x": "nul\0"}}, "the start state .* is malformed", FailureClass.TASK),
        ({"orientation": "sideways"}, "the start state .* is malformed", FailureClass.TASK),
        ({"open": "No such"}, "no package is known", FailureClass.SETUP),
        ({"open": "com.none"}, "has no app", FailureClass.SETUP),
    ],
)
async def test_a_start_state_that_cannot_be_prepared_gives_one_error_line(
    phone: Phone, server: AdbServer, start: dict[str, Any], words: str, kind: FailureClass
) -> None:
    async with environment_on(phone, server) as environment:
        with failing(kind, words):
            await environment.reset(task().model_copy(update={"start_state": json.dumps(start)}), 0)


async def typed_into_notes(phone: Phone, server: AdbServer, *texts: act.TypeText) -> list[str]:
    """What a field of an app holds after each of some texts."""
    async with environment_on(phone, server) as environment:
        seen = await environment.reset(task({"open": "Notes"}, {}, "Notes"), 0)
        for name in ("notes.home/new", "notes.edit/text"):
            seen = await environment.step(press(seen, name))
        return [element(await environment.step(text), "notes.edit/text").value for text in texts]


@pytest.mark.slow
async def test_every_text_reaches_the_field_and_no_program_and_can_replace(phone: Phone, server: AdbServer) -> None:
    hostile = ["50%s; reboot", "'; rm -rf / #", "$(reboot) `id` \\ \"q\" 'r' & < > ~ * ?", "é ü 你好 🙂", "--es"]
    texts = [act.TypeText(text=text, clear=True) for text in ("Milk", *hostile)]
    assert await typed_into_notes(phone, server, *texts, act.TypeText(text="ä")) == ["Milk", *hostile, "--esä"]
    assert not {"reboot", "id"} & {words[0] for words in phone.ran}
    assert ("rm", "-rf", "/") not in phone.ran
    assert phone.settings["secure.default_input_method"] == OWN_KEYBOARD
    phone.keyboards.remove(ADB_KEYBOARD)
    with failing(FailureClass.SETUP, "has no ADBKeyboard"):
        await typed_into_notes(phone, server, act.TypeText(text="ä"))


WORDS = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
    | st.text("'\"\\$`(){}|&;<>*?#~! \n\ta", max_size=12)
    | st.sampled_from(["'; reboot #", "$(reboot)", "`reboot`", "a && b || c", "", "-n", "a\nb", "é🙂", "%s"]),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@given(WORDS)
@settings(max_examples=60)
def test_shells_read_back_exactly_the_words(words: list[str]) -> None:
    line = shell_line([("printf", "%s\\0", *words)])
    read = subprocess.run(["sh", "-c", line], capture_output=True, check=True).stdout.decode()
    assert read.split("\0")[:-1] == words
    ran: list[Sequence[str]] = []
    Shell(lambda words, given: ran.append(words) or Result(), lambda path, content: None).run(line)  # type: ignore[func-returns-value]
    assert ran == [["printf", "%s\\0", *words]]


TEXT, MULTI_LINE = "    inputType=0x1 imeOptions=0x3\n", "    inputType=0x20001 imeOptions=0x40000006\n"


async def test_an_apk_is_installed_once_and_again_only_if_it_differs(
    phone: Phone, server: AdbServer, tmp_path: Path
) -> None:
    apk = tmp_path / "notes.apk"

    async def installs() -> int:
        before = len([words for words in phone.ran if "install" in words])
        async with environment_on(phone, server, apks={"Notes": apk}) as environment:
            await environment.reset(task(), 0)
        return len([words for words in phone.ran if "install" in words]) - before

    with failing(FailureClass.SETUP, "APK of Notes: .*No such file"):
        await installs()
    async with environment_on(phone, server, apks={"Unknown": apk}) as environment:
        with failing(FailureClass.SETUP, "APK of Unknown: no package is known for it; name it in `environment.apps`"):
            await environment.reset(task(), 0)
    apk.write_bytes(b"no archive")
    with failing(FailureClass.SETUP, "emulator-5554 does not install .*notes.apk: Failure .INSTALL_PARSE_FAILED"):
        await installs()
    for version in (b"1", b"2"):
        apk.write_bytes(b"PKorg.trajmill.notes " + version * 200_000)
        assert [await installs(), await installs()] == [1, 0]
        assert phone.installed == {"org.trajmill.notes": apk.read_bytes()}


async def test_permissions_are_granted_after_the_data_is_cleared(phone: Phone, server: AdbServer) -> None:
    async with environment_on(phone, server) as environment:
        start = {"clear": ["Notes"], "permissions": {"Notes": ["android.permission.CAMERA"]}}
        await environment.reset(task(start), 0)
        assert phone.granted == [("org.trajmill.notes", "android.permission.CAMERA")]
        names = [words[:2] for words in phone.ran]
        assert names.index(("pm", "clear")) < names.index(("pm", "grant"))
        with failing(FailureClass.SETUP, "pm grant com.none.such android.permission.CAMERA: "):
            await environment.reset(task({"permissions": {"com.none.such": ["android.permission.CAMERA"]}}), 0)


@pytest.mark.parametrize("flags", ["fl=LAYOUT_IN_SCREEN SECURE SPLIT_TOUCH", "ty=1 fl=#81812100 pfl=0x20000"])
async def test_a_screen_that_forbids_screenshots_says_so(phone: Phone, server: AdbServer, flags: str) -> None:
    phone.secure, phone.secure_flags = "org.trajmill.wallet", flags
    async with environment_on(phone, server) as environment:
        home = await environment.reset(task(), 0)
        black = await environment.step(OpenApp(app="Wallet"))
        shown = await environment.step(SystemButton(button="Home"))
    seen = [each.elements[0].states for each in (home, black, shown) if each.elements]
    assert seen == [("title",), ("title", "secure"), ("title",)]
    assert black.elements is not None and len(black.elements) > 1


async def test_enter_submits_fields_of_one_line_only(phone: Phone, server: AdbServer) -> None:
    for text, kind, typed, pressed in (
        (TypeText(text="one\ntwo", enter=True), MULTI_LINE, ["one", "two"], 1),
        (TypeText(text="one\ntwo", enter=True), TEXT, ["one%stwo"], 1),
        (TypeText(text="one\ntwo\n"), TEXT, ["one%stwo"], 1),
        (TypeText(text="one\ntwo"), TEXT, ["one%stwo"], 0),
        (TypeText(text="one\ntwo", enter=True), "    inputType=0x0\n", ["one", "two"], 2),
        (TypeText(text="one\ntwo", enter=True), "", ["one", "two"], 2),
    ):
        phone.input_type = kind
        async with environment_on(phone, server) as environment:
            seen = await environment.reset(task({"open": "Notes", "clear": ["Notes"]}), 0)
            for name in ("notes.home/new", "notes.edit/text"):
                seen = await environment.step(press(seen, name))
            assert "focused" in element(seen, "notes.edit/text").states
            phone.ran.clear()
            await environment.step(text)
        assert [words[2] for words in phone.ran if words[:2] == ("input", "text")] == typed
        assert len([words for words in phone.ran if words == ("input", "keyevent", "KEYCODE_ENTER")]) == pressed


async def test_a_screen_that_never_rests_is_an_observation(phone: Phone, server: AdbServer) -> None:
    phone.faults = Faults(never_rests=True)
    async with environment_on(phone, server, settle_seconds=0.2) as environment:
        seen = [await environment.reset(task(), 0), await environment.step(OpenApp(app="Clock"))]
    assert [(each.app, each.elements) for each in seen] == [("", None), ("Clock", None)]
