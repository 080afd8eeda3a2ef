import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stages.importing import samples
from tests.stages.importing.samples import ORIGIN, read
from trajmill.schemas.actions import (
    Action,
    Click,
    Drag,
    LongPress,
    MoveMouse,
    OpenApp,
    PressKeys,
    Scroll,
    Swipe,
    SystemButton,
    Terminate,
    TypeText,
    Wait,
    action_from_json,
)
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.stages.importing.agentnet import read_code
from trajmill.stages.importing.base import LAYOUTS, BadRecording, Recording
from trajmill.stages.importing.rows import rows_of

_DONE, _UP = Terminate(status="success"), Swipe(x=60, y=160, x2=60, y2=40)
_KEYS = [SystemButton(button="Enter"), SystemButton(button="Back"), SystemButton(button="Home")]
_EXPECTED: dict[str, tuple[Callable[[Path], None], list[Action]]] = {
    "gui-odyssey": (
        samples.gui_odyssey,
        [Click(x=60, y=50), SystemButton(button="Home"), _UP, TypeText(text="milk"), LongPress(x=119, y=199), _DONE],
    ),
    "amex": (samples.amex, [Click(x=60, y=50), _UP, TypeText(text="milk"), *_KEYS, _DONE]),
    "aitz": (samples.aitz, [Click(x=30, y=100), _UP, TypeText(text="words"), SystemButton(button="Back"), _DONE]),
    "agentnet": (
        samples.agentnet,
        [Click(x=150, y=50), Drag(x=30, y=20, x2=60, y2=100), PressKeys(keys=("ctrl", "s")), _DONE],
    ),
    "android-control": (
        samples.android_control,
        [OpenApp(app="Clock"), Click(x=20, y=30), Swipe(x=60, y=140, x2=60, y2=60), _DONE],
    ),
}


@pytest.mark.parametrize("kind", _EXPECTED)
def test_each_layout_gives_actions_in_pixels_and_a_tree_the_element_under_a_press(kind: str, tmp_path: Path) -> None:
    make, expected = _EXPECTED[kind]
    make(tmp_path)
    (recording,) = read(kind, tmp_path)
    assert isinstance(recording, Recording)
    rows = rows_of(recording, kind, ORIGIN)
    assert [action_from_json(step.action or "") for step in rows.steps] == expected
    assert rows.trajectory.answer == "success" and rows.trajectory.steps == len(expected)
    assert rows.steps[0].screen_after == rows.steps[1].screen_before
    named = {"aitz": ["Wi-Fi"], "android-control": ["Alarm"]}
    assert [step.target.text for step in rows.steps if step.target] == named.get(kind, [])
    assert recording.instruction in rows.steps[-1].prompt and rows.steps[0].conclusion in rows.steps[-1].prompt


@pytest.mark.parametrize("kind", LAYOUTS.kinds())
def test_another_folder_is_named(kind: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="nothing to import: expected"):
        read(kind, tmp_path)


def test_a_bad_trajectory_is_named_and_ends_nothing(tmp_path: Path) -> None:
    samples.agentnet(tmp_path, tasks=2)
    good = (tmp_path / "agentnet.jsonl").read_text().splitlines()
    escaping = samples.agentnet_task(8)
    escaping["traj"][0]["image"] = "../outside.png"
    samples.write(tmp_path.parent, "outside.png", samples.picture(1))
    bad = ["{", "[" * 100_000, '{"task_id": NaN}', json.dumps({"task_id": "5", "instruction": "x", "traj": "steps"})]
    lines = [good[0], *bad, json.dumps(escaping), good[1]]
    (tmp_path / "agentnet.jsonl").write_text("\n".join(lines))
    found = read("agentnet", tmp_path)
    named = [each for each in found if isinstance(each, BadRecording)]
    assert [isinstance(each, Recording) for each in found] == [True, *[False] * 5, True]
    assert [each.name for each in named] == [f"agentnet.jsonl:{number}" for number in range(2, 7)]
    assert "not in the folder" in named[-1].reason and all("\n" not in each.reason for each in named)


def test_a_picture_that_is_cut_short_is_named(tmp_path: Path) -> None:
    samples.gui_odyssey(tmp_path, "1")
    samples.gui_odyssey(tmp_path, "2")
    samples.write(tmp_path, "screenshots/1_2.png", samples.picture(2)[:60])
    first, second = read("gui-odyssey", tmp_path)
    assert isinstance(first, BadRecording) and "1_2.png" in first.reason
    assert isinstance(second, Recording)


