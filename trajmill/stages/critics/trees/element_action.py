"""Finds the element that an action touched."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.actions import (
    Action,
    Answer,
    Click,
    Drag,
    HorizontalScroll,
    Interact,
    OpenApp,
    PressKeys,
    Scroll,
    Swipe,
    SystemButton,
    Terminate,
    TypeText,
    action_from_json,
    pressed_point,
)
from trajmill.schemas.observation import UIElement


class ElementAction(NamedTuple):
    """One action and the element it touched."""

    parsed: Action | None
    """None if the reply had no action."""
    element: UIElement | None
    """The element at the touched position; for typing, the focused field."""
    words: str
    """The typed or answered text, the opened app, the pressed button or keys, or the reported status."""

    @property
    def kind(self) -> str:
        """Kind of the action; `unparsed` without one."""
        return self.parsed.kind if self.parsed is not None else "unparsed"

    @property
    def presses(self) -> bool:
        """Whether it presses a position on the screen."""
        return self.kind in ("click", "long_press")

    @property
    def opens(self) -> bool:
        """Whether it opens an icon: a press, or the double click that icons of a desktop need."""
        if not isinstance(self.parsed, Click):
            return False
        return self.parsed.count == 2 or (self.element is not None and self.element.role == "icon")

    @property
    def ends(self) -> bool:
        """Whether the agent reports with it that the task is done."""
        match self.parsed:
            case Terminate(status="success") | Answer():
                return True
            case _:
                return False


def read_element_action(action_json: str | None, elements: tuple[UIElement, ...]) -> ElementAction:
    """Read a stored action on a screen with these elements.

    Raises:
        pydantic.ValidationError: the stored text is not an action.
    """
    if action_json is None:
        return ElementAction(None, None, "")
    action = action_from_json(action_json)
    return ElementAction(action, _touched(action, elements), _words(action))


def element_at(elements: tuple[UIElement, ...], x: int, y: int) -> UIElement | None:
    """The element that a press at (x, y) reaches: the smallest clickable one there, else the smallest one."""
    under = [element for element in elements if element.bounds.contains(x, y)]
    if not under:
        return None
    return min(under, key=lambda element: (not element.clickable, element.bounds.area))


def scroll_direction(action: Action | None) -> str:
    """The direction in which a swipe, drag or scroll moves the view: up, down, left or right; empty for other actions.

    The content follows the finger, so a swipe upwards moves the view down.
    """
    match action:
        case Swipe(x=x, y=y, x2=x2, y2=y2):
            if abs(x2 - x) > abs(y2 - y):
                return "right" if x2 < x else "left"
            return "down" if y2 < y else "up"
        case Scroll(clicks=clicks):
            return "up" if clicks > 0 else "down"
        case HorizontalScroll(clicks=clicks):
            return "right" if clicks > 0 else "left"
        case _:
            return ""


def _touched(action: Action, elements: tuple[UIElement, ...]) -> UIElement | None:
    if isinstance(action, TypeText):
        return next((e for e in elements if "focused" in e.states), None)
    point = pressed_point(action)
    return element_at(elements, *point) if point else None


def _words(action: Action) -> str:
    match action:
        case TypeText(text=text) | Answer(text=text) | Interact(text=text):
            return text
        case OpenApp(app=app):
            return app
        case SystemButton(button=button):
            return button
        case PressKeys(keys=keys):
            return "+".join(keys)
        case Terminate(status=status):
            return status
        case Drag():
            return "drag"
        case _:
            return ""
