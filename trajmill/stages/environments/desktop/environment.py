"""A desktop as an environment: OSWorld tasks, typed actions, and the task's own check of files and outputs."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from trajmill.schemas.actions import Action, Answer, Terminate, Wait
from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import Belongings, make_observation, refuse_without
from trajmill.stages.environments.desktop.connection import DesktopConnection, DesktopServer, DesktopTimeouts
from trajmill.stages.environments.desktop.metrics import METRICS
from trajmill.stages.environments.desktop.osworld.client import OsworldCode
from trajmill.stages.environments.desktop.restore import RestoreHook
from trajmill.stages.environments.desktop.spec import OsworldSpec, RestoreSpec
from trajmill.stages.environments.desktop.task import (
    DesktopStart,
    Evaluator,
    Getter,
    OsworldTask,
    SetupStep,
    osworld_task,
    parse_evaluator,
)
from trajmill.stages.environments.desktop.tree import read_elements
from trajmill.stages.environments.pool.child import end_child, start_child
from trajmill.stages.environments.pool.machines import Machines, MachineState, machine_address
from trajmill.stages.environments.tasks import read_part

_LONGEST_WAIT_SECONDS = 5.0
_SECONDS_TO_SAVE, _POLL_SECONDS = 2.0, 0.25
SCREEN = Size(1280, 720)
_WATCHDOG = "trajmill.stages.environments.desktop.local.watchdog"
_SECONDS_TO_START = 60.0
_ADVICE = "name more machines, or run fewer episodes at once"


@dataclass(eq=False)
class DesktopEnvironment:
    """A desktop machine; `Query.start_state` is `{"config": [...]}` and `Query.goal` an evaluator, or `{}`.

    Each reset gives a local desktop a fresh session and home folder. An OSWorld machine is restored by the user's hook
    before its second task; without a hook that task is refused.
    """

    platform = Platform.DESKTOP
    name = "desktop"

    desktop: DesktopConnection
    files: Path
    give_back: Callable[[], Awaitable[None]] | None
    """None once the environment is closed."""
    owned: Belongings
    osworld: OsworldCode | None
    hook: RestoreHook | None
    _goal: str = field(default="{}", init=False)
    _osworld_task: OsworldTask | None = field(default=None, init=False)
    _gave_up: bool = field(default=False, init=False)

    async def reset(self, query: Query, seed: int) -> Observation:
        self._goal = query.goal
        start = read_part(DesktopStart.model_validate_json, query.start_state, f"start state of {query.task}")
        self._osworld_task, self._gave_up = osworld_task(query, start), False
        try:
            if self.hook is not None and not self.desktop.resets:
                await self.hook.freshen(self.desktop, query.task)
            await self.desktop.reset()
            if self._osworld_task is None:
                await prepare(self.desktop, start.config, self.files)
            else:
                before = await self.desktop.screenshot()
                await self._own_code().prepare(self._osworld_task, self.desktop.server, before.size)
                opens = any(step.type in ("launch", "open") for step in start.config)
                await (_wait_until_changed(self.desktop, before.png) if opens else wait_until_settled(self.desktop))
            return await self._observe()
        except EnvironmentFailure as error:
            raise EnvironmentFailure(f"{query.task}: {error}", FailureClass.SETUP) from error

    async def step(self, action: Action) -> Observation:
        match action:
            case Wait(seconds=seconds):
                await asyncio.sleep(min(max(seconds, 0.0), _LONGEST_WAIT_SECONDS))
            case Terminate(status=status):
                self._gave_up = status == "failure"
            case Answer():
                pass
            case _:
                await self.desktop.act(action)
                if not self.desktop.settles:
                    await wait_until_settled(self.desktop)
        return await self._observe()

    async def score(self) -> float | None:
        """Return the evaluator's result; a failing check is repeated for two seconds, as a file may still be saved."""
        if self._osworld_task is not None:
            return await self._osworld_score(self._osworld_task)
        goal = json.loads(self._goal)
        if not goal:
            return None
        try:
            evaluator = parse_evaluator(goal, "goal")
            until = time.monotonic() + _SECONDS_TO_SAVE
            while True:
                reward = await evaluate(self.desktop, evaluator, self.files)
                if reward >= 1.0 or time.monotonic() > until:
                    return reward
                await asyncio.sleep(_POLL_SECONDS)
        except (BadInputError, KeyError, TypeError, ValueError) as error:
            raise EnvironmentFailure(f"the check cannot be made: {error}", FailureClass.TASK) from error

    async def _osworld_score(self, task: OsworldTask) -> float:
        size = (await self.desktop.screenshot()).size
        reward = await self._own_code().evaluate(task, self.desktop.server, size, self._gave_up)
        # Its getters return None for a machine that is gone; that is no reward of 0.
        await self.desktop.screenshot()
        return reward

    def _own_code(self) -> OsworldCode:
        if self.osworld is None:
            raise EnvironmentFailure("the task needs OSWorld's code; set `environment.osworld`", FailureClass.SETUP)
        return self.osworld

    async def healthy(self) -> bool:
        try:
            await self.desktop.screenshot()
        except EnvironmentFailure:
            return False
        return self.osworld is None or self.osworld.python.is_alive

    async def close(self) -> None:
        give_back, self.give_back = self.give_back, None
        await self.desktop.close()
        if self.osworld is not None:
            await self.osworld.python.close()
        if give_back is not None:
            await give_back()

    def belongings(self) -> Belongings:
        return self.owned

    async def _observe(self) -> Observation:
        tree_text = await self.desktop.accessibility()
        screenshot = await self.desktop.screenshot()
        tree = read_elements(tree_text, screenshot.size)
        return make_observation(screenshot.png, screenshot.size, tree.elements, tree.app, identity=tree)


