"""The shapes of a simulated screen before they are drawn; drawing is a pure function of a `Scene`."""

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
    """Text; its lines are separated by newlines and share the height of the box."""
    note: str = ""
    """Smaller second text: below the text of a `list_item`, at the right end of a `label` or a bar. For a `field` or
    `search` it is the typed text, because `text` is the hint."""
    state: str = ""
    """`on`, `focused`, `disabled` or empty."""
    color: str = ""
    """`#RRGGBB` for kinds with their own colour (icons, bars); else empty."""


class Scene(NamedTuple):
    """All shapes of a screen, in the order of painting; a `dim` darkens everything before it."""

    size: Size
    accent: str
    """`#RRGGBB` of the app in the foreground."""
    dark: bool
    """Whether the theme is dark."""
    shapes: tuple[Shape, ...]
