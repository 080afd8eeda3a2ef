from __future__ import annotations

from pathlib import Path

import pytest

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Split
from trajmill.stages.environments.browser.task import read_goal, read_start, read_task_file

ORIGIN = Origin(round=1, run_id="run", code_version="0")
TASK = (
    '{"instruction": "Send it.", "apps": ["form"], "start_state": {"url": "http://127.0.0.1:8000/form"},'
    ' "goal": {"all": [{"check": "text", "selector": "#sent", "equals": "Sent"}]}, "split": "heldout_slots"}'
)


def test_a_line_is_a_query_of_the_browser(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(f"{TASK}\n\n")
    (query,) = read_task_file(file, ORIGIN)
    assert (query.platform, query.task, query.split) == (Platform.WEB, "form", Split.HELDOUT_SLOTS)
    assert read_start(query.start_state).url == "http://127.0.0.1:8000/form"
    assert len(read_goal(query.goal).all) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"instruction": "Go."}', ":1: start_state: Field required"),
        (TASK.replace("http:", "file:"), ":1: start_state: 'file:"),
        (TASK.replace('"check": "text"', '"check": "guess"'), ":1: goal.all.0: "),
        ("", "has no tasks"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(text)
    with pytest.raises(BadInputError) as caught:
        read_task_file(file, ORIGIN)
    assert reason in str(caught.value)
