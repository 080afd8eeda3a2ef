"""The simulated phone and desktop as an `Environment`; faults are injected at given rates."""

from __future__ import annotations

import copy
import random
from typing import NamedTuple

from trajmill.schemas import actions
from trajmill.schemas.actions import Action
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import begun
from trajmill.stages.environments.kinds import DevicesSpec, FaultRates
from trajmill.stages.environments.simulated.device import Device, Surprises, episode_chance
from trajmill.stages.environments.simulated.layout.profile import profile_of
from trajmill.stages.environments.simulated.layout.widgets import Target
from trajmill.stages.environments.simulated.world import EpisodeGoal, Store, World, prepared_store, read_episode_goal

_SHORTEST_SWIPE = 40
"""Least pixels of a finger's movement that scrolls."""


class _Episode(NamedTuple):
    device: Device
    goal: EpisodeGoal
    chance: random.Random

    def copy(self) -> _Episode:
        return _Episode(self.device.copy(), self.goal, copy.copy(self.chance))


class SimulatedEnvironment:
    """A simulated phone or desktop; the async methods of the protocol only call the synchronous ones."""

    name = "simulated"

    def __init__(
        self, world: World, platform: Platform, faults: FaultRates = FaultRates(), devices: DevicesSpec = DevicesSpec()
    ) -> None:
        self.platform = platform
        self._world = world
        self._faults = faults
        self._devices = devices
        self._may_fail = any((faults.slow, faults.lost_tap, faults.crash))
        self._episode: _Episode | None = None

    async def reset(self, query: Query, seed: int) -> Observation:
        return self.reset_now(query, seed)

    async def step(self, action: Action) -> Observation:
        return self.step_now(action)

    async def score(self) -> float | None:
        return self.score_now()

    async def side_effects(self) -> tuple[str, ...] | None:
        return begun(self._episode).goal.side_effects(self._world, self._stores())

    async def snapshot(self) -> _Episode:
        return begun(self._episode).copy()

    async def restore(self, snapshot: object) -> Observation:
        if not isinstance(snapshot, _Episode):
            raise EnvironmentFailure("this is no snapshot of a simulated device", FailureClass.SETUP)
        self._episode = snapshot.copy()
        return self._episode.device.view().observation

    async def close(self) -> None:
        self._episode = None

    def reset_now(self, query: Query, seed: int) -> Observation:
        """Make a device of the seed's profile in the query's start state; EnvironmentFailure (`task`) if malformed."""
        goal = read_episode_goal(query, self._world, self.platform)
        chance = episode_chance(seed, query.query_id)
        met = Surprises(random.Random(chance.random()), self._faults.popup)
        beside = self._world.generated_of(query.apps)
        device = Device(self._world, self.platform, profile_of(seed, self._devices), surprises=met, beside=beside)
        for app in dict.fromkeys(name.partition(".")[0] for name in (*goal.start.setup, *goal.start.without)):
            device.running_app(app).store = prepared_store(self._world, app, goal.start)
        self._episode = _Episode(device, goal, chance)
        return device.view().observation

    def step_now(self, action: Action) -> Observation:
        """Do one action; one without a meaning changes nothing. An injected crash raises EnvironmentFailure."""
        episode = begun(self._episode)
        device = episode.device
        if not self._may_fail:
            _act(device, action)
            return device.view().observation
        crash, lost, slow = (episode.chance.random() for _ in range(3))
        if crash < self._faults.crash:
            raise EnvironmentFailure("the simulated device crashed (injected fault)")
        if device.loading:
            device.loading = False
            return device.view().observation
        if isinstance(action, actions.Click) and lost < self._faults.lost_tap:
            return device.view().observation
        page = _page(device)
        _act(device, action)
        device.loading = slow < self._faults.slow and bool(device.foreground) and _page(device) != page
        return device.view().observation

    def score_now(self) -> float | None:
        return begun(self._episode).goal.score(self._world, self._stores())

    def differences_now(self) -> list[str]:
        return list(begun(self._episode).goal.differences(self._world, self._stores()))

    def device(self) -> Device:
        return begun(self._episode).device

    def _stores(self) -> dict[str, Store]:
        return {name: running.store for name, running in self.device().running.items()}


class SimulatedFactory(NamedTuple):
    world: World
    platform: Platform
    faults: FaultRates = FaultRates()
    devices: DevicesSpec = DevicesSpec()

    async def __call__(self) -> SimulatedEnvironment:
        return SimulatedEnvironment(self.world, self.platform, self.faults, self.devices)

    async def close(self) -> None: ...


def _page(device: Device) -> tuple[str, str]:
    running = device.running.get(device.foreground)
    return device.foreground, running.stack[-1].screen if running else ""


def _act(device: Device, action: Action) -> None:
    phone = device.platform is Platform.PHONE
    match action:
        case actions.Click(button="left"):
            target = device.view().target_at(action.x, action.y)
            inert = ("slide",) if phone or action.count > 1 else ("slide", "open")
            if target is None or target.act not in inert:
                device.press(target)
        case actions.LongPress() if phone:
            device.hold(device.view().target_at(action.x, action.y))
        case actions.Click(button="right") if not phone:
            device.hold(device.view().target_at(action.x, action.y))
        case actions.Drag() if not phone:
            device.drag(*_ends(device, action))
        case actions.Swipe() if phone and not device.drag(*_ends(device, action)):
            right, down = action.x2 - action.x, action.y2 - action.y
            if abs(down) >= max(abs(right), _SHORTEST_SWIPE):
                device.scroll(down=down < 0)
        case actions.Scroll() if action.clicks:
            device.scroll(down=action.clicks < 0)
        case actions.TypeText():
            device.type_text(action.text, action.clear)
            if action.enter:
                device.enter()
        case actions.PressKeys():
            _press(device, tuple(key.casefold().removeprefix("keycode_") for key in action.keys))
        case actions.SystemButton() if phone and action.button != "Menu":
            _press(device, (action.button.casefold(),))
        case actions.OpenApp():
            wanted = action.app.strip().casefold()
            app = next((each.app for each in device.icons() if wanted in (each.name.casefold(), each.app)), None)
            if app:
                device.open(app)


def _ends(device: Device, action: actions.Swipe | actions.Drag) -> tuple[Target | None, Target | None]:
    view = device.view()
    return view.target_at(action.x, action.y), view.target_at(action.x2, action.y2)


def _press(device: Device, keys: tuple[str, ...]) -> None:
    match keys:
        case ("enter" | "return",):
            device.enter()
        case ("escape" | "esc",):
            device.escape()
        case ("backspace" | "del",):
            device.erase()
        case ("alt", "left") | ("back",):
            device.back()
        case ("home",) if device.platform is Platform.PHONE:
            device.leave()
