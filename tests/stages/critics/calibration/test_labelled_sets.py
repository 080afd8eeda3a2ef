import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.stages.critics.calibration.labelled_files import HEADER, label_row, write_set, write_trajectory
from tests.stages.critics.little_app import ORIGIN
from tests.stages.models.pictures import as_png
from trajmill.schemas import actions
from trajmill.schemas.actions import Action, Answer, Click, TypeText, action_from_json
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.trajectory import StopReason
from trajmill.stages.critics.calibration.agent_reward_bench import (
    find_trajectory,
    read_boxes,
    read_browser_action,
    read_labels,
    read_trajectory,
    read_tree,
)
from trajmill.stages.critics.calibration.cua_verifier_bench import CuaVerifierBench, read_fara_action
from trajmill.stages.critics.calibration.labelled_set import Label, LabelledScreens, UnreadableError

LABEL = Label("webarena", "GenericAgent-tiny", "webarena.1", True)
BOXES = {"147": Box(10, 20, 30, 60), "b9": Box(0, 0, 10, 10)}


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("click('147')", Click(x=20, y=40)),
        ('click("147", button="right")', Click(x=20, y=40, button="right")),
        ("dblclick('b9', 'left')", Click(x=5, y=5, count=2)),
        ("fill('147', 'O\\'Hara')", TypeText(text="O'Hara", clear=True)),
        ("select_option('147', ['a', 'b'])", TypeText(text="a, b", clear=True)),
        ("press('147', 'Control+a')", actions.PressKeys(keys=("Control", "a"))),
        ("scroll(0, 300)", actions.Scroll(clicks=-3)),
        ("goto('http://shop/x')", actions.OpenApp(app="http://shop/x")),
        ("go_back()", actions.SystemButton(button="Back")),
        ("noop(500)", actions.Wait(seconds=0.5)),
        ("send_msg_to_user('It costs 5')", Answer(text="It costs 5")),
        ("report_infeasible('no such page')", actions.Terminate(status="failure")),
        ("click('nowhere')", None),
        ("__import__('os').system('true')", None),
        ("fill('147', open('x').read())", None),
        ("", None),
        ("(" * 5000, None),
    ],
)
def test_browser_actions_are_read_and_never_run(text: str, action: Action | None) -> None:
    assert read_browser_action(text, BOXES) == action


def test_a_printed_tree_becomes_elements() -> None:
    text = (
        "RootWebArea 'One Stop Market', focused\n"
        "\t[147] button 'Add to \\'Cart\\'', clickable\n"
        "\t\tStaticText 'Price'\n"
        "\t[b9] textbox 'Search' value='red shoes', focused\n"
        "\t[c1] checkbox '', checked='false'\n"
        "\t[d4] checkbox \"I'm sure\", clickable, checked='true'\n"
        "\t[e5] generic\n"
    )
    nowhere = Box(0, 0, 0, 0)
    assert read_tree(text, BOXES) == (
        UIElement("heading", "One Stop Market", nowhere, ("title", "focused")),
        UIElement("button", "Add to 'Cart'", BOXES["147"], ("clickable",), "", "147"),
        UIElement("text", "Price", nowhere),
        UIElement("text_field", "Search", BOXES["b9"], ("editable", "focused"), "red shoes", "b9"),
        UIElement("checkbox", "I'm sure", nowhere, ("clickable", "checked"), "", "d4"),
    )
    assert read_boxes({"a": {"bbox": [1.4, 2, 3, 4]}, "b": {"bbox": None}, "c": None}) == {"a": Box(1, 2, 4, 6)}
    beyond_all_screens = {"a": [0, 0, 1e300, 4], "b": [0, float("inf"), 1, 1], "c": [float("nan"), 0, 1, 1]}
    assert read_boxes({name: {"bbox": box} for name, box in beyond_all_screens.items()}) == {}


def test_a_trajectory_becomes_an_episode_with_the_screen_after_each_action(tmp_path: Path) -> None:
    write_set(tmp_path, {"webarena.1": "Successful"}, actions=["click('147')", "send_msg_to_user('done')"])
    screens = LabelledScreens()
    path = find_trajectory(tmp_path, LABEL)
    assert path is not None
    read = read_trajectory(path, tmp_path, LABEL, screens, ORIGIN)
    episode = read.episode
    assert episode.query.instruction == "Buy the red shoes"
    assert [action_from_json(step.action or "") for step in episode.steps] == [Click(x=20, y=40), Answer(text="done")]
    assert len(set(read.screens)) == len(read.screens) == 3
    pairs = [(step.screen_before, step.screen_after) for step in episode.steps]
    assert pairs == [read.screens[:2], read.screens[1:]]
    trajectory = episode.trajectory
    assert (trajectory.status, trajectory.stop_reason, trajectory.reward) == ("finished", StopReason.AGENT_DONE, 0.0)
    assert screens.size(read.screens[0]) == Size(80, 60) and screens.elements(read.screens[0])[0].text == "Shop"


