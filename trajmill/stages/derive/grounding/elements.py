"""Chooses the elements of a screen that grounding data points at, and says why others are not pointed at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER

_LONGEST_LABEL = 60
_OVERLAYS = frozenset({"dialog", "keyboard", "menu_item"})
"""Roles that are drawn over the rest of the screen."""


class PressTarget(NamedTuple):
    """An element that an instruction may point at."""

    element: UIElement
    label: str
    """Its text on one line."""


class RefusedElement(NamedTuple):
    """An element that no instruction points at, and why."""

    element: UIElement
    reason: str


def targets(elements: Sequence[UIElement], size: Size, smallest: int) -> Iterator[PressTarget | RefusedElement]:
    """Every element that can be pressed, as a target or with the reason why it is none.

    Args:
        elements: the tree of the screen in reading order.
        size: of the screen.
        smallest: width and height below which an element is too small.
    """
    pressed = [element for element in elements if element.clickable]
    alike = Counter((element.role, _label(element), element.value) for element in pressed)
    for element in pressed:
        reason = _unfit(element, elements, size, smallest)
        if reason is None and alike[element.role, _label(element), element.value] > 1:
            reason = "ambiguous"
        yield PressTarget(element, _label(element)) if reason is None else RefusedElement(element, reason)


def _unfit(element: UIElement, elements: Sequence[UIElement], size: Size, smallest: int) -> str | None:
    box, label = element.bounds, _label(element)
    if box.left < 0 or box.top < 0 or box.right > size.width or box.bottom > size.height:
        return "off_screen"
    if box.right - box.left < smallest or box.bottom - box.top < smallest:
        return "too_small"
    if "disabled" in element.states:
        return "disabled"
    if not any(letter.isalnum() for letter in label) and not element.value:
        return "no_text"
    if len(label) > _LONGEST_LABEL:
        return "long_text"
    if IMAGE_PLACEHOLDER in label:
        return "placeholder_in_text"
    if any(_covers(other, element) for other in elements):
        return "covered"
    return None


def _covers(other: UIElement, element: UIElement) -> bool:
    """Whether an overlay hides the middle of an element that is no part of the overlay."""
    if other is element or other.role not in _OVERLAYS or element.role in _OVERLAYS:
        return False
    return other.bounds.contains(*element.bounds.center) and not _within(element.bounds, other.bounds)


def _within(inner: Box, outer: Box) -> bool:
    return (
        outer.left <= inner.left
        and outer.top <= inner.top
        and inner.right <= outer.right
        and inner.bottom <= outer.bottom
    )


def _label(element: UIElement) -> str:
    return " ".join(element.text.split())
