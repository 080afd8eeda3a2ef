import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.stages.critics.little_app import ORIGIN
from trajmill.schemas import actions
from trajmill.schemas.actions import Action, action_from_json
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.stages.critics.calibration.cua_verifier_bench import CuaVerifierBench, read_fara_action
from trajmill.stages.critics.calibration.labelled_set import LabelledScreens, UnreadableError

SCREEN = Size(1440, 900)
CALLS = (
    {"action": "left_click", "coordinate": [714, 448], "thoughts": "The search field."},
    {"action": "type", "text": "red shoes", "press_enter": True},
    {"action": "terminate", "status": "success", "thoughts": "They cost 5."},
)


def picture(shade: int) -> dict[str, object]:
    held = io.BytesIO()
    Image.new("RGB", SCREEN, (shade, 90, 90)).save(held, "PNG")
    return {"bytes": held.getvalue(), "path": f"screenshot{shade}.png"}


def attempt(task_id: str, **changes: object) -> dict[str, object]:
    log = "\n".join(json.dumps({"action": "computer_use", "arguments": call, "url": "http://shop"}) for call in CALLS)
    shown = [picture(shade) for shade in range(len(CALLS))]
    row: dict[str, object] = {"task_id": task_id, "instruction": "What do the red shoes cost?", "final_answer": "5"}
    return row | {"web_surfer_log": log, "screenshots": shown, "uv_outcome_success": 1} | changes


def write_bench(folder: Path, votes: Mapping[str, list[str]], *attempts: dict[str, object]) -> CuaVerifierBench:
    people = [{"task_id": task, "human_judgement_outcome": vote} for task, given in votes.items() for vote in given]
    for name, rows in (("annotations", people), ("trajectories", list(attempts))):
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), folder / name / "internal-00000-of-00001.parquet")
    return CuaVerifierBench(folder)


def test_an_attempt_becomes_an_episode_and_most_people_decide(tmp_path: Path) -> None:
    votes = {"right": ["Correct", "Incorrect", "Correct"], "tie": ["Correct", "Incorrect"], "gone": ["Incorrect"]}
    found = list(write_bench(tmp_path, votes, attempt("right"), attempt("nobody"), attempt("tie")))
    assert [(each.label.name, each.label.passed) for each in found] == [
        ("internal/fara-7b/right", True),
        ("internal/fara-7b/tie", None),
        ("internal/fara-7b/gone", False),
    ]
    screens = LabelledScreens()
    assert found[2].read(screens, ORIGIN) is None
    read = found[0].read(screens, ORIGIN)
    assert read is not None
    steps = read.episode.steps
    # The model saw 1428 x 896 pixels. The log has as many pictures as actions: the last one is also the end.
    assert [action_from_json(step.action or "") for step in steps] == [
        actions.Click(x=720, y=450),
        actions.TypeText(text="red shoes", enter=True),
        actions.Answer(text="5"),
    ]
    assert steps[0].thought == "The search field." and steps[2].screen_before == steps[2].screen_after
    assert (read.episode.query.instruction, read.episode.trajectory.reward) == ("What do the red shoes cost?", None)
    assert "uv_outcome" not in str(read.episode)
    assert screens.size(read.screens[0]) == SCREEN and screens.image(read.screens[0])
    screens.drop(read.screens)
    with pytest.raises(KeyError):
        screens.size(read.screens[0])


@pytest.mark.parametrize(
    ("call", "action"),
    [
        ({"action": "mouse_move", "coordinate": [0, 0]}, actions.MoveMouse(x=0, y=0)),
        ({"action": "key", "keys": ["Control", "a"]}, actions.PressKeys(keys=("Control", "a"))),
        ({"action": "scroll", "pixels": -20}, actions.Scroll(clicks=-1)),
        ({"action": "visit_url", "url": "shop.org"}, actions.OpenApp(app="shop.org")),
        ({"action": "web_search", "query": "a b&c"}, actions.OpenApp(app="https://www.bing.com/search?q=a+b%26c")),
        ({"action": "pause_and_memorize_fact", "fact": "5"}, actions.Wait(seconds=0)),
        (
            {"action": "type", "text": "x", "delete_existing_text": True},
            actions.TypeText(text="x", clear=True, enter=True),
        ),
        ({"action": "terminate", "status": "failure"}, actions.Terminate(status="failure")),
        ({"action": "left_click"}, None),
        ({"action": "left_click", "coordinate": ["a", None]}, None),
        ({"action": "wait", "time": "long"}, None),
        ({"action": "__import__"}, None),
        ({}, None),
    ],
)
def test_calls_of_fara_are_read(call: dict[str, Any], action: Action | None) -> None:
    assert read_fara_action(call, SCREEN) == action


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"web_surfer_log": ""}, "x is no trajectory of this layout: ValueError: it has no actions"),
        ({"web_surfer_log": "{"}, "x is no trajectory of this layout: JSONDecodeError"),
        ({"web_surfer_log": "[1]"}, "x is no trajectory of this layout: TypeError"),
        ({"screenshots": []}, "x is no trajectory of this layout: ValueError: it has no screenshots"),
        ({"screenshots": [picture(1), {"bytes": b"GIF", "path": ""}]}, "screenshot 1 of x cannot be read"),
    ],
)
def test_an_attempt_that_cannot_be_read_gives_one_line_and_keeps_no_screen(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    (found,) = write_bench(tmp_path, {"x": ["Correct"]}, attempt("x", **changes))
    screens = LabelledScreens()
    with pytest.raises(UnreadableError, match=r"^[^\n]{1,330}$") as error:
        found.read(screens, ORIGIN)
    assert message in str(error.value)
    assert not vars(screens)["_screens"]


def test_a_damaged_set_gives_one_error_line(tmp_path: Path) -> None:
    (tmp_path / "annotations").mkdir()
    with pytest.raises(BadInputError, match=r"annotations: there is no label in it$"):
        CuaVerifierBench(tmp_path)
    (tmp_path / "annotations" / "internal-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(BadInputError, match=r"^[^\n]*internal-0.parquet: the labels cannot be read: [^\n]*$"):
        CuaVerifierBench(tmp_path)
    pq.write_table(pa.table({"task_id": ["x"]}), tmp_path / "annotations" / "internal-0.parquet")
    with pytest.raises(BadInputError, match="human_judgement_outcome"):
        CuaVerifierBench(tmp_path)
    bench = write_bench(tmp_path / "other", {"x": ["Correct"]}, {"name": "x"})
    with pytest.raises(BadInputError, match=r"^[^\n]*the attempts cannot be read: KeyError[^\n]*$"):
        list(bench)
