"""The tasks of devices: start state and goal in JSON, the preparation of a device, and the check of a goal.

No part of a start state or a goal can hold a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.android.checks import ContentCheck, DatabaseCheck, has_content, has_rows
from trajmill.stages.environments.android.commands import Apps, Command, key_event, quote, start_app
from trajmill.stages.environments.tasks import TaskLine

if TYPE_CHECKING:
    from trajmill.stages.environments.android.adb import AdbDevice

_SETTING = re.compile(r"(system|secure|global)\.[A-Za-z0-9_.]{1,80}")
_COMPONENT = re.compile(r"[A-Za-z][\w.]*(/[\w.$]+)?")
_SHARED_STORAGE = ("/sdcard/", "/storage/emulated/0/", "/data/local/tmp/")
_ABSENT = 3
_READ_FILE = '[ -e "$1" ] || exit 3; cat "$1"'

WITHOUT_ANIMATIONS = {
    "global.window_animation_scale": "0",
    "global.transition_animation_scale": "0",
    "global.animator_duration_scale": "0",
    "system.accelerometer_rotation": "0",
}
"""Settings without animations and automatic rotation, so that screens settle and equal episodes look equal."""
_WRITE_FILE = 'mkdir -p "$1" && printf %s "$3" > "$2"'


def _setting(name: str) -> str:
    if not _SETTING.fullmatch(name):
        raise ValueError(f"`{name}` is no setting; write `system.NAME`, `secure.NAME` or `global.NAME`")
    return name


def _path(path: str) -> str:
    inside = any(path.startswith(folder) and path != folder for folder in _SHARED_STORAGE)
    if not inside or ".." in PurePosixPath(path).parts:
        raise ValueError(f"`{path}` is no file under {', '.join(_SHARED_STORAGE)}")
    return _word(path)


def _component(name: str) -> str:
    if not _COMPONENT.fullmatch(name):
        raise ValueError(f"`{name}` is no package, nor a package and its activity")
    return name


def _word(text: str) -> str:
    quote(text)
    return text


Setting = Annotated[str, AfterValidator(_setting)]
FilePath = Annotated[str, AfterValidator(_path)]
Permission = Annotated[str, Field(pattern=r"^[A-Za-z]\w*(\.\w+)+$")]
Content = Annotated[str, AfterValidator(_word)]


class WorldTask(Record):
    """A task of AndroidWorld, whose server prepares and scores it."""

    task: str
    instance: int


class PhoneStart(Record):
    """The start state, which a reset prepares after it has stopped the query's apps and pressed Home."""

    clear: tuple[str, ...] = ()
    permissions: dict[str, tuple[Permission, ...]] = {}
    """Permissions to grant by app, e.g. `android.permission.CAMERA`; they stay granted."""
    settings: dict[Setting, Content] = {}
    files: dict[FilePath, Content | None] = {}
    orientation: Literal["portrait", "landscape"] = "portrait"
    open: str = ""
    android_world: WorldTask | None = None


class PhoneGoal(Record):
    """The conditions at the end; without any there is no check."""

    foreground: Annotated[str, AfterValidator(_component)] | None = None
    settings: dict[Setting, str] = {}
    files: dict[FilePath, str | None] = {}
    """Contents of files by path, without a last line break; null for a file that must not exist. A reset removes the
    wanted files, unless the start state has them."""
    databases: tuple[DatabaseCheck, ...] = ()
    content: tuple[ContentCheck, ...] = ()
    answer: str | None = None
    """The answer that the agent must give; case and spaces are ignored."""


async def is_reached(device: AdbDevice, apps: Apps, goal: PhoneGoal, foreground: str, answer: str | None) -> bool:
    """Whether the device, its component in the foreground and the agent's answer are as the goal asks."""
    if goal.foreground is not None:
        package, _, activity = goal.foreground.partition("/")
        shown, _, shown_activity = foreground.partition("/")
        if package != shown or (activity and _whole(package, activity) != _whole(package, shown_activity)):
            return False
    if goal.answer is not None and _normalised(answer or "") != _normalised(goal.answer):
        return False
    for name, value in goal.settings.items():
        if await read_setting(device, name) != value:
            return False
    for path, content in goal.files.items():
        if await _read_file(device, path) != (content if content is None else content.removesuffix("\n")):
            return False
    for database in goal.databases:
        if not await has_rows(device, _package(apps, database.app), database):
            return False
    return all([await has_content(device, check) for check in goal.content])


