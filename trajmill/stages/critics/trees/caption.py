"""The element that an action touched, and steps in words; text of a screen is quoted as a JSON string."""

from __future__ import annotations

import json
from typing import NamedTuple

from trajmill.schemas import actions
from trajmill.schemas.actions import Action, Swipe, TypeText, action_from_json, pressed_point
from trajmill.schemas.observation import UIElement
from trajmill.stages.critics.trees.screen_state import Transition, control_kind


class ElementAction(NamedTuple):
    parsed: Action | None
    """None if the reply had no action."""
    element: UIElement | None
    """The element at the touched position; for typing, the focused field."""
    words: str
    """The typed or answered text, the opened app, the pressed button or keys, or the reported status."""

    @property
    def kind(self) -> str:
        return self.parsed.kind if self.parsed is not None else "unparsed"

    @property
    def presses(self) -> bool:
        return self.kind in ("click", "long_press")

    @property
    def opens(self) -> bool:
        """Whether it opens an icon: a press, or the double click that desktop icons need."""
        if not isinstance(self.parsed, actions.Click):
            return False
        return self.parsed.count == 2 or (self.element is not None and self.element.role == "icon")

    @property
    def ends(self) -> bool:
        success = isinstance(self.parsed, actions.Terminate) and self.parsed.status == "success"
        return success or isinstance(self.parsed, actions.Answer)


def read_element_action(action_json: str | None, elements: tuple[UIElement, ...]) -> ElementAction:
    """Read a stored action on a screen. Raises pydantic.ValidationError if the text is not an action."""
    if action_json is None:
        return ElementAction(None, None, "")
    action = action_from_json(action_json)
    point = pressed_point(action)
    if isinstance(action, TypeText):
        touched = next((e for e in elements if "focused" in e.states), None)
    else:
        touched = element_at(elements, *point) if point else None
    match action:
        case TypeText(text=words) | actions.Answer(text=words) | actions.Interact(text=words):
            pass
        case actions.OpenApp(app=words) | actions.SystemButton(button=words) | actions.Terminate(status=words):
            pass
        case actions.PressKeys(keys=keys):
            words = "+".join(keys)
        case _:
            words = "drag" if isinstance(action, actions.Drag) else ""
    return ElementAction(action, touched, words)


def element_at(elements: tuple[UIElement, ...], x: int, y: int) -> UIElement | None:
    """Return the smallest clickable element at (x, y), else the smallest one."""
    under = [element for element in elements if element.bounds.contains(x, y)]
    return min(under, key=lambda element: (not element.clickable, element.bounds.area), default=None)


def scroll_direction(action: Action | None) -> str:
    """Return where a swipe or scroll moves the view; empty for other actions. A swipe upwards moves the view down."""
    match action:
        case Swipe(x=x, y=y, x2=x2, y2=y2):
            if abs(x2 - x) > abs(y2 - y):
                return "right" if x2 < x else "left"
            return "down" if y2 < y else "up"
        case actions.Scroll(clicks=clicks):
            return "up" if clicks > 0 else "down"
        case actions.HorizontalScroll(clicks=clicks):
            return "right" if clicks > 0 else "left"
        case _:
            return ""


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def describe_action(action: ElementAction) -> str:
    """Describe an action, e.g. `Tapped radio "Large" in "Size"`."""
    match action.kind:
        case "unparsed":
            return "Gave a reply that is no action"
        case "click":
            return f"Tapped {describe_element(action.element)}"
        case "long_press":
            return f"Held {describe_element(action.element)}"
        case "type":
            into = f" into {quoted(action.element.text)}" if action.element is not None else ""
            return f"Typed {quoted(action.words)}{into}"
        case "swipe" | "scroll" | "hscroll":
            return f"Scrolled {scroll_direction(action.parsed)}"
        case "open":
            return f"Opened the app {quoted(action.words)}"
        case "system_button" | "key":
            return f"Pressed {quoted(action.words)}"
        case "terminate":
            return f"Ended with {quoted(action.words)}"
        case "answer":
            return f"Answered {quoted(action.words)}"
        case "wait":
            return "Waited"
        case "interact":
            return f"Asked the user for help: {quoted(action.words)}"
        case "drag_to":
            return f"Dragged to {describe_element(action.element)}"
        case other:
            return f"Did {other}"


def describe_element(element: UIElement | None) -> str:
    """Describe an element by role, text and group, e.g. `radio "Large" in "Size"`."""
    if element is None:
        return "an empty place"
    group = f" in {quoted(element.value)}" if control_kind(element) in ("choice", "stepper") and element.value else ""
    return f"{element.role.replace('_', ' ')} {quoted(element.text)}{group}"


def describe_outcome(outcome: Transition) -> str:
    """Describe the outcome of a step, e.g. `choice "Size" is now "Large" instead of "Medium"`."""
    if outcome.same:
        return "no visible effect"
    parts = [f"opened {quoted(outcome.after.title)} of {quoted(outcome.after.page)}"] if outcome.opened else []
    parts += [
        f"{new.kind} {quoted(new.label)} is now {quoted(new.value)} instead of {quoted(old)}"
        for new, old in outcome.changes
    ]
    parts += [f"now shows {quoted(text)}" for text in outcome.appeared]
    parts += [f"no longer has {quoted(text)}" for text in outcome.vanished]
    if outcome.items_changed:
        parts.append("the list has changed")
    if parts:
        return "; ".join(parts)
    if outcome.before.items != outcome.after.items:
        return "the view has moved"
    return "the keyboard is up" if outcome.keyboard else "something else is in view"
