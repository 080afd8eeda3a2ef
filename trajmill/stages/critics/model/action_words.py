"""Describes an action in words for a model that judges it, and quotes untrusted text.

It has more detail than the caption of a step: which button, how often, for how long, whether a text replaced another.
Places are in percent of the screen, which is the same in every coordinate space.
"""

from __future__ import annotations

from trajmill.schemas import actions
from trajmill.schemas.actions import pressed_point
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.critics.trees.replay import (
    ElementAction,
    describe_action,
    describe_element,
    quoted,
    read_element_action,
    scroll_direction,
)

LONGEST_TEXT = 600
"""Most characters of a typed or answered text; a longer text is cut and marked."""
_PRESSES = {1: "Clicked", 2: "Double-clicked", 3: "Triple-clicked"}


def action_in_words(
    action_json: str | None, elements: tuple[UIElement, ...], screen: Size, *, place_of_named: bool = True
) -> str:
    """Describe a stored action in one line, e.g. `Double-clicked icon "Files" at (12%, 40%)`.

    Args:
        action_json: the stored action; None for a reply without one.
        elements: the tree of the screen before it; empty without one.
        screen: size of that screen in pixels.
        place_of_named: whether the place of a press is given even where the tree names the element.

    Raises:
        pydantic.ValidationError: the stored text is not an action.
    """
    return quotable(_words(read_element_action(action_json, elements), screen, place_of_named))


def untrusted(text: str, longest: int | None = None) -> str:
    """Quote an untrusted text on one line, with control tokens of chat templates (`<|im_end|>`) broken up."""
    return quotable(quoted(text if longest is None else _cut(text, longest)))


def quotable(words: str) -> str:
    """Break up the control tokens of chat templates in a text."""
    return words.replace("<|", "< |").replace("|>", "| >")


def _cut(text: str, longest: int = LONGEST_TEXT) -> str:
    return text if len(text) <= longest else text[:longest] + " [cut]"


def _words(taken: ElementAction, screen: Size, place_of_named: bool) -> str:
    def share(x: int, y: int) -> str:
        return f"({x / max(1, screen.width):.0%}, {y / max(1, screen.height):.0%})"

    action, element = taken.parsed, taken.element
    point = pressed_point(action) if action is not None else None
    named = [describe_element(element)] if element is not None else []
    at = [f"at {share(*point)}"] if point is not None and (place_of_named or not named) else []
    place = " ".join([*named, *at])
    match action:
        case actions.Click(button="left", count=count):
            return f"{_PRESSES.get(count, f'Clicked {count} times')} {place}"
        case actions.Click(button=button):
            return f"Clicked with the {button} mouse button {place}"
        case actions.LongPress(seconds=seconds):
            return f"Held for {seconds:g} s {place}"
        case actions.MoveMouse():
            return f"Pointed with the mouse {place}"
        case actions.Drag(x=x, y=y, x2=x2, y2=y2):
            return " ".join(["Dragged", *named, f"from {share(x, y)} to {share(x2, y2)}"])
        case actions.DragTo(x=x, y=y):
            return f"Dragged from where the pointer was to {share(x, y)}"
        case actions.Swipe(x=x, y=y, x2=x2, y2=y2):
            return f"Swiped from {share(x, y)} to {share(x2, y2)}, to see what is further {scroll_direction(action)}"
        case actions.Scroll(clicks=clicks):
            return f"Turned the wheel {abs(clicks)} clicks {scroll_direction(action)}"
        case actions.HorizontalScroll(clicks=clicks):
            return f"Turned the wheel {abs(clicks)} clicks to the {scroll_direction(action)}"
        case actions.Interact(text=text):
            return f"Asked the user for help: {quoted(_cut(text))}"
        case actions.TypeText(text=text, clear=clear, enter=enter):
            into = "".join(f" into {each}" for each in named)
            replaced = ", replacing what was there" if clear else ""
            return f"Typed {quoted(_cut(text))}{into}{replaced}{', then pressed Enter' if enter else ''}"
        case actions.Wait(seconds=seconds):
            return f"Waited {seconds:g} s"
        case _:
            return describe_action(taken._replace(words=_cut(taken.words)))
