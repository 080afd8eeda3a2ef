import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.stages.environments.desktop.queries import ORIGIN, step
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.desktop.spec import DesktopSpec
from trajmill.stages.environments.desktop.task import import_tasks, packaged_tasks, parse_task

RULE = {"type": "rule", "rules": {"expected": "1"}}
OUTPUT = {"type": "vm_command_line", "command": ["true"]}
FILE = {"type": "vm_file", "path": "/a"}


def said(**parts: Any) -> dict[str, Any]:
    return {"id": "t", "instruction": "Do it.", "snapshot": "x", "source": "", "proxy": False, **parts}


def evaluator(**parts: Any) -> dict[str, Any]:
    return {"evaluator": {"func": "exact_match", "result": OUTPUT, **parts}}


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"config": [step("download", files=[])]}, "config: 'download'"),
        ({"config": [step("chrome_open_tabs", urls_to_open=[])]}, "config: 'chrome_open_tabs'"),
        ({"config": [step("execute", command=["a"], until={})]}, "config: execute: 'until'"),
        ({"config": [step("upload_file", files=[{"local_path": "https://x.example/a", "path": "/a"}])]}, "local files"),
        ({"config": [step("execute", command="echo {CLIENT_PASSWORD}", shell=True)]}, "placeholder"),
        (evaluator(func="infeasible"), "evaluator.func: 'infeasible'"),
        (evaluator(func="compare_docx_files", result=FILE), "evaluator.func: 'compare_docx_files'"),
        (evaluator(result={"type": "enable_do_not_track"}), "evaluator.result: 'enable_do_not_track'"),
        (evaluator(result=FILE, expected={"type": "cloud_file", "path": "u"}), "evaluator.expected: 'cloud_file'"),
        (evaluator(postconfig=[step("googledrive")]), "evaluator.postconfig: 'googledrive'"),
        (evaluator(func=["exact_match"], result=[OUTPUT, OUTPUT]), "differ in length"),
        ({"instruction": 7}, "instruction"),
    ],
)
def test_what_is_not_done_is_refused_by_name_in_one_line(parts: dict[str, Any], named: str) -> None:
    with pytest.raises(BadInputError) as refusal:
        parse_task(said(**parts), "tasks/t.json")
    assert named in str(refusal.value)
    assert str(refusal.value).startswith("tasks/t.json: ") and "\n" not in str(refusal.value)


def test_a_folder_becomes_queries_whatever_its_file_names(tmp_path: Path) -> None:
    config = [step("launch", command=["a"]), step("sleep", seconds=1)]
    for number in range(10):
        text = json.dumps(said(id=f"task-{number}", config=config, **evaluator(expected=RULE)))
        (tmp_path / f"{9 - number}.json").write_text(text)
    queries = import_tasks(tmp_path, 0.3, ORIGIN)
    assert [query.task for query in queries] == [f"task-{number}" for number in range(10)]
    assert sum(query.split is Split.HELDOUT_SLOTS for query in queries) == 3
    assert import_tasks(tmp_path, 0.3, ORIGIN) == queries
    assert len({query.query_id for query in queries}) == 10


@pytest.mark.parametrize(
    ("contents", "reason"),
    [([], ""), (["no json"], ""), (['{"id": "t"}'], ""), ([json.dumps(said())] * 2, "two tasks have the id 't'")],
)
def test_a_folder_without_tasks_or_with_doubles_is_one_line(tmp_path: Path, contents: list[str], reason: str) -> None:
    for number, content in enumerate(contents):
        (tmp_path / f"{number}.json").write_text(content)
    with pytest.raises(BadInputError, match=reason or None) as refusal:
        import_tasks(tmp_path, 0.0, ORIGIN)
    assert str(tmp_path) in str(refusal.value) and "\n" not in str(refusal.value)


def test_our_own_tasks_are_over_five_programs_have_paths_and_checks_and_can_be_left_out() -> None:
    queries = import_tasks(packaged_tasks(), 0.25, ORIGIN)
    assert len(queries) >= 12
    programs = {app for query in queries for app in query.apps}
    assert programs == {"mousepad", "galculator", "pcmanfm", "libreoffice_calc", "libreoffice_writer"}
    assert all(query.path[-1].operation == "finish" and query.goal != "{}" for query in queries)
    assert {query.split for query in queries} == {Split.TRAIN, Split.HELDOUT_SLOTS}
    alone = DesktopSpec(packaged=False)
    assert not asyncio.run(alone.own_queries(0, ORIGIN)).queries
    assert len(asyncio.run(DesktopSpec().own_queries(0, ORIGIN)).queries) == len(queries)
    assert "packaged" not in DesktopSpec().identity() and alone.identity() != DesktopSpec().identity()
