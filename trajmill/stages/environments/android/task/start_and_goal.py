"""Reads the start state and the goal of a query for a device from JSON, and checks a goal.

A start state, with all parts optional:
`{"clear": ["Notes"], "settings": {"system.screen_brightness": "10"}, "files": {"/sdcard/a.txt": "text", "/sdcard/b":
null}, "orientation": "landscape", "open": "Notes"}`. A goal, all of whose parts must hold:
`{"foreground": "com.android.settings", "settings": {...}, "files": {...}, "answer": "42"}`. A file that
is null does not exist. Neither of them can hold a command.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, ValidationError

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.record import Record
from trajmill.stages.environments.android.device.shell import quote
from trajmill.stages.environments.first_mistake import first_mistake

if TYPE_CHECKING:
    from trajmill.stages.environments.android.device.adb import AdbDevice

_SETTING = re.compile(r"(system|secure|global)\.[A-Za-z0-9_.]{1,80}")
_COMPONENT = re.compile(r"[A-Za-z][\w.]*(/[\w.$]+)?")
_SHARED_STORAGE = ("/sdcard/", "/storage/emulated/0/", "/data/local/tmp/")
_ABSENT = 3
_READ_FILE = '[ -e "$1" ] || exit 3; cat "$1"'

P = TypeVar("P", bound=Record)


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
Content = Annotated[str, AfterValidator(_word)]


class PhoneStart(Record):
    """The start state, which a reset prepares after it has stopped the query's apps and pressed Home."""

    clear: tuple[str, ...] = ()
    """Apps whose data is deleted."""
    settings: dict[Setting, Content] = {}
    files: dict[FilePath, Content | None] = {}
    """Contents of files by path; null for a file to remove."""
    orientation: Literal["portrait", "landscape"] = "portrait"
    open: str = ""
    """The app to open at the end of the preparation."""


class PhoneGoal(Record):
    """The conditions at the end; without any there is no check."""

    foreground: Annotated[str, AfterValidator(_component)] | None = None
    """`package` or `package/activity` in the foreground."""
    settings: dict[Setting, str] = {}
    files: dict[FilePath, str | None] = {}
    """Contents of files by path, without a last line break; null for a file that must not exist. A reset removes the
    wanted files, unless the start state has them."""
    answer: str | None = None
    """The answer that the agent must give; case and spaces are ignored."""


class FinalState(NamedTuple):
    """The final state of an episode, beside the device's settings and files."""

    foreground: str
    """`package/activity` in front; empty if unknown."""
    answer: str | None


def read_part(kind: type[P], text: str) -> P:
    """Read the start state or the goal of a query.

    Raises:
        EnvironmentFailure: it is malformed (class `task`).
    """
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        message = f"the {kind.__name__} `{text[:80]}` is malformed: {first_mistake(error, 'the whole')}"
        raise EnvironmentFailure(message, FailureClass.TASK) from error


async def is_reached(device: AdbDevice, goal: PhoneGoal, final: FinalState) -> bool:
    """Whether every part of the goal holds.

    Raises:
        EnvironmentFailure: the device fails.
    """
    if goal.foreground is not None and not _is_component(final.foreground, goal.foreground):
        return False
    if goal.answer is not None and _normalised(final.answer or "") != _normalised(goal.answer):
        return False
    for name, value in goal.settings.items():
        if await read_setting(device, name) != value:
            return False
    for path, content in goal.files.items():
        if await _read_file(device, path) != (content if content is None else content.removesuffix("\n")):
            return False
    return True


async def read_setting(device: AdbDevice, name: str) -> str | None:
    """A setting by `namespace.name`; None if it is unset."""
    namespace, _, key = name.partition(".")
    value = (await device.run("settings", "get", namespace, key)).text.strip()
    return None if value == "null" else value


async def _read_file(device: AdbDevice, path: str) -> str | None:
    output = await device.run("sh", "-c", _READ_FILE, "sh", path)
    if output.status == _ABSENT:
        return None
    if output.status:
        raise EnvironmentFailure(f"{device.serial}: {path} cannot be read: {output.text.strip()[:200]}")
    return output.text.removesuffix("\n")


def _is_component(shown: str, wanted: str) -> bool:
    package, _, activity = wanted.partition("/")
    shown_package, _, shown_activity = shown.partition("/")
    if package != shown_package:
        return False
    return not activity or _whole(package, activity) == _whole(package, shown_activity)


def _whole(package: str, activity: str) -> str:
    return package + activity if activity.startswith(".") else activity


def _normalised(text: str) -> str:
    return " ".join(text.split()).casefold()