def test_what_follows_a_damaged_place_of_a_record_file_is_named_once(tmp_path: Path) -> None:
    whole = samples.tfrecords([samples.android_control_record(1), samples.android_control_record(2, screenshots=3)])
    samples.write(tmp_path, "android_control-0", whole)
    samples.write(tmp_path, "android_control-1", whole[: len(whole) // 2])
    first, short, *rest = read("android-control", tmp_path)
    assert isinstance(first, Recording)
    assert isinstance(short, BadRecording) and "3 screenshots, 3 actions" in short.reason
    assert isinstance(rest[-1], BadRecording) and "rest of the file" in rest[-1].reason


@pytest.mark.parametrize(
    ("kind", "info", "action"),
    [
        ("CLICK", "KEY_APPSELECT", SystemButton(button="Menu")),
        ("BACK", "", SystemButton(button="Back")),
        ("INCOMPLETE", "", Terminate(status="failure")),
        ("SHAKE", "", None),
    ],
)
def test_gui_odyssey_names_keys_and_ends_variously(kind: str, info: str, action: Action | None, tmp_path: Path) -> None:
    samples.gui_odyssey(tmp_path)
    file = tmp_path / "annotations" / "7.json"
    episode = json.loads(file.read_text())
    episode["steps"][0] |= {"action": kind, "info": info}
    file.write_text(json.dumps(episode))
    (recording,) = read("gui-odyssey", tmp_path)
    assert isinstance(recording, Recording) and recording.steps[0].action == action


def test_typing_in_android_control_presses_the_field_writes_and_confirms(tmp_path: Path) -> None:
    typing: dict[str, str | int] = {"action_type": "type", "x": 20, "y": 30, "text": "milk"}
    samples.write(tmp_path, "android_control-0", samples.tfrecords([samples.android_control_record(first=typing)]))
    (recording,) = read("android-control", tmp_path)
    assert isinstance(recording, Recording)
    pressed, wrote, confirmed, *rest = recording.steps
    assert [pressed.action, wrote.action] == [Click(x=20, y=30), TypeText(text="milk")]
    assert confirmed.action == SystemButton(button="Enter") and pressed.screen == confirmed.screen != rest[0].screen


@pytest.mark.parametrize("below", ["", "train"])
def test_aitz_names_the_category_of_an_episode(below: str, tmp_path: Path) -> None:
    samples.aitz(tmp_path / below)
    (recording,) = read("aitz", tmp_path)
    assert isinstance(recording, Recording) and recording.task == "general"
    (alone,) = read("aitz", tmp_path / below / "general")
    assert isinstance(alone, Recording) and alone.task == "", "the name of the folder says nothing"


def test_a_press_outside_the_screen_is_no_action(tmp_path: Path) -> None:
    samples.android_control(tmp_path)
    (recording,) = read("android-control", tmp_path)
    assert isinstance(recording, Recording)
    far = recording.steps[1]._replace(action=Click(x=5000, y=3))
    rows = rows_of(recording._replace(steps=(far,)), "android-control", ORIGIN)
    assert rows.steps[0].action is None and rows.steps[0].action_kind == "unparsed"


_SCREEN = Size(1000, 500)


@pytest.mark.parametrize(
    ("code", "action"),
    [
        ("pyautogui.doubleClick(x=0.5, y=0.5)", Click(x=500, y=250, count=2)),
        ("pyautogui.rightClick(0.1, 0.2)", Click(x=100, y=100, button="right")),
        ("pyautogui.click(x=640, y=360)", Click(x=640, y=360)),
        ("pyautogui.moveTo(1.0, 1.0)", MoveMouse(x=999, y=499)),
        ("pyautogui.write(message='a\\nb')", TypeText(text="a\nb")),
        ("pyautogui.press('tab', presses=2)", PressKeys(keys=("tab", "tab"))),
        ("pyautogui.scroll(-5)", Scroll(clicks=-5)),
        ("pyautogui.scroll(3, x=0.5, y=0.5)", Scroll(clicks=3, x=500, y=250)),
        ("computer.wait(seconds=2)", Wait(seconds=2.0)),
        ("computer.terminate(status='failure')", Terminate(status="failure")),
    ],
)
def test_a_call_is_an_action(code: str, action: Action) -> None:
    assert read_code(code, _SCREEN) == (action,)
    assert read_code(f"{code}\npyautogui.write('x')", _SCREEN) == (action, TypeText(text="x"))


def test_anything_else_is_none() -> None:
    for code in (
        "",
        "__import__('os').system('true')",
        "pyautogui.click(x=open('/etc/passwd'), y=1)",
        "pyautogui.write(message=5)",
        "pyautogui.click(x=1e999, y=0.5)",
        "pyautogui.screenshot()",
        "pyautogui.click(0.1, 0.1); eval('1')",
        "(" * 20_000,
        "pyautogui.terminate(status='maybe')",
    ):
        assert read_code(code, _SCREEN) == ()
