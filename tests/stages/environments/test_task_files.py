"""Files of tasks: those of docs/examples/tasks, and what a mistake in one says."""

from __future__ import annotations

from pathlib import Path

import pytest

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Source, Split
from trajmill.stages.environments.android.task import PhoneGoal, PhoneStart, read_part
from trajmill.stages.environments.android.task import read_task_file as read_phone_tasks
from trajmill.stages.environments.browser.task import read_goal, read_start
from trajmill.stages.environments.browser.task import read_task_file as read_web_tasks
from trajmill.stages.environments.desktop.task import import_tasks

FOLDER = Path(__file__).parents[3] / "docs/examples/tasks"
ORIGIN = Origin(round=1, run_id="run", code_version="code")
TASK = (
    '{"instruction": "Send it.", "apps": ["form"], "start_state": {"url": "http://127.0.0.1:8000/form"},'
    ' "goal": {"all": [{"check": "text", "selector": "#sent", "equals": "Sent"}]}, "split": "heldout_slots"}'
)


def test_task_lines_of_the_browser_become_queries(tmp_path: Path) -> None:
    queries = read_web_tasks(FOLDER / "browser.jsonl", ORIGIN)
    assert [query.split for query in queries] == [Split.TRAIN, Split.VALIDATION, Split.TRAIN]
    assert all(read_start(query.start_state).url and read_goal(query.goal).all for query in queries)
    assert [step.operation for step in queries[0].path] == ["tap", "type", "tap", "finish"]
    (tmp_path / "tasks.jsonl").write_text(f"{TASK}\n\n")
    (query,) = read_web_tasks(tmp_path / "tasks.jsonl", ORIGIN)
    assert (query.platform, query.task, query.split) == (Platform.WEB, "form", Split.HELDOUT_SLOTS)


def test_task_lines_of_a_device_become_queries(tmp_path: Path) -> None:
    queries = read_phone_tasks(FOLDER / "android.jsonl", ORIGIN)
    assert [read_part(PhoneStart, query.start_state).open for query in queries] == ["Settings", ""]
    assert [bool(read_part(PhoneGoal, query.goal).files) for query in queries] == [False, True]
    assert len({query.query_id for query in queries}) == 2
    (tmp_path / "tasks.jsonl").write_text('{"instruction": "Turn Wi-Fi off.", "apps": ["com.android.settings"]}')
    (query,) = read_phone_tasks(tmp_path / "tasks.jsonl", ORIGIN)
    assert (query.source, query.task, query.goal) == (Source.IMPORTED, "com.android.settings", "{}")


def test_task_lines_of_a_desktop_become_queries() -> None:
    (query,) = import_tasks(FOLDER / "desktop", 0.0, ORIGIN)
    assert query.path[-1].operation == "finish"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no tasks"),
        ("nonsense", ":1: the line: Invalid JSON"),
        ('{"instruction": "Go."}', ":1: start_state: Field required"),
        (f"\n{TASK.replace('http:', 'file:')}", ":2: start_state: 'file:"),
        (TASK.replace('"check": "text"', '"check": "guess"'), ":1: goal.all.0: "),
        (None, "name a file"),
    ],
)
def test_a_mistake_gives_one_error_line_with_its_place(tmp_path: Path, text: str | None, reason: str) -> None:
    file = tmp_path / "tasks.jsonl"
    if text is not None:
        file.write_text(text)
    with pytest.raises(BadInputError) as caught:
        read_web_tasks(file, ORIGIN)
    assert reason in str(caught.value) and "\n" not in str(caught.value)


def test_a_goal_of_a_device_holds_no_command(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"instruction": "x", "apps": [], "goal": {"shell": "rm"}}')
    with pytest.raises(BadInputError, match=r"goal\.shell: Extra inputs"):
        read_phone_tasks(file, ORIGIN)
