"""The apps of a device: their names, their packages, and how to start them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.stages.environments.android.device.adb import AdbDevice

_PACKAGE = re.compile(r"[A-Za-z]\w*(\.\w+)+")
_MAIN = ("-a", "android.intent.action.MAIN", "-c")
_AS_FROM_LAUNCHER = "0x10200000"
"""FLAG_ACTIVITY_NEW_TASK and FLAG_ACTIVITY_RESET_TASK_IF_NEEDED."""


class Apps:
    """The user's names of packages, and the home app of one device."""

    def __init__(self, packages: Mapping[str, str], launcher: str) -> None:
        self._packages = {name.casefold(): package for name, package in packages.items()}
        self._names = {package: name for name, package in packages.items()}
        self.launcher = launcher

    def package_of(self, name: str) -> str | None:
        """The package of an app by its name; the name itself if it is a package; else None."""
        name = name.strip()
        known = self._packages.get(name.casefold())
        return known or (name if _PACKAGE.fullmatch(name) else None)

    def name_of(self, package: str) -> str:
        """The name of a package, or the package itself if it has no name; empty for the home app."""
        return "" if package == self.launcher else self._names.get(package, package)


async def find_launcher(device: AdbDevice) -> str:
    """The package of the home app.

    Raises:
        EnvironmentFailure: the device fails or has no home app.
    """
    component = await _resolve(device, "android.intent.category.HOME")
    if component is None:
        raise EnvironmentFailure(f"{device.serial} has no home app")
    return component.partition("/")[0]


async def start_app(device: AdbDevice, package: str) -> bool:
    """Start an app, or bring it to the front, as its icon does; False if the device has no such app.

    `monkey -p` would also switch automatic rotation on.
    """
    component = await _resolve(device, "android.intent.category.LAUNCHER", package)
    if component is None:
        return False
    category = (*_MAIN, "android.intent.category.LAUNCHER")
    await device.run("am", "start", "-W", *category, "-f", _AS_FROM_LAUNCHER, "-n", component)
    return True


async def _resolve(device: AdbDevice, category: str, *package: str) -> str | None:
    output = await device.run("cmd", "package", "resolve-activity", "--brief", *_MAIN, category, *package)
    last = output.text.strip().rpartition("\n")[2].strip()
    return last if "/" in last and " " not in last else None
