"""Captures the screen of a device, and learns where its lists end."""

from __future__ import annotations

import re
import struct
from time import monotonic
from typing import NamedTuple

from trajmill.schemas.actions import Swipe
from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.environments.android.adb import AdbDevice
from trajmill.stages.environments.android.commands import Apps, ShellLine
from trajmill.stages.environments.android.tree import ScreenContext, read_tree

_DUMP = "/data/local/tmp/trajmill.xml"
_PARTS = "\ntrajmill-window\n"
# One call instead of four: on a real device each costs tens of milliseconds.
_DESCRIBE = ShellLine(
    f"uiautomator dump {_DUMP} >/dev/null 2>&1 && cat {_DUMP}; rm -f {_DUMP}; echo; echo trajmill-window; "
    "dumpsys window | grep -E 'mCurrentFocus|mFocusedApp'; dumpsys input_method | grep mInputShown; "
    "dumpsys window InputMethod | grep 'touchable region'"
)
# A device with two displays says so on standard error, which would come before the image.
_CAPTURE = ShellLine("screencap -p 2>/dev/null")
_FOCUS = re.compile(r"mCurrentFocus=Window\{\S+ u\d+ ([\w.]+/[\w.$]+)\}")
_FOCUSED_APP = re.compile(r"mFocusedApp=.*?\bu\d+ ([\w.]+/[\w.$]+)")
_REGION = re.compile(r"touchable region=SkRegion\((.*)\)")
_RECTANGLE = re.compile(r"\((-?\d+),(-?\d+),(-?\d+),(-?\d+)\)")
_PNG_START = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_PNG_END = b"IEND\xaeB`\x82"
Elements = tuple[UIElement, ...]


class DeviceScreen(NamedTuple):
    """The screen of a device at one moment."""

    png: bytes
    size: Size
    elements: tuple[UIElement, ...] | None
    """None if uiautomator gave no tree in time, e.g. for a screen that never stops changing."""
    app: str
    component: str
    """`package/activity` in front; empty if unknown."""


async def capture_screen(device: AdbDevice, apps: Apps, settle_seconds: float) -> DeviceScreen:
    """Capture until the screenshots before and after the tree are equal, or `settle_seconds` have passed.

    Raises:
        EnvironmentFailure: the device fails, or sends no valid screenshot.
    """
    deadline = monotonic() + settle_seconds
    before = await _screenshot(device)
    while True:
        described = (await device.run_line(_DESCRIBE)).text
        after = await _screenshot(device)
        screen = _read(after, described, apps)
        if (before == after and screen.elements is not None) or monotonic() > deadline:
            return screen
        before = after


async def _screenshot(device: AdbDevice) -> bytes:
    png = (await device.run_line(_CAPTURE)).content
    if not png:
        raise EnvironmentFailure(f"{device.serial}: the screenshot is empty")
    if not png.startswith(_PNG_START) or not png.endswith(_PNG_END):
        raise EnvironmentFailure(f"{device.serial}: the screenshot is no PNG: {png[:60]!r}")
    return png


def _read(png: bytes, described: str, apps: Apps) -> DeviceScreen:
    xml, _, window_dump = described.replace("\r\n", "\n").rpartition(_PARTS)
    size = Size(*struct.unpack_from(">II", png, len(_PNG_START)))
    component = _component(window_dump)
    app = apps.name_of(component.partition("/")[0])
    title = app or "Home screen"
    elements = read_tree(xml.strip(), ScreenContext(size, title, apps.launcher, _keyboard(window_dump)))
    return DeviceScreen(png, size, elements, app, component)


def _component(window_dump: str) -> str:
    found = _FOCUS.search(window_dump) or _FOCUSED_APP.search(window_dump)
    return found[1] if found else ""


def _keyboard(window_dump: str) -> Box | None:
    """The area of the keyboard; None if the device does not report it."""
    region = _REGION.search(window_dump)
    if "mInputShown=true" not in window_dump or region is None:
        return None
    boxes = [Box(*map(int, rectangle)) for rectangle in _RECTANGLE.findall(region[1])]
    if not boxes:
        return None
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return Box(min(lefts), min(tops), max(rights), max(bottoms))


class ListEnds:
    """The ends of lists that the swipes of one episode have revealed."""

    def __init__(self) -> None:
        self._ends: set[tuple[Elements, Box, str]] = set()

    def learn(self, swipe: Swipe, before: Elements | None, after: Elements | None) -> None:
        """Learn from a vertical swipe, and the elements before and after it as uiautomator gave them."""
        down = swipe.y - swipe.y2
        if before is None or before != after or abs(down) <= abs(swipe.x - swipe.x2):
            return
        state = "scrollable_down" if down > 0 else "scrollable_up"
        self._ends.update(
            (before, each.bounds, state)
            for each in before
            if each.role == "list" and each.bounds.contains(swipe.x, swipe.y)
        )

    def correct(self, elements: Elements | None) -> Elements | None:
        """The elements without the scroll states of lists for directions in which they are known to end."""
        if elements is None or not self._ends:
            return elements
        return tuple(
            each._replace(
                states=tuple(state for state in each.states if (elements, each.bounds, state) not in self._ends)
            )
            if each.role == "list"
            else each
            for each in elements
        )
