"""A phone, a desktop and a browser, or some of them, as one environment: actions go to the device in use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from trajmill.schemas.actions import Action, SwitchDevice, Wait
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import Belongings, Environment, EnvironmentFactory, HealthChecked, Owner
from trajmill.stages.environments.tasks import TaskLine
from trajmill.stages.parts import first_mistake

_LOOK = Wait(seconds=0.0)
_NOTHING = "{}"


class DevicesTogether:
    name = "devices"

    def __init__(self, devices: Mapping[Platform, Environment], first: Platform) -> None:
        self._devices = devices
        self._used: dict[Platform, Environment] = {}
        self._in_use = first

    @property
    def platform(self) -> Platform:
        return self._in_use

    async def reset(self, query: Query, seed: int) -> Observation:
        """Prepare each device for its part of the query; observe the query's own device.

        A device that the query does not name and without a default start, such as a browser without an address, is left
        out of this episode. Raises EnvironmentFailure if a start state cannot be reached, or there is no device of the
        query's platform.
        """
        if query.platform not in self._devices:
            raise EnvironmentFailure(f"there is no {query.platform} among the devices", FailureClass.TASK)
        self._in_use, self._used = query.platform, {}
        seen: dict[Platform, Observation] = {}
        for name, each in self._devices.items():
            try:
                seen[name] = await each.reset(query_on(query, name), seed)
            except EnvironmentFailure as error:
                if error.failure_class is not FailureClass.TASK or is_named(query, name):
                    raise
            else:
                self._used[name] = each
        return seen[self._in_use]

    async def step(self, action: Action) -> Observation:
        """Do an action on the device in use, or switch to another one of this episode."""
        if not isinstance(action, SwitchDevice):
            return await self._used[self._in_use].step(action)
        wanted = Platform(action.device)
        if wanted in self._used:
            self._in_use = wanted
        return await self._used[self._in_use].step(_LOOK)

    async def score(self) -> float | None:
        scores = [await each.score() for each in self._used.values()]
        return min((score for score in scores if score is not None), default=None)

    async def healthy(self) -> bool:
        return all([await each.healthy() for each in self._devices.values() if isinstance(each, HealthChecked)])

    def belongings(self) -> Belongings:
        owned = [each.belongings() for each in self._devices.values() if isinstance(each, Owner)]
        return Belongings(
            tuple(number for each in owned for number in each.process_ids),
            tuple(folder for each in owned for folder in each.folders),
        )

    async def close(self) -> None:
        for each in self._devices.values():
            await each.close()


class DevicesFactory(NamedTuple):
    devices: Mapping[Platform, EnvironmentFactory]
    first: Platform

    async def __call__(self) -> DevicesTogether:
        """Start each device; if one fails, the others are closed."""
        started: dict[Platform, Environment] = {}
        try:
            for platform, factory in self.devices.items():
                started[platform] = await factory()
        except EnvironmentFailure:
            await DevicesTogether(started, self.first).close()
            raise
        return DevicesTogether(started, self.first)

    async def close(self) -> None:
        for factory in self.devices.values():
            await factory.close()


class OnDevices(Record):
    devices: dict[Platform, dict[str, Any]] = {}
    """By device, in the form of its environment; one that is missing has its default start, if any, and no goal."""


def query_on(query: Query, device: Platform) -> Query:
    """The part of a query that concerns one device; raises EnvironmentFailure (`task`) if it is malformed."""
    parts = {"start_state": _part(query.start_state, query, device), "goal": _part(query.goal, query, device)}
    return query.model_copy(update={"platform": device, **parts})


def is_named(query: Query, device: Platform) -> bool:
    own = query_on(query, device)
    return query.platform is device or own.start_state != _NOTHING or own.goal != _NOTHING


class TaskAcross(TaskLine[OnDevices, OnDevices]):
    platform = Platform.PHONE


def _part(text: str, query: Query, device: Platform) -> str:
    try:
        across = "devices" in json.loads(text)
        parts = OnDevices.model_validate_json(text).devices if across else {}
    except (ValueError, TypeError, ValidationError) as error:
        reason = first_mistake(error, "it") if isinstance(error, ValidationError) else str(error)
        raise EnvironmentFailure(f"start state or goal across devices: {reason}", FailureClass.TASK) from error
    if not across:
        return text if query.platform is device else _NOTHING
    return json.dumps(parts.get(device, {}), sort_keys=True)
