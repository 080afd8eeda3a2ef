"""Marks the position of an action on the screenshot before it (paper 6.3, 6.4).

A press is a circle, with a thin box around the pressed element; a swipe, a drag or a scroll is an arrow; typing is a
box around the input. Lines are red within white within black: one has a luminance contrast above 4 to 1 (WCAG 2) on any
background.
"""

from __future__ import annotations

import io
import math
from functools import partial
from typing import Any

from PIL import Image, ImageDraw

from trajmill.schemas import actions
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Box, Point, Size
from trajmill.schemas.observation import ScreenHandle, ScreenReader, UIElement
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.trajectory import Step
from trajmill.stages.critics.replay import (
    ElementAction,
    describe_action,
    describe_element,
    element_at,
    quoted,
    read_element_action,
)

MARKS = "marks-1"
"""Version of the marks' appearance; changing it gives a model other images, and other keys in its cache."""


Stroke = tuple[tuple[tuple[int, int, int], int], ...]
"""Colour and odd width in pixels of each of the nested lines of a mark, widest first."""


def picture(screen_id: str, screens: ScreenReader) -> ScreenHandle:
    """Return a stored screen without marks. Raises KeyError if the screen is not stored."""
    return ScreenHandle(screen_id, screens.size(screen_id), partial(screens.image, screen_id))


def marked_picture(step: Step, screens: ScreenReader) -> ScreenHandle:
    """Return the screen before a step, marked if its action has a position; its id is followed by the mark's.

    Raises KeyError if the screen is not stored. Encoding raises ModelFailure if the image does not decode.
    """
    size, elements = screens.size(step.screen_before), screens.elements(step.screen_before)
    mark = content_id(MARKS, step.action)[:12]

    def draw() -> bytes:  # in any thread; uses only `image` of the screen reader
        stored = screens.image(step.screen_before)
        if step.action is None:
            return stored
        try:
            image = Image.open(io.BytesIO(stored)).convert("RGB")
            if not draw_mark(image, actions.action_from_json(step.action), elements):
                return stored
            out = io.BytesIO()
            image.save(out, format="PNG")
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise ModelFailure(f"screen {step.screen_before}: the image does not decode") from error
        return out.getvalue()

    return ScreenHandle(f"{step.screen_before}+{mark}", size, draw)


def draw_mark(image: Image.Image, action: actions.Action, elements: tuple[UIElement, ...]) -> bool:
    """Mark an action on an RGB image of the screen before it; False if the action has no position."""
    pen, size = ImageDraw.Draw(image), Size(*image.size)
    stroke, radius = _stroke(max(3, min(size) // 144)), max(10, min(size) // 18)
    match action:
        case actions.Swipe(x=x, y=y, x2=x2, y2=y2) | actions.Drag(x=x, y=y, x2=x2, y2=y2):
            _arrow(pen, Point(x, y), Point(x2, y2), stroke)
        case actions.Scroll(x=int() as x, y=int() as y, clicks=clicks):
            _arrow(pen, Point(x, y), Point(x, y + 2 * radius * (-1 if clicks > 0 else 1)), stroke)
        case actions.TypeText():
            focused = next((e for e in elements if "focused" in e.states), None)
            if focused is None:
                return False
            _box(pen, focused.bounds, stroke)
        case _:
            point = actions.pressed_point(action)
            if point is None:
                return False
            pressed = element_at(elements, *point)
            if pressed is not None and 2 * pressed.bounds.area < size.width * size.height:
                _box(pen, pressed.bounds, _stroke(1))
            for color, width in stroke:
                _circle(pen, Point(*point), radius + width // 2, outline=color, width=width)
    return True


def _stroke(core: int) -> Stroke:
    core += 1 - core % 2
    side = max(2, core // 2)
    black, white, red = (0, 0, 0), (255, 255, 255), (255, 32, 32)
    return (black, core + 4 * side), (white, core + 2 * side), (red, core)


def _circle(pen: ImageDraw.ImageDraw, at: Point, radius: int, **paint: Any) -> None:
    pen.ellipse((at.x - radius, at.y - radius, at.x + radius, at.y + radius), **paint)


def _box(pen: ImageDraw.ImageDraw, box: Box, stroke: Stroke) -> None:
    for color, width in stroke:
        grow = width // 2
        left, top = box.left - grow, box.top - grow
        right, bottom = max(left, box.right - 1 + grow), max(top, box.bottom - 1 + grow)
        pen.rectangle((left, top, right, bottom), outline=color, width=width)


def _arrow(pen: ImageDraw.ImageDraw, start: Point, end: Point, stroke: Stroke) -> None:
    angle = math.atan2(end.y - start.y, end.x - start.x)
    length = 8 * stroke[-1][1]
    tips = [
        (end.x + length * math.cos(side), end.y + length * math.sin(side))
        for side in (angle + math.pi - 0.5, angle + math.pi + 0.5)
    ]
    for color, width in stroke:
        pen.line((start, end), fill=color, width=width)
        for tip in tips:
            pen.line((end, tip), fill=color, width=width)
            _circle(pen, Point(*map(round, tip)), width // 2, fill=color)
        _circle(pen, end, width // 2, fill=color)
        _circle(pen, start, width, fill=color)


LONGEST_TEXT = 600
"""Most characters of a typed or answered text; a longer text is cut and marked."""
_PRESSES = {1: "Clicked", 2: "Double-clicked", 3: "Triple-clicked"}


def action_in_words(
    action_json: str | None, elements: tuple[UIElement, ...], screen: Size, *, place_of_named: bool = True
) -> str:
    """Describe a stored action in one line, e.g. `Double-clicked icon "Files" at (12%, 40%)`.

    The reply had no action if `action_json` is None. `elements` and `screen` are the tree, if any, and the size in
    pixels of the screen before. With `place_of_named`, the place of a press is given even where the tree names the
    element. Raises pydantic.ValidationError if the stored text is not an action.
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
    point = actions.pressed_point(action) if action is not None else None
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
            way = actions.scroll_direction(action)
            return f"Swiped from {share(x, y)} to {share(x2, y2)}, to see what is further {way}"
        case actions.Scroll(clicks=clicks):
            return f"Turned the wheel {abs(clicks)} clicks {actions.scroll_direction(action)}"
        case actions.HorizontalScroll(clicks=clicks):
            return f"Turned the wheel {abs(clicks)} clicks to the {actions.scroll_direction(action)}"
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