def test_a_screen_that_two_trajectories_share_stays_until_both_are_done(tmp_path: Path) -> None:
    write_set(tmp_path, {"webarena.1": "Successful", "webarena.2": "Successful"}, actions=["go_back()"])
    screens = LabelledScreens()
    other = LABEL._replace(task_id="webarena.2")
    found = [(label, find_trajectory(tmp_path, label)) for label in (LABEL, other)]
    one, two = (read_trajectory(path, tmp_path, label, screens, ORIGIN) for label, path in found if path)
    assert one.screens == two.screens and one.episode.trajectory.trajectory_id != two.episode.trajectory.trajectory_id
    screens.drop(one.screens)
    assert screens.image(two.screens[0])
    screens.drop(two.screens)
    with pytest.raises(KeyError):
        screens.size(two.screens[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"goal": None, "steps": 3}, "webarena.1.json is no trajectory of this layout: TypeError"),
        ({"drop": "goal"}, "webarena.1.json is no trajectory of this layout: KeyError: 'goal'"),
        ({"steps": []}, "webarena.1.json is no trajectory of this layout: ValueError: it has no steps"),
        ({"reward": float("nan")}, "webarena.1.json is no trajectory of this layout: ValueError: NaN is no JSON"),
        ({"screenshot_path": "trajectories/screenshots/none.png"}, "screenshot none.png cannot be read: FileNotFound"),
        ({"screenshot_path": "screenshots/../../secret.png"}, "screenshot path 'screenshots/../../secret.png' is not"),
        ({"text": "[" * 100_000}, "webarena.1.json is no trajectory of this layout: RecursionError"),
        ({"text": '{"steps": [{"screenshot_path": "screenshots/\\u0000"}]}'}, "webarena.1.json is no trajectory"),
    ],
)
def test_what_cannot_be_read_gives_one_error_line(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    path = write_trajectory(tmp_path, "webarena.1", ["go_back()"], **changes)
    if "text" in changes:
        path.write_text(str(changes["text"]))
    with pytest.raises(UnreadableError, match=r"^[^\n]{1,330}$") as error:
        read_trajectory(path, tmp_path, LABEL, LabelledScreens(), ORIGIN)
    assert message in str(error.value)


def test_a_label_leads_to_no_file_outside_the_set(tmp_path: Path) -> None:
    write_trajectory(tmp_path, "webarena.1", ["go_back()"])
    assert find_trajectory(tmp_path, LABEL._replace(benchmark="../../cleaned/webarena")) is None
    with pytest.raises(UnreadableError, match="NUL"):
        find_trajectory(tmp_path, LABEL._replace(task_id="webarena.1\0"))


def test_the_first_opinion_on_a_trajectory_counts(tmp_path: Path) -> None:
    given = (("webarena.1", "Successful"), ("webarena.2", "Unsure"), ("webarena.1", "Unsuccessful"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "annotations.csv").write_text("\n".join([HEADER, *(label_row(*each) for each in given)]))
    assert read_labels(tmp_path) == [LABEL, LABEL._replace(task_id="webarena.2", passed=None)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, ": no labelled set: annotations.csv and data/annotations.csv are missing"),
        (f"{HEADER}\n", "annotations.csv:1: there is no label in it"),
        ("benchmark,task_id\nwebarena,1\n", "annotations.csv:1: column model_name is missing; there are bench"),
        (f"{HEADER}\nA,webarena\n", "annotations.csv:2: model_name is empty"),
        ("\x00\n", "annotations.csv"),
    ],
)
def test_malformed_labels_give_one_error_line(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "annotations.csv").write_text(text)
    with pytest.raises(BadInputError, match=r"^[^\n]*$") as error:
        read_labels(tmp_path)
    assert message in str(error.value)


SCREEN = Size(1440, 900)
CALLS = (
    {"action": "left_click", "coordinate": [714, 448], "thoughts": "The search field."},
    {"action": "type", "text": "red shoes", "press_enter": True},
    {"action": "terminate", "status": "success", "thoughts": "They cost 5."},
)


def picture(shade: int) -> dict[str, object]:
    return {"bytes": as_png(Image.new("RGB", SCREEN, (shade, 90, 90))), "path": f"screenshot{shade}.png"}


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
    acted = [Click(x=720, y=450), TypeText(text="red shoes", enter=True), Answer(text="5")]
    assert [action_from_json(step.action or "") for step in steps] == acted
    assert steps[0].thought == "The search field." and steps[2].screen_before == steps[2].screen_after
    assert (read.episode.query.instruction, read.episode.trajectory.reward) == ("What do the red shoes cost?", None)
    assert "uv_outcome" not in str(read.episode)
    assert screens.size(read.screens[0]) == SCREEN and screens.image(read.screens[0])


@pytest.mark.parametrize(
    ("call", "action"),
    [
        ({"action": "mouse_move", "coordinate": [0, 0]}, actions.MoveMouse(x=0, y=0)),
        ({"action": "key", "keys": ["Control", "a"]}, actions.PressKeys(keys=("Control", "a"))),
        ({"action": "scroll", "pixels": -20}, actions.Scroll(clicks=-1)),
        ({"action": "visit_url", "url": "shop.org"}, actions.OpenApp(app="shop.org")),
        ({"action": "web_search", "query": "a b&c"}, actions.OpenApp(app="https://www.bing.com/search?q=a+b%26c")),
        ({"action": "pause_and_memorize_fact", "fact": "5"}, actions.Wait(seconds=0)),
        ({"action": "type", "text": "x", "delete_existing_text": True}, TypeText(text="x", clear=True, enter=True)),
        ({"action": "terminate", "status": "failure"}, actions.Terminate(status="failure")),
        ({"action": "left_click", "coordinate": ["a", None]}, None),
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
