"""An Android device as an `Environment`, and leases of devices that nobody else uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from trajmill.schemas.actions import Action, Answer, OpenApp, Swipe, Terminate, TypeText, Wait
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.android import task
from trajmill.stages.environments.android.commands import (
    Apps,
    find_launcher,
    gesture,
    install_apps,
    key_event,
    start_app,
    type_text,
)
from trajmill.stages.environments.android.restore import (
    EmulatorSnapshots,
    console_of,
    freshen,
    is_ready,
    wait_until_ready,
)
from trajmill.stages.environments.android.screen import DeviceScreen, ListEnds, capture_screen
from trajmill.stages.environments.android.spec import AndroidSpec
from trajmill.stages.environments.android.world import WorldServer
from trajmill.stages.environments.base import begun, make_observation, refuse_without
from trajmill.stages.environments.pool.machines import POLL_SECONDS, Machines, MachineState, machine_address
from trajmill.stages.environments.tasks import read_part

if TYPE_CHECKING:
    from trajmill.stages.environments.android.adb import AdbDevice

_LONGEST_WAIT = 10.0
_MOST_LAUNCHER_PAGES = 12
_UNKNOWN_LENGTH = 100


@dataclass(slots=True)
class _AndroidEpisode:
    goal: task.PhoneGoal
    world: task.WorldTask | None
    ends: ListEnds = field(default_factory=ListEnds)
    answer: str | None = None
    ended: bool = False


class _Snapshot(NamedTuple):
    """A snapshot of an emulator, and what its environment has noted about the episode."""

    name: str
    episode: _AndroidEpisode
    screen: DeviceScreen
    settings_before: dict[str, str]
    files_to_remove: set[str]


class AndroidEnvironment:
    """A device that nobody else uses; `Query.start_state` is a `PhoneStart`, `Query.goal` a `PhoneGoal`."""

    platform = Platform.PHONE
    name = "android"

    def __init__(self, device: AdbDevice, settings: AndroidSpec, give_back: Callable[[], None]) -> None:
        """Leave the device as it is until the first reset; `give_back` is called once, by `close`."""
        self.device = device
        self._settings = settings
        self._give_back: Callable[[], None] | None = give_back
        self._apps: Apps | None = None
        self._lasting = task.ChangedSettings(device)
        self._changed = task.ChangedSettings(device)
        self._files_to_remove: set[str] = set()
        self._episode: _AndroidEpisode | None = None
        self._screen: DeviceScreen | None = None
        self._world: WorldServer | None = None
        self._world_task: task.WorldTask | None = None
        console = console_of(device.serial, settings)
        self._snapshots = EmulatorSnapshots(console) if console else None

    async def reset(self, query: Query, seed: int) -> Observation:
        """Stop the query's apps, go home and make its start state; `seed` is not used."""
        if query.platform is not self.platform:
            text = f"the query is for the platform {query.platform}, this is a {self.platform}"
            raise EnvironmentFailure(text, FailureClass.TASK)
        start = read_part(task.PhoneStart.model_validate_json, query.start_state, "start state")
        goal = read_part(task.PhoneGoal.model_validate_json, query.goal, "goal")
        self._episode = None
        try:
            if await freshen(self.device, self._settings):
                # Restoring the device has undone all changes.
                self._apps, self._files_to_remove = None, set()
                self._lasting, self._changed = task.ChangedSettings(self.device), task.ChangedSettings(self.device)
            await self._undo()
            if self._apps is None:
                apps = Apps(self._settings.apps, await find_launcher(self.device))
                await install_apps(self.device, apps, self._settings.apks)
                await self._lasting.put(task.WITHOUT_ANIMATIONS)
                self._apps = apps
            self._files_to_remove = {
                *task.wanted_files(goal),
                *(path for path, content in start.files.items() if content is not None),
            }
            # AndroidWorld has its own names of apps, and stops them itself.
            stopped = () if start.android_world else query.apps
            await task.prepare(self.device, self._apps, stopped, start, goal, self._changed)
            if start.android_world:
                self._world = self._world or await self._open_world()
                self._world_task = start.android_world
                await self._world.begin(start.android_world)
            self._episode = _AndroidEpisode(goal, start.android_world)
            return self._observation(await self._capture())
        except EnvironmentFailure as error:
            self._episode = None
            raise EnvironmentFailure(str(error), FailureClass.SETUP) from error

    async def step(self, action: Action) -> Observation:
        before, episode = self._running()
        match action:
            case Terminate() | Answer():
                episode.ended = True
                episode.answer = action.text if isinstance(action, Answer) else episode.answer
                return self._observation(before)
            case TypeText():
                fields = [each for each in before.elements or () if {"focused", "editable"} <= set(each.states)]
                lengths = [max(len(each.value), len(each.text)) for each in fields]
                await type_text(self.device, action, max(lengths, default=_UNKNOWN_LENGTH), before.multi_line)
            case OpenApp(app=app):
                # By its package, else by its icon on the launcher; an unknown app leaves the launcher open.
                assert self._apps is not None, "a reset connects"
                package = self._apps.package_of(app)
                if package is None or not await start_app(self.device, package):
                    await self._press_icon(app.strip().casefold())
            case Wait(seconds=seconds):
                await asyncio.sleep(min(seconds, _LONGEST_WAIT))
            case _:
                commands = gesture(action)
                if commands:
                    await self.device.run_all(commands)
        after = await self._capture()
        if isinstance(action, Swipe):
            episode.ends.learn(action, before.elements, after.elements)
        return self._observation(after)

    async def score(self) -> float | None:
        screen, episode = self._running()
        if episode.world and self._world:
            # As there, an episode that the agent has not ended is a failure.
            return await self._world.score(episode.world, episode.answer) if episode.ended else 0.0
        if episode.goal == task.PhoneGoal():
            return None
        assert self._apps is not None, "a reset connects"
        reached = await task.is_reached(self.device, self._apps, episode.goal, screen.component, episode.answer)
        return float(reached)

    async def healthy(self) -> bool:
        try:
            return await is_ready(self.device)
        except EnvironmentFailure:
            return False

    async def snapshot(self) -> _Snapshot | None:
        """Save the state in the emulator; None for a device that is none or refuses, and for tasks of AndroidWorld."""
        screen, episode = self._running()
        if self._snapshots is None or episode.world:
            return None
        try:
            name = await self._snapshots.take()
        except EnvironmentFailure:
            return None
        return _Snapshot(name, deepcopy(episode), screen, dict(self._changed.before), set(self._files_to_remove))

    async def restore(self, snapshot: object) -> Observation | None:
        """Load a snapshot, and wait until its screen is back; raises EnvironmentFailure if another screen comes."""
        if (
            not isinstance(snapshot, _Snapshot)
            or self._snapshots is None
            or not await self._snapshots.load(snapshot.name)
        ):
            return None
        await wait_until_ready(self.device)
        self._episode = deepcopy(snapshot.episode)
        self._changed.before, self._files_to_remove = dict(snapshot.settings_before), set(snapshot.files_to_remove)
        deadline = monotonic() + self._settings.settle_seconds
        while not (screen := await self._capture()).is_like(snapshot.screen):
            if monotonic() > deadline:
                raise EnvironmentFailure(f"{self.device.serial}: its snapshot came back with another screen")
        return self._observation(screen)

    async def close(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is None:
            return
        try:
            with suppress(EnvironmentFailure):
                if self._snapshots is not None:
                    await self._snapshots.delete()
                await self._undo()
                await self._lasting.restore()
        finally:
            self.device.close()
            give_back()

    async def _open_world(self) -> WorldServer:
        spec, serial = self._settings.android_world, self.device.serial
        if spec is None or serial not in spec.servers:
            text = f"{serial} has no server of AndroidWorld; name it in `environment.android_world.servers`"
            raise EnvironmentFailure(text, FailureClass.SETUP)
        server = WorldServer(spec.servers[serial], spec)
        await server.open()
        return server

    async def _undo(self) -> None:
        if self._world is not None and self._world_task is not None:
            ended, self._world_task = self._world_task, None
            await self._world.tear_down(ended)
        await self._changed.restore()
        if self._files_to_remove:
            await self.device.run("rm", "-f", *self._files_to_remove)
        self._files_to_remove = set()

    async def _capture(self) -> DeviceScreen:
        assert self._apps is not None, "a reset connects"
        self._screen = await capture_screen(self.device, self._apps, self._settings)
        return self._screen

    def _running(self) -> tuple[DeviceScreen, _AndroidEpisode]:
        return begun(self._screen), begun(self._episode)

    def _observation(self, screen: DeviceScreen) -> Observation:
        elements = self._episode.ends.correct(screen.elements) if self._episode else screen.elements
        if screen.secure:
            heading = UIElement("heading", screen.app, Box(0, 0, screen.size.width, 1), ("title",))
            title, *others = elements or (heading,)
            elements = (title._replace(states=(*title.states, "secure")), *others)
        return make_observation(screen.png, screen.size, elements, screen.app, identity=(screen.app, elements))

    async def _press_icon(self, label: str) -> None:
        await self.device.run(*key_event("KEYCODE_HOME"))
        screen = await self._capture()
        for _ in range(_MOST_LAUNCHER_PAGES):
            for element in screen.elements or ():
                if element.clickable and element.text.casefold() == label:
                    await self.device.run("input", "tap", *map(str, element.bounds.center))
                    return
            width, height = screen.size
            up = Swipe(x=width // 2, y=height * 3 // 4, x2=width // 2, y2=height // 4)
            await self.device.run_all(gesture(up))
            before, screen = screen, await self._capture()
            if before.elements == screen.elements:
                break
        await self.device.run(*key_event("KEYCODE_HOME"))


class AndroidFactory:
    def __init__(self, settings: AndroidSpec) -> None:
        self._settings = settings
        self._machines = Machines(
            "Android device", settings.lease_seconds, "`adb devices` lists those that are connected"
        )

    async def __call__(self) -> AndroidEnvironment:
        """Return an environment on the next free device that answers, or raise EnvironmentFailure (`setup`)."""
        refuse_without("android", "adbutils")
        from trajmill.stages.environments.android.adb import AdbDevice, ServerAddress, list_devices

        settings = self._settings
        address = ServerAddress(settings.host, settings.port)

        def devices() -> dict[str, MachineState]:
            states, server = list_devices(address, settings.call_seconds), machine_address(settings.host, settings.port)
            found = {serial: states.get(serial, "not connected") for serial in settings.serials or states}
            return {
                serial: MachineState(f"{server} {serial}", "" if state == "device" else state)
                for serial, state in found.items()
            }

        deadline = monotonic() + settings.lease_seconds
        while True:
            lease = await self._machines.lease(lambda: asyncio.to_thread(devices))
            device = AdbDevice(address, lease.name, settings.call_seconds)
            environment = AndroidEnvironment(device, settings, lease.close)
            healthy = False
            try:
                healthy = await environment.healthy()
            finally:
                if not healthy:
                    await environment.close()
            if healthy:
                return environment
            if monotonic() > deadline:
                raise EnvironmentFailure(f"{lease.name} does not answer", FailureClass.SETUP)
            await asyncio.sleep(POLL_SECONDS)

    async def close(self) -> None: ...
