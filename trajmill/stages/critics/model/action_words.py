"""Describes an action in words for a model that judges it, and quotes untrusted text.

It says more than the caption of a step: which button, how often, for how long, whether a text replaced another. If no
tree names the element, the place is given in percent of the screen, which is the same in every coordinate space.
"""

from __future__ import annotations

from trajmill.schemas.actions import (
    Action,
    Click,
    Drag,
    DragTo,
    HorizontalScroll,
    Interact,
    LongPress,
    MoveMouse,
    Scroll,
    Swipe,
    TypeText,
    Wait,
    pressed_point,
)
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.critics.trees.caption import (
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
    """One line on a stored action, e.g. `Double-clicked icon "Files" at (12%, 40%)`.

    Args:
        action_json: the stored action; None for a reply without one.
        elements: the tree of the screen before it; empty without one.
        screen: size of that screen in pixels, which the action's positions refer to.
        place_of_named: whether the place of a press is told, too, where the tree names the element.

    Raises:
        pydantic.ValidationError: the stored text is not an action.
    """
    taken = read_element_action(action_json, elements)
    return quotable(_words(taken, taken.parsed, screen, place_of_named))


def untrusted(text: str, longest: int | None = None) -> str:
    """Quote an untrusted text on one line, so that it can neither end its quotes nor start a line.

    Control tokens of chat templates (`<|im_end|>`, `<|image_pad|>`) are broken up, because a tokeniser would read them
    as the end of a message or as an image.
    """
    cut = text if longest is None or len(text) <= longest else text[:longest] + " [cut]"
    return quotable(quoted(cut))


def quotable(words: str) -> str:
    """A text without the control tokens of chat templates."""
    return words.replace("<|", "< |").replace("|>", "| >")


def _words(taken: ElementAction, action: Action | None, screen: Size, place_of_named: bool) -> str:
    place = _place(taken, screen, place_of_named)
    match action:
        case Click(button="left", count=count):
            return f"{_PRESSES.get(count, f'Clicked {count} times')} {place}"
        case Click(button=button):
            return f"Clicked with the {button} mouse button {place}"
        case LongPress(seconds=seconds):
            return f"Held for {seconds:g} s {place}"
        case MoveMouse():
            return f"Pointed with the mouse {place}"
        case Drag(x=x, y=y, x2=x2, y2=y2):
            what = f"{describe_element(taken.element)} " if taken.element is not None else ""
            return f"Dragged {what}from {_share(x, y, screen)} to {_share(x2, y2, screen)}"
        case DragTo(x=x, y=y):
            return f"Dragged from where the pointer was to {_share(x, y, screen)}"
        case Swipe(x=x, y=y, x2=x2, y2=y2):
            direction = scroll_direction(action)
            return f"Swiped from {_share(x, y, screen)} to {_share(x2, y2, screen)}, to see what is further {direction}"
        case Scroll(clicks=clicks):
            return f"Turned the wheel {abs(clicks)} clicks {scroll_direction(action)}"
        case HorizontalScroll(clicks=clicks):
            return f"Turned the wheel {abs(clicks)} clicks to the {'right' if clicks > 0 else 'left'}"
        case Interact(text=text):
            return f"Asked the user for help: {quoted(_short(text))}"
        case TypeText(text=text, clear=clear, enter=enter):
            into = f" into {describe_element(taken.element)}" if taken.element is not None else ""
            replaced = ", replacing what was there" if clear else ""
            return f"Typed {quoted(_short(text))}{into}{replaced}{', then pressed Enter' if enter else ''}"
        case Wait(seconds=seconds):
            return f"Waited {seconds:g} s"
        case _:
            return describe_action(taken._replace(words=_short(taken.words)))


def _place(taken: ElementAction, screen: Size, place_of_named: bool) -> str:
    """The target of an action: the element, if a tree names it, and the position."""
    if taken.element is not None and not place_of_named:
        return describe_element(taken.element)
    point = pressed_point(taken.parsed) if taken.parsed is not None else None
    at = f"at {_share(*point, screen)}" if point is not None else ""
    return f"{describe_element(taken.element)} {at}" if taken.element is not None else at


def _share(x: int, y: int, screen: Size) -> str:
    return f"({x / max(1, screen.width):.0%}, {y / max(1, screen.height):.0%})"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + " [cut]"
