"""One look at a device: screenshot, tree, what is in front and what the keyboard covers, all of the same moment."""

from __future__ import annotations

import re
import struct
from time import monotonic
from typing import NamedTuple

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.environments.android.device.adb import AdbDevice
from trajmill.stages.environments.android.device.apps import Apps
from trajmill.stages.environments.android.device.shell import Line
from trajmill.stages.environments.android.screen.tree import Window, read_tree

_DUMP = "/data/local/tmp/trajmill.xml"
_PARTS = "\ntrajmill-window\n"
# One call instead of four: on a real device each costs tens of milliseconds.
_DESCRIBE = Line(
    f"uiautomator dump {_DUMP} >/dev/null 2>&1 && cat {_DUMP}; rm -f {_DUMP}; echo; echo trajmill-window; "
    "dumpsys window | grep -E 'mCurrentFocus|mFocusedApp'; dumpsys input_method | grep mInputShown; "
    "dumpsys window InputMethod | grep 'touchable region'"
)
# A device with two displays says so on standard error, which would come before the image.
_CAPTURE = Line("screencap -p 2>/dev/null")
_FOCUS = re.compile(r"mCurrentFocus=Window\{\S+ u\d+ ([\w.]+/[\w.$]+)\}")
_FOCUSED_APP = re.compile(r"mFocusedApp=.*?\bu\d+ ([\w.]+/[\w.$]+)")
_REGION = re.compile(r"touchable region=SkRegion\((.*)\)")
_RECTANGLE = re.compile(r"\((-?\d+),(-?\d+),(-?\d+),(-?\d+)\)")
_PNG_START = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_PNG_END = b"IEND\xaeB`\x82"


class Look(NamedTuple):
    """What was seen."""

    png: bytes
    size: Size
    elements: tuple[UIElement, ...] | None
    """None where uiautomator gave no tree in time, as on a screen that never stops moving."""
    app: str
    component: str
    """`package/activity` in front, empty if unknown."""


async def look(device: AdbDevice, apps: Apps, settle_seconds: float) -> Look:
    """Look until the screenshots before and after the tree are the same, or the time is up.

    Raises:
        EnvironmentFailure: the device fails, or its screenshot is none.
    """
    deadline = monotonic() + settle_seconds
    before = await _screenshot(device)
    while True:
        described = (await device.run_line(_DESCRIBE)).text
        after = await _screenshot(device)
        seen = _look(after, described, apps)
        if (before == after and seen.elements is not None) or monotonic() > deadline:
            return seen
        before = after


async def _screenshot(device: AdbDevice) -> bytes:
    png = (await device.run_line(_CAPTURE)).content
    if not png:
        raise EnvironmentFailure(f"{device.serial}: the screenshot is empty")
    if not png.startswith(_PNG_START) or not png.endswith(_PNG_END):
        raise EnvironmentFailure(f"{device.serial}: the screenshot is no PNG: {png[:60]!r}")
    return png


def _look(png: bytes, described: str, apps: Apps) -> Look:
    xml, _, facts = described.replace("\r\n", "\n").rpartition(_PARTS)
    size = Size(*struct.unpack_from(">II", png, len(_PNG_START)))
    component = _component(facts)
    app = apps.name_of(component.partition("/")[0])
    title = app or "Home screen"
    elements = read_tree(xml.strip(), Window(size, title, apps.launcher, _keyboard(facts)))
    return Look(png, size, elements, app, component)


def _component(facts: str) -> str:
    found = _FOCUS.search(facts) or _FOCUSED_APP.search(facts)
    return found[1] if found else ""


def _keyboard(facts: str) -> Box | None:
    """What takes touches for the keyboard; None where the device does not say so."""
    region = _REGION.search(facts)
    if "mInputShown=true" not in facts or region is None:
        return None
    boxes = [Box(*map(int, rectangle)) for rectangle in _RECTANGLE.findall(region[1])]
    if not boxes:
        return None
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return Box(min(lefts), min(tops), max(rights), max(bottoms))
