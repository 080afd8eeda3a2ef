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
from tests.stages.environments.desktop.queries import ORIGIN
from trajmill.schemas.actions import Terminate
from trajmill.stages.environments.desktop.environment import RemoteDesktops
from trajmill.stages.environments.desktop.osworld.tasks import import_checked
from trajmill.stages.environments.desktop.spec import OsworldSpec, RestoreSpec


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
