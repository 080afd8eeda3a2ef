import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.failures import failing
from tests.stages.environments.desktop.queries import query_of
from tests.stages.environments.processes import children_of, eventually, named, until_gone
from trajmill.schemas.actions import TypeText
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.desktop.connection import DesktopTimeouts
from trajmill.stages.environments.desktop.environment import DesktopEnvironment, LocalDesktops
from trajmill.stages.environments.desktop.local.desktop import LocalDesktop
from trajmill.stages.environments.desktop.local.processes import descendants
from trajmill.stages.environments.desktop.local.server import serve_desktop
from trajmill.stages.environments.desktop.protocol import TOKEN_HEADER
from trajmill.stages.environments.pool.pool import EnvironmentPool

pytestmark = pytest.mark.desktop
LAUNCH = {"type": "launch", "parameters": {"command": ["mousepad"]}}
SHORT = DesktopTimeouts(request=8.0)
PARENT = """
import asyncio, sys
from pathlib import Path
from trajmill.stages.environments.desktop.environment import LocalDesktops

async def main():
    environment = await LocalDesktops(Path("."))()
    await environment.desktop.launch(["mousepad"])
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = descendants(os.getpid())
    # Desktops of others on this machine come and go in the common one.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        monkeypatch.setenv("TMPDIR", folder)
        yield
        eventually(lambda: descendants(os.getpid()) <= before and not own_folders())


def own_folders() -> set[Path]:
    return set(Path(os.environ["TMPDIR"]).glob("trajmill-desktop-*"))


@asynccontextmanager
async def local_desktop(timeouts: DesktopTimeouts = SHORT) -> AsyncIterator[DesktopEnvironment]:
    factory = LocalDesktops(Path(), timeouts=timeouts)
    try:
        yield await factory()
    finally:
        await factory.close()


@pytest.mark.parametrize(
    ("victim", "blow", "message"),
    [
        ("Xvfb", signal.SIGKILL, "500"),
        ("mousepad", signal.SIGSEGV, "mousepad ended with status -11"),
        ("dbus-daemon", signal.SIGSTOP, "did not answer within 8 s"),
    ],
)
async def test_a_crash_is_an_environment_failure(
    tmp_path: Path, victim: str, blow: signal.Signals, message: str
) -> None:
    async with local_desktop() as environment:
        await environment.reset(query_of(tmp_path, config=[LAUNCH]), 0)
        for process in named(victim):
            os.kill(process, blow)
        with pytest.raises(EnvironmentFailure, match=message) as failure:
            for _ in range(3):
                await environment.step(TypeText(text="x"))
    assert failure.value.failure_class is FailureClass.ENVIRONMENT


@pytest.mark.parametrize(("victim", "blow"), [("Xvfb", signal.SIGSTOP), ("server", signal.SIGKILL)])
async def test_what_breaks_between_two_episodes_fails_neither(
    tmp_path: Path, victim: str, blow: signal.Signals
) -> None:
    query = query_of(tmp_path, config=[LAUNCH])
    before = children_of(os.getpid())
    pool = EnvironmentPool(LocalDesktops(Path(), timeouts=SHORT), 1)
    try:
        async with pool.lease() as environment:
            await environment.reset(query, 0)
        # The server is between a desktop and its watchdog.
        servers = [child for each in children_of(os.getpid()) - before for child in children_of(each)]
        broken = servers if victim == "server" else named(victim)
        for process in broken:
            os.kill(process, blow)
        async with pool.lease() as environment:
            seen = await environment.reset(query, 0)
        await asyncio.to_thread(until_gone, broken)
        assert broken and len(seen.elements or ()) > 1
    finally:
        await pool.close()


def test_killing_the_parent_leaves_no_process_and_no_folder() -> None:
    before = own_folders()
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        family, folders = descendants(parent.pid), own_folders() - before
        assert len(family) >= 6 and folders
        parent.kill()
    until_gone(family, *folders)


async def test_a_task_that_cannot_be_prepared_fails_in_one_line_and_a_program_may_end(tmp_path: Path) -> None:
    steps = [
        ({"type": "launch", "parameters": {"command": ["no-such-program"]}}, "no-such-program cannot be started"),
        ({"type": "launch", "parameters": {"command": ["false"]}}, "false ended with status 1"),
        ({"type": "execute", "parameters": {"command": "touch a; touch b", "shell": True}}, "never a shell"),
        ({"type": "activate_window", "parameters": {"window_name": "Nothing"}}, "404"),
    ]
    cases = [(query_of(tmp_path, config=[step]), FailureClass.SETUP, message) for step, message in steps]
    malformed = query_of(tmp_path).model_copy(update={"start_state": '{"config": [{"type": 1}]}'})
    closed = query_of(tmp_path, config=[LAUNCH, {"type": "close_window", "parameters": {"window_name": "Mousepad"}}])
    async with local_desktop() as environment:
        for query, kind, message in (*cases, (malformed, FailureClass.TASK, "config.0.type")):
            with failing(kind, message):
                await environment.reset(query, 0)
        await environment.reset(closed, 0)
        await asyncio.to_thread(eventually, lambda: not named("mousepad"))
        seen = await environment.step(TypeText(text="x"))
    assert (seen.app, len(seen.elements or ())) == ("", 1), "that a program ended as it should is no failure"


async def test_a_missing_program_gives_one_line_with_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with failing(FailureClass.SETUP, "Xvfb is not installed; run `make system-deps`"):
        await LocalDesktops(tmp_path)()


async def test_the_server_refuses_requests_without_its_secret_and_a_hung_watchdog_goes_with_its_desktop() -> None:
    async with local_desktop(DesktopTimeouts(request=8.0, end=0.2)) as environment:
        server = environment.desktop.server
        async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
            stranger = await http.post("/execute", json={"command": ["true"]})
            http.headers[TOKEN_HEADER] = server.token
            answers = [
                await http.post("/execute", json={"command": ["true"]}),
                await http.post("/execute", json={"command": "true", "shell": True}),
                await http.post("/execute", json={"command": "true"}),
                await http.post("/run_python", json={"code": "1"}),
                await http.post("/action", content='{"kind": "nonsense"}'),
                await http.post("/file", data={"file_path": "/home/user/none"}),
            ]
        (watchdog,) = environment.belongings().process_ids
        os.kill(watchdog, signal.SIGSTOP)
        await environment.close()
    assert [answer.status_code for answer in (stranger, *answers)] == [403, 200, 403, 403, 403, 400, 404]


@pytest.mark.parametrize(("error", "is_told"), [(BrokenPipeError(), False), (ValueError("a fault"), True)])
def test_a_client_that_has_gone_is_no_traceback_on_the_terminal(
    error: Exception, is_told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve_desktop(cast(LocalDesktop, None), "token") as server:
        try:
            raise error
        except type(error):
            server.handle_error(server.socket, ("127.0.0.1", 1))
    assert ("Traceback" in capsys.readouterr().err) is is_told
