"""Lease devices that nobody else uses, one to each environment."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.android.spec import AndroidSpec
from trajmill.stages.environments.pool.machines import POLL_SECONDS, Machines, MachineState, machine_address

if TYPE_CHECKING:
    from trajmill.stages.environments.android.environment import AndroidEnvironment


class AndroidFactory:
    def __init__(self, settings: AndroidSpec) -> None:
        self._settings = settings
        self._machines = Machines(
            "Android device", settings.lease_seconds, "`adb devices` lists those that are connected"
        )

    async def __call__(self) -> AndroidEnvironment:
        """Return an environment on the next free device that answers.

        Raises EnvironmentFailure if adbutils is not installed, no adb server answers, or no device is connected, free
        and ready in time (class `setup`).
        """
        try:
            from trajmill.stages.environments.android.adb import AdbDevice, ServerAddress
            from trajmill.stages.environments.android.environment import AndroidEnvironment
        except ModuleNotFoundError as error:
            text = f"{error.name} is not installed; run `pip install 'trajmill[android]'`"
            raise EnvironmentFailure(text, FailureClass.SETUP) from error
        address = ServerAddress(self._settings.host, self._settings.port)
        deadline = monotonic() + self._settings.lease_seconds
        while True:
            lease = await self._machines.lease(self._devices)
            device = AdbDevice(address, lease.name, self._settings.call_seconds)
            environment = AndroidEnvironment(device, self._settings, lease.close)
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

    async def close(self) -> None:
        """Do nothing: each environment gives its device back itself."""

    async def _devices(self) -> Mapping[str, MachineState]:
        return await asyncio.to_thread(_device_states, self._settings)


def _device_states(settings: AndroidSpec) -> dict[str, MachineState]:
    from trajmill.stages.environments.android.adb import ServerAddress, list_devices

    states = list_devices(ServerAddress(settings.host, settings.port), settings.call_seconds)
    server = machine_address(settings.host, settings.port)
    found = {}
    for serial in settings.serials or states:
        state = states.get(serial, "not connected")
        found[serial] = MachineState(f"{server} {serial}", "" if state == "device" else state)
    return found
