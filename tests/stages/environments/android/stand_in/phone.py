"""A simulated phone as a device: its state, and what touches, keys and texts do to it."""

import io
import json
import threading
from collections.abc import Coroutine
from typing import NamedTuple

from PIL import Image

from tests.stages.models.pictures import as_png
from trajmill.schemas.actions import Action, Click, PressKeys, Swipe, SystemButton
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.environments.tasks import own_query

START_FILE = "/sdcard/trajmill/start.json"
"""Writing `{"start_state": ..., "goal": ..., "seed": ...}` here makes that start state of the simulator."""
REACHED_FILE = "/sdcard/trajmill/reached.txt"
"""`1.0` once the goal of the start file is reached."""
LAUNCHER = "org.trajmill.launcher"
OWN_KEYBOARD = "org.trajmill.keyboard/.Keyboard"
ADB_KEYBOARD = "com.android.adbkeyboard/.AdbIME"
_KEYS = {
    "BACK": SystemButton(button="Back"),
    "HOME": SystemButton(button="Home"),
    "ENTER": SystemButton(button="Enter"),
    "APP_SWITCH": SystemButton(button="Menu"),
}
_CODES = {"3": "HOME", "4": "BACK", "66": "ENTER", "67": "DEL", "187": "APP_SWITCH"}


class Faults(NamedTuple):
    offline: bool = False
    cut_after: int | None = None
    """Bytes of a program's output after which the connection ends."""
    hangs: bool = False
    blank_screenshot: bool = False
    never_rests: bool = False
    """Its screen changes all the time, and uiautomator never finishes."""
    without_system: bool = False
    """Its shell runs, what serves its apps and settings does not."""


class Saved(NamedTuple):
    files: dict[str, bytes]
    settings: dict[str, str]
    device: object


class Phone:
    """One device; its methods are called from the threads of the server."""

    def __init__(self, serial: str, world: World, popup: float = 0.0) -> None:
        self.serial = serial
        self.faults = Faults()
        self.ran: list[tuple[str, ...]] = []
        """Every program that was run, with its arguments."""
        self.lock = threading.RLock()
        self.files: dict[str, bytes] = {}
        self.settings = {
            "system.screen_brightness": "120",
            "system.accelerometer_rotation": "1",
            "global.window_animation_scale": "1.0",
            "secure.default_input_method": OWN_KEYBOARD,
        }
        self.keyboards = [OWN_KEYBOARD, ADB_KEYBOARD]
        self.looks_until_bound = 0
        """How often its state must be looked at before an input method that was chosen serves the field."""
        self.two_displays = False
        self.away = 0
        """How many requests it refuses before it is back, as after a snapshot."""
        self.secure = ""
        """The package whose windows have FLAG_SECURE."""
        self.secure_flags = "fl=LAYOUT_IN_SCREEN LAYOUT_INSET_DECOR SECURE SPLIT_TOUCH"
        self.input_type = ""
        self.debuggable: set[str] = set()
        self.rooted = False
        self.content: dict[str, str] = {}
        """What `content query` prints, by URI."""
        self.installed: dict[str, bytes] = {}
        self.granted: list[tuple[str, str]] = []
        self.saved: dict[str, Saved] = {}
        self.loses_snapshots = False
        """Whether loading one has no effect."""
        self._world = world
        self._shots = 0
        self._simulated = SimulatedEnvironment(world, Platform.PHONE, FaultRates(popup=popup, slow=0))
        self._simulated.reset_now(_query("{}", "{}"), 0)

    @property
    def rotation(self) -> int:
        return int(self.settings.get("system.user_rotation", "0"))

    @property
    def size(self) -> Size:
        wide, high = self._simulated.device().view().observation.screen.size
        return Size(high, wide) if self.rotation else Size(wide, high)

    @property
    def app(self) -> str:
        app = self._simulated.device().view().observation.app
        return package_of(app) if app else LAUNCHER

    def packages(self) -> dict[str, str]:
        return {app.name: package_of(app.app) for app in self._world.apps_on(Platform.PHONE)}

    def screenshot(self) -> bytes:
        png = self._simulated.device().view().observation.screen.encode()
        self._shots += 1
        if self.faults.never_rests or self.app == self.secure:
            return as_png(Image.new("RGB", self.size, (self._shots % 256 if self.faults.never_rests else 0, 0, 0)))
        if not self.rotation:
            return png
        return as_png(Image.open(io.BytesIO(png)).transpose(Image.Transpose.ROTATE_90))

    def elements(self) -> list[UIElement]:
        """The accessibility elements, where they are on the screen as it is held."""
        seen = self._simulated.device().view().observation
        elements, wide = list(seen.elements or ()), seen.screen.size.width
        if not self.rotation:
            return elements
        turned = [Box(box.top, wide - box.right, box.bottom, wide - box.left) for _, _, box, *_ in elements]
        return [element._replace(bounds=box) for element, box in zip(elements, turned, strict=True)]

    def keyboard(self) -> Box | None:
        if self.settings["secure.default_input_method"] == ADB_KEYBOARD:
            return None
        return next((each.bounds for each in self.elements() if each.role == "keyboard"), None)

    def act(self, action: Action) -> None:
        """Places are on the screen as it is held; a finger that stays is a long press, which means nothing here."""
        if isinstance(action, Click | Swipe) and self.rotation:
            wide = self._simulated.device().view().observation.screen.size.width
            turned = {"x": wide - 1 - action.y, "y": action.x}
            if isinstance(action, Swipe):
                turned |= {"x2": wide - 1 - action.y2, "y2": action.x2}
            action = action.model_copy(update=turned)
        self._simulated.step_now(action)

    def save(self, name: str) -> None:
        self.saved[name] = Saved(dict(self.files), dict(self.settings), _result(self._simulated.snapshot()))

    def load(self, name: str) -> None:
        if not self.loses_snapshots:
            files, settings, device = self.saved[name]
            self.files, self.settings = dict(files), dict(settings)
            _result(self._simulated.restore(device))
        self.away = 2

    def key(self, name: str) -> None:
        name = _CODES.get(name, name.removeprefix("KEYCODE_"))
        self.act(_KEYS.get(name) or PressKeys(keys=(name,)))

    def stop(self, package: str) -> None:
        """End an app: it starts at its first page again, with what it had stored."""
        device = self._simulated.device()
        app = package.rpartition(".")[2]
        if app in device.running:
            running = device.running[app]
            del running.stack[1:]
            running.popup = None
            if device.foreground == app:
                device.leave()

    def wipe(self, package: str) -> None:
        self.stop(package)
        self._simulated.device().running.pop(package.rpartition(".")[2], None)

    def read(self, path: str) -> bytes | None:
        if path == REACHED_FILE:
            return str(self._simulated.score_now()).encode()
        return self.files.get(path)

    def write(self, path: str, content: bytes) -> None:
        if path == "/dev/null":
            return
        self.files[path] = content
        if path == START_FILE:
            start = json.loads(content)
            self._simulated.reset_now(_query(start["start_state"], start["goal"]), start["seed"])


def _result(call: Coroutine[None, None, object]) -> object:
    """Run a call that waits for nothing, in a thread with or without a loop."""
    try:
        call.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("it waits")


def package_of(app: str) -> str:
    return f"org.trajmill.{app}"


def _query(start_state: str, goal: str) -> Query:
    origin = Origin(round=0, run_id="stand-in", code_version="stand-in")
    return own_query(Platform.PHONE, "stand-in", "", start_state, origin, "stand-in", goal=goal)
