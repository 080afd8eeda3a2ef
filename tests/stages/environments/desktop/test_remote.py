import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.failures import failing
from tests.stages.environments.desktop.osworld_server import SECONDS_OF_CLIPBOARD, OsworldMachine, osworld_machine
from tests.stages.environments.desktop.queries import query_of, step
from trajmill.schemas import actions as act
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.desktop.connection import DesktopTimeouts
from trajmill.stages.environments.desktop.environment import DesktopEnvironment, RemoteDesktops
from trajmill.stages.environments.desktop.spec import DesktopSpec, RestoreSpec
from trajmill.stages.environments.pool.pool import EnvironmentLimits, EnvironmentPool

pytestmark = pytest.mark.slow

MARK = "~/.cache/trajmill/task"
SHORT = DesktopTimeouts(lease=0.0, ready=1.0, request=2.0, prepare=5.0)


@asynccontextmanager
async def remote_desktop(
    folder: Path, timeouts: DesktopTimeouts = DesktopTimeouts(), restore: RestoreSpec | None = None
) -> AsyncIterator[tuple[DesktopEnvironment, OsworldMachine]]:
    async with osworld_machine(folder) as machine:
        environment = await RemoteDesktops((machine.url,), folder / "tasks", timeouts, restore=restore)()
        try:
            yield environment, machine
        finally:
            await environment.close()


async def test_a_task_is_prepared_done_and_checked(tmp_path: Path) -> None:
    upload = step("upload_file", files=[{"local_path": "task.json", "path": "/home/user/a"}])
    launch, activate = step("launch", command="gedit /home/user/a"), step("activate_window", window_name="gedit")
    output = {"type": "vm_command_line", "command": ["python", "-c", "print(6 * 7)"]}
    evaluator = {
        "func": ["exact_match", "file_contains"],
        "result": [output, {"type": "vm_file", "path": "/home/user/a"}],
        "expected": [{"type": "rule", "rules": {"expected": each}} for each in ("42", ["Do it."])],
    }
    query = query_of(tmp_path / "tasks", config=[upload, launch, activate], evaluator=evaluator)
    async with remote_desktop(tmp_path) as (environment, machine):
        seen = await environment.reset(query, 0)
        assert seen.app == "gedit" and seen.elements is not None and seen.elements[1][:2] == ("button", "Save")
        await environment.step(act.Terminate(status="success"))
        assert await environment.score() == 1.0
        machine.files.clear()
        assert await environment.score() == 0.0
        machine.restore()
        (tmp_path / "secret").write_text("secret")
        outside = step("upload", files=[{"local_path": "../secret", "path": "/a"}])
        with pytest.raises(EnvironmentFailure, match="is not in"):
            await environment.reset(query_of(tmp_path / "tasks", config=[outside]), 0)
        assert machine.restore() == [MARK]
    assert machine.launched == [["gedit", "/home/user/a"]]
    assert machine.windows == [("/setup/activate_window", "gedit")]


async def test_actions_arrive_as_calls_and_text_as_data(tmp_path: Path) -> None:
    nasty = "'); __import__('os').system('touch hit'); (\"$(touch hit)\n"
    actions: list[act.Action] = [
        act.Click(x=3, y=4, button="right", count=2),
        act.TypeText(text=nasty, clear=True, enter=True),
        act.TypeText(text="привет"),
        act.PressKeys(keys=("ctrl", "S")),
        act.PressKeys(keys=("ctrl", "__class__")),
        act.Scroll(x=5, y=6, clicks=-3),
        act.Drag(x=1, y=2, x2=7, y2=8),
        act.DragTo(x=20, y=40),
        act.HorizontalScroll(x=2, y=4, clicks=2),
        act.Interact(text="log in"),
    ]
    # A machine that waited for the tool with the clipboard would not answer in time.
    async with remote_desktop(tmp_path, DesktopTimeouts(request=SECONDS_OF_CLIPBOARD / 2)) as (environment, machine):
        for action in actions:
            await environment.step(action)
    names = "click hotkey press write press copy hotkey hotkey moveTo scroll moveTo dragTo dragTo moveTo hscroll"
    typed = [["ctrl", "a"], ["delete"], [nasty], ["enter"], ["привет"], ["ctrl", "v"], ["ctrl", "s"]]
    moved = [[5, 6], [-3], [1, 2], [7, 8, 0.3], [20, 40, 0.3], [2, 4], [2]]
    called = zip(names.split(), [[3, 4, 2, 0.05, "right"], *typed, *moved], strict=True)
    assert machine.calls() == [list(each) for each in called]
    assert not (tmp_path / "hit").exists()
    assert len({command["command"][2] for command in machine.commands}) == 1