@dataclass
class RemoteDesktops:
    servers: tuple[str, ...]
    files: Path
    timeouts: DesktopTimeouts = field(default_factory=DesktopTimeouts)
    osworld: OsworldSpec | None = None
    restore: RestoreSpec | None = None

    def __post_init__(self) -> None:
        self._hook = RestoreHook(self.restore, self.osworld or OsworldSpec())
        self._machines = Machines("desktop", self.timeouts.lease, _ADVICE)

    async def __call__(self) -> DesktopEnvironment:
        def states() -> dict[str, MachineState]:
            return {url: MachineState(_identity(url)) for url in self.servers}

        lease = await self._machines.lease(lambda: asyncio.to_thread(states))

        async def give_back() -> None:
            lease.close()

        desktop = DesktopConnection(DesktopServer(lease.name), self.timeouts)
        return await _connected(desktop, self.files, give_back, self.osworld, self._hook)

    async def close(self) -> None: ...


def _identity(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return url
    port = parsed.port or (443 if parsed.scheme == "https" else 80)
    return f"{machine_address(parsed.host, port)}{parsed.path.rstrip('/')}"


class _LocalDesktop(NamedTuple):
    process: Process
    server: DesktopServer
    folder: Path


@dataclass
class LocalDesktops:
    files: Path
    size: Size = SCREEN
    timeouts: DesktopTimeouts = field(default_factory=DesktopTimeouts)
    osworld: OsworldSpec | None = None
    _running: list[_LocalDesktop] = field(default_factory=list, init=False)

    async def __call__(self) -> DesktopEnvironment:
        refuse_without("desktop", "jeepney", "Xlib")
        local = await self._start()
        self._running.append(local)

        async def give_back() -> None:
            self._running.remove(local)
            await self._end(local)

        desktop = DesktopConnection(local.server, self.timeouts)
        belongings = Belongings((local.process.pid,), (local.folder,))
        return await _connected(desktop, self.files, give_back, self.osworld, belongings=belongings)

    async def close(self) -> None:
        while self._running:
            await self._end(self._running.pop())

    async def _start(self) -> _LocalDesktop:
        process = await start_child(_WATCHDOG, str(self.size.width), str(self.size.height))
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_SECONDS_TO_START):
                answer = json.loads(await process.stdout.readline())
            if "error" in answer:
                raise EnvironmentFailure(str(answer["error"]), FailureClass.SETUP)
        except BaseException as error:
            await end_child(process, self.timeouts.end)
            if isinstance(error, TimeoutError | ValueError):
                raise EnvironmentFailure("the local desktop did not start", FailureClass.SETUP) from error
            raise
        server = DesktopServer(f"http://127.0.0.1:{answer['port']}", str(answer["token"]))
        return _LocalDesktop(process, server, Path(str(answer["folder"])))

    async def _end(self, local: _LocalDesktop) -> None:
        await end_child(local.process, self.timeouts.end)
        await asyncio.to_thread(shutil.rmtree, local.folder, ignore_errors=True)


