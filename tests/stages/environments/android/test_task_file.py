from __future__ import annotations

from pathlib import Path

import pytest

from tests.stages.environments.android.stand_in.tasks import ORIGIN, task_line
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Platform, Query, Source
from trajmill.stages.environments.android.task import read_task_file
from trajmill.stages.environments.simulated.world import World


def test_a_line_is_an_imported_query(world: World, queries: list[Query], tmp_path: Path) -> None:
    lines = [task_line(world, query, 5) for query in queries]
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n\n".join(line.model_dump_json(exclude_defaults=True) for line in lines), encoding="utf-8")
    read = read_task_file(path, ORIGIN)
    assert [query.path for query in read] == [query.path for query in queries]
    assert len({query.query_id for query in read}) == len(read)
    assert {(query.source, query.platform) for query in read} == {(Source.DAG, Platform.PHONE)}
    assert read_task_file(path, ORIGIN) == read


def test_a_line_of_two_words_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"instruction": "Turn Wi-Fi off.", "apps": ["com.android.settings"]}')
    (query,) = read_task_file(path, ORIGIN)
    assert (query.source, query.task, query.goal) == (Source.IMPORTED, "com.android.settings", "{}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no tasks"),
        ("nonsense", ":1: the line: Invalid JSON"),
        ('{"instruction": "x"}', ":1: apps: Field required"),
        ('\n{"instruction": "x", "apps": [], "goal": {"shell": "rm"}}', ":2: goal.shell: Extra inputs"),
    ],
)
def test_a_mistake_gives_one_error_line_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(text)
    with pytest.raises(BadInputError) as caught:
        read_task_file(path, ORIGIN)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="name a file"):
        read_task_file(tmp_path / "none.jsonl", ORIGIN)
