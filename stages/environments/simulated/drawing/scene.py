"""The shapes on a simulated screen before they are drawn; drawing is a pure function of a `Scene`."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.geometry import Box, Size


class Shape(NamedTuple):
    """One drawn thing. A shape that is an accessibility element has exactly the element's box."""

    kind: str
    """status_bar, app_bar, icon, heading, text, value, list_item, button, primary_button, danger_button, radio,
    checkbox, switch, label, stepper_button, field, search, keyboard, key, dialog, dim, menu_bar, menu, menu_item,
    window, taskbar, badge, scroll_bar, banner."""
    box: Box
    text: str = ""
    """Lines are parted by newlines and share the height of the box."""
    note: str = ""
    """Secondary text, set smaller: below the text of a `list_item`, at the right end of a `label` or a bar; what a
    `field` or `search` holds, whose text is its hint."""
    state: str = ""
    """`on`, `focused` or `disabled`, empty otherwise."""
    color: str = ""
    """`#RRGGBB` where the kind has a colour of its own (icons, bars)."""


class Scene(NamedTuple):
    """All shapes of a screen, painted in order; what follows a `dim` lies over everything before it."""

    size: Size
    accent: str
    """`#RRGGBB` of the app in the foreground."""
    dark: bool
    """Dark or light theme, by device profile."""
    shapes: tuple[Shape, ...]
