import asyncio
import socket
import threading
from pathlib import Path

import pytest

from tests.failures import failing
from tests.stages.environments.android.playing import environment_on, press, settings_for, task
from tests.stages.environments.android.stand_in.phone import ADB_KEYBOARD, OWN_KEYBOARD, Faults, Phone
from tests.stages.environments.android.stand_in.server import AdbServer
from tests.stages.environments.android.stand_in.tasks import ORIGIN, task_line, verified_queries
from tests.stages.rollout.rolling import rolled_out
from trajmill.schemas.actions import OpenApp, TypeText
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.tables.trajectory import StopReason
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.environments.android.environment import AndroidFactory
from trajmill.stages.environments.android.spec import AndroidSpec
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.environments.tasks import query_of
from trajmill.stages.rollout.base import Limits

pytestmark = pytest.mark.slow

FAULTS = [
    (Faults(offline=True), "device offline"),
    (Faults(cut_after=0), "the connection was cut after 0 bytes"),
    (Faults(cut_after=100), "the connection was cut after|did not answer|no PNG"),
    (Faults(hangs=True), "did not answer within 3 s"),
    (Faults(blank_screenshot=True), "the screenshot is empty"),
]


@pytest.mark.parametrize(("faults", "words"), FAULTS)
async def test_a_fault_gives_the_device_back(phone: Phone, server: AdbServer, faults: Faults, words: str) -> None:
    async with environment_on(phone, server, call_seconds=3.0 if faults.hangs else 5.0) as environment:
        await environment.reset(task(), 0)
        phone.faults = faults
        for call, kind in (
            (environment.step(OpenApp(app="Clock")), FailureClass.ENVIRONMENT),
            (environment.reset(task(), 0), FailureClass.SETUP),
        ):
            with failing(kind, words):
                await call
    phone.faults = Faults()
    async with environment_on(phone, server) as environment:
        assert (await environment.reset(task(), 0)).app == ""
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("adb-emulator")]


async def test_a_cancelled_call_ends_at_once_and_the_keyboard_is_as_before(phone: Phone, server: AdbServer) -> None:
    async with environment_on(phone, server, call_seconds=600.0) as environment:
        await environment.reset(task(), 0)
        phone.faults = Faults(hangs=True)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await environment.step(OpenApp(app="Clock"))
        phone.faults = Faults()
        await environment.reset(task({"open": "Notes"}), 0)
        typing = asyncio.create_task(environment.step(TypeText(text="ä" * 100_000)))
        while phone.settings["secure.default_input_method"] != ADB_KEYBOARD:
            await asyncio.sleep(0.001)
        typing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await typing
        assert phone.settings["secure.default_input_method"] == OWN_KEYBOARD


@pytest.mark.parametrize("faults", [Faults(hangs=True), Faults(without_system=True)])
async def test_what_breaks_between_two_episodes_fails_neither(
    phones: list[Phone], server: AdbServer, faults: Faults
) -> None:
    pool = EnvironmentPool(AndroidFactory(settings_for(server, call_seconds=3.0, lease_seconds=60.0)), 1)
    async with pool.lease() as environment:
        await environment.reset(task(), 0)
    assert [bool(phone.ran) for phone in phones] == [True, False]
    phones[0].faults = faults
    async with pool.lease() as environment:
        await environment.reset(task(), 0)
    await pool.close()
    assert phones[1].ran


async def test_a_device_that_does_not_answer_or_is_in_use_is_not_lent(phones: list[Phone], server: AdbServer) -> None:
    phones[0].faults = Faults(hangs=True)
    settings = settings_for(server, call_seconds=3.0, lease_seconds=60.0)
    environment = await AndroidFactory(settings)()
    assert environment.device.serial == phones[1].serial
    with failing(FailureClass.SETUP, "emulator-5556 is in use"):
        await AndroidFactory(settings_for(server, serials=(phones[1].serial,)))()
    hasty = settings.model_copy(update={"serials": (phones[0].serial,), "lease_seconds": 0.0})
    with failing(FailureClass.SETUP, "emulator-5554 does not answer"):
        await AndroidFactory(hasty)()
    phones[0].faults = Faults(offline=True)
    with pytest.raises(EnvironmentFailure, match="emulator-5554 is offline, x is not connected"):
        await AndroidFactory(settings_for(server, serials=("emulator-5554", "x")))()
    phones[0].faults = Faults()
    await (await AndroidFactory(hasty)()).close()
    await environment.close()


async def test_without_an_adb_server_one_line_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, program = tmp_path / "started", tmp_path / "adb"
    program.write_text(f"#!/bin/sh\ntouch {started}\n")
    program.chmod(0o755)
    monkeypatch.setenv("ADBUTILS_ADB_PATH", str(program))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(EnvironmentFailure, match="run `adb start-server`") as caught:
            await AndroidFactory(AndroidSpec(port=free.getsockname()[1]))()
    assert caught.value.failure_class is FailureClass.SETUP and "\n" not in str(caught.value)
    assert not started.exists()


async def test_the_server_that_goes_away_is_an_environment_failure(phone: Phone, server: AdbServer) -> None:
    async with environment_on(phone, server) as environment:
        seen = await environment.reset(task(), 0)
        server.stop()
        with pytest.raises(EnvironmentFailure, match="emulator-5554"):
            await environment.step(press(seen, "launcher/clock"))


@pytest.mark.parametrize("phones", [0.5], indirect=True)
def test_the_reference_agent_does_verified_queries_on_two_devices(
    world: World, phones: list[Phone], server: AdbServer
) -> None:
    tasks = [query_of(task_line(world, each, seed), ORIGIN) for seed, each in enumerate(verified_queries(world, 5, 3))]
    limits = Limits(seconds=60, tokens=1000, environment_tries=3)
    done = asyncio.run(rolled_out(tasks, ReferenceAgent, AndroidFactory(settings_for(server)), limits, 2))
    assert len(done) == 5
    for rollout in done:
        trajectory = rollout.episode.trajectory
        assert (trajectory.stop_reason, trajectory.reward) == (StopReason.AGENT_DONE, 1.0)
        assert trajectory.environment == "android"
        assert len({step.screen_after for step in rollout.episode.steps}) > 1
    assert all(phone.ran for phone in phones)
