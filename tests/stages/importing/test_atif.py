"""Documents of several agents become steps with the right screens and actions; broken ones are named in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from atif import Trajectory as AtifTrajectory

from tests.stages.importing import atif_samples as samples
from tests.stages.importing.samples import ORIGIN, PHONE, picture, read, write
from trajmill.schemas.actions import (
    Action,
    Answer,
    Click,
    Drag,
    PressKeys,
    Scroll,
    Swipe,
    Terminate,
    TypeText,
    action_from_json,
)
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform
from trajmill.stages.importing.atif import read_call
from trajmill.stages.importing.base import BadRecording, Recording, layout_spec
from trajmill.stages.importing.rows import rows_of

DONE = Terminate(status="success")


def only(folder: Path, **settings: str) -> Recording:
    (recording,) = read("atif", folder, **settings)
    assert isinstance(recording, Recording), recording
    return recording


def shown(recording: Recording) -> list[bytes]:
    return [step.screen.image for step in recording.steps]


def test_a_trial_of_harbor_has_its_first_screenshot_its_reward_and_one_end(tmp_path: Path) -> None:
    samples.harbor(tmp_path / "job", reward=0.5)
    AtifTrajectory.model_validate(samples.computer_1())
    recording = only(tmp_path / "job")
    actions = [Click(x=150, y=50), Scroll(x=10, y=20, clicks=-3), PressKeys(keys=("ctrl", "s")), DONE]
    assert [step.action for step in recording.steps] == actions
    agent = tmp_path / "job/save__1/agent"
    names = ("init", "ep0", "ep1", "ep2")
    assert shown(recording) == [(agent / f"screenshot_{name}.webp").read_bytes() for name in names]
    assert recording.last is not None and recording.last.image == shown(recording)[-1]
    assert (recording.instruction, recording.platform) == ("Save the file", Platform.DESKTOP)
    rows = rows_of(recording, "atif", ORIGIN)
    assert (rows.trajectory.reward, rows.trajectory.answer, rows.trajectory.steps) == (0.5, "success", 4)
    assert rows.steps[0].thought == "Analysis: a0\nPlan: p0"
    said = "computer_action(x=10, y=20, scroll_x=0, scroll_y=300, type=scroll, source=native_prescaled)"
    assert rows.steps[1].conclusion == said


@pytest.mark.parametrize(("content", "reward"), [("0.25\n", 0.25), ("1", 1.0)])
def test_a_reward_may_be_a_text(content: str, reward: float, tmp_path: Path) -> None:
    samples.harbor(tmp_path)
    (tmp_path / "save__1/verifier/reward.json").unlink()
    write(tmp_path, "save__1/verifier/reward.txt", content.encode())
    assert only(tmp_path).reward == reward


def test_looks_are_no_steps_and_a_batch_of_calls_is_several(tmp_path: Path) -> None:
    document = samples.anthropic()
    AtifTrajectory.model_validate(document)
    write(tmp_path, "run.json", document)
    samples.pictures(tmp_path, ["0.png", "1.png", "2.png", "part.png"])
    recording = only(tmp_path)
    hello, last = TypeText(text="hello"), Answer(text="I wrote hello.")
    actions = [Click(x=30, y=40), hello, Drag(x=1, y=2, x2=3, y2=4), None, last]
    assert [step.action for step in recording.steps] == actions
    # A zoomed picture is no screen, and a text changes none.
    assert shown(recording) == [(tmp_path / f"{name}.png").read_bytes() for name in (0, 0, 1, 2, 2)]
    assert [step.thought for step in recording.steps][:2] == ["I see a field", ""]
    assert recording.steps[3].raw == '{"name": "bash", "arguments": {"command": "ls"}}'
    assert rows_of(recording, "atif", ORIGIN).steps[3].action_kind == "unparsed"


@pytest.mark.parametrize("family", ["any", "qwen3-vl", "gui-owl-1.5"])
def test_calls_of_a_family_are_read_in_its_coordinates(family: str, tmp_path: Path) -> None:
    write(tmp_path, "doc.json", samples.tap(tmp_path))
    recording = only(tmp_path, family=family)
    click = {"any": Click(x=20, y=30), "qwen3-vl": Click(x=2, y=6), "gui-owl-1.5": Click(x=2, y=6)}[family]
    assert [step.action for step in recording.steps] == [click, DONE]
    first = rows_of(recording, "atif", ORIGIN).steps[0]
    assert recording.platform is Platform.PHONE and first.reply_token_ids == (1, 2)
    assert first.reply_logprobs == (-0.5, -0.25) and (first.thought, first.conclusion) == ("why", "step 0")


def test_copied_steps_are_history_and_have_no_prompt(tmp_path: Path) -> None:
    document = samples.tap(tmp_path)
    document["steps"][1]["is_copied_context"] = True
    write(tmp_path, "doc.json", document)
    copied, own = rows_of(only(tmp_path), "atif", ORIGIN).steps
    assert copied.prompt == "" and copied.action is not None and copied.conclusion in own.prompt


def test_lists_lines_and_subagents_are_documents_too(tmp_path: Path) -> None:
    inner = samples.tap(tmp_path, trajectory_id="inner")
    outer = samples.tap(tmp_path, subagent_trajectories=[inner])
    write(tmp_path, "many.json", [outer, inner])
    write(tmp_path, "lines.jsonl", b"".join(json.dumps(each).encode() + b"\n" for each in (inner, inner)))
    layout = layout_spec("atif")
    found = [each for file in layout.checked_lists(tmp_path) for each in layout.read(file, tmp_path)]
    names = [each.recording.name for each in found]
    assert names == ["lines.jsonl:1", "lines.jsonl:2", "many.json#1", "many.json#1/subagent#1", "many.json#2"]
    assert all(isinstance(each.recording, Recording) for each in found)
    assert sum(each.size for each in found) == sum(path.stat().st_size for path in tmp_path.glob("*.json*"))


def _edit(edit: Callable[[Any], Any]) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        document = samples.tap(folder)
        edit(document)
        write(folder, "bad.json", document)

    return make


def _path(path: str) -> Callable[[Path], None]:
    def edit(document: Any) -> None:
        document["steps"][2]["observation"]["results"][0]["content"] = [samples.image(path)]

    return _edit(edit)


def _linked(folder: Path) -> None:
    _path("images/linked.png")(folder)
    write(folder.parent, "secret.png", picture(9, PHONE))
    (folder / "images/linked.png").symlink_to(folder.parent / "secret.png")


def _linked_document(folder: Path) -> None:
    write(folder.parent, "outside.json", samples.tap(folder))
    (folder / "bad.json").symlink_to(folder.parent / "outside.json")


def _step(number: int, **fields: Any) -> Callable[[Path], None]:
    return _edit(lambda document: document["steps"][number - 1].update(fields))


def _holding(content: bytes | object) -> Callable[[Path], None]:
    return lambda folder: write(folder, "bad.json", content)


_MANY = [{"step_id": number, "source": "system", "message": "x"} for number in range(4, 2004)]
_OTHER_RESULT = {"results": [samples.result(9, "ok")]}
BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "version": (_edit(lambda found: found.update(schema_version="ATIF-v9.9")), "'ATIF-v9.9' is none of ATIF-v1.0 to"),
    "gap": (_step(3, step_id=4), "step_id 4 stands where 3 is expected"),
    "unknown key": (_step(2, mood="good"), "steps.1.mood is an unknown key"),
    "result of nothing": (_step(2, observation=_OTHER_RESULT), "steps.1: a result names call 'call_9'"),
    "missing": (_path("images/none.png"), "step 3: picture 'images/none.png' is not in the folder"),
    "upwards": (_path("../../etc/x.png"), "is not in the folder"),
    "link": (_linked, "step 3: picture 'images/linked.png' is not in the folder"),
    "url": (_path("https://example.org/a.png"), "is not in the folder: download it"),
    "no picture": (_path("bad.json"), "cannot be decoded"),
    "nul": (_path("a\0b"), "null byte"),
    "linked document": (_linked_document, "it leads out of the folder"),
    "many steps": (_edit(lambda found: found["steps"].extend(_MANY)), "it has 2,003 steps; at most 2,000 are read"),
    "no user": (_step(1, source="system"), "it has no instruction"),
    "tokens": (_step(2, metrics={"completion_token_ids": [1, 2], "logprobs": [-1.0]}), "step 2: 1 log prob"),
    "reward": (_edit(lambda found: found.update(extra={"trajmill": {"reward": "a"}})), "'a' is no reward from 0 to 1"),
    "not a document": (_holding([7, None]), "schema_version None"),
    "not JSON": (_holding(b"{"), "JSONDecodeError"),
    "NaN": (_holding(b'{"a": NaN}'), "NaN is no JSON"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_document_is_named_in_one_line_and_ends_nothing(name: str, tmp_path: Path) -> None:
    make, line = BROKEN[name]
    folder = tmp_path / "folder"
    make(folder)
    write(folder, "good.json", samples.tap(folder))
    before = sorted(tmp_path.rglob("*"))
    *bad, good = read("atif", folder)
    assert isinstance(good, Recording) and len(good.steps) == 2
    for each in bad:
        assert isinstance(each, BadRecording) and each.name.startswith("bad.json")
        assert line in each.reason and "\n" not in each.reason and len(each.reason) < 250
    assert bad and sorted(tmp_path.rglob("*")) == before


_SCREEN = Size(2000, 1000)


@pytest.mark.parametrize(
    ("name", "arguments", "action"),
    [
        ("computer_action", {"type": "drag", "x": 1, "y": 2, "end_x": 3, "end_y": 4}, Drag(x=1, y=2, x2=3, y2=4)),
        ("computer_action", {"type": "click", "x": 7.6, "y": 2.0, "button": None}, Click(x=8, y=2)),
        ("computer_action", {"type": "scroll", "x": 1, "y": 1}, Scroll(x=1, y=1, clicks=-5)),
        ("computer_action", {"type": "swipe", "x": 1, "y": 2, "end_x": 3, "end_y": 4}, Swipe(x=1, y=2, x2=3, y2=4)),
        ("computer_action", {"type": "answer", "result": "42"}, Answer(text="42")),
        ("mark_task_complete", {"result": "42"}, Answer(text="42")),
        ("mark_task_complete", {}, DONE),
        # Anthropic's models see this screen at 1516 x 758.
        ("computer", {"action": "right_click", "coordinate": [758, 379]}, Click(x=999, y=499, button="right")),
        ("computer", {"action": "key", "text": "ctrl+s"}, PressKeys(keys=("ctrl", "s"))),
        ("computer", {"action": "scroll", "scroll_direction": "up", "scroll_amount": 2}, Scroll(clicks=2)),
        ("computer_use", {"action": "left_click", "coordinate": [5, 6]}, Click(x=5, y=6)),
        ("computer_action", {"type": "click", "x": 7, "y": 2, "modifier": "shift"}, None),
        ("computer_action", {"type": "click", "x": 7}, None),
        ("computer_action", {"type": "navigate", "url": "https://example.org"}, None),
        ("computer", {"action": "left_click", "coordinate": "here"}, None),
        ("computer_use", {"action": "dance"}, None),
        ("click_at", {"x": 1, "y": 2}, None),
    ],
)
def test_a_call_is_an_action_or_stays_as_it_is(name: str, arguments: dict[str, Any], action: Action | None) -> None:
    assert read_call(name, arguments, _SCREEN, Platform.DESKTOP, ANY) == action
    assert action_from_json(action.model_dump_json()) == action if action else True
