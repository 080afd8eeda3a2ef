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

from trajmill.schemas.actions import Action, Drag, Scroll, Swipe, TypeText, action_from_json, pressed_point
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Box, Point, Size
from trajmill.schemas.observation import ScreenHandle, ScreenReader, UIElement
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.trajectory import Step
from trajmill.stages.critics.trees.replay import element_at

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
            if not draw_mark(image, action_from_json(step.action), elements):
                return stored
            out = io.BytesIO()
            image.save(out, format="PNG")
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise ModelFailure(f"screen {step.screen_before}: the image does not decode") from error
        return out.getvalue()

    return ScreenHandle(f"{step.screen_before}+{mark}", size, draw)


def draw_mark(image: Image.Image, action: Action, elements: tuple[UIElement, ...]) -> bool:
    """Mark an action on an RGB image of the screen before it; False if the action has no position."""
    pen, size = ImageDraw.Draw(image), Size(*image.size)
    stroke, radius = _stroke(max(3, min(size) // 144)), max(10, min(size) // 18)
    match action:
        case Swipe(x=x, y=y, x2=x2, y2=y2) | Drag(x=x, y=y, x2=x2, y2=y2):
            _arrow(pen, Point(x, y), Point(x2, y2), stroke)
        case Scroll(x=int() as x, y=int() as y, clicks=clicks):
            _arrow(pen, Point(x, y), Point(x, y + 2 * radius * (-1 if clicks > 0 else 1)), stroke)
        case TypeText():
            focused = next((e for e in elements if "focused" in e.states), None)
            if focused is None:
                return False
            _box(pen, focused.bounds, stroke)
        case _:
            point = pressed_point(action)
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
