from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stages.environments.android.playing import element, environment_on, press, task
from tests.stages.environments.android.stand_in.phone import ADB_KEYBOARD, OWN_KEYBOARD, Phone
from tests.stages.environments.android.stand_in.programs import spaces
from tests.stages.environments.android.stand_in.server import AdbServer
from trajmill.schemas.actions import TypeText
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.android.commands import ascii_commands, unicode_commands

PRINTABLE = st.text("%s abc'\"$`\\;&|<>()~#\n", max_size=30)


@given(PRINTABLE)
def test_ascii_is_typed_as_it_is(text: str) -> None:
    typed = ""
    for words in ascii_commands(text):
        typed += "\n" if words == ("input", "keyevent", "KEYCODE_ENTER") else spaces(words[2])
    assert typed == text


@given(st.text(max_size=1000))
def test_any_text_arrives_but_its_control_characters(text: str) -> None:
    typed = ""
    for words in unicode_commands(text):
        keys = {"KEYCODE_ENTER": "\n", "KEYCODE_TAB": "\t"}
        typed += keys[words[2]] if words[1] == "keyevent" else base64.b64decode(words[-1]).decode()
    wanted = "".join(each for each in text if each in "\n\t" or each.isprintable() or not each.isascii())
    assert typed == wanted.encode(errors="ignore").decode()


async def typed_into_notes(phone: Phone, server: AdbServer, *texts: TypeText) -> str:
    async with environment_on(phone, server) as environment:
        seen = await environment.reset(task({"open": "Notes"}, {}, "Notes"), 0)
        for name in ("notes.home/new", "notes.edit/text"):
            seen = await environment.step(press(seen, name))
        for text in texts:
            seen = await environment.step(text)
        return element(seen, "notes.edit/text").value


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["Milk", "50%s; reboot", "'; rm -rf / #", "$(reboot) `id` \\ \"q\" 'r' & < > ~ * ?", "é ü 你好 🙂", "--es"]
)
async def test_every_text_reaches_the_field_and_no_program(phone: Phone, server: AdbServer, text: str) -> None:
    assert await typed_into_notes(phone, server, TypeText(text=text)) == text
    assert not {"reboot", "id"} & {words[0] for words in phone.ran}
    assert ("rm", "-rf", "/") not in phone.ran
    assert phone.settings["secure.default_input_method"] == OWN_KEYBOARD


@pytest.mark.parametrize("second", ["ab", "ä"])
async def test_clear_replaces_what_the_field_holds(phone: Phone, server: AdbServer, second: str) -> None:
    first = TypeText(text="a long first text")
    assert await typed_into_notes(phone, server, first, TypeText(text=second)) == first.text + second
    assert await typed_into_notes(phone, server, first, TypeText(text=second, clear=True)) == second


async def test_a_device_without_adbkeyboard_says_what_it_needs(phone: Phone, server: AdbServer) -> None:
    phone.keyboards.remove(ADB_KEYBOARD)
    with pytest.raises(EnvironmentFailure, match="has no ADBKeyboard") as caught:
        await typed_into_notes(phone, server, TypeText(text="ä"))
    assert caught.value.failure_class is FailureClass.SETUP