async def test_a_machine_that_boots_is_waited_for_and_one_that_never_is_ready_is_given_back(tmp_path: Path) -> None:
    async with osworld_machine(tmp_path) as machine:
        machine.booting = 3
        environment = await RemoteDesktops((machine.url,), tmp_path)()
        assert (await environment.step(act.Terminate(status="failure"))).app == "gedit"
        await environment.close()
        machine.booting = 1_000_000
        factory = RemoteDesktops((machine.url,), tmp_path, SHORT)
        for _ in range(2):
            with failing(FailureClass.SETUP, "was not ready within 1 s"):
                await factory()


OTHER = """
import asyncio, sys, time
from pathlib import Path
from trajmill.stages.environments.desktop.environment import RemoteDesktops
environment = asyncio.run(RemoteDesktops((sys.argv[1],), Path())())
print("leased", flush=True)
time.sleep(600)
"""


async def test_two_processes_never_share_a_machine_and_a_killed_one_frees_it(tmp_path: Path) -> None:
    async with osworld_machine(tmp_path) as machine:
        # Waiting for what one holds oneself would never end.
        factory = RemoteDesktops((machine.url,), tmp_path, DesktopTimeouts(lease=1_000_000.0))
        first = await factory()
        with failing(FailureClass.SETUP, "^no desktop is free: http.* is in use; name more machines, or run fewer "):
            await factory()
        await first.close()
        url = machine.url.replace("127.0.0.1", "localhost") + "/"
        other = await asyncio.create_subprocess_exec(sys.executable, "-c", OTHER, url, stdout=PIPE)
        assert other.stdout is not None
        assert await other.stdout.readline() == b"leased\n"
        with failing(FailureClass.SETUP, "no desktop is free: http.* is in use"):
            await RemoteDesktops((machine.url,), tmp_path, SHORT)()
        waiting = asyncio.create_task(factory())
        await asyncio.sleep(0.05)
        assert not waiting.done()
        other.kill()
        await (await waiting).close()
        await other.wait()


async def test_a_fault_is_the_environments_or_of_the_setup(tmp_path: Path) -> None:
    for fault, message in (
        ("empty_screenshots", "sent 0 bytes that are no screenshot"),
        ("hangs", "did not answer within 2 s"),
        ("breaks", "answered 500: the display is gone"),
    ):
        query = query_of(tmp_path / "tasks")
        async with remote_desktop(tmp_path, SHORT) as (environment, machine):
            await environment.reset(query, 0)
            machine.restore()
            setattr(machine, fault, True)
            for call, kind in (
                (environment.step(act.Terminate(status="success")), FailureClass.ENVIRONMENT),
                (environment.reset(query, 0), FailureClass.SETUP),
            ):
                with failing(kind, message):
                    await call


RESTORE = "import sys, urllib.request as r; r.urlopen(r.Request(f'http://{sys.argv[1]}:{sys.argv[2]}/restore', b''))"


async def test_a_machine_is_restored_before_its_second_task(tmp_path: Path) -> None:
    for restore in (
        RestoreSpec(command=(sys.executable, "-c", RESTORE, "{host}", "{port}")),
        RestoreSpec(url="http://{host}:{port}/restore"),
    ):
        async with remote_desktop(tmp_path, restore=restore) as (environment, machine):
            for _ in range(2):
                await environment.reset(query_of(tmp_path / "tasks"), 0)
            assert machine.restored == 1


async def test_a_restore_may_take_longer_than_other_resets(tmp_path: Path) -> None:
    slow = f"import time; time.sleep(1.5); {RESTORE}"
    restore = RestoreSpec(command=(sys.executable, "-c", slow, "{host}", "{port}"), seconds=30.0)
    async with osworld_machine(tmp_path) as machine:
        spec = DesktopSpec(servers=(machine.url,), tasks=tmp_path / "tasks", restore=restore)
        within = EnvironmentLimits(reset_seconds=1.0).with_slow_calls(spec.slow_seconds)
        pool = EnvironmentPool(spec.factory(Platform.DESKTOP), 1, within)
        async with pool.lease() as environment:
            for _ in range(2):
                await environment.reset(query_of(tmp_path / "tasks"), 0)
        await pool.close()
        assert machine.restored == 1


async def test_a_used_machine_is_refused_in_one_line(tmp_path: Path) -> None:
    for restore, message in (
        (None, "has had a task; restore it, or set `environment.restore`"),
        (RestoreSpec(command=("true",)), "is as the last task left it"),
        (RestoreSpec(command=("sh", "-c", "echo no such VM >&2; exit 3")), "status 3: no such VM"),
        (RestoreSpec(url="http://{host}:1/restore"), "was not restored: "),
        (RestoreSpec(provider="vmware", machines={}), "has no virtual machine in"),
    ):
        async with remote_desktop(tmp_path, restore=restore) as (environment, machine):
            await environment.reset(query_of(tmp_path / "tasks"), 0)
            launching = [step("launch", command=["gedit"])]
            with failing(FailureClass.SETUP, message):
                await environment.reset(query_of(tmp_path / "tasks", config=launching), 0)
            assert machine.launched == []
