"""What breaks in a local desktop, and that nothing of it is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.stages.environments.desktop.queries import query_of
from trajmill.schemas.actions import TypeText
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.desktop.connection import DesktopTimeouts
from trajmill.stages.environments.desktop.environment import DesktopEnvironment, LocalDesktops
from trajmill.stages.environments.desktop.local.processes import descendants, listened_on
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


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 200
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def pids(name: str) -> list[int]:
    """Processes of a name that descend from this one."""
    found = []
    for process in descendants(os.getpid()):
        command = Path(f"/proc/{process}/comm")
        if command.exists() and command.read_text().strip() == name:
            found.append(process)
    return found


def runs(process: int) -> bool:
    """Whether a process is there and no zombie that its parent has yet to notice."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@asynccontextmanager
async def local_desktop(
    timeouts: DesktopTimeouts = SHORT,
) -> AsyncIterator[tuple[DesktopEnvironment, LocalDesktops]]:
    factory = LocalDesktops(Path(), timeouts=timeouts)
    try:
        yield await factory(), factory
    finally:
        await factory.close()


@pytest.mark.parametrize(
    ("victim", "blow", "message"),
    [
        ("Xvfb", signal.SIGKILL, "500"),
        ("mousepad", signal.SIGSEGV, "mousepad ended with status -11"),
        ("mousepad", signal.SIGSTOP, "did not answer within 8 s"),
        ("dbus-daemon", signal.SIGSTOP, "did not answer within 8 s"),
        ("dbus-daemon", signal.SIGKILL, "500"),
    ],
)
async def test_a_crash_ends_the_episode_as_an_environment_failure_and_the_next_instance_works(
    tmp_path: Path, victim: str, blow: signal.Signals, message: str
) -> None:
    query = query_of(tmp_path, config=[LAUNCH])
    async with local_desktop() as (environment, factory):
        await environment.reset(query, 0)
        for process in pids(victim):
            os.kill(process, blow)
        with pytest.raises(EnvironmentFailure, match=message) as failure:
            for _ in range(3):
                await environment.step(TypeText(text="x"))
        await environment.close()
        another = await factory()
        await another.reset(query, 0)
    assert failure.value.failure_class is FailureClass.ENVIRONMENT


@pytest.mark.parametrize(
    ("victim", "blow"), [("Xvfb", signal.SIGKILL), ("Xvfb", signal.SIGSTOP), ("server", signal.SIGKILL)]
)
async def test_what_breaks_between_two_episodes_fails_neither(
    tmp_path: Path, victim: str, blow: signal.Signals
) -> None:
    query = query_of(tmp_path, config=[LAUNCH])
    pool = EnvironmentPool(LocalDesktops(Path(), timeouts=SHORT), 1)
    try:
        async with pool.lease() as environment:
            await environment.reset(query, 0)
        broken = _servers() if victim == "server" else pids(victim)
        for process in broken:
            os.kill(process, blow)
        async with pool.lease() as environment:
            seen = await environment.reset(query, 0)
        await asyncio.to_thread(eventually, lambda: not any(map(runs, broken)))
        assert len(seen.elements or ()) > 1
    finally:
        await pool.close()


def _servers() -> list[int]:
    """The processes between a desktop and its watchdog."""
    return [one for one in descendants(os.getpid()) if _parent_of(one) in _watchdogs()]


def _parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def _watchdogs() -> set[int]:
    return {one for one in descendants(os.getpid()) if _parent_of(one) == os.getpid()}


def test_killing_the_parent_leaves_no_process_and_no_folder() -> None:
    before = own_folders()
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        family = descendants(parent.pid)
        assert len(family) >= 6 and own_folders() > before
        parent.kill()
    eventually(lambda: not any(map(runs, family)))
    eventually(lambda: own_folders() <= before)


async def test_a_hung_watchdog_goes_with_its_desktop() -> None:
    async with local_desktop(DesktopTimeouts(end=0.2)) as (environment, _):
        (watchdog,) = environment.belongings().process_ids
        os.kill(watchdog, signal.SIGSTOP)
        await environment.close()


async def test_a_reset_and_a_close_leave_no_socket_of_the_x_server_or_an_office(tmp_path: Path) -> None:
    calc = {"type": "launch", "parameters": {"command": ["soffice", "--calc", "--nologo", "--norestore"]}}
    query = query_of(tmp_path, config=[calc])
    async with local_desktop() as (environment, _):
        await environment.reset(query, 0)
        first = own_sockets()
        await environment.reset(query, 0)
        assert not any(map(is_there, first))
        left = first | own_sockets()
    assert {"X11-unix", "OSL_PIPE"} <= {kind for each in left for kind in ("X11-unix", "OSL_PIPE") if kind in str(each)}
    assert not any(map(is_there, left))


class SocketFile(NamedTuple):
    path: Path
    file: tuple[int, int]
    """Another server may use the path once it is free, with a file of its own."""


def own_sockets() -> set[SocketFile]:
    return {SocketFile(path, file_at(path)) for path in listened_on(descendants(os.getpid()))}


def file_at(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_ino, found.st_ctime_ns


def is_there(socket: SocketFile) -> bool:
    try:
        return file_at(socket.path) == socket.file
    except FileNotFoundError:
        return False


async def test_a_program_that_ends_as_it_should_is_no_failure(tmp_path: Path) -> None:
    query = query_of(tmp_path, config=[LAUNCH, {"type": "close_window", "parameters": {"window_name": "Mousepad"}}])
    async with local_desktop() as (environment, _):
        await environment.reset(query, 0)
        await asyncio.to_thread(eventually, lambda: not pids("mousepad"))
        seen = await environment.step(TypeText(text="x"))
    assert (seen.app, len(seen.elements or ())) == ("", 1)


async def failing(query: Query) -> EnvironmentFailure:
    async with local_desktop() as (environment, _):
        with pytest.raises(EnvironmentFailure) as failure:
            await environment.reset(query, 0)
    return failure.value


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"type": "launch", "parameters": {"command": ["no-such-program"]}}, "no-such-program cannot be started"),
        ({"type": "launch", "parameters": {"command": ["false"]}}, "false ended with status 1"),
        ({"type": "execute", "parameters": {"command": "touch a; touch b", "shell": True}}, "never a shell"),
        ({"type": "activate_window", "parameters": {"window_name": "Nothing"}}, "404"),
    ],
)
async def test_a_task_that_cannot_be_prepared_is_a_setup_failure(tmp_path: Path, step: object, message: str) -> None:
    failure = await failing(query_of(tmp_path, config=[step]))
    assert failure.failure_class is FailureClass.SETUP
    assert message in str(failure) and "\n" not in str(failure)


async def test_a_malformed_start_state_is_a_mistake_of_the_task(tmp_path: Path) -> None:
    failure = await failing(query_of(tmp_path).model_copy(update={"start_state": '{"config": [{"type": 1}]}'}))
    assert failure.failure_class is FailureClass.TASK
    assert "config.0.type" in str(failure) and "\n" not in str(failure)


async def test_a_missing_program_of_the_desktop_gives_one_error_line_that_says_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="Xvfb is not installed; run `make system-deps`") as failure:
        await LocalDesktops(tmp_path)()
    assert failure.value.failure_class is FailureClass.SETUP


async def test_the_server_refuses_requests_without_its_secret_and_runs_no_command_line() -> None:
    async with local_desktop() as (environment, _):
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
    assert [answer.status_code for answer in (stranger, *answers)] == [403, 200, 403, 403, 403, 400, 404]
