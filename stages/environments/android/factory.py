"""Hands out devices: one environment on each, also where several processes share an adb server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING

from schemas.errors import EnvironmentFailure, FailureClass
from stages.environments.android.settings import AndroidSettings

if TYPE_CHECKING:
    from stages.environments.android.environment import AndroidEnvironment

_POLL_SECONDS = 0.2


class AndroidFactory:
    """Makes environments on devices that nobody uses; picklable."""

    def __init__(self, settings: AndroidSettings) -> None:
        self._settings = settings
        self._leased: dict[str, int] = {}
        """How many leases there had been when a device was leased last."""

    async def __call__(self) -> AndroidEnvironment:
        """An environment on the next free device; waits `lease_seconds` for one.

        Raises:
            EnvironmentFailure: of class `setup`: adbutils is not installed, no adb server answers, or no device is
                ready and free in time.
        """
        try:
            from stages.environments.android.adb import AdbDevice, ServerAddress
            from stages.environments.android.environment import AndroidEnvironment
        except ModuleNotFoundError as error:
            text = f"{error.name} is not installed; run `pip install 'trajmill[android]'`"
            raise EnvironmentFailure(text, FailureClass.SETUP) from error
        serial, lease = await self._lease()
        address = ServerAddress(self._settings.host, self._settings.port)
        device = AdbDevice(address, serial, self._settings.call_seconds)
        return AndroidEnvironment(device, self._settings, lease.close)

    async def close(self) -> None:
        """Nothing is shared: each environment gives its device back itself."""

    async def _lease(self) -> tuple[str, socket.socket]:
        from stages.environments.android.adb import ServerAddress, list_devices

        address = ServerAddress(self._settings.host, self._settings.port)
        deadline = monotonic() + self._settings.lease_seconds
        while True:
            states = await asyncio.to_thread(list_devices, address, self._settings.call_seconds)
            ready = [each for each in self._settings.serials or tuple(states) if states.get(each) == "device"]
            # The one that has rested longest first: who comes back because a device failed shall get another.
            for serial in sorted(ready, key=lambda each: self._leased.get(each, 0)):
                lease = _try_lease(address.port, serial)
                if lease is not None:
                    self._leased[serial] = max(self._leased.values(), default=0) + 1
                    return serial, lease
            if monotonic() > deadline:
                raise EnvironmentFailure(self._nothing_free(states), FailureClass.SETUP)
            await asyncio.sleep(_POLL_SECONDS)

    def _nothing_free(self, states: Mapping[str, str]) -> str:
        wanted = self._settings.serials or tuple(states)
        if not wanted:
            return "no Android device is connected; `adb devices` lists those that are"
        words = [f"{serial} is {_word(states.get(serial, 'not connected'))}" for serial in wanted]
        return f"no Android device is free: {', '.join(words)}"


def _word(state: str) -> str:
    return "in use" if state == "device" else state


def _try_lease(port: int, serial: str) -> socket.socket | None:
    """The right to use a device, None where somebody has it.

    An abstract socket address belongs to one process of a machine, leaves no file, and is free again once that
    process has ended in any way.
    """
    lease = socket.socket(socket.AF_UNIX)
    try:
        lease.bind(f"\0trajmill-adb-{port}-{serial}")
    except OSError:
        lease.close()
        return None
    return lease
