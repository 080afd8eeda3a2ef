from pathlib import Path

import pytest

from tests.failures import failing
from tests.stages.environments.android.playing import element, environment_on, press, task
from tests.stages.environments.android.stand_in.phone import Faults, Phone
from tests.stages.environments.android.stand_in.server import AdbServer
from trajmill.schemas.actions import OpenApp, SystemButton, TypeText
from trajmill.schemas.errors import FailureClass

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


@pytest.mark.parametrize(
    ("text", "kind", "typed", "pressed"),
    [
        (TypeText(text="one\ntwo", enter=True), MULTI_LINE, ["one", "two"], 1),
        (TypeText(text="one\ntwo", enter=True), TEXT, ["one%stwo"], 1),
        (TypeText(text="one\ntwo\n"), TEXT, ["one%stwo"], 1),
        (TypeText(text="one\ntwo"), TEXT, ["one%stwo"], 0),
        (TypeText(text="one\ntwo", enter=True), "    inputType=0x0\n", ["one", "two"], 2),
        (TypeText(text="one\ntwo", enter=True), "", ["one", "two"], 2),
    ],
)
async def test_enter_submits_fields_of_one_line_only(
    phone: Phone, server: AdbServer, text: TypeText, kind: str, typed: list[str], pressed: int
) -> None:
    phone.input_type = kind
    async with environment_on(phone, server) as environment:
        seen = await environment.reset(task({"open": "Notes"}), 0)
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
