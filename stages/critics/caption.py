"""Screens and steps in words: what a text-only judge, or a person, reads instead of the screenshots.

Everything that stands on a screen is quoted as a JSON string, so that no text on a screen can pass for the caption's
own words.
"""

from __future__ import annotations

import json

from trajmill.schemas.observation import UIElement
from trajmill.stages.critics.deeds import Deed, scroll_direction
from trajmill.stages.critics.facts import ScreenFacts, control_kind
from trajmill.stages.critics.transitions import ControlChange, Transition

NO_EFFECT = "no visible effect"


def quoted(text: str) -> str:
    """The text in double quotes, with quotes and line ends inside it escaped."""
    return json.dumps(text, ensure_ascii=False)


def caption_screen(facts: ScreenFacts) -> str:
    """One line on a screen: its page, how its controls stand, what it shows and lists."""
    parts = [f"{c.kind} {quoted(c.label)} is {quoted(c.value)}" for c in facts.controls.values()]
    parts += [f"shows {quoted(text)}" for text in facts.values]
    parts += [f"lists {quoted(text)}" for text, _ in facts.items]
    kind = "Form" if facts.is_form else "Screen"
    return f"{kind} {quoted(facts.title)} of {quoted(facts.page)}: " + ("; ".join(parts) or "nothing to set") + "."


def caption_step(deed: Deed, outcome: Transition) -> str:
    """One line on a step: what was done and what came of it."""
    return f"{describe_deed(deed)}: {describe_outcome(outcome)}."


def describe_deed(deed: Deed) -> str:
    """What was done, e.g. `Tapped radio "Large" in "Size"`."""
    match deed.kind:
        case "unparsed":
            return "Gave a reply that is no action"
        case "click":
            return f"Tapped {describe_element(deed.element)}"
        case "long_press":
            return f"Held {describe_element(deed.element)}"
        case "type":
            into = f" into {quoted(deed.element.text)}" if deed.element is not None else ""
            return f"Typed {quoted(deed.words)}{into}"
        case "swipe" | "scroll":
            return f"Scrolled {scroll_direction(deed.action)}"
        case "open":
            return f"Opened the app {quoted(deed.words)}"
        case "system_button" | "key":
            return f"Pressed {quoted(deed.words)}"
        case "terminate":
            return f"Ended with {quoted(deed.words)}"
        case "answer":
            return f"Answered {quoted(deed.words)}"
        case "wait":
            return "Waited"
        case other:
            return f"Did {other}"


def describe_element(element: UIElement | None) -> str:
    """An element by role, words and group, e.g. `radio "Large" in "Size"`."""
    if element is None:
        return "an empty place"
    role = element.role.replace("_", " ")
    group = f" in {quoted(element.value)}" if control_kind(element) in ("choice", "stepper") and element.value else ""
    return f"{role} {quoted(element.text)}{group}"


def describe_outcome(outcome: Transition) -> str:
    """What came of a step, e.g. `choice "Size" is now "Large" instead of "Medium"`."""
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
