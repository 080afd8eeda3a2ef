"""The task files of docs/examples/tasks are read by the environments that they are for."""

from __future__ import annotations

from pathlib import Path

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.android.task import PhoneGoal, PhoneStart, read_part
from trajmill.stages.environments.android.task import read_task_file as read_phone_tasks
from trajmill.stages.environments.browser.task import read_goal, read_start
from trajmill.stages.environments.browser.task import read_task_file as read_web_tasks
from trajmill.stages.environments.desktop.task import import_tasks

FOLDER = Path(__file__).parents[3] / "docs/examples/tasks"
ORIGIN = Origin(round=1, run_id="run", code_version="code")


def test_task_lines_of_the_browser_become_queries() -> None:
    queries = read_web_tasks(FOLDER / "browser.jsonl", ORIGIN)
    assert [query.split for query in queries] == [Split.TRAIN, Split.VALIDATION, Split.TRAIN]
    assert all(read_start(query.start_state).url and read_goal(query.goal).all for query in queries)
    assert [step.operation for step in queries[0].path] == ["tap", "type", "tap", "finish"]


def test_task_lines_of_a_device_become_queries() -> None:
    queries = read_phone_tasks(FOLDER / "android.jsonl", ORIGIN)
    assert [read_part(PhoneStart, query.start_state).open for query in queries] == ["Settings", ""]
    assert [bool(read_part(PhoneGoal, query.goal).files) for query in queries] == [False, True]


def test_task_lines_of_a_desktop_become_queries() -> None:
    (query,) = import_tasks(FOLDER / "desktop", 0.0, ORIGIN)
    assert isinstance(query, Query)
    assert query.path[-1].operation == "finish"
