"""The screenshot before an action with the place of the action marked on it (paper 6.3, 6.4).

A press is a circle, a swipe or drag an arrow, typing a box round the input. Every mark is a bright core on a dark
outline, so that it shows on any background.
"""

from __future__ import annotations

import io
import math
from typing import NamedTuple

from PIL import Image, ImageDraw

from schemas.actions import Action, Drag, Swipe, TypeText, action_from_json, pressed_point
from schemas.geometry import Box, Point, Size
from schemas.observation import ScreenReader, UIElement
from schemas.step import Step
from stages.critics.deeds import element_at

_CORE = (255, 64, 64)
_OUTLINE = (20, 20, 20)


class Stroke(NamedTuple):
    """Widths of the two layers of a mark, in pixels."""

    core: int
    outline: int


def marked_screen(step: Step, screens: ScreenReader) -> bytes:
    """PNG of the screenshot before a step, with its action marked; unmarked for an action without a place.

    Raises:
        KeyError: the screen is not stored.
    """
    stored = screens.image(step.screen_before)
    if step.action is None:
        return stored
    action = action_from_json(step.action)
    image = Image.open(io.BytesIO(stored)).convert("RGB")
    if not draw_mark(image, action, screens.elements(step.screen_before)):
        return stored
    out = io.BytesIO()
    image.save(out, format="PNG")
    return out.getvalue()


def draw_mark(image: Image.Image, action: Action, elements: tuple[UIElement, ...]) -> bool:
    """Mark an action on an RGB image of the screen it was done on; False if it has no place on it."""
    pen = ImageDraw.Draw(image)
    stroke = _stroke(Size(*image.size))
    match action:
        case Swipe(x=x, y=y, x2=x2, y2=y2) | Drag(x=x, y=y, x2=x2, y2=y2):
            _arrow(pen, Point(x, y), Point(x2, y2), stroke)
        case TypeText():
            focused = next((e for e in elements if "focused" in e.states), None)
            if focused is None:
                return False
            _box(pen, focused.bounds, stroke)
        case _:
            point = pressed_point(action)
            if point is None:
                return False
            _circle(pen, Point(*point), _radius(Size(*image.size)), stroke)
            pressed = element_at(elements, *point)
            if pressed is not None:
                pen.rectangle(_edges(pressed.bounds), outline=_CORE, width=max(1, stroke.core // 2))
    return True


def _stroke(size: Size) -> Stroke:
    core = max(2, min(size) // 160)
    return Stroke(core, core * 2 + core // 2)


def _radius(size: Size) -> int:
    return max(8, min(size) // 24)


def _circle(pen: ImageDraw.ImageDraw, at: Point, radius: int, stroke: Stroke) -> None:
    spread = (stroke.outline - stroke.core) // 2
    for grow, color, width in ((spread, _OUTLINE, stroke.outline), (0, _CORE, stroke.core)):
        reach = radius + grow
        pen.ellipse((at.x - reach, at.y - reach, at.x + reach, at.y + reach), outline=color, width=width)


def _box(pen: ImageDraw.ImageDraw, box: Box, stroke: Stroke) -> None:
    spread = (stroke.outline - stroke.core) // 2
    left, top, right, bottom = _edges(box)
    outer = (left - spread, top - spread, right + spread, bottom + spread)
    pen.rectangle(outer, outline=_OUTLINE, width=stroke.outline)
    pen.rectangle((left, top, right, bottom), outline=_CORE, width=stroke.core)


def _arrow(pen: ImageDraw.ImageDraw, start: Point, end: Point, stroke: Stroke) -> None:
    angle = math.atan2(end.y - start.y, end.x - start.x)
    for width, color in ((stroke.outline, _OUTLINE), (stroke.core, _CORE)):
        pen.line((start, end), fill=color, width=width)
        length = 8 * stroke.core
        for side in (angle + math.pi - 0.5, angle + math.pi + 0.5):
            tip = (end.x + length * math.cos(side), end.y + length * math.sin(side))
            pen.line((end, tip), fill=color, width=width)
        _dot(pen, start, width, color)


def _dot(pen: ImageDraw.ImageDraw, at: Point, radius: int, color: tuple[int, int, int]) -> None:
    pen.ellipse((at.x - radius, at.y - radius, at.x + radius, at.y + radius), fill=color)


def _edges(box: Box) -> tuple[int, int, int, int]:
    return box.left, box.top, box.right - 1, box.bottom - 1
