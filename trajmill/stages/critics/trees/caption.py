"""Describes screens and steps in words, for text-only judges and for people.

All text of a screen is quoted as a JSON string, so that it cannot be mistaken for the caption's own words.
"""

from __future__ import annotations

import json

from trajmill.schemas.observation import UIElement
from trajmill.stages.critics.trees.element_action import ElementAction, scroll_direction
from trajmill.stages.critics.trees.screen_state import ScreenState, control_kind
from trajmill.stages.critics.trees.transition import ControlChange, Transition

NO_EFFECT = "no visible effect"


def quoted(text: str) -> str:
    """The text in double quotes, with quotes and line ends inside it escaped."""
    return json.dumps(text, ensure_ascii=False)


def caption_screen(state: ScreenState) -> str:
    """Describe a screen in one line: its page, the values of its controls, its data and items."""
    parts = [f"{c.kind} {quoted(c.label)} is {quoted(c.value)}" for c in state.controls.values()]
    parts += [f"shows {quoted(text)}" for text in state.values]
    parts += [f"lists {quoted(text)}" for text, _ in state.items]
    kind = "Form" if state.is_form else "Screen"
    return f"{kind} {quoted(state.title)} of {quoted(state.page)}: " + ("; ".join(parts) or "nothing to set") + "."


def caption_step(action: ElementAction, outcome: Transition) -> str:
    """Describe a step in one line: the action and its outcome."""
    return f"{describe_action(action)}: {describe_outcome(outcome)}."


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
        case "swipe" | "scroll":
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
        case "hscroll":
            return f"Scrolled {scroll_direction(action.parsed)}"
        case "drag_to":
            return f"Dragged to {describe_element(action.element)}"
        case other:
            return f"Did {other}"


def describe_element(element: UIElement | None) -> str:
    """Describe an element by role, text and group, e.g. `radio "Large" in "Size"`."""
    if element is None:
        return "an empty place"
    role = element.role.replace("_", " ")
    group = f" in {quoted(element.value)}" if control_kind(element) in ("choice", "stepper") and element.value else ""
    return f"{role} {quoted(element.text)}{group}"


def describe_outcome(outcome: Transition) -> str:
    """Describe the outcome of a step, e.g. `choice "Size" is now "Large" instead of "Medium"`."""
    if outcome.same:
        return NO_EFFECT
    parts = [f"opened {quoted(outcome.after.title)} of {quoted(outcome.after.page)}"] if outcome.opened else []
    parts += [_change(change) for change in outcome.changes]
    parts += [f"now shows {quoted(text)}" for text in outcome.appeared]
    parts += [f"no longer has {quoted(text)}" for text in outcome.vanished]
    if outcome.items_changed:
        parts.append("the list has changed")
    return "; ".join(parts) or _minor(outcome)


def _change(change: ControlChange) -> str:
    control = change.control
    return f"{control.kind} {quoted(control.label)} is now {quoted(control.value)} instead of {quoted(change.old)}"


def _minor(outcome: Transition) -> str:
    if outcome.before.items != outcome.after.items:
        return "the view has moved"
    return "the keyboard is up" if outcome.keyboard else "something else is in view"
