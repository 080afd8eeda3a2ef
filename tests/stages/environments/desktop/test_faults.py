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
from tests.stages.environments.desktop.queries import query_of, step
from tests.stages.environments.processes import children_of, eventually, named, until_gone
from trajmill.schemas.actions import TypeText
from trajmill.schemas.errors import FailureClass
from trajmill.stages.environments.desktop.connection import DesktopTimeouts
from trajmill.stages.environments.desktop.environment import DesktopEnvironment, LocalDesktops
from trajmill.stages.environments.desktop.local.desktop import LocalDesktop
from trajmill.stages.environments.desktop.local.processes import descendants
from trajmill.stages.environments.desktop.local.server import serve_desktop
from trajmill.stages.environments.desktop.protocol import TOKEN_HEADER
from trajmill.stages.environments.pool.pool import EnvironmentPool

pytestmark = pytest.mark.desktop
LAUNCH = step("launch", command=["galculator"])
SHORT = DesktopTimeouts(request=8.0)
PARENT = """
import asyncio, sys
from pathlib import Path
from trajmill.stages.environments.desktop.environment import LocalDesktops

async def main():
    environment = await LocalDesktops(Path("."))()
    await environment.desktop.launch(["galculator"])
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
async def local_desktop() -> AsyncIterator[DesktopEnvironment]:
    factory = LocalDesktops(Path(), timeouts=DesktopTimeouts(request=8.0, end=0.2))
    try:
        yield await factory()
    finally:
        await factory.close()


BLOWS = (
    ("Xvfb", signal.SIGSTOP, ""),
    ("server", signal.SIGKILL, ""),
    ("galculator", signal.SIGSEGV, "galculator ended with status -11"),
    ("dbus-daemon", signal.SIGSTOP, "did not answer within 8 s"),
)
"""What is hit, how, and what the episode says that it is hit in; "" for a blow between two episodes."""


async def test_what_breaks_fails_its_own_episode_alone_and_between_two_episodes_none(tmp_path: Path) -> None:
    query, before, hit = query_of(tmp_path, config=[LAUNCH]), children_of(os.getpid()), list[int]()

    def strike(victim: str, blow: signal.Signals) -> None:
        # The server is between a desktop and its watchdog.
        servers = [child for each in children_of(os.getpid()) - before for child in children_of(each)]
        hit[:] = servers if victim == "server" else named(victim)
        for process in hit:
            os.kill(process, blow)

    pool = EnvironmentPool(LocalDesktops(Path(), timeouts=SHORT), 1)
    try:
        for victim, blow, message in BLOWS:
            async with pool.lease() as environment:
                seen = await environment.reset(query, 0)
                await asyncio.to_thread(until_gone, hit)
                assert len(seen.elements or ()) > 1
                if message:
                    strike(victim, blow)
                    with failing(FailureClass.ENVIRONMENT, message):
                        for _ in range(3):
                            await environment.step(TypeText(text="x"))
            if not message:
                strike(victim, blow)
            assert hit
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


async def test_a_task_or_request_that_is_wrong_is_refused_and_a_hung_watchdog_goes_with_its_desktop(
    tmp_path: Path,
) -> None:
    steps = [
        (step("launch", command=["no-such-program"]), "no-such-program cannot be started"),
        (step("launch", command=["false"]), "false ended with status 1"),
        (step("execute", command="touch a; touch b", shell=True), "never a shell"),
        (step("activate_window", window_name="Nothing"), "404"),
    ]
    cases = [(query_of(tmp_path, config=[each]), FailureClass.SETUP, message) for each, message in steps]
    malformed = query_of(tmp_path).model_copy(update={"start_state": '{"config": [{"type": 1}]}'})
    closed = query_of(tmp_path, config=[LAUNCH, step("close_window", window_name="galculator")])
    async with local_desktop() as environment:
        for query, kind, message in (*cases, (malformed, FailureClass.TASK, "config.0.type")):
            with failing(kind, message):
                await environment.reset(query, 0)
        await environment.reset(closed, 0)
        await asyncio.to_thread(eventually, lambda: not named("galculator"))
        seen = await environment.step(TypeText(text="x"))
        assert (seen.app, len(seen.elements or ())) == ("", 1), "that a program ended as it should is no failure"
        server = environment.desktop.server
        async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
            stranger = await http.post("/execute", json={"command": ["true"]})
            # desktop-env, which has no tokens, sends one as the password of its address.
            with_password = [
                await http.get(server.url.replace("//", f"//token:{password}@") + "/capabilities")
                for password in (server.token, "wrong")
            ]
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
    assert [answer.status_code for answer in with_password] == [200, 403]


async def test_a_missing_program_gives_one_line_with_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with failing(FailureClass.SETUP, "Xvfb is not installed; run `make system-deps`"):
        await LocalDesktops(tmp_path)()


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
