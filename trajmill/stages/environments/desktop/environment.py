"""A desktop as an environment: OSWorld tasks, typed actions, and the task's own check of files and outputs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import httpx
from pydantic import ValidationError

from trajmill.schemas.actions import Action, Answer, Terminate, Wait
from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import Belongings
from trajmill.stages.environments.desktop.connection import DesktopConnection, DesktopServer, DesktopTimeouts
from trajmill.stages.environments.desktop.evaluation import evaluate, prepare, wait_until_settled
from trajmill.stages.environments.desktop.task import DesktopStart, SetupStep, parse_evaluator
from trajmill.stages.environments.desktop.tree import read_elements
from trajmill.stages.environments.pool.machines import Machines, MachineState, machine_address
from trajmill.stages.environments.pool.reaper import end_processes
from trajmill.stages.environments.tasks import first_mistake

_LONGEST_WAIT_SECONDS = 5.0
_SECONDS_TO_SAVE, _POLL_SECONDS = 2.0, 0.25
SCREEN = Size(1280, 720)
_WATCHDOG = "trajmill.stages.environments.desktop.local.watchdog"
_SECONDS_TO_START = 60.0
_ADVICE = "name more machines, or run fewer episodes at once"


class DesktopEnvironment:
    """A desktop machine; `Query.start_state` is `{"config": [...]}` and `Query.goal` an evaluator, or `{}`.

    Each reset gives a local desktop a fresh session and home folder. On an OSWorld machine it only takes the steps of
    the task; restoring the machine's snapshot is left to the team.
    """

    platform = Platform.DESKTOP
    name = "desktop"

    def __init__(
        self,
        desktop: DesktopConnection,
        files: Path,
        give_back: Callable[[], Awaitable[None]],
        belongings: Belongings = Belongings(),
    ) -> None:
        """Use a machine that is ready.

        Args:
            desktop: the connection; the environment closes it.
            files: folder of the tasks' local files.
            give_back: called once at the end.
            belongings: the processes and folders of a local desktop.
        """
        self.desktop = desktop
        self._files = files
        self._give_back: Callable[[], Awaitable[None]] | None = give_back
        self._belongings = belongings
        self._goal = "{}"

    async def reset(self, query: Query, seed: int) -> Observation:
        """Prepare the query's task; the argument `seed` is not used."""
        self._goal = query.goal
        steps = _setup_steps(query)
        try:
            await self.desktop.reset()
            await prepare(self.desktop, steps, self._files)
            return await self._observe()
        except EnvironmentFailure as error:
            raise EnvironmentFailure(f"{query.task}: {error}", FailureClass.SETUP) from error

    async def step(self, action: Action) -> Observation:
        """Do one action and observe when the screen has settled."""
        match action:
            case Wait(seconds=seconds):
                await asyncio.sleep(min(max(seconds, 0.0), _LONGEST_WAIT_SECONDS))
            case Terminate() | Answer():
                pass
            case _:
                await self.desktop.act(action)
                if not self.desktop.settles:
                    await wait_until_settled(self.desktop)
        return await self._observe()

    async def score(self) -> float | None:
        """The result of the task's evaluator: 1 or 0; None if the task has none.

        A program may still be saving a file: a check that fails is repeated for two seconds.
        """
        goal = json.loads(self._goal)
        if not goal:
            return None
        try:
            evaluator = parse_evaluator(goal, "goal")
            until = time.monotonic() + _SECONDS_TO_SAVE
            while True:
                reward = await evaluate(self.desktop, evaluator, self._files)
                if reward >= 1.0 or time.monotonic() > until:
                    return reward
                await asyncio.sleep(_POLL_SECONDS)
        except (BadInputError, KeyError, TypeError, ValueError) as error:
            raise EnvironmentFailure(f"the check cannot be made: {error}", FailureClass.TASK) from error

    async def healthy(self) -> bool:
        """Whether the machine shows its screen."""
        try:
            await self.desktop.screenshot()
        except EnvironmentFailure:
            return False
        return True

    async def close(self) -> None:
        """Give the machine back; a local one ends."""
        give_back, self._give_back = self._give_back, None
        await self.desktop.close()
        if give_back is not None:
            await give_back()

    def belongings(self) -> Belongings:
        """The process and the folder of a local desktop; nothing for a remote machine."""
        return self._belongings

    async def _observe(self) -> Observation:
        tree_text = await self.desktop.accessibility()
        screenshot = await self.desktop.screenshot()
        tree = read_elements(tree_text, screenshot.size)
        digest = hashlib.blake2b(screenshot.png, digest_size=12)
        digest.update(repr(tree).encode())
        png = screenshot.png
        return Observation(ScreenHandle(digest.hexdigest(), screenshot.size, lambda: png), tree.elements, tree.app)


def _setup_steps(query: Query) -> tuple[SetupStep, ...]:
    try:
        return DesktopStart.model_validate_json(query.start_state).config
    except ValidationError as error:
        text = f"{query.task}: the start state is malformed: {first_mistake(error, 'the whole')}"
        raise EnvironmentFailure(text, FailureClass.TASK) from error


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
