from __future__ import annotations

from pathlib import Path

import pytest

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Platform
from trajmill.stages.queries.proposals.starts import HumanTask, read_human_tasks

GOOD = '{"instruction": "Order me a pizza", "platform": "phone", "apps": ["bites"]}'


def test_one_task_a_line(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(f'{GOOD}\n\n{GOOD[:-1]}, "start_state": {{"a": 1}}}}\r\n')
    first, second = read_human_tasks(file)
    assert first == HumanTask(instruction="Order me a pizza", platform=Platform.PHONE, apps=("bites",))
    assert second.start_state == {"a": 1}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "no example task; write one JSON object per line"),
        (b"\n \n", "no example task"),
        (f"{GOOD}\nOrder me a pizza\n".encode(), ":2: no JSON object"),
        (b"[" * 100_000, ":1: no JSON object"),
        (b'{"instruction": "x", "apps": []}', ":1: platform: Field required; a task is "),
        (b'{"instruction": "", "platform": "phone", "apps": []}', ":1: instruction: "),
        (b'{"instruction": "x", "platform": "fridge", "apps": []}', ":1: platform: "),
        (b'{"instruction": "x", "platform": "phone", "apps": [], "app": 1}', ":1: app: "),
        (b"[1]", ":1: task: "),
        (b"\xff\xfe", "not UTF-8 (byte 0)"),
    ],
)
def test_a_wrong_file_gives_one_error_line(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(content)
    with pytest.raises(BadInputError) as raised:
        read_human_tasks(file)
    assert str(raised.value).startswith(str(file)) and told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file_gives_one_error_line(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="example tasks cannot be read: No such file"):
        read_human_tasks(tmp_path / "none.jsonl")
