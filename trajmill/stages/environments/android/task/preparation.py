"""Prepares the start state of a query on a device, and restores the device's settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.android.device.adb import AdbDevice
from trajmill.stages.environments.android.device.apps import Apps, start_app
from trajmill.stages.environments.android.device.gestures import key_event
from trajmill.stages.environments.android.device.shell import Command
from trajmill.stages.environments.android.task.start_and_goal import PhoneGoal, PhoneStart

_WITHOUT_ANIMATIONS = {
    "global.window_animation_scale": "0",
    "global.transition_animation_scale": "0",
    "global.animator_duration_scale": "0",
    "system.accelerometer_rotation": "0",
}
_WRITE_FILE = 'mkdir -p "$1" && printf %s "$3" > "$2"'


class ChangedSettings:
    """Settings of a device that were changed, with their values from before."""

    def __init__(self, device: AdbDevice) -> None:
        self._device = device
        self._before: dict[str, str] = {}

    async def remember(self, names: Iterable[str]) -> None:
        """Remember the present values of settings; a value that is remembered already stays."""
        new = [name for name in names if name not in self._before]
        if new:
            output = await self._device.run_all([("settings", "get", *_split(name)) for name in new])
            values = output.text.splitlines()
            if len(values) != len(new):
                raise EnvironmentFailure(f"{self._device.serial}: no settings but {output.text[:100]!r}")
            self._before.update(zip(new, values, strict=True))

    async def put(self, values: Mapping[str, str]) -> None:
        """Change settings."""
        await self.remember(values)
        if values:
            await self._device.run_all([_put(name, value) for name, value in values.items()])

    async def restore(self) -> None:
        """Restore all settings and forget them."""
        if self._before:
            await self._device.run_all(
                [
                    _put(name, value) if value != "null" else ("settings", "delete", *_split(name))
                    for name, value in self._before.items()
                ]
            )
        self._before.clear()


async def switch_animations_off(settings: ChangedSettings) -> None:
    """Switch animations and automatic rotation off, so that screens settle and equal episodes look equal."""
    await settings.put(_WITHOUT_ANIMATIONS)


async def prepare(
    device: AdbDevice, apps: Apps, needed: Iterable[str], start: PhoneStart, goal: PhoneGoal, settings: ChangedSettings
) -> None:
    """Stop the apps of a query, clear the data that it names, and make its start state.

    Args:
        device: the device.
        apps: the apps of the device.
        needed: names of the apps that the query needs.
        start: the start state.
        goal: its files are removed, so that those of an earlier episode do not count; its settings are remembered.
        settings: records the changes; those of the episode before must have been restored.

    Raises:
        EnvironmentFailure: the device fails; an app is unknown; a file cannot be written.
    """
    cleared = [_package(apps, name) for name in start.clear]
    stopped = [_package(apps, name) for name in needed]
    await device.run_all([key_event("KEYCODE_WAKEUP"), ("wm", "dismiss-keyguard")])
    await device.run_all([*(("am", "force-stop", package) for package in stopped), key_event("KEYCODE_HOME")])
    for package in cleared:
        output = await device.run("pm", "clear", package)
        if "Success" not in output.text:
            raise EnvironmentFailure(f"{device.serial}: pm clear {package}: {output.text.strip()[:200]}")
    await settings.remember(goal.settings)
    turned = await _rotation(device, start.orientation)
    await settings.put({**start.settings, "system.user_rotation": turned})
    for path, content in (dict.fromkeys(wanted_files(goal)) | start.files).items():
        await _put_file(device, path, content)
    if start.open and not await start_app(device, _package(apps, start.open)):
        raise EnvironmentFailure(f"{device.serial} has no app {start.open!r}")


def wanted_files(goal: PhoneGoal) -> list[str]:
    """The files that must exist in the end."""
    return [path for path, content in goal.files.items() if content is not None]


async def remove_files(device: AdbDevice, paths: Iterable[str]) -> None:
    """Remove files, where they exist."""
    named = tuple(paths)
    if named:
        await device.run("rm", "-f", *named)


def setup_failure(error: EnvironmentFailure) -> EnvironmentFailure:
    """The same failure, of class `setup`."""
    return EnvironmentFailure(str(error), FailureClass.SETUP)


async def _rotation(device: AdbDevice, orientation: str) -> str:
    """The value of `user_rotation` for an orientation; 0 is the natural orientation of the device."""
    size = (await device.run("wm", "size")).text.split(":")[-1].strip()
    width, _, height = size.partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise EnvironmentFailure(f"{device.serial}: no size of the screen but {size[:100]!r}")
    natural = "landscape" if int(width) > int(height) else "portrait"
    return "0" if orientation == natural else "1"


async def _put_file(device: AdbDevice, path: str, content: str | None) -> None:
    if content is None:
        output = await device.run("rm", "-f", path)
    else:
        output = await device.run("sh", "-c", _WRITE_FILE, "sh", str(PurePosixPath(path).parent), path, content)
    if output.status:
        raise EnvironmentFailure(f"{device.serial}: {path}: {output.text.strip()[:200]}")


def _package(apps: Apps, name: str) -> str:
    package = apps.package_of(name)
    if package is None:
        raise EnvironmentFailure(f"no package is known for the app {name!r}; name it in the map of apps")
    return package


def _put(name: str, value: str) -> Command:
    return ("settings", "put", *_split(name), value)


def _split(name: str) -> tuple[str, str]:
    namespace, _, key = name.partition(".")
    return namespace, key
