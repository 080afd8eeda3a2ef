"""Snapshots of an emulator through its console (what `adb emu` speaks), and restoring a device before a task."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.android.spec import AndroidSpec, RestoreHookSpec
from trajmill.stages.environments.pool.child import run_command
from trajmill.stages.environments.pool.machines import POLL_SECONDS

if TYPE_CHECKING:
    from trajmill.stages.environments.android.adb import AdbDevice

_EMULATOR = re.compile(r"emulator-(\d{1,5})")
_TOKEN = Path("~/.emulator_console_auth_token")
_OWN = re.compile(r"\btrajmill-[0-9a-f]{12}\b")
_MOST_KEPT = 4
"""Snapshots of one emulator for branches; each is as large as its memory."""
_MARK = "/data/local/tmp/trajmill-task"
"""File on a device that has had a task. It goes with the state of the device."""
_SECONDS_TO_RETURN = 90.0


class Console(NamedTuple):
    """The console of an emulator at the adb server's host."""

    host: str
    port: int
    seconds: float

    async def run(self, command: str) -> str:
        """Run one command and return what it prints; raises EnvironmentFailure if it fails or gives no answer."""
        try:
            async with asyncio.timeout(self.seconds):
                reader, writer = await asyncio.open_connection(self.host, self.port)
                try:
                    if "auth" in await _answer(reader):
                        writer.write(f"auth {_TOKEN.expanduser().read_text().strip()}\r\n".encode())
                        await _answer(reader)
                    writer.write(f"{command}\r\n".encode())
                    return await _answer(reader)
                finally:
                    writer.close()
        except (TimeoutError, OSError, ValueError) as error:
            reason = str(error) or f"no answer within {self.seconds:g} s"
            text = f"console of emulator-{self.port} at {self.host}: {command}: {reason}"
            raise EnvironmentFailure(" ".join(text.split())) from error


async def _answer(reader: asyncio.StreamReader) -> str:
    """Read up to the line `OK`; raises OSError with the reason after `KO`."""
    lines: list[str] = []
    while line := (await reader.readline()).decode(errors="replace"):
        line = line.strip()
        if line == "OK":
            return "\n".join(lines)
        if line.startswith("KO"):
            raise OSError(line.removeprefix("KO").removeprefix(":").strip() or "refused")
        lines.append(line)
    raise OSError("the connection was cut")


def console_of(serial: str, settings: AndroidSpec) -> Console | None:
    match = _EMULATOR.fullmatch(serial)
    return Console(settings.host, int(match[1]), settings.call_seconds) if match else None


class EmulatorSnapshots:
    """The snapshots that one environment takes of its emulator; those of ended runs are deleted."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._kept: list[str] | None = None

    async def take(self) -> str:
        """Save a snapshot and return its name; the oldest one goes. Raises EnvironmentFailure if it is not saved."""
        if self._kept is None:
            self._kept = _OWN.findall(await self._console.run("avd snapshot list"))
            await self.delete()
        await self.delete(_MOST_KEPT - 1)
        name = f"trajmill-{uuid4().hex[:12]}"
        await self._console.run(f"avd snapshot save {name}")
        self._kept.append(name)
        return name

    async def load(self, name: str) -> bool:
        """Load a snapshot; False if this environment has none of this name."""
        if name not in (self._kept or ()):
            return False
        await self._console.run(f"avd snapshot load {name}")
        return True

    async def delete(self, kept: int = 0) -> None:
        while self._kept and len(self._kept) > kept:
            await self._console.run(f"avd snapshot delete {self._kept.pop(0)}")


async def freshen(device: AdbDevice, settings: AndroidSpec) -> bool:
    """Restore a device by its snapshot or hook, and mark it; False if it is as it was.

    A hook runs only for a device that has had a task. Raises EnvironmentFailure if the device stays used or does not
    come back, or a real device shall load a snapshot.
    """
    console, hook = console_of(device.serial, settings), settings.restore
    if not settings.snapshot and hook is None:
        return False
    restored = True
    if settings.snapshot and console is not None:
        await console.run(f"avd snapshot load {settings.snapshot}")
    elif hook is None:
        text = f"{device.serial} is no emulator and has no snapshots"
        raise EnvironmentFailure(f"{text}; set `environment.restore`, or name emulators in `serials`")
    elif await _is_marked(device):
        await _run_hook(hook, device.serial)
    else:
        restored = False
    if restored:
        await wait_until_ready(device)
        if await _is_marked(device):
            raise EnvironmentFailure(f"{device.serial} is as the last task left it; restoring it has had no effect")
    await device.run("touch", _MARK)
    return restored


async def _run_hook(hook: RestoreHookSpec, serial: str) -> None:
    try:
        async with asyncio.timeout(hook.seconds):
            await run_command([word.replace("{serial}", serial) for word in hook.command])
    except (TimeoutError, OSError) as error:
        reason = str(error) or f"not within {hook.seconds:g} s"
        raise EnvironmentFailure(f"{serial} was not restored: {reason}") from error


async def wait_until_ready(device: AdbDevice) -> None:
    """Wait until a restored device answers; raises EnvironmentFailure if it does not."""
    deadline = monotonic() + _SECONDS_TO_RETURN
    while monotonic() < deadline:
        # The connection that the server has is of the time before.
        with suppress(EnvironmentFailure):
            if await is_ready(device):
                return
        await asyncio.sleep(POLL_SECONDS)
    raise EnvironmentFailure(f"{device.serial} did not come back within {_SECONDS_TO_RETURN:g} s", FailureClass.SETUP)


async def is_ready(device: AdbDevice) -> bool:
    """Whether the system of a device runs, not only its shell."""
    return (await device.run("settings", "get", "global", "device_provisioned")).status == 0


async def _is_marked(device: AdbDevice) -> bool:
    return (await device.run("ls", _MARK)).status == 0
