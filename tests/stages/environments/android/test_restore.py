import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.failures import failing
from tests.stages.environments.android.playing import environment_on, press, task
from tests.stages.environments.android.stand_in.console import TOKEN, Console, emulator
from tests.stages.environments.android.stand_in.phone import Phone
from tests.stages.environments.android.stand_in.server import AdbServer, serving
from trajmill.schemas.actions import OpenApp
from trajmill.schemas.errors import FailureClass
from trajmill.stages.environments.android.spec import AndroidSpec, RestoreHookSpec
from trajmill.stages.environments.base import Restorable
from trajmill.stages.environments.simulated.world import World


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with the token of the emulators of this user."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".emulator_console_auth_token").write_text(f"{TOKEN}\n")
    return tmp_path


@pytest.fixture
def console(world: World) -> Iterator[Console]:
    with emulator(world) as console:
        yield console


@pytest.fixture
def adb(console: Console) -> Iterator[AdbServer]:
    with serving([console.phone]) as server:
        yield server


@pytest.mark.skipif(shutil.which("adb") is None, reason="adb is not installed; run `make system-deps`")
def test_debians_adb_reaches_the_stand_in_of_the_console(console: Console, adb: AdbServer) -> None:
    command = ["adb", "-P", str(adb.port), "-s", console.phone.serial, "emu", "avd", "snapshot", "save", "mine"]
    assert subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.split()[-1] == b"OK"
    assert list(console.phone.saved) == ["mine"]


async def test_each_reset_loads_the_snapshot_and_nothing_of_a_task_is_left(console: Console, adb: AdbServer) -> None:
    phone = console.phone
    phone.files["/sdcard/mine"] = b"kept"
    phone.save("clean")
    async with environment_on(phone, adb, snapshot="clean") as environment:
        for _ in range(2):
            seen = await environment.reset(task({"settings": {"system.volume": "3"}}), 0)
            assert (seen.app, sorted(phone.files)) == ("", ["/data/local/tmp/trajmill-task", "/sdcard/mine"])
            await environment.step(OpenApp(app="Clock"))
            phone.files["/sdcard/left"] = b"by the agent"
        phone.loses_snapshots = True
        with failing(FailureClass.SETUP, f"{phone.serial} is as the last task left it"):
            await environment.reset(task(), 0)
    async with environment_on(phone, adb, snapshot="other") as environment:
        with failing(FailureClass.SETUP, "avd snapshot load other: failed"):
            await environment.reset(task(), 0)


async def test_a_branch_goes_on_from_a_snapshot_on_its_own_emulator(console: Console, adb: AdbServer) -> None:
    phone = console.phone
    for name in ("mine", "trajmill-0123456789ab"):
        phone.save(name)
    async with environment_on(phone, adb, settle_seconds=0.5) as environment:
        assert isinstance(environment, Restorable)
        start = {"settings": {"system.volume": "3"}, "open": "Notes"}
        before = await environment.reset(task(start, {"foreground": "org.trajmill.notes"}), 0)
        held = await environment.snapshot()
        await environment.step(press(before, "notes.home/new"))
        await environment.reset(task(), 0)
        again = await environment.restore(held)
        assert again is not None and again.elements == before.elements
        assert (phone.settings["system.volume"], await environment.score()) == ("3", 1.0)
        for _ in range(5):
            last = await environment.snapshot()
        assert len(phone.saved) == 5 and "mine" in phone.saved and "trajmill-0123456789ab" not in phone.saved
        assert await environment.restore(held) is None
        await environment.step(OpenApp(app="Clock"))
        phone.loses_snapshots = True
        with failing(FailureClass.ENVIRONMENT, "came back with another screen"):
            await environment.restore(last)
        console.read_only = True
        assert await environment.snapshot() is None
    assert list(phone.saved) == ["mine"] and "system.volume" not in phone.settings


async def test_a_real_device_is_restored_by_the_hook_or_refused(phone: Phone, server: AdbServer, home: Path) -> None:
    phone.serial = "R58M123ABC"
    server.phones = {phone.serial: phone}
    server.programs = {phone.serial: server.programs["emulator-5554"]}
    restored = "import sys, pathlib; pathlib.Path('ran').write_text(sys.argv[1])"
    hook = RestoreHookSpec(command=(sys.executable, "-c", restored.replace("ran", str(home / "ran")), "{serial}"))
    async with environment_on(phone, server, restore=hook) as environment:
        await environment.reset(task(), 0)
        assert not (home / "ran").exists() and await environment.snapshot() is None
        with failing(FailureClass.SETUP, "R58M123ABC is as the last task left it; restoring it has had no effect"):
            await environment.reset(task(), 0)
        assert (home / "ran").read_text() == "R58M123ABC"
        phone.files.clear()
        await environment.reset(task(), 0)
    failed = RestoreHookSpec(command=(sys.executable, "-c", "raise SystemExit('the hub is off')"))
    async with environment_on(phone, server, restore=failed) as environment:
        with failing(FailureClass.SETUP, "R58M123ABC was not restored: .* status 1: the hub is off"):
            await environment.reset(task(), 0)
    async with environment_on(phone, server, snapshot="clean") as environment:
        with failing(FailureClass.SETUP, "R58M123ABC is no emulator and has no snapshots; set `environment.restore`"):
            await environment.reset(task(), 0)


async def test_a_console_that_cannot_be_used_gives_one_line(console: Console, adb: AdbServer, home: Path) -> None:
    async with environment_on(console.phone, adb, snapshot="clean") as environment:
        for token, words in (("wrong", "token does not match"), (None, "No such file.*emulator_console_auth_token")):
            file = home / ".emulator_console_auth_token"
            file.write_text(token) if token else file.unlink()
            with failing(FailureClass.SETUP, words):
                await environment.reset(task(), 0)


@pytest.mark.parametrize("wrong", [{"snapshot": "clean; kill"}, {"restore": {"url": "http://x", "command": ["x"]}}])
def test_a_wrong_way_to_restore_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"snapshot|restore\.url"):
        AndroidSpec.model_validate(wrong)
