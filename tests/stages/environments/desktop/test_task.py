import asyncio
import json
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.http_server import serving
from tests.stages.environments.desktop.osworld_server import osworld_machine
from tests.stages.environments.desktop.osworld_tasks import tasks, write_downloads
from tests.stages.environments.desktop.queries import ORIGIN, step
from trajmill.schemas.actions import Terminate
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.desktop.environment import RemoteDesktops
from trajmill.stages.environments.desktop.osworld.tasks import import_checked
from trajmill.stages.environments.desktop.spec import DesktopSpec, OsworldSpec, RestoreSpec
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


class Direct:
    """Scores by desktop-env's own environment, in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def score(self, task: dict[str, Any], url: str, gave_up: bool) -> float:
        asked = {"task": task, "port": int(url.rpartition(":")[2]), "gave_up": gave_up}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        return float(await self._process.stdout.readline())


@asynccontextmanager
async def direct_scores(osworld: OsworldSpec, folder: Path) -> AsyncIterator[Direct]:
    command = (str(osworld.python), str(Path(__file__).with_name("osworld_direct.py")))
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    try:
        yield Direct(process)
    finally:
        process.kill()
        await process.wait()


@pytest.mark.slow
async def test_twelve_tasks_score_as_desktop_env_scores_them(tmp_path: Path, osworld: OsworldSpec) -> None:
    write_downloads(tmp_path / "files")

    class Files(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(tmp_path / "files"))

        def log_message(self, format: str, *arguments: object) -> None: ...

    with serving(Files) as address:
        # Ours takes copies; desktop-env itself downloads.
        mirror = tmp_path / "mirror"
        mirror.mkdir()
        (mirror / address.removeprefix("http://")).symlink_to(tmp_path / "files")
        (tmp_path / "tasks").mkdir()
        all_tasks = {done.task["id"]: done for done in tasks(address)}
        for name, done in all_tasks.items():
            (tmp_path / "tasks" / f"{name}.json").write_text(json.dumps(done.task))
        own = osworld.model_copy(update={"mirror": mirror})
        imported = await import_checked(tmp_path / "tasks", own, 0.0, ORIGIN, 0.0)
        assert len(imported.queries) == len(all_tasks) == 12, imported.failures
        scores: dict[str, list[float | None]] = {}
        async with osworld_machine(tmp_path) as machine, direct_scores(osworld, tmp_path) as direct:
            machine.home = tmp_path / "home"
            restore = RestoreSpec(url="http://{host}:{port}/restore")
            environment = await RemoteDesktops((machine.url,), tmp_path, osworld=own, restore=restore)()
            machine.restore()
            for query in imported.queries:
                done, score = all_tasks[query.task], scores.setdefault(query.task, [])
                await environment.reset(query, 0)
                score += [await environment.score(), await direct.score(done.task, machine.url, False)]
                if done.command:
                    await environment.desktop.execute(done.command)
                else:
                    await environment.step(Terminate(status="failure"))
                score += [await environment.score(), await direct.score(done.task, machine.url, not done.command)]
            await environment.close()
            assert machine.restored == 12
    assert scores == {name: [0.0, 0.0, 1.0, 1.0] for name in all_tasks}
