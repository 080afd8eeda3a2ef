"""Sizes of screens and widgets, in pixels."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.tables.query import Platform


class Metrics(NamedTuple):
    """The sizes on one platform at one text size."""

    size: Size
    top: int
    """Bottom edge of the bars above the body."""
    window: Box
    """The area of an app: the whole screen of a phone, the window on a desktop."""
    margin: int
    gap: int
    text: int
    """Height of a line of text."""
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
    """Columns of the launcher."""
    character: float
    """Mean width of a character, as a share of the line's height."""


def metrics_of(platform: Platform, scale: float) -> Metrics:
    """The sizes on a platform; `scale` is the text size of the device profile."""
    return _scaled(_DESKTOP if platform is Platform.DESKTOP else _PHONE, scale)


def _scaled(base: Metrics, scale: float) -> Metrics:
    heights = ("text", "heading", "label", "row", "noted_row", "button", "field")
    return base._replace(**{name: round(getattr(base, name) * scale) for name in heights})


KEYBOARD_TOP = 819
"""Top edge of a phone's keyboard in pixels; it covers 36 % of the screen."""

_PHONE = Metrics(
    size=Size(720, 1280),
    top=148,
    window=Box(0, 48, 720, 1280),
    margin=24,
    gap=14,
    text=60,
    heading=72,
    label=52,
    row=92,
    noted_row=108,
    button=92,
    button_width=0,
    field=100,
    dialog_width=624,
    icon=Size(156, 184),
    columns=4,
    character=0.25,
)
_DESKTOP = Metrics(
    size=Size(1280, 720),
    top=108,
    window=Box(140, 20, 1140, 656),
    margin=24,
    gap=8,
    text=36,
    heading=44,
    label=32,
    row=46,
    noted_row=58,
    button=42,
    button_width=280,
    field=54,
    dialog_width=560,
    icon=Size(128, 116),
    columns=8,
    character=0.25,
)