async def _connected(
    desktop: DesktopConnection,
    files: Path,
    give_back: Callable[[], Awaitable[None]],
    spec: OsworldSpec | None,
    restore: RestoreHook | None = None,
    belongings: Belongings = Belongings(),
) -> DesktopEnvironment:
    """The environment of a machine, when it is ready; a machine that fails is given back."""
    try:
        await desktop.wait_until_ready()
        osworld = None if spec is None else await OsworldCode.start(spec, files)
    except BaseException:
        await desktop.close()
        await give_back()
        raise
    if osworld is not None:
        its = osworld.python.belongings()
        belongings = Belongings(belongings.process_ids + its.process_ids, belongings.folders + its.folders)
    return DesktopEnvironment(desktop, files, give_back, belongings, osworld, restore)


_LONGEST_SLEEP_SECONDS = 60.0
_SECONDS_TO_SHOW = 20.0
_SECONDS_TO_SETTLE = 3.0
_SCREEN_POLL_SECONDS = 0.2


async def prepare(desktop: DesktopConnection, steps: Iterable[SetupStep], files: Path) -> None:
    """Take the steps of a parsed task in order; local files are read only from the folder `files`."""
    for step in steps:
        parameters = step.parameters
        match step.type:
            case "launch":
                before = b"" if desktop.settles else (await desktop.screenshot()).png
                await desktop.launch(*_command(parameters))
                await _wait_until_changed(desktop, before)
            case "execute" | "command":
                await desktop.execute(*_command(parameters))
            case "upload_file" | "upload":
                for file in parameters.get("files", ()):
                    await desktop.upload(str(file["path"]), local_file(files, str(file["local_path"])))
            case "open":
                before = b"" if desktop.settles else (await desktop.screenshot()).png
                await desktop.open_file(str(parameters["path"]))
                await _wait_until_changed(desktop, before)
            case "sleep":
                await asyncio.sleep(min(float(parameters["seconds"]), _LONGEST_SLEEP_SECONDS))
            case "activate_window" | "close_window" as handling:
                strict, by_class = bool(parameters.get("strict")), bool(parameters.get("by_class"))
                await desktop.handle_window(handling, str(parameters["window_name"]), strict, by_class)


def local_file(files: Path, name: str) -> bytes:
    """Read a local file of a task; raises EnvironmentFailure (`setup`) if it is not in the folder `files`."""
    path = (files / name).resolve()
    if not path.is_relative_to(files.resolve()) or not path.is_file():
        raise EnvironmentFailure(f"the task's file {name!r} is not in {files}", FailureClass.SETUP)
    return path.read_bytes()


async def wait_until_settled(desktop: DesktopConnection) -> None:
    deadline = time.monotonic() + _SECONDS_TO_SETTLE
    last = b""
    while time.monotonic() < deadline:
        await asyncio.sleep(_SCREEN_POLL_SECONDS)
        now = (await desktop.screenshot()).png
        if now == last:
            return
        last = now


async def _wait_until_changed(desktop: DesktopConnection, before: bytes) -> None:
    """Wait until the screen has changed and settled, unless the machine waits by itself."""
    if desktop.settles:
        return
    deadline = time.monotonic() + _SECONDS_TO_SHOW
    while (await desktop.screenshot()).png == before and time.monotonic() < deadline:
        await asyncio.sleep(_SCREEN_POLL_SECONDS)
    await wait_until_settled(desktop)


def _command(parameters: dict[str, Any]) -> tuple[str | list[str], bool]:
    command, shell = parameters["command"], bool(parameters.get("shell", False))
    if isinstance(command, str) and not shell:
        return shlex.split(command), False
    return command, shell


async def evaluate(desktop: DesktopConnection, evaluator: Evaluator, files: Path) -> float:
    """Return 1.0 if the task is done, else 0.0; a missing file counts as not done."""
    await prepare(desktop, evaluator.postconfig, files)
    passed = []
    for check in evaluator.checks:
        result = await _fetch(desktop, check.result, files)
        expected = None if check.expected is None else await _fetch(desktop, check.expected, files)
        found = isinstance(result, bytes) and (check.expected is None or expected is not None)
        passed.append(found and METRICS[check.metric](result, expected, check.options))
    return float(all(passed) if evaluator.conjunction == "and" else any(passed))


async def _fetch(desktop: DesktopConnection, getter: Getter, files: Path) -> Any:
    """The value that a getter names: bytes, the rules of a `rule`, or None for a missing file."""
    match getter.type:
        case "rule":
            return getter.rest.get("rules", {})
        case "vm_file":
            return await desktop.file(str(getter.rest["path"]))
        case "vm_command_line":
            command, shell = getter.rest["command"], bool(getter.rest.get("shell", False))
            return (await desktop.execute(command, shell)).output.encode()
        case _:
            return local_file(files, str(getter.rest["path"]))
