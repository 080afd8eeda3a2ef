"""Device profiles (theme, text size, order of lists), and the pixel sizes of screens and widgets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.kinds import DevicesSpec
from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec, Item

PROFILES = 8
"""Few, so that distinct screens repeat and are stored once; `DevicesSpec.orders` asks for more."""
_LARGER_TEXT = 1.12

T = TypeVar("T")


class Metrics(NamedTuple):
    size: Size
    top: int
    """Bottom edge of the bars above the body."""
    window: Box
    """The area of an app: the whole screen of a phone, the window on a desktop."""
    margin: int
    gap: int
    text: int
    heading: int
    label: int
    row: int
    """Height of a list row without a note, and of a control."""
    noted_row: int
    button: int
    button_width: int
    """Width; 0 stands for the width of the body."""
    field: int
    dialog_width: int
    icon: Size
    columns: int
    character: float
    """Mean width of a character, as a share of the line's height."""


def metrics_of(platform: Platform, scale: float) -> Metrics:
    base = _DESKTOP if platform is Platform.DESKTOP else _PHONE
    heights = ("text", "heading", "label", "row", "noted_row", "button", "field")
    return base._replace(**{name: round(getattr(base, name) * scale) for name in heights})


KEYBOARD_TOP = 819
"""Top edge of a phone's keyboard in pixels; it covers 36 % of the screen."""

_PHONE = Metrics(
    size=Size(720, 1280), top=148, window=Box(0, 48, 720, 1280), margin=24, gap=14,
    text=60, heading=72, label=52, row=92, noted_row=108, button=92, button_width=0, field=100,
    dialog_width=624, icon=Size(156, 184), columns=4, character=0.25,
)  # fmt: skip
_DESKTOP = Metrics(
    size=Size(1280, 720), top=108, window=Box(140, 20, 1140, 656), margin=24, gap=8,
    text=36, heading=44, label=32, row=46, noted_row=58, button=42, button_width=280, field=54,
    dialog_width=560, icon=Size(128, 116), columns=8, character=0.25,
)  # fmt: skip


class Layout(Enum):
    """Where list items, buttons, toggles and fields of a page stand."""

    ROWS = "rows"
    """One below the other, over the whole width."""
    GRID = "grid"
    """In two columns."""
    START = "start"
    """One below the other, at the left."""
    END = "end"
    """One below the other, at the right."""


_LAYOUTS = tuple(map(Layout, ("rows", "grid", "start", "end", "grid", "end", "start", "rows")))
"""By look. Dialogs have their middle where rows have theirs, and icons where the start is."""


class DeviceProfile(NamedTuple):
    number: int
    """Number of the profile; profile 0 keeps the order of the app files."""
    may_be_dark: bool = True
    may_be_large: bool = True
    has_layouts: bool = False

    @property
    def layout(self) -> Layout:
        return _LAYOUTS[self.number % PROFILES] if self.has_layouts else Layout.ROWS

    @property
    def dark(self) -> bool:
        return self.may_be_dark and self.number % 2 == 1

    @property
    def scale(self) -> float:
        return _LARGER_TEXT if self.may_be_large and self.number // 2 % 2 else 1.0

    def arrange(self, name: str, things: Sequence[T]) -> tuple[T, ...]:
        arranged = list(things)
        if self.number:
            random.Random(int(content_id("profile", self.number, name), 16)).shuffle(arranged)
        return tuple(arranged)

    def fixed_lists(self, app: AppSpec) -> dict[str, tuple[Item, ...]]:
        return {
            name: items if name in app.ordered else self.arrange(f"{app.app}.{name}", items)
            for name, items in app.lists.items()
        }


def profile_of(seed: int, devices: DevicesSpec = DevicesSpec()) -> DeviceProfile:
    """Return the device of a seed, whose look and order are not those of another look: evaluation has its own."""
    look, order = seed % PROFILES, seed // PROFILES % devices.orders
    return DeviceProfile(look + PROFILES * order, devices.dark, devices.large_text, devices.layouts)
