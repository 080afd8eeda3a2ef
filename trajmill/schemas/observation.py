"""The observation of an agent: a screenshot handle and, if the platform has one, an accessibility tree.

An environment makes tens of thousands of them per second, so they are plain tuples and slotted dataclasses, and pixels
are drawn only when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.record import content_id

_STATUS_BAR = 25 / 878
"""Top of a phone's screen that does not count, with its clock (UI-Voyager, `cores/fork_utils.py`)."""
HOLDABLE = "long_clickable"
"""The state of what reacts to a long press or a right click."""
SLIDER_MARK = "slider_mark"
"""The role of a value on a slider, to which its knob is dragged; `checked` where the knob stands."""


class UIElement(NamedTuple):
    """One visible element of an accessibility tree, in reading order."""

    role: str
    """button, link, list_item, radio, checkbox, switch, text_field, stepper_button, tab, icon, text, value, heading,
    image, dialog, keyboard, ... ; `value` marks data that a later step may need (a code, an address, a total)."""
    text: str
    """Its visible label."""
    bounds: Box
    """Where it is drawn, in pixels of the screenshot."""
    states: tuple[str, ...] = ()
    """Any of clickable, long_clickable, checked, selected, focused, editable, scrollable_down, scrollable_up, disabled,
    password; of an input in a browser its type (date, time, number, email, tel, url, search); of a title `secure`, if
    the app forbids screenshots, so that the pixels are black."""
    value: str = ""
    """The text of an input or the position of a slider; empty without one."""
    element_id: str = ""
    """The platform's own name for it (resource id, DOM id); empty without one."""

    @property
    def clickable(self) -> bool:
        """Whether a press on it may have an effect."""
        return "clickable" in self.states


@dataclass(frozen=True, slots=True)
class ScreenHandle:
    """A screenshot by its content id; the pixels are made when `encode` is called."""

    screen_id: str
    """Content hash of the screen: equal ids mean equal pixels and equal trees."""
    size: Size
    encode: Callable[[], bytes] = field(compare=False)
    """Returns the encoded image (PNG)."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The screen and the tree of an environment at one moment."""

    screen: ScreenHandle
    elements: tuple[UIElement, ...] | None
    """The accessibility tree; None if the platform has none."""
    app: str
    """Name of the app in the foreground; empty if unknown."""


class ScreenReader(Protocol):
    """Reads stored screens without a warehouse."""

    def image(self, screen_id: str) -> bytes:
        """The encoded image. Raises KeyError for an unknown id."""
        ...

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        """The accessibility tree, empty where there was none. Raises KeyError for an unknown id."""
        ...

    def size(self, screen_id: str) -> Size:
        """Width and height in pixels. Raises KeyError for an unknown id."""
        ...


def look_of(screen_id: str, elements: Iterable[UIElement] | None, size: Size, is_phone: bool) -> str:
    """Return a key that equal screens share: a hash of their elements, wherever these lie; the id without elements."""
    top = size.height * _STATUS_BAR if is_phone else 0.0
    shown = [each for each in elements or () if each.bounds.bottom > top]
    return content_id(sorted((e.role, e.text, e.value, *e.states) for e in shown)) if shown else screen_id
