import pytest

from trajmill.schemas.actions import Action, Click, MoveMouse, PressKeys, Scroll, Terminate, TypeText, Wait
from trajmill.schemas.geometry import Size
from trajmill.stages.importing.agentnet import read_code

_SCREEN = Size(1000, 500)


@pytest.mark.parametrize(
    ("code", "action"),
    [
        ("pyautogui.doubleClick(x=0.5, y=0.5)", Click(x=500, y=250, count=2)),
        ("pyautogui.rightClick(0.1, 0.2)", Click(x=100, y=100, button="right")),
        ("computer.tripleClick(x=0.1, y=0.2)", Click(x=100, y=100, count=3)),
        ("pyautogui.click(x=640, y=360)", Click(x=640, y=360)),
        ("pyautogui.moveTo(1.0, 1.0)", MoveMouse(x=999, y=499)),
        ("pyautogui.write(message='a\\nb')", TypeText(text="a\nb")),
        ("pyautogui.press('tab', presses=2)", PressKeys(keys=("tab", "tab"))),
        ("pyautogui.hotkey('ctrl', 'c')", PressKeys(keys=("ctrl", "c"))),
        ("pyautogui.scroll(-5)", Scroll(clicks=-5)),
        ("pyautogui.scroll(3, x=0.5, y=0.5)", Scroll(clicks=3, x=500, y=250)),
        ("computer.wait(seconds=2)", Wait(seconds=2.0)),
        ("computer.terminate(status='failure')", Terminate(status="failure")),
    ],
)
def test_a_call_is_an_action(code: str, action: Action) -> None:
    assert read_code(code, _SCREEN) == (action,)
    assert read_code(f"{code}\npyautogui.write('x')", _SCREEN) == (action, TypeText(text="x"))


@pytest.mark.parametrize(
    "code",
    [
        "",
        "import os",
        "__import__('os').system('true')",
        "pyautogui.click(x=open('/etc/passwd'), y=1)",
        "pyautogui.write(message=5)",
        "pyautogui.press(None)",
        "pyautogui.click(x=1e999, y=0.5)",
        "pyautogui.screenshot()",
        "pyautogui.click(0.1, 0.1); eval('1')",
        "((((" * 5000,
        "pyautogui.terminate(status='maybe')",
    ],
)
def test_anything_else_is_none(code: str) -> None:
    assert read_code(code, _SCREEN) == ()
