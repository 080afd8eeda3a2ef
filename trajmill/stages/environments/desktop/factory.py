"""Makes desktop environments: on a team's OSWorld machines, or on desktops that it starts on this machine."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import httpx

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size
from trajmill.stages.environments.base import Belongings
from trajmill.stages.environments.desktop.connection import DesktopConnection, DesktopServer, DesktopTimeouts
from trajmill.stages.environments.desktop.environment import DesktopEnvironment
from trajmill.stages.environments.pool.machines import Machines, MachineState, machine_address
from trajmill.stages.environments.pool.reaper import end_processes

SCREEN = Size(1280, 720)
_WATCHDOG = "trajmill.stages.environments.desktop.local.watchdog"
_SECONDS_TO_START = 60.0
_ADVICE = "name more machines, or run fewer episodes at once"


class RemoteDesktops:
    """Leases machines with the OSWorld server protocol, each to one environment of one process at a time."""

    def __init__(self, servers: tuple[str, ...], files: Path, timeouts: DesktopTimeouts = DesktopTimeouts()) -> None:
        """Connect to nothing yet.

        Args:
            servers: their addresses, e.g. `http://10.0.0.7:5000`.
            files: folder of the tasks' local files.
            timeouts: their time limits.
        """
        self._files = files
        self._timeouts = timeouts
        self._servers = servers
        self._machines = Machines("desktop", timeouts.lease, _ADVICE)

    async def __call__(self) -> DesktopEnvironment:
        """Wait until the machine that was free longest is ready, and return its environment."""
        lease = await self._machines.lease(self._machine_states)
        desktop = DesktopConnection(DesktopServer(lease.name), self._timeouts)

        async def give_back() -> None:
            lease.close()

        try:
            await desktop.wait_until_ready()
        except BaseException:
            await desktop.close()
            lease.close()
            raise
        return DesktopEnvironment(desktop, self._files, give_back)

    async def close(self) -> None:
        """Do nothing: each environment gives its machine back itself."""

    async def _machine_states(self) -> Mapping[str, MachineState]:
        return await asyncio.to_thread(lambda: {url: MachineState(_identity(url)) for url in self._servers})


class LocalDesktops:
    """Starts a separate desktop for each environment, on this machine."""

    def __init__(self, files: Path, size: Size = SCREEN, timeouts: DesktopTimeouts = DesktopTimeouts()) -> None:
        """Start nothing yet.

        Args:
            files: folder of the tasks' local files.
            size: size of the screens, in pixels.
            timeouts: time limits of a desktop.
        """
        self._files = files
        self._size = size
        self._timeouts = timeouts
        self._running: list[_LocalDesktop] = []

    async def __call__(self) -> DesktopEnvironment:
        """Start a desktop and wait until it is ready."""
        _refuse_missing_packages()
        local = await _start(self._size, self._timeouts.end)
        self._running.append(local)

        async def give_back() -> None:
            self._running.remove(local)
            await local.end()

        desktop = DesktopConnection(local.server, self._timeouts)
        try:
            await desktop.wait_until_ready()
        except BaseException:
            await desktop.close()
            await give_back()
            raise
        return DesktopEnvironment(desktop, self._files, give_back, local.belongings)

    async def close(self) -> None:
        """End every desktop that still runs."""
        while self._running:
            await self._running.pop().end()


def _identity(url: str) -> str:
    """An id of the machine at an address. Blocks."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return url
    port = parsed.port or (443 if parsed.scheme == "https" else 80)
    return f"{machine_address(parsed.host, port)}{parsed.path.rstrip('/')}"


class _LocalDesktop:
    """The watchdog process of one desktop; the desktop runs as long as the process's standard input is open."""

    def __init__(self, process: Process, server: DesktopServer, folder: Path, seconds_to_end: float) -> None:
        self._process = process
        self._seconds_to_end = seconds_to_end
        self.server = server
        self.belongings = Belongings((process.pid,), (folder,))

    async def end(self) -> None:
        """End the desktop with all its programs, and remove its folder."""
        await _end(self._process, self._seconds_to_end)
        for folder in self.belongings.folders:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _start(size: Size, seconds_to_end: float) -> _LocalDesktop:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # a module of the user's in the working folder never takes the place of ours
        "-m",
        _WATCHDOG,
        str(size.width),
        str(size.height),
        stdin=PIPE,
        stdout=PIPE,
        start_new_session=True,
    )
    try:
        answer = await _first_line(process)
    except BaseException:
        await _end(process, seconds_to_end)
        raise
    if "error" in answer:
        await _end(process, seconds_to_end)
        raise EnvironmentFailure(str(answer["error"]), FailureClass.SETUP)
    server = DesktopServer(f"http://127.0.0.1:{answer['port']}", str(answer["token"]))
    return _LocalDesktop(process, server, Path(str(answer["folder"])), seconds_to_end)


async def _first_line(process: Process) -> dict[str, object]:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_SECONDS_TO_START):
            answer = json.loads(await process.stdout.readline())
    except (TimeoutError, ValueError) as error:
        raise EnvironmentFailure("the local desktop did not start", FailureClass.SETUP) from error
    return dict(answer)


async def _end(process: Process, seconds: float) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        await asyncio.to_thread(end_processes, [process.pid])
        await process.wait()


def _refuse_missing_packages() -> None:
    for package in ("jeepney", "Xlib"):
        if find_spec(package) is None:
            message = f"{package} is not installed; run `pip install 'trajmill[desktop]'`"
            raise EnvironmentFailure(message, FailureClass.SETUP)