async def read_setting(device: AdbDevice, name: str) -> str | None:
    value = (await device.run("settings", "get", *_split(name))).text.strip()
    return None if value == "null" else value


async def _read_file(device: AdbDevice, path: str) -> str | None:
    output = await device.run("sh", "-c", _READ_FILE, "sh", path)
    if output.status == _ABSENT:
        return None
    if output.status:
        raise EnvironmentFailure(f"{device.serial}: {path} cannot be read: {output.text.strip()[:200]}")
    return output.text.removesuffix("\n")


def _whole(package: str, activity: str) -> str:
    return package + activity if activity.startswith(".") else activity


def _normalised(text: str) -> str:
    return " ".join(text.split()).casefold()


class PhoneTask(TaskLine[PhoneStart, PhoneGoal]):
    platform = Platform.PHONE

    apps: tuple[str, ...]
    """The apps of the task, by name (as in the table of apps) or package; each reset stops them."""
    start_state: PhoneStart = PhoneStart()
    goal: PhoneGoal = PhoneGoal()


class ChangedSettings:
    def __init__(self, device: AdbDevice) -> None:
        self._device = device
        self.before: dict[str, str] = {}

    async def remember(self, names: Iterable[str]) -> None:
        new = [name for name in names if name not in self.before]
        if new:
            output = await self._device.run_all([("settings", "get", *_split(name)) for name in new])
            values = output.text.splitlines()
            if len(values) != len(new):
                raise EnvironmentFailure(f"{self._device.serial}: no settings but {output.text[:100]!r}")
            self.before.update(zip(new, values, strict=True))

    async def put(self, values: Mapping[str, str]) -> None:
        await self.remember(values)
        if values:
            await self._device.run_all([_put(name, value) for name, value in values.items()])

    async def restore(self) -> None:
        if self.before:
            await self._device.run_all(
                [
                    _put(name, value) if value != "null" else ("settings", "delete", *_split(name))
                    for name, value in self.before.items()
                ]
            )
        self.before.clear()


async def prepare(
    device: AdbDevice, apps: Apps, needed: Iterable[str], start: PhoneStart, goal: PhoneGoal, settings: ChangedSettings
) -> None:
    """Stop the apps that a query needs, clear the data that it names, and make its start state.

    The goal's files are removed, so that those of an earlier episode do not count; its settings are remembered.
    `settings` records the changes. Raises EnvironmentFailure if the device fails; an app is unknown; a file cannot be
    written.
    """
    cleared = [_package(apps, name) for name in start.clear]
    stopped = [_package(apps, name) for name in needed]
    await device.run_all([key_event("KEYCODE_WAKEUP"), ("wm", "dismiss-keyguard")])
    await device.run_all([*(("am", "force-stop", package) for package in stopped), key_event("KEYCODE_HOME")])
    for package in cleared:
        output = await device.run("pm", "clear", package)
        if "Success" not in output.text:
            raise EnvironmentFailure(f"{device.serial}: pm clear {package}: {output.text.strip()[:200]}")
    for name, permissions in start.permissions.items():
        for permission in permissions:
            output = await device.run("pm", "grant", _package(apps, name), permission)
            if output.status or output.text.strip():
                raise EnvironmentFailure(f"{device.serial}: pm grant {name} {permission}: {output.text.strip()[:200]}")
    await settings.remember(goal.settings)
    size = (await device.run("wm", "size")).text.split(":")[-1].strip()
    width, _, height = size.partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise EnvironmentFailure(f"{device.serial}: no size of the screen but {size[:100]!r}")
    # Rotation 0 is the natural orientation of the device.
    turned = (start.orientation == "landscape") != (int(width) > int(height))
    await settings.put({**start.settings, "system.user_rotation": str(int(turned))})
    for path, content in (dict.fromkeys(wanted_files(goal)) | start.files).items():
        if content is None:
            output = await device.run("rm", "-f", path)
        else:
            output = await device.run("sh", "-c", _WRITE_FILE, "sh", str(PurePosixPath(path).parent), path, content)
        if output.status:
            raise EnvironmentFailure(f"{device.serial}: {path}: {output.text.strip()[:200]}")
    if start.open and not await start_app(device, _package(apps, start.open)):
        raise EnvironmentFailure(f"{device.serial} has no app {start.open!r}")


def wanted_files(goal: PhoneGoal) -> list[str]:
    return [path for path, content in goal.files.items() if content is not None]


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
